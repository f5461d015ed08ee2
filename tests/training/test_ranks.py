"""Several ranks train one model: as one would, in step, and ending together."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import CheckpointError, TrainingError
from dtfixup.training.checkpoint import Checkpoints
from dtfixup.training.ranks import Ranks, launch
from dtfixup.weights.tensors import read_tensors
from tests.training.test_resume import require_equal
from tests.training.toy import ToyTask, as_rank, losses, run, start, toy_config

TIMEOUT_S = 60
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
from dtfixup.training.ranks import launch
from tests.training.toy import ToyTask, run, toy_config
from pathlib import Path
run(Path(sys.argv[2]), ToyTask(dropout=0.0), toy_config(log_every=1), fabric=launch("cpu"))
"""


def on_ranks(target: Callable[..., object], *arguments: Any, world: int = 2) -> list[int | None]:
    """Run a function as each rank; the exit codes."""
    processes = start_ranks(target, *arguments, world=world)
    for process in processes:
        process.join(TIMEOUT_S)
        if process.exitcode is None:
            process.kill()
    return [process.exitcode for process in processes]


def start_ranks(target: Callable[..., object], *arguments: Any, world: int = 2) -> list[BaseProcess]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [start(as_rank, rank, world, port, target, *arguments) for rank in range(world)]


def train(
    rank: int, folder: Path, options: dict[str, Any], resume: bool = False, stop_after: int | None = None
) -> None:
    config = toy_config(**options.get("config", {}))
    task = ToyTask(dropout=options.get("dropout", 0.0))
    result = run(folder, task, config, fabric=launch("cpu"), resume=resume, stop_after=stop_after)
    outcome = [result.steps, result.best, result.last, result.watched, task.evaluations]
    (folder / f"outcome-{rank}.json").write_text(json.dumps(outcome))


def fail_on_one(rank: int, folder: Path, failing: int, place: str) -> None:
    """One rank fails; what each rank raises is written to a file."""

    def fail(number: int) -> None:
        if number == 8 and rank == failing and place == "batch":
            raise ValueError("the example is broken")

    def fail_evaluation(number: int) -> None:
        if place == "evaluation":
            raise ValueError("there is no dev set")

    task = ToyTask()
    task.on_batch, task.on_evaluation = fail, fail_evaluation
    if place == "saving":
        (folder / "run" / "checkpoints").parent.mkdir(exist_ok=True, parents=True)
        (folder / "run" / "checkpoints").write_text("in the way")
    try:
        run(folder / "run", task, toy_config(), fabric=launch("cpu"))
    except Exception as error:
        (folder / f"error-{rank}").write_text(f"{type(error).__name__}: {error}")


def wait_for_signal(rank: int, folder: Path) -> None:
    def wait(number: int) -> None:
        if number == 9 and rank == 1:
            (folder / "there").write_text(str(os.getpid()))
            until = time.monotonic() + TIMEOUT_S
            while not (folder / "sent").exists() and time.monotonic() < until:
                time.sleep(0.02)

    task = ToyTask(dropout=0.0)
    task.on_batch = wait
    result = run(folder / "run", task, toy_config(), fabric=launch("cpu"))
    raise SystemExit(3 if not result.finished and result.steps == 9 else 1)


def test_two_ranks_give_the_loss_curve_of_one(tmp_path: Path) -> None:
    run(alone := tmp_path / "alone", ToyTask(dropout=0.0), toy_config(log_every=1))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    root = str(Path(__file__).parents[2])
    command = [sys.executable, *torchrun, str(program), root, str(tmp_path / "run")]
    ended = subprocess.run(command, timeout=TIMEOUT_S, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert Checkpoints(tmp_path / "run").read_newest()[1]["ranks"] == 2
    (steps, values), (wanted_steps, wanted) = (
        zip(*losses(folder), strict=True) for folder in (tmp_path / "run", alone)
    )
    assert steps == wanted_steps == tuple(range(1, 31))
    assert values == pytest.approx(wanted, abs=1e-5, rel=1e-5)


def test_three_ranks_accumulate_as_one(tmp_path: Path) -> None:
    options = {"config": {"accumulate": 2, "log_every": 1}}
    run(tmp_path / "alone", ToyTask(dropout=0.0), toy_config(**options["config"]))
    (tmp_path / "run").mkdir()
    assert on_ranks(train, tmp_path / "run", options, world=3) == [0, 0, 0]
    found, wanted = losses(tmp_path / "run"), losses(tmp_path / "alone")
    assert [step for step, _ in found] == list(range(1, 16))
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in wanted], abs=1e-5, rel=1e-5)
    outcomes = [json.loads((tmp_path / "run" / f"outcome-{rank}.json").read_text()) for rank in range(3)]
    assert [outcome[:4] for outcome in outcomes] == [outcomes[0][:4]] * 3
    assert [outcome[4] for outcome in outcomes] == [3, 0, 0]


def test_ranks_drop_other_units_and_resume_exactly(tmp_path: Path) -> None:
    options = {"dropout": 0.2}
    for name in ("straight", "stopped"):
        (tmp_path / name).mkdir()
    assert on_ranks(train, tmp_path / "straight", options) == [0, 0]
    assert on_ranks(train, tmp_path / "stopped", options, False, 8) == [0, 0]
    tensors, _ = read_tensors(Checkpoints(tmp_path / "stopped").saved()[-1])
    assert not torch.equal(tensors["random/cpu/0"], tensors["random/cpu/1"])
    with pytest.raises(CheckpointError, match="ranks was 2 and is 1"):
        run(tmp_path / "stopped", ToyTask(), resume=True)
    assert on_ranks(train, tmp_path / "stopped", options, True) == [0, 0]
    require_equal(tmp_path / "stopped", tmp_path / "straight")


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_on_one_rank_ends_all_with_its_message(failing: int, tmp_path: Path) -> None:
    assert on_ranks(fail_on_one, tmp_path, failing, "batch") == [0, 0]
    errors = [(tmp_path / f"error-{rank}").read_text() for rank in range(2)]
    assert errors[failing] == "ValueError: the example is broken"
    assert errors[1 - failing] == f"TrainingError: rank {failing} failed: the example is broken"


@pytest.mark.parametrize(
    ("place", "message"), [("evaluation", "ValueError: there is no dev set"), ("saving", "cannot be written")]
)
def test_an_evaluation_or_a_checkpoint_that_fails_ends_all(place: str, message: str, tmp_path: Path) -> None:
    assert on_ranks(fail_on_one, tmp_path, 0, place) == [0, 0]
    first, second = ((tmp_path / f"error-{rank}").read_text() for rank in range(2))
    assert message in first
    assert second.startswith("TrainingError: rank 0 failed: ")


def test_a_signal_to_one_rank_stops_all_after_the_same_step(tmp_path: Path) -> None:
    processes = start_ranks(wait_for_signal, tmp_path)
    began = time.monotonic()
    while not (tmp_path / "there").exists():
        assert time.monotonic() < began + TIMEOUT_S
        time.sleep(0.02)
    os.kill(processes[1].pid, signal.SIGTERM)
    (tmp_path / "sent").touch()
    for process in processes:
        process.join(TIMEOUT_S)
    assert [process.exitcode for process in processes] == [3, 3]
    assert [path.name for path in Checkpoints(tmp_path / "run").saved()] == ["step-00000009.safetensors"]


def test_a_rank_that_dies_is_noticed(tmp_path: Path) -> None:
    assert on_ranks(die, tmp_path) == [0, -signal.SIGKILL]
    assert "another rank ended without an error message" in (tmp_path / "error").read_text()


def die(rank: int, folder: Path) -> None:
    task = ToyTask()
    if rank == 1:
        task.on_batch = lambda number: os.kill(os.getpid(), signal.SIGKILL) if number == 5 else None
    try:
        run(folder / "run", task, toy_config(), fabric=launch("cpu"))
    except TrainingError as error:
        (folder / "error").write_text(str(error))


@given(st.lists(st.integers(0, 99), max_size=17), st.integers(1, 5))
def test_ranks_share_all_rows_evenly(rows: list[int], world: int) -> None:
    examples = np.array(rows, np.int64)
    shares = []
    for rank in range(world):
        ranks = object.__new__(Ranks)
        ranks.rank, ranks.world = rank, world
        shares.append(ranks.rows(examples))
    assert len({len(share) for share in shares}) == 1
    assert sorted(number for share in shares for number in share if number >= 0) == sorted(rows)
    real = [int((share >= 0).sum()) for share in shares]
    assert max(real) - min(real) <= 1
