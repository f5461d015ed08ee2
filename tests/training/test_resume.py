"""A run that was killed or stopped anywhere and resumed ends as one that ran through, bit for bit."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from dtfixup.training.checkpoint import Checkpoints
from dtfixup.training.log import read_lines
from dtfixup.weights import tensors
from dtfixup.weights.tensors import read_tensors
from tests.training.toy import ToyTask, killed_at, losses, run, start, toy_config

KILLED = -signal.SIGKILL


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run without a stop: 30 updates, six an epoch, dropout and shuffling on."""
    folder = tmp_path_factory.mktemp("straight")
    run(folder)
    return folder


def require_equal(folder: Path, expected: Path) -> None:
    """All tensors, the random streams among them, and all numbers but times."""
    (found, content), (wanted, other) = (read_tensors(Checkpoints(each).saved()[-1]) for each in (folder, expected))
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    for name in ("step", "skipped", "history", "pending"):
        assert content["standing"][name] == other["standing"][name], name
    best, wanted_best = (read_tensors(each / "best.safetensors") for each in (folder, expected))
    assert all(torch.equal(best[0][name], wanted_best[0][name]) for name in wanted_best[0])
    assert best[1]["evaluation"] == wanted_best[1]["evaluation"]
    assert losses(folder) == losses(expected)
    assert read_lines(folder / "evaluations.jsonl") == read_lines(expected / "evaluations.jsonl")


def run_until_killed(folder: Path, batch: int, resume: bool = False) -> None:
    torch.set_num_threads(1)
    task = ToyTask()
    task.on_batch = killed_at(batch)
    run(folder, task, toy_config(checkpoint_steps=5), resume=resume)


def run_until_killed_in_save(folder: Path, save: int, point: str) -> None:
    """End in the middle of writing a checkpoint, or between its writing and its rename."""
    torch.set_num_threads(1)
    count, write, replace = 0, tensors.save_file, Path.replace

    def damaged(held: Any, path: Path, header: Any) -> None:
        nonlocal count
        count += 1
        write(held, path, header)
        if count == save and point == "writing":
            os.truncate(path, path.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    def renamed(path: Path, target: Path) -> Path:
        if count == save and path.suffix == ".safetensors" and point == "renaming":
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(path, target)

    tensors.save_file, Path.replace = damaged, renamed
    run(folder, config=toy_config(checkpoint_steps=5))


@pytest.mark.parametrize("batch", [8, 12, 25])
def test_killed_in_the_middle_of_an_epoch(batch: int, straight: Path, tmp_path: Path) -> None:
    process = start(run_until_killed, tmp_path, batch)
    process.join(60)
    assert process.exitcode == KILLED
    assert 0 < Checkpoints(tmp_path).read_newest()[1]["standing"]["step"] < batch
    result = run(tmp_path, config=toy_config(checkpoint_steps=5), resume=True)
    assert result.finished
    require_equal(tmp_path, straight)


def test_killed_again_and_again(straight: Path, tmp_path: Path) -> None:
    for resume in (False, True, True):
        process = start(run_until_killed, tmp_path, 9, resume)
        process.join(60)
        assert process.exitcode == KILLED
    run(tmp_path, resume=True)
    require_equal(tmp_path, straight)


@pytest.mark.parametrize("point", ["writing", "renaming"])
def test_killed_while_saving(point: str, straight: Path, tmp_path: Path) -> None:
    process = start(run_until_killed_in_save, tmp_path, 2, point)
    process.join(60)
    assert process.exitcode == KILLED
    assert [path.name for path in Checkpoints(tmp_path).saved()] == ["step-00000005.safetensors"]
    run(tmp_path, config=toy_config(checkpoint_steps=5), resume=True)
    require_equal(tmp_path, straight)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "step-00000025.safetensors",
        "step-00000030.safetensors",
    ]


@pytest.mark.parametrize("stops", [[1], [5, 6, 7], [12], [29], [30]])
def test_stopped_and_resumed(stops: list[int], straight: Path, tmp_path: Path) -> None:
    for place, stop in enumerate(stops):
        result = run(tmp_path, resume=place > 0, stop_after=stop)
        assert (result.steps, result.finished) == (stop, stop == 30)
    assert run(tmp_path, resume=True).finished
    require_equal(tmp_path, straight)


def test_accumulated_batches_resume_too(tmp_path: Path) -> None:
    config = toy_config(accumulate=4, checkpoint_steps=1)
    run(tmp_path / "straight", config=config)
    run(tmp_path / "stopped", config=config, stop_after=3)
    run(tmp_path / "stopped", config=config, resume=True)
    require_equal(tmp_path / "stopped", tmp_path / "straight")


def test_a_finished_run_has_nothing_left_to_do(straight: Path, tmp_path: Path) -> None:
    first = run(tmp_path)
    task = ToyTask()
    again = run(tmp_path, task, resume=True)
    assert task.evaluations == 0
    assert (again.steps, again.best, again.history, again.watched) == (
        first.steps,
        first.best,
        first.history,
        first.watched,
    )
    require_equal(tmp_path, straight)


def test_other_intervals_are_no_other_run(straight: Path, tmp_path: Path) -> None:
    run(tmp_path, stop_after=10)
    run(tmp_path, config=toy_config(checkpoint_steps=2, log_every=7, checkpoint_minutes=1.5), resume=True)
    found, wanted = (read_tensors(Checkpoints(each).saved()[-1])[0] for each in (tmp_path, straight))
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
