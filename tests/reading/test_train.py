"""A whole run of the reading model, from files to a result file."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from dtfixup.errors import DataError, DivergedError
from dtfixup.files import read_json
from dtfixup.reading.answers import Reader
from dtfixup.reading.examples import ReadingData, read_data, read_examples
from dtfixup.reading.model import ReadingModel
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.reading.tokens import ReadingBatch, tokenise
from dtfixup.reading.train import ReadingSource, train_reading
from dtfixup.training.config import changed
from tests.reading.tiny_reading import TINY, encoder_folder, made_up


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
        "cut_contexts", "steps", "highest_growth", "chance",
    } <= set(run.metrics)  # fmt: skip
    assert (run.metrics["train_examples"], run.metrics["evaluated_examples"]) == (24, 9)
    assert run.metrics["cut_contexts"] > 0
    assert result["curve"][-1]["accuracy"] == pytest.approx(run.metrics["val_accuracy"], abs=1e-3)


def test_runs_that_share_their_data_tokenise_once(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(examples: Any, *args: Any, **named: Any) -> Any:
        asked.append(len(examples))
        return tokenise(examples, *args, **named)

    monkeypatch.setattr("dtfixup.reading.train.tokenise", counted)
    source = ReadingSource(data)
    config = tiny_config(epochs=1)
    held_out = replace(config, hold_out=0.25)
    first, again, apart, _ = (
        train_reading(each, source, tmp_path / str(place))
        for place, each in enumerate((config, config, held_out, held_out))
    )
    assert asked == [24 + 9, 24], "once with val, and once without"
    alone = train_reading(config, data, tmp_path / "alone")
    for other in (again, alone):
        assert other.metrics["val_loss"] == first.metrics["val_loss"], "a run leaves the next its own encoder"
    assert "held_out_accuracy" in apart.metrics


def test_a_model_without_numbers_has_diverged(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_numbers = [(math.nan,) * 3] * 9
    monkeypatch.setattr("dtfixup.reading.train.probabilities", lambda *model_and_data: no_numbers)
    with pytest.raises(DivergedError, match="not finite"):
        train_reading(tiny_config(epochs=1), data, tmp_path / "run")


def test_a_run_that_skips_every_update_has_diverged(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_loss(model: ReadingModel, batch: ReadingBatch) -> Tensor:
        return math.nan * model.scores(batch)[:, 0]

    monkeypatch.setattr(ReadingModel, "forward", no_loss)
    with pytest.raises(DivergedError, match="2 updates in a row were skipped"):
        train_reading(tiny_config(skipped_in_a_row=2), data, tmp_path / "run")


def test_predictions_are_those_of_the_stored_model(data: Path, tmp_path: Path) -> None:
    train_reading(tiny_config(), data, tmp_path, name="reading-test", command="")
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    examples = read_examples(data / "val.json")
    assert [row["name"] for row in rows] == [example.name for example in examples]
    again = Reader.load(tmp_path, precision="fp32").answer_all(examples)
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
