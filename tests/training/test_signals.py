"""SIGTERM and Ctrl-C stop a real process after the step, with all saved; a second Ctrl-C ends it at once."""

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from dtfixup.training.checkpoint import Checkpoints
from dtfixup.training.loop import fit
from dtfixup.training.signals import StopRequested, StopSignals
from tests.training.test_resume import require_equal
from tests.training.toy import ToyTask, run, start, toy_config

STUCK_S = 60


def train_and_wait(folder: Path, place: str, at: int) -> None:
    """Tell the test by a file that the place is reached, and stay there until a file says to go on."""
    torch.set_num_threads(1)

    def wait(number: int) -> None:
        if number == at:
            (folder / "there").touch()
            until = time.monotonic() + STUCK_S
            while not (folder / "go on").exists() and time.monotonic() < until:
                time.sleep(0.02)

    task = ToyTask()
    task.on_batch, task.on_evaluation = (wait, task.on_evaluation) if place == "batch" else (task.on_batch, wait)
    with (folder / "said").open("w") as file:
        result = fit(task, toy_config(), folder / "run", console=Console(file=file))
    raise SystemExit(0 if result.finished else 3)


def signalled(folder: Path, place: str, at: int, each: signal.Signals, *, again: bool = False) -> SimpleNamespace:
    """Send the signal once at this place, or again and again until the process ends."""
    process = start(train_and_wait, folder, place, at)
    began = time.monotonic()
    while not (folder / "there").exists():
        assert time.monotonic() < began + STUCK_S
        time.sleep(0.02)
    os.kill(process.pid, each)
    while again and process.exitcode is None and time.monotonic() < began + STUCK_S:
        os.kill(process.pid, each)
        process.join(0.05)
    if place == "batch":
        (folder / "go on").touch()
    process.join(STUCK_S / 2)
    said = " ".join((folder / "said").read_text().split())
    return SimpleNamespace(exitcode=process.exitcode, said=said, saved=Checkpoints(folder / "run").saved())


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straight")
    run(folder)
    return folder


@pytest.mark.parametrize("each", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_the_step_and_saves(each: signal.Signals, straight: Path, tmp_path: Path) -> None:
    ended = signalled(tmp_path, "batch", 9, each)
    assert ended.exitcode == 3
    assert [path.name for path in ended.saved] == ["step-00000009.safetensors"]
    expected = f"Stopped by {each.name} after step 9 of 30, saved to {ended.saved[0]}: continue with --resume"
    assert expected in ended.said
    run(tmp_path / "run", resume=True)
    require_equal(tmp_path / "run", straight)


def test_a_second_ctrl_c_aborts(tmp_path: Path) -> None:
    ended = signalled(tmp_path, "batch", 9, signal.SIGINT, again=True)
    assert ended.exitcode not in (0, 3)
    assert ended.saved == []


def test_an_evaluation_is_broken_off_and_made_up_for(straight: Path, tmp_path: Path) -> None:
    ended = signalled(tmp_path, "evaluation", 1, signal.SIGTERM)
    assert ended.exitcode == 3
    assert "after step 12 of 30" in ended.said
    run(tmp_path / "run", resume=True)
    require_equal(tmp_path / "run", straight)


def test_a_stop_in_the_last_evaluation_is_no_finished_run(straight: Path, tmp_path: Path) -> None:
    ended = signalled(tmp_path, "evaluation", 3, signal.SIGTERM)
    assert ended.exitcode == 3
    assert "after step 30 of 30" in ended.said
    task = ToyTask()
    assert run(tmp_path / "run", task, resume=True).finished
    assert task.evaluations == 1
    require_equal(tmp_path / "run", straight)


def test_handlers_are_put_back(tmp_path: Path) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received is signal.SIGTERM
        with pytest.raises(StopRequested), signals.interruptible():
            pytest.fail("what can be broken off is not begun after a stop")
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before


def test_training_in_another_thread_listens_to_nothing(tmp_path: Path) -> None:
    results = []
    thread = threading.Thread(target=lambda: results.append(run(tmp_path)))
    thread.start()
    thread.join(STUCK_S)
    assert results[0].finished
