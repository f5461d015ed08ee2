"""A checkpoint belongs to one run: whatever differs is named; damage is noticed, and the one before is still there."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dtfixup.errors import CheckpointError, ConfigError
from dtfixup.training import checkpoint
from dtfixup.training.checkpoint import Checkpoints, RunState, state_tensors
from dtfixup.training.update import Updater
from dtfixup.weights.tensors import load_weights, read_tensors, write_tensors
from tests.training.toy import ToyTask, run, toy_config
from tests.weights.test_tensors import full_disk


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run that has saved after steps 5, 10 and 13."""
    run(tmp_path, config=toy_config(checkpoint_steps=5), stop_after=13)
    return tmp_path


def other_encoder(task: ToyTask) -> None:
    task.fingerprint = {**task.fingerprint, "encoder_sha256": "cd34"}


def more_in_the_fingerprint(task: ToyTask) -> None:
    task.fingerprint = {**task.fingerprint, "grammar": "new"}


def test_the_newest_two_are_kept(stopped: Path) -> None:
    names = [path.name for path in Checkpoints(stopped).saved()]
    assert names == ["step-00000010.safetensors", "step-00000013.safetensors"]


def test_what_a_checkpoint_holds(stopped: Path) -> None:
    tensors, content, _ = Checkpoints(stopped).read_newest()
    kinds = {name.partition("/")[0] for name in tensors}
    assert kinds == {"model", "average", "adam", "random", "usual_norm"}
    assert "model/table.weight" not in tensors
    assert "adam/exp_avg_sq/stack.layers.3.mlp.down.weight" in tensors
    assert content["standing"]["step"] == 13
    assert content["config"]["update"]["average"] == 0.9
    assert content["fingerprint"]["encoder_sha256"] == "ab12"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"seed": 2}, r"config\.seed was 1 and is 2"),
        ({"epochs": 6}, r"config\.epochs was 5 and is 6"),
        ({"accumulate": 2}, r"config\.accumulate was 1 and is 2"),
        ({"update": {"learning_rate": 1.0}}, r"config\.update\.learning_rate was 0\.005 and is 1\.0"),
        ({"precision": "bf16"}, r"config\.precision was 'fp32' and is 'bf16'"),
    ],
)
def test_another_configuration_is_refused(change: dict[str, Any], complaint: str, stopped: Path) -> None:
    with pytest.raises(CheckpointError, match=complaint) as caught:
        run(stopped, config=toy_config(**change), resume=True)
    assert "Resume with the settings it was started with, or start again in another folder" in str(caught.value)
    assert str(caught.value).count("config.") == 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda task: task.__init__(data_seed=1), r"fingerprint\.data_hash was 'toy 0 43' and is 'toy 1 43'"),
        (other_encoder, r"fingerprint\.encoder_sha256 was 'ab12' and is 'cd34'"),
        (more_in_the_fingerprint, r"fingerprint\.grammar was None and is 'new'"),
    ],
)
def test_other_data_or_encoder_is_refused(change: Callable[[ToyTask], None], complaint: str, stopped: Path) -> None:
    task = ToyTask()
    change(task)
    with pytest.raises(CheckpointError, match=complaint):
        run(stopped, task, resume=True)


def test_all_differences_are_told_at_once(stopped: Path) -> None:
    with pytest.raises(CheckpointError, match=r"epochs was .*; config\.seed was .*; fingerprint\.data_hash was"):
        run(stopped, ToyTask(data_seed=1), toy_config(epochs=6, seed=3), resume=True)


def test_a_fingerprint_of_tuples_is_the_same_after_json(tmp_path: Path) -> None:
    for resume, steps in ((False, 2), (True, 4)):
        task = ToyTask()
        task.fingerprint = {"sizes": (1, 2), "nested": {"x": (3,)}}
        assert run(tmp_path, task, resume=resume, stop_after=steps).steps == steps


def test_a_run_is_not_overwritten(stopped: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds a run, saved at step 13: continue it with --resume, or choose"):
        run(stopped)
    for path in Checkpoints(stopped).saved():
        path.unlink()
    with pytest.raises(CheckpointError, match=r"best\.safetensors belongs to an earlier run: choose another folder"):
        run(stopped)


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no checkpoint to resume from: start the run without --resume"):
        run(tmp_path, resume=True)


def test_a_damaged_checkpoint_points_to_the_one_before(stopped: Path) -> None:
    newest = Checkpoints(stopped).saved()[-1]
    os.truncate(newest, newest.stat().st_size - 1)
    with pytest.raises(CheckpointError, match=r"damaged.* Delete it to continue from step-00000010\.safetensors"):
        run(stopped, resume=True)
    newest.unlink()
    assert run(stopped, resume=True).finished


def test_the_only_checkpoint_is_damaged(tmp_path: Path) -> None:
    run(tmp_path, stop_after=1)
    (path,) = Checkpoints(tmp_path).saved()
    os.truncate(path, 10)
    with pytest.raises(CheckpointError, match="Delete it to continue from the start"):
        run(tmp_path, resume=True)


def test_another_format_names_the_version_that_reads_it(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "FORMAT", 2)
    with pytest.raises(CheckpointError, match=r"has format 1, but this version reads 2: resume with dtfixup 0"):
        run(stopped, resume=True)


def test_a_checkpoint_of_other_sizes_is_refused(stopped: Path) -> None:
    path = Checkpoints(stopped).saved()[-1]
    tensors, content = read_tensors(path)
    write_tensors(path, {**tensors, "model/head.bias": torch.zeros(9)}, content)
    with pytest.raises(CheckpointError, match=r"model/head\.bias is float32 \[9\] in .*, but float32 \[3\] here"):
        run(stopped, resume=True)


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    task = ToyTask()
    limit = full_disk(30_000)
    task.on_batch = lambda number: limit.__enter__() if number == 8 else None
    try:
        with pytest.raises(CheckpointError, match=r"cannot be written: .*The last checkpoint is intact: .*step-0+5\."):
            run(tmp_path, task, toy_config(checkpoint_steps=5))
    finally:
        limit.__exit__(None, None, None)
    assert run(tmp_path, config=toy_config(checkpoint_steps=5), resume=True).finished


def test_the_best_weights_are_averaged_and_can_be_used(tmp_path: Path) -> None:
    task = ToyTask(dropout=0.0)
    result = run(tmp_path, task)
    other = ToyTask(dropout=0.0)
    content = load_weights(tmp_path / "best.safetensors", other.model, left_out=other.left_out)
    assert content["evaluation"] == result.best
    assert result.best == max(result.history, key=lambda row: row["accuracy"])
    other.model.eval()
    assert task.model.training
    task.model.eval()
    with torch.no_grad():
        assert other.evaluate()["dev_loss"] == result.best["dev_loss"]
        assert task.evaluate()["dev_loss"] == result.last["dev_loss"]  # what was evaluated is what the model has


def test_the_last_weights_are_those_the_model_ends_with(tmp_path: Path) -> None:
    task = ToyTask(dropout=0.0)
    result = run(tmp_path, task)
    other = ToyTask(dropout=0.0)
    content = load_weights(tmp_path / "last.safetensors", other.model, left_out=other.left_out)
    assert content["evaluation"] == result.last
    for name, tensor in other.model.state_dict().items():
        assert torch.equal(tensor, task.model.state_dict()[name])
    saved, _ = read_tensors(sorted((tmp_path / "checkpoints").iterdir())[-1])
    assert not torch.equal(saved["model/head.weight"], task.model.head.weight)  # a resume needs the raw ones


def test_what_is_trained_cannot_be_left_out() -> None:
    task = ToyTask()
    updater = Updater(task.parameter_groups(), toy_config().update)
    with pytest.raises(ConfigError, match=r"head\.bias is trained, so files cannot leave it out"):
        state_tensors(task.model, updater, ["head.bias"])
    with pytest.raises(ConfigError, match="a parameter that does not belong to the model"):
        state_tensors(ToyTask().model, updater, [])


def test_a_runs_state_survives_json() -> None:
    nan = float("nan")
    at = RunState(7, 2, 1.5, [(0.25, 3.0, False), (nan, float("inf"), True)], [{"step": 6}], {"alerts": 1.0})
    again = RunState.from_json(at.to_json())
    assert (again.step, again.skipped, again.seconds, again.history, again.watched) == (
        7,
        2,
        1.5,
        at.history,
        at.watched,
    )
    assert again.pending[0] == (0.25, 3.0, False)
    assert str(again.pending[1]) == "(nan, nan, True)"
