"""One run: its file, what its configuration is compared with, and what it leaves in its folder."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from dtfixup_paper.runs.run import (
    Run,
    State,
    differences,
    hash_differences,
    read_run,
    train_one,
    write_lost,
)

from dtfixup.errors import CheckpointError, DataError, DivergedError, TrainingError
from dtfixup.files import read_json, write_json
from dtfixup.fixup import MuChoice
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.sql.model.config import SqlSpConfig, minilm
from dtfixup.training.checkpoint import Checkpoints
from dtfixup.training.config import changed, to_json
from paper.tests.toy_runs import Toy, Toys, Train, failing, result, save, toy_run


def train(how: Train | None, out: Path, run: Run | None = None, **options: Any) -> tuple[State, Any]:
    run = run or toy_run()
    toys = Toys({} if how is None else {run.variant: how})
    return train_one(run, toys, out, out / "runs" / run.name, **options)


def test_the_path_is_experiment_variant_and_seed(tmp_path: Path) -> None:
    run = Run("spider-depth/dt-fixup-n24", 3, Toy(), "accuracy")
    assert run.file(tmp_path) == tmp_path / "spider-depth" / "dt-fixup-n24-seed3.json"
    assert (run.experiment, run.variant) == ("spider-depth", "dt-fixup-n24")
    assert run.name == "spider-depth-dt-fixup-n24-seed3"


def test_a_result_file_has_what_the_trainer_does_not_say(tmp_path: Path) -> None:
    state, content = train(lambda folder, resume: {"metrics": {"accuracy": 5.0}, "command": "its own"}, tmp_path)
    assert state is State.FINISHED
    assert content == read_json(tmp_path / "toy" / "n2-seed1.json")
    assert content["config"] == {"layers": 2, "encoder": "tiny"}
    known = {"experiment": "toy", "variant": "n2", "seed": 1, "state": "finished", "data_hash": "data", "curve": []}
    assert content.items() >= {**known, "command": "its own", "at_once": 1}.items()
    assert {"commit", "hardware", "wall_seconds"} <= content.keys()


@pytest.mark.parametrize(
    "found", [{}, {"metrics": None}, {"metrics": {"loss": 1.0}}, {"metrics": {"accuracy": math.nan}}]
)
def test_what_is_no_result_fails_before_it_is_written(found: dict[str, Any], tmp_path: Path) -> None:
    state, _ = train(lambda folder, resume: found, tmp_path)
    content = json.loads((tmp_path / "toy" / "n2-seed1.json").read_text())
    assert (state, content["metrics"]) == (State.FAILED, {})
    assert "no accuracy in its metrics" in content["reason"] or "not JSON compliant" in content["reason"]


def test_data_that_change_during_a_run_are_no_result(tmp_path: Path) -> None:
    state, content = train(lambda folder, resume: {**result(1.0), "data_hash": "other"}, tmp_path)
    assert state is State.FAILED
    assert "the data have changed since the run began" in content["reason"]


def test_a_process_that_dies_after_its_run_takes_no_result_with_it(tmp_path: Path) -> None:
    write_lost(toy_run(), tmp_path, "it was killed", 1.0)
    assert read_run(toy_run(), tmp_path)[0] is State.FAILED
    _, content = train(None, tmp_path)
    write_lost(toy_run(), tmp_path, "it was killed", 1.0)
    assert read_run(toy_run(), tmp_path) == (State.FINISHED, content)


@pytest.mark.parametrize(
    ("content", "message"), [([1], "is no result file"), ({"state": ["odd"]}, r"has the state \['odd'\]")]
)
def test_a_file_that_is_no_result_is_named(content: Any, message: str, tmp_path: Path) -> None:
    write_json(tmp_path / "toy" / "n2-seed1.json", content)
    with pytest.raises(DataError, match=rf"n2-seed1\.json {message}"):
        read_run(toy_run(), tmp_path)


def test_a_run_without_a_file_waits(tmp_path: Path) -> None:
    assert read_run(toy_run(), tmp_path) == (State.WAITING, None)
    write_json(tmp_path / "toy" / "n2-seed1.json", {"metrics": {}})
    assert read_run(toy_run(), tmp_path)[0] is State.FINISHED, "plain training writes no state"


def content_of(config: Any, **changes: Any) -> dict[str, Any]:
    return {"config": to_json(config), **changes}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {"layers": 8}}, ["model.layers is 24 there and 8 here"]),
        ({"training": {"update": {"clip": 1.0}}}, ["training.update.clip is 5.0 there and 1.0 here"]),
        ({"training": {"seed": 3}}, ["training.seed is 1 there and 3 here"]),
        ({"encoder": "roberta-large"}, ["encoder is minilm there and roberta-large here"]),
        ({"encoder": "scratch/minilm-fp16"}, []),
        ({"training": {"evaluate_every": 1, "log_every": 7, "graphs": False, "skipped_in_a_row": 5}}, []),
    ],
)  # fmt: skip
def test_fields_that_change_the_result_are_compared(changes: dict[str, Any], said: list[str]) -> None:
    assert differences(changed(minilm(), changes), content_of(minilm())) == said


def test_a_field_that_was_added_later_has_its_default() -> None:
    older = content_of(minilm())
    del older["config"]["model"]["stream_limit"]
    assert differences(minilm(), older) == ["model.stream_limit is 0.0 there and 2.0 here"]
    assert differences(changed(minilm(), {"model": {"stream_limit": 0.0}}), older) == []


def test_what_older_result_files_do_not_have_is_as_it_was() -> None:
    """Hundreds of them have no such field: another default would make those runs differ."""
    config = SqlSpConfig()
    assert (config.model.stream_limit, config.mu) == (0.0, MuChoice.MAX)


@dataclass(frozen=True)
class Needy:
    layers: int


@pytest.mark.parametrize(
    ("config", "stored"),
    [
        (minilm(), None),
        (minilm(), []),
        (minilm(), {**to_json(minilm()), "gone": 1}),
        (minilm(), {**to_json(minilm()), "beam": "many"}),
        (minilm(), to_json(ReadingRunConfig())),
        (Needy(2), {}),
    ],
)
def test_a_configuration_that_cannot_be_read_differs(config: Any, stored: Any) -> None:
    assert differences(config, {"config": stored}) != []


def test_data_and_encoder_are_compared_where_the_file_names_them() -> None:
    run, toys = toy_run(), Toys()
    same = {"data_hash": "data", "encoder": "tiny", "encoder_sha256": "weights"}
    assert hash_differences(run, same, toys) == hash_differences(run, {}, toys) == []
    assert "data_hash" in hash_differences(run, {**same, "data_hash": "other"}, toys)[0]
    assert "encoder_sha256" in hash_differences(run, {**same, "encoder_sha256": "other"}, toys)[0]
    half = {**same, "encoder": "tiny-fp16", "encoder_sha256": "other"}
    assert hash_differences(run, half, toys) == [], "half precision has other bytes"


def test_a_checkpoint_is_resumed_if_it_is_of_this_run(tmp_path: Path) -> None:
    resumed: list[bool] = []

    def stop(folder: Path, resume: bool) -> None:
        resumed.append(resume)
        assert resume == (folder / "notes").exists()
        (folder / "notes").touch()
        save(folder)

    run = toy_run()
    others = [replace(run, config=Toy(3)), replace(run, config=Toy(3, "a/tiny"))]
    for each in (run, run, *others):
        assert train(stop, tmp_path, each) == (State.LEFT, None)
    assert resumed == [False, True, False, False], "an encoder in another folder may have other weights"
    (tmp_path / "runs" / run.name / "checkpoints" / "step-00000007.safetensors").unlink()
    train(stop, tmp_path, others[-1])
    assert not resumed[-1], "there is nothing to go on from"
    assert not run.file(tmp_path).exists()


def test_weights_go_when_a_run_is_finished_and_logs_stay(tmp_path: Path) -> None:
    def leave(folder: Path, resume: bool) -> Any:
        save(folder)
        for name in ("last.safetensors", "best.safetensors", "steps.jsonl"):
            (folder / name).write_text("x")
        return result(1.0)

    train(leave, tmp_path)
    left = {file.name for file in (tmp_path / "runs" / "toy-n2-seed1").rglob("*")}
    assert left == {"steps.jsonl", "sweep.json"}
    train(leave, tmp_path, toy_run(4), keep_weights=True)
    assert (tmp_path / "runs" / "toy-n4-seed1" / "last.safetensors").exists()


@pytest.mark.parametrize("relative", [False, True])
def test_local_paths_are_masked_in_a_reason(relative: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "linked").symlink_to(tmp_path / "work", target_is_directory=True)
    (tmp_path / "work").mkdir()
    out, work = Path("out"), Path("linked")

    def fail(folder: Path, resume: bool) -> None:
        where = (folder / "x", folder.resolve(), folder.parent / "y", out.absolute(), tmp_path / "home" / "z")
        raise CheckpointError(
            f"{', '.join(map(str, where))}, {out.absolute()}-2, /mnt{tmp_path / 'home'}. Memory ran out"
        )

    start = Path() if relative else tmp_path
    _, content = train_one(toy_run(), Toys({"n2": fail}), start / out, start / work / "run")
    assert content is not None
    kept = f"{tmp_path}/out-2, /mnt{tmp_path}/home. Memory ran out"
    assert content["reason"] == f"CheckpointError: RUN/x, RUN, WORK/y, OUT, ~/z, {kept}"


def test_a_root_for_a_home_is_not_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    _, content = train(failing(TrainingError("1 / 0 in /etc/x")), tmp_path)
    assert content["reason"] == "TrainingError: 1 / 0 in /etc/x"


@pytest.mark.parametrize("keep_weights", [False, True])
def test_advice_goes_with_the_checkpoint_that_it_is_about(keep_weights: bool, tmp_path: Path) -> None:
    def diverge(folder: Path, resume: bool) -> None:
        save(folder)
        raise DivergedError(f"Lower the learning rate. {Checkpoints(folder).advice()}")

    state, content = train(diverge, tmp_path, keep_weights=keep_weights)
    assert state is State.DIVERGED
    assert content["reason"].startswith("Lower the learning rate.")
    assert ("RUN/checkpoints/step-00000007.safetensors" in content["reason"]) is keep_weights
