"""A whole run of the reading model, from files to a result file."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from dtfixup.errors import DataError
from dtfixup.experiments.reading_run import train_reading
from dtfixup.files import read_json
from dtfixup.reading.answers import Reader
from dtfixup.reading.examples import ReadingData, read_data, read_examples
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.training.config import changed

from ..reading.tiny_reading import TINY, encoder_folder, made_up


def tiny_config(**training: object) -> ReadingRunConfig:
    return changed(replace(TINY, encoder=str(encoder_folder())), {"training": {"epochs": 2, **training}})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for split, count in (("train", 24), ("val", 9)):
        rows = [asdict(example) for example in made_up(count, longest=60)]
        (folder / f"{split}.json").write_text(json.dumps(rows))
    return folder


def test_a_run_says_where_its_numbers_come_from(data: Path, tmp_path: Path) -> None:
    run = train_reading(tiny_config(), data, tmp_path / "run", name="reading-test", command="made by a test")
    result = read_json(tmp_path / "run" / "result.json")
    assert result["metrics"] == run.metrics
    needed = {"name", "command", "commit", "seed", "config", "encoder", "data_hash", "hardware", "wall_seconds"}
    assert needed <= set(result)
    assert (result["name"], result["command"]) == ("reading-test", "made by a test")
    assert result["data_hash"] == read_data(data).data_hash
    assert result["encoder"] == encoder_folder().name, "without its folder"
    assert {
        "val_accuracy", "val_loss", "val_accuracy_best", "step_ms", "skipped_steps", "train_seconds", "peak_gib",
        "cut_contexts", "steps", "highest_growth",
    } <= set(run.metrics)  # fmt: skip
    assert (run.metrics["train_examples"], run.metrics["evaluated_examples"]) == (24, 9)
    assert run.metrics["cut_contexts"] > 0
    assert result["curve"][-1]["accuracy"] == pytest.approx(run.metrics["val_accuracy"], abs=1e-3)


def test_predictions_are_those_of_the_stored_model(data: Path, tmp_path: Path) -> None:
    train_reading(tiny_config(), data, tmp_path, name="reading-test", command="")
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    examples = read_examples(data / "val.json")
    assert [row["name"] for row in rows] == [example.name for example in examples]
    again = Reader.load(tmp_path).answer_all(examples)
    for row, wanted in zip(rows, again, strict=True):
        assert row["probabilities"] == pytest.approx(wanted, abs=1e-5)


def test_held_out_numbers_are_called_so(data: Path, tmp_path: Path) -> None:
    config = replace(tiny_config(epochs=1), hold_out=0.25)
    run = train_reading(config, data / "train.json", tmp_path, name="reading-test", command="")
    assert {"held_out_accuracy", "held_out_accuracy_best"} <= set(run.metrics)
    assert not any(name.startswith("val") for name in run.metrics)
    assert run.metrics["train_examples"] + run.metrics["evaluated_examples"] == 24


def test_contexts_that_were_trained_on_are_told_apart(data: Path, tmp_path: Path) -> None:
    examples = read_examples(data / "train.json")
    known, new = made_up(4, longest=60), made_up(5, seed=9, longest=60)
    assert {each.context for each in known} <= {each.context for each in examples}
    mixed = ReadingData(examples, (*known, *new), "mixed")
    run = train_reading(tiny_config(), mixed, tmp_path / "mixed", name="reading-test", command="")
    lines = (tmp_path / "mixed" / "predictions.jsonl").read_text().splitlines()
    rows = [json.loads(line)["probabilities"] for line in lines]
    right = [row.index(max(row)) == each.label for row, each in zip(rows[4:], new, strict=True)]
    assert run.metrics["evaluated_new_contexts"] == 5
    assert run.metrics["val_accuracy_new_contexts"] == pytest.approx(100 * sum(right) / 5)
    none = ReadingData(examples, tuple(known), "known")
    run = train_reading(tiny_config(), none, tmp_path / "known", name="reading-test", command="")
    assert run.metrics["evaluated_new_contexts"] == 0
    assert "val_accuracy_new_contexts" not in run.metrics


def test_a_file_alone_needs_held_out_examples(data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="add a val file to the folder, or set hold_out"):
        train_reading(tiny_config(), data / "train.json", tmp_path / "run", name="reading-test", command="")
    assert not (tmp_path / "run").exists()


def test_a_finished_run_resumes_to_the_same_numbers(data: Path, tmp_path: Path) -> None:
    first = train_reading(tiny_config(), data, tmp_path, name="reading-test", command="")
    again = train_reading(tiny_config(), data, tmp_path, name="reading-test", command="", resume=True)
    assert again.metrics["val_accuracy"] == first.metrics["val_accuracy"]
    assert again.fit.steps == first.fit.steps
