"""Whole runs of SQL-SP from the command line, and what the other verbs make of them."""

import json
from pathlib import Path

import pytest
from dtfixup_paper.runs.run import differences
from dtfixup_paper.tables.spider_errors import RunErrors, read_errors

from dtfixup.cli.main import main
from dtfixup.errors import DataError
from dtfixup.files import read_json, write_json
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.execution.run import first_that_runs
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.sql.model.packing import pack_model
from dtfixup.sql.model.train import train_sql
from dtfixup.training.config import from_json
from dtfixup.training.loop import fit
from dtfixup.weights.tensors import read_content
from tests.sql.tiny_model import TINY, prepared_sample, task_of, tiny_encoder


@pytest.fixture(scope="module")
def finished(encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that the command line made."""
    folder = tmp_path_factory.mktemp("run") / "out"
    options = ["--preset", "smoke", "--encoder", str(encoder_folder), "--epochs", "1", "--seed", "3"]
    main(["sql", "train", "--data", str(sample_folder()), "--out", str(folder), *options])
    return folder


def test_a_finished_run_says_where_its_numbers_come_from(finished: Path) -> None:
    result = read_json(finished / "result.json")
    assert {"name", "command", "commit", "config", "encoder", "data_hash", "hardware", "wall_seconds"} <= set(result)
    assert result["seed"] == 3
    assert result["config"]["training"]["epochs"] == 1
    metrics = result["metrics"]
    assert {"dev_exact", "dev_exact_easy", "step_ms", "skipped_steps", "decode_seconds", "peak_gib"} <= set(metrics)
    assert all(isinstance(value, int | float) for value in metrics.values())
    beams = [json.loads(line) for line in (finished / "beams.jsonl").read_text().splitlines()]
    assert [beam["example"] for beam in beams] == list(prepared_sample().split("dev"))
    assert all(scores == sorted(scores, reverse=True) for scores in ([s for _, s in b["beam"]] for b in beams))


def test_a_stored_model_predicts_what_its_run_did(finished: Path, tmp_path: Path) -> None:
    out, beams = tmp_path / "dev.sql", tmp_path / "beams.jsonl"
    options = ["--data", str(sample_folder()), "--out", str(out), "--beam", "2", "--beams", str(beams)]
    main(["sql", "predict", "--model", str(finished), *options])
    made = [json.loads(line)["beam"] for line in (finished / "beams.jsonl").read_text().splitlines()]
    assert out.read_text().splitlines() == [beam[0][0] if beam else "" for beam in made]
    again = [json.loads(line)["beam"] for line in beams.read_text().splitlines()]
    assert [[query for query, _ in beam] for beam in again] == [[query for query, _ in beam] for beam in made]


def test_the_errors_of_a_stored_model_are_those_of_its_run(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def analyse(*options: str) -> RunErrors:
        where = ["--data", str(sample_folder()), "--out", str(tmp_path / "errors.json"), "--variants", "0"]
        main(["sql", "errors", *options, *where])
        return read_errors(tmp_path / "errors.json")

    beams, own = tmp_path / "beams.jsonl", ["--result", str(finished / "result.json")]
    first = analyse(*own, "--beams", str(finished / "beams.jsonl"))
    again = analyse("--model", str(finished), "--beams", str(beams), "--beam", "2")
    assert again.classes == first.classes
    assert len(set(again.classes)) > 1
    assert (again.run["name"], again.run["seed"]) == (finished.name, first.run["seed"])
    assert differences(from_json(SqlSpConfig, first.run["config"]), again.run) == [], "so that tables find it"
    kept, messages = beams.read_bytes(), ("exists: give --result", "give either --result or --model")
    for result, message in zip(([], own), messages, strict=True):
        with pytest.raises(SystemExit):
            analyse(*result, "--model", str(finished), "--beams", str(beams))
        assert message in " ".join(capsys.readouterr().err.split())
    assert beams.read_bytes() == kept


def test_the_model_of_a_run_is_packed_with_the_result_of_that_run_alone(finished: Path, tmp_path: Path) -> None:
    out, own = tmp_path / "packed.safetensors", read_json(finished / "result.json")
    assert pack_model(finished, out, result=finished / "result.json").result_checked
    assert read_content(out)["accuracy"]["metrics"]["dev_exact"] == own["metrics"]["dev_exact"]
    training = {**own["config"]["training"], "seed": 4}
    other = write_json(tmp_path / "other.json", {**own, "config": {**own["config"], "training": training}})
    with pytest.raises(DataError, match="they differ in seed"):
        pack_model(finished, out, result=other)


def test_the_first_query_that_runs_is_picked() -> None:
    database = next((sample_folder() / "database").glob("*/*.sqlite"))
    assert first_that_runs(["SELECT nothing FROM nowhere", "SELECT 1", "SELECT 2"], database) == "SELECT 1"
    assert first_that_runs(["SELECT nothing FROM nowhere"], database) == "SELECT nothing FROM nowhere"
    assert first_that_runs([], database) == ""


def test_picking_what_runs_needs_databases(finished: Path, tmp_path: Path) -> None:
    options = ["--data", str(prepared_sample().folder), "--out", str(tmp_path / "x.sql"), "--pick", "executable"]
    with pytest.raises(SystemExit):
        main(["sql", "predict", "--model", str(finished), *options, "--beam", "1"])
    assert not (tmp_path / "x.sql").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset", "huge"], "no preset 'huge'"),
        (["--preset", "smoke", "--precision", "fp8"], "invalid choice 'fp8' for argument '--precision"),
        (["--preset", "smoke", "--layers", "0"], "at least 1"),
        (["--preset", "smoke", "--splits", "train,nothing"], "no split 'nothing'"),
    ],
)
def test_a_bad_option_says_what_is_wrong(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["sql", "train", "--data", str(sample_folder()), "--out", str(tmp_path / "run"), *options])
    assert exit_.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_a_file_changes_the_preset_and_options_change_the_file(encoder_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("training: {epochs: 7, seed: 5}\nmodel: {layers: 1}\n")
    options = ["--config", str(file), "--epochs", "1", "--preset", "smoke", "--encoder", str(encoder_folder)]
    main(["sql", "train", "--data", str(sample_folder()), "--out", str(tmp_path / "run"), *options])
    config = read_json(tmp_path / "run" / "result.json")["config"]
    assert (config["training"]["epochs"], config["training"]["seed"], config["model"]["layers"]) == (1, 5, 1)
    assert str(encoder_folder.parent) not in (tmp_path / "run" / "result.json").read_text()


def test_a_run_that_is_stopped_has_no_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = fit(task_of(), TINY.training, tmp_path / "first", stop_after=1)
    monkeypatch.setattr("dtfixup.sql.model.train.fit", lambda *a, **k: stopped)
    monkeypatch.setattr("dtfixup.sql.model.train.load_encoder", lambda name: tiny_encoder())
    run = train_sql(TINY, prepared_sample(), tmp_path / "second", name="x", command="x")
    assert not run.metrics
    assert not (tmp_path / "second" / "result.json").exists()
