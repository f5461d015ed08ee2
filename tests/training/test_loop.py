"""The loop trains: schedule, accumulation, evaluation, and errors that say what to do."""

import io
import json
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console

from dtfixup.errors import ConfigError, TrainingError
from dtfixup.training.checkpoint import Checkpoints
from dtfixup.training.log import read_lines
from dtfixup.training.loop import fit
from dtfixup.training.plan import PlannedBatch
from dtfixup.training.schedule import anneal
from dtfixup.weights.tensors import read_tensors
from tests.training.toy import ToyTask, losses, run, toy_config
from tests.weights.test_tensors import full_disk


def last_weights(folder: Path) -> dict[str, torch.Tensor]:
    tensors, _ = read_tensors(Checkpoints(folder).saved()[-1])
    return {name: tensor for name, tensor in tensors.items() if name.startswith("model/")}


def same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_it_learns(tmp_path: Path) -> None:
    result = run(tmp_path, ToyTask(dropout=0.0), toy_config(epochs=30, update={"average": 0.0}))
    assert result.finished
    assert (result.steps, result.skipped_steps) == (180, 0)
    assert result.best["accuracy"] > 80
    assert [row["epoch"] for row in result.history] == list(range(2, 31, 2))
    assert result.step_ms > 0
    assert result.wall_seconds > result.step_ms * 180 / 2000
    assert result.peak_gib > 0.1


def test_the_folder_says_what_was_run(tmp_path: Path) -> None:
    run(tmp_path, stop_after=1)
    said = json.loads((tmp_path / "config.json").read_text())
    assert said["config"]["update"]["learning_rate"] == 5e-3
    assert said["fingerprint"]["data_hash"] == "toy 0 43"


def test_the_schedule_is_the_papers_per_update(tmp_path: Path) -> None:
    run(tmp_path, config=toy_config(log_every=1, warmup=3, power=0.5))
    rates = [row["learning_rate"] for row in read_lines(tmp_path / "steps.jsonl")]
    assert rates == pytest.approx([5e-3 * anneal(step, 30, warmup=3) for step in range(30)])


def test_the_same_seed_is_the_same_run_and_another_is_not(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.manual_seed(hash(name) % 100)
        run(tmp_path / name, config=toy_config(seed=seed))
    assert losses(tmp_path / "a") == losses(tmp_path / "b") != losses(tmp_path / "c")
    assert same(last_weights(tmp_path / "a"), last_weights(tmp_path / "b"))


def test_epochs_come_in_different_orders(tmp_path: Path) -> None:
    seen: list[int] = []
    task = ToyTask()
    forward = task.loss_sum
    task.loss_sum = lambda example_B, shape: (seen.extend(example_B.tolist()), forward(example_B, shape))[1]
    run(tmp_path, task, toy_config(epochs=2))
    first, second = np.array_split([number for number in seen if number >= 0], 2)
    assert sorted(first) == sorted(second) == list(range(43))
    assert first.tolist() != second.tolist()


def test_accumulated_batches_are_one_large_batch(tmp_path: Path) -> None:
    """Two batches of one shape, one of them not full, against the same examples at once."""

    class Fixed(ToyTask):
        def batches(self, epoch: int, random: np.random.Generator) -> list[PlannedBatch[int]]:
            numbers = np.array([*range(13), -1, -1, -1])
            return [PlannedBatch(part, 3) for part in np.array_split(numbers, 16 // self.batch_size)]

    for size, accumulate in ((16, 1), (8, 2), (4, 4)):
        config = toy_config(epochs=12, accumulate=accumulate, log_every=1)
        run(tmp_path / str(size), Fixed(dropout=0.0, batch_size=size), config)
    whole = losses(tmp_path / "16")
    assert len(whole) == 12
    for size in (8, 4):
        assert [step for step, _ in losses(tmp_path / str(size))] == [step for step, _ in whole]
        found = [loss for _, loss in losses(tmp_path / str(size))]
        assert found == pytest.approx([loss for _, loss in whole], rel=1e-5)


def test_the_loss_is_the_mean_of_an_update(tmp_path: Path) -> None:
    task = ToyTask(dropout=0.0)
    run(tmp_path, task, toy_config(epochs=1, accumulate=6, update={"learning_rate": 1e-30, "average": 0.0}))
    with torch.no_grad():  # the weights are still the first ones
        plan = task.batches(0, np.random.default_rng(0))
        sums = [task.loss_sum(torch.from_numpy(each.examples), each.shape) for each in plan]
    assert losses(tmp_path) == [(1, pytest.approx(float(sum(sums)) / 43, rel=1e-6))]


def test_how_often_one_evaluates_changes_nothing(tmp_path: Path) -> None:
    for every in (0, 1, 3):
        result = run(tmp_path / str(every), config=toy_config(evaluate_every=every))
        assert [row["epoch"] for row in result.history] == {0: [5], 1: [1, 2, 3, 4, 5], 3: [3, 5]}[every]
    wanted = last_weights(tmp_path / "0")
    assert all(same(last_weights(tmp_path / str(every)), wanted) for every in (1, 3))


def test_the_clock_saves_too(tmp_path: Path) -> None:
    task = ToyTask()
    seen: list[int] = []
    task.on_batch = lambda number: seen.append(len(Checkpoints(tmp_path).saved()))
    run(tmp_path, task, toy_config(checkpoint_minutes=1e-9))
    assert seen[:3] == [0, 1, 2]
    assert set(seen[2:]) == {2}


def test_a_run_computes_in_its_precision(tmp_path: Path) -> None:
    seen: list[tuple[str, bool]] = []
    for precision in ("fp32", "tf32", "bf16"):
        task = ToyTask()
        task.on_batch = lambda _: seen.append((torch.get_float32_matmul_precision(), torch.is_autocast_enabled("cpu")))
        run(tmp_path / precision, task, toy_config(precision=precision), stop_after=1)
    assert seen == [("highest", False), ("high", False), ("high", True)]
    assert torch.get_float32_matmul_precision() == "highest"


def test_bf16_learns_too(tmp_path: Path) -> None:
    result = run(tmp_path, ToyTask(dropout=0.0), toy_config(epochs=30, precision="bf16", update={"average": 0.0}))
    assert result.best["accuracy"] > 80
    assert all(tensor.dtype == torch.float32 for tensor in last_weights(tmp_path).values())


def test_dt_fixup_is_watched_and_others_are_not(tmp_path: Path) -> None:
    watched = run(tmp_path / "a", config=toy_config(epochs=1)).watched
    assert watched["steps_watched"] == 6
    assert watched["highest_input_norm_over_mu"] > 0.5
    assert run(tmp_path / "b", ToyTask(strategy="pre-ln"), toy_config(epochs=1)).watched == {}


def test_alerts_go_to_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    task = ToyTask()

    def grow(number: int) -> None:
        if number == 5:
            task.model.project.weight.data.mul_(100)

    task.on_batch = grow
    result = run(tmp_path, task, toy_config(epochs=2), stop_after=8)
    (row, *_) = read_lines(tmp_path / "alerts.jsonl")
    assert (row["step"], row["assumption"]) == (5, "input norm")
    assert "× μ at step 5" in caplog.text
    assert result.watched["alerts"] >= 1
    assert result.watched["highest_input_norm_over_mu"] > 50


def test_a_terminal_is_told_little(tmp_path: Path) -> None:
    said = io.StringIO()
    fit(ToyTask(), toy_config(epochs=2), tmp_path, console=Console(file=said, width=200))
    first, second = said.getvalue().splitlines()
    assert first.startswith("epoch 1/2  loss ")
    assert "best accuracy" in second


# Errors.


def test_a_loss_that_stays_nan_ends_the_run(tmp_path: Path) -> None:
    task = ToyTask()
    forward = task.loss_sum
    task.loss_sum = lambda example_B, shape: forward(example_B, shape) * (1.0 if task._batches < 8 else torch.nan)
    config = toy_config(checkpoint_steps=5, skipped_in_a_row=6)
    with pytest.raises(TrainingError, match=r"6 updates in a row were skipped, up to step 13; .* loss nan") as caught:
        run(tmp_path, task, config)
    saved = Checkpoints(tmp_path).saved()[-1]
    assert f"The last checkpoint is intact: {saved}; continue from it with --resume" in str(caught.value)
    assert all(tensor.isfinite().all() for tensor in last_weights(tmp_path).values())


def test_one_bad_batch_is_skipped_and_counted(tmp_path: Path) -> None:
    task = ToyTask()
    forward = task.loss_sum
    task.loss_sum = lambda example_B, shape: forward(example_B, shape) * (torch.inf if task._batches == 9 else 1.0)
    result = run(tmp_path, task)
    assert (result.steps, result.skipped_steps, result.finished) == (30, 1, True)
    rows = read_lines(tmp_path / "steps.jsonl")
    assert [row["skipped"] for row in rows] == [0, 0, 1, 1, 1, 1, 1, 1]
    assert all(row["loss"] is not None for row in rows)


def test_out_of_memory_says_what_to_change(tmp_path: Path) -> None:
    task = ToyTask()
    task.on_batch = lambda number: torch.empty(1 << 50) if number == 7 else None
    with pytest.raises(TrainingError, match=r"out of memory with batches of 8 in fp32: lower batch_size") as caught:
        run(tmp_path, task, toy_config(checkpoint_steps=4))
    assert "step-00000004" in str(caught.value)

    def gpu(number: int) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    task = ToyTask()
    task.on_batch = gpu
    with pytest.raises(TrainingError, match=r"out of memory .* There is no checkpoint yet"):
        run(tmp_path / "gpu", task)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # TensorBoard's own thread
def test_a_log_on_a_full_disk_ends_the_run(tmp_path: Path) -> None:
    task = ToyTask()
    limit = full_disk(300)
    task.on_batch = lambda number: limit.__enter__() if number == 2 else None
    try:
        with pytest.raises(TrainingError, match=r"a file of the run cannot be read or written: .*too large"):
            run(tmp_path, task)
    finally:
        limit.__exit__(None, None, None)
        for thread in threading.enumerate():  # so that what it says of its end is said before the test's
            if type(thread).__name__ == "_AsyncWriterThread":
                thread.join(1.0)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TrainingError, match=r"nothing can be written to .*Choose another folder"):
        run(tmp_path / "file" / "run")


def test_errors_of_the_task_stay_as_they_are(tmp_path: Path) -> None:
    def broken(number: int) -> None:
        raise ValueError("shapes do not fit")

    task = ToyTask()
    task.on_batch = broken
    with pytest.raises(ValueError, match="shapes do not fit"):
        run(tmp_path, task)


def test_the_best_metric_must_be_there(tmp_path: Path) -> None:
    task = ToyTask()
    task.best_metric = "exact"
    with pytest.raises(TrainingError, match="the evaluation has no exact to choose the best by; it has step, epoch,"):
        run(tmp_path, task)


def test_a_metric_that_is_not_finite_is_never_the_best(tmp_path: Path) -> None:
    task = ToyTask()
    values = iter([3.0, float("nan"), 2.0])
    task.evaluate = lambda: {"accuracy": next(values)}
    result = run(tmp_path, task)
    assert [row["accuracy"] for row in result.history] == [3.0, None, 2.0]
    assert result.best["step"] == 12


def test_epochs_of_different_lengths_are_refused(tmp_path: Path) -> None:
    task = ToyTask()
    plan = task.batches
    task.batches = lambda epoch, random: plan(epoch, random)[: 6 - epoch]
    with pytest.raises(ConfigError, match="planned 5 updates for epoch 1 and 6 for the first"):
        run(tmp_path, task)
    task = ToyTask()
    task.batches = lambda epoch, random: []
    with pytest.raises(ConfigError, match="no batch to train on"):
        run(tmp_path / "b", task)


def test_graphs_need_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="CUDA graphs need a GPU, and this run is on cpu"):
        run(tmp_path, config=toy_config(graphs=True))


def test_a_model_on_another_device_is_refused(tmp_path: Path) -> None:
    task = ToyTask()
    fabric = SimpleNamespace(global_rank=0, world_size=1, device=torch.device("cuda:1"))
    with pytest.raises(
        ConfigError, match=r"is on cpu, but this rank trains on cuda:1: create the task after launch\(\)"
    ):
        run(tmp_path, task, fabric=fabric)
