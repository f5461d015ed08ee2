"""A step in parts is the step at once, on one rank or several, eager or as CUDA graphs."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from dtfixup.errors import ConfigError
from dtfixup.fixup.monitor import watch
from dtfixup.training.steps import Combine, EagerSteps, GraphSteps, StepLog
from dtfixup.training.update import UpdateConfig, Updater
from tests.training.toy import ToyTask

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
EXAMPLES = torch.tensor([4, 1, 7, 9, 2, 5, -1, -1])


def pretended(ranks: int) -> Combine:
    """As if all ranks had seen the same rows."""

    def combine(tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            tensor.mul_(ranks)

    return combine


class Trial:
    """Steps on a toy task, from the same start every time."""

    def __init__(self, *, in_parts: bool = False, device: str = "cpu", dropout: float = 0.0, ranks: int = 0) -> None:
        self.task = ToyTask(dropout=dropout, device=device)
        report = self.task.initialise(torch.Generator(device).manual_seed(0))
        self.updater = Updater(self.task.parameter_groups(), UpdateConfig(learning_rate=0.01, average=0.5))
        self.updater.set_rate(1.0)
        self.log = StepLog(16, torch.device(device))
        self.monitor = watch(self.task.stack, report, every=4).to(device)
        combine = pretended(ranks) if ranks else None
        self.steps = EagerSteps(
            self.task.loss_sum, self.updater, self.log, self.monitor, combine=combine, in_parts=in_parts
        )

    def rows(self, steps: int) -> list[tuple[float, float, bool]]:
        return self.log.read(steps)


def require_close(found: Trial, wanted: Trial, tolerance: float = 1e-5) -> None:
    for one, other in zip(found.updater.parameters, wanted.updater.parameters, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    for one, other in zip(found.updater.averages, wanted.updater.averages, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def test_a_batch_in_parts_is_the_batch_at_once() -> None:
    whole, parts = Trial(), Trial(in_parts=True)
    for _ in range(3):
        whole.steps(EXAMPLES, 3)
        parts.steps.update([(EXAMPLES[:3], 3), (EXAMPLES[3:6], 3), (EXAMPLES[6:], 3)], 6)
    for found, wanted in zip(parts.rows(3), whole.rows(3), strict=True):
        assert found == pytest.approx(wanted, rel=1e-5)
    require_close(parts, whole)


def test_ranks_add_up_losses_and_gradients() -> None:
    whole, ranks = Trial(), Trial(ranks=2)
    for _ in range(3):
        whole.steps(EXAMPLES, 3)
        ranks.steps.update([(EXAMPLES, 3)], 12)
    for found, wanted in zip(ranks.rows(3), whole.rows(3), strict=True):
        assert found == pytest.approx(wanted, rel=1e-5)
    require_close(ranks, whole)


def test_the_watcher_counts_updates_and_sees_summed_gradients() -> None:
    trial = Trial(in_parts=True)
    for _ in range(5):
        trial.steps.update([(EXAMPLES[:4], 3), (EXAMPLES[4:], 3)], 6)
    trial.monitor.close()
    summary = trial.monitor.summary()
    assert summary["steps_watched"] == 5
    stack = [parameter.grad for parameter in trial.task.stack.parameters()]
    assert summary["highest_gradient_norm"] >= float(torch.nn.utils.get_total_norm(stack))


def test_the_log_is_a_ring() -> None:
    log = StepLog(3, torch.device("cpu"))
    assert log.read(0) == []
    for step in range(5):
        log.write(torch.tensor(float(step)), torch.tensor(2.0 * step), torch.tensor(float(step == 4)))
    assert log.read(3) == [(2.0, 4.0, False), (3.0, 6.0, False), (4.0, 8.0, True)]
    assert log.read(1) == [(4.0, 8.0, True)]
    with pytest.raises(ConfigError, match="holds the last 3 steps, not 4"):
        log.read(4)


def test_a_batch_of_nothing_is_no_division_by_zero() -> None:
    trial = Trial()
    trial.steps(torch.full((4,), -1), 3)
    assert trial.rows(1) == [(0.0, 0.0, False)]


@GPU
@pytest.mark.parametrize("in_parts", [False, True])
def test_graphs_are_the_eager_steps(in_parts: bool) -> None:
    eager, graphs = Trial(in_parts=in_parts, device="cuda"), Trial(in_parts=in_parts, device="cuda")
    replayed = GraphSteps(graphs.steps)
    for step in range(8):
        batches = [(EXAMPLES.roll(step), 3 if step % 3 else 5)]
        if in_parts:
            batches.append((EXAMPLES.roll(-step), 5 if step % 2 else 3))
        eager.steps.update(batches, 6 * len(batches))
        replayed.update(batches, 6 * len(batches))
    for found, wanted in zip(graphs.rows(8), eager.rows(8), strict=True):
        assert found == pytest.approx(wanted, rel=1e-3)
    require_close(graphs, eager, 1e-3)
    for trial in (eager, graphs):
        trial.monitor.close()
        assert trial.monitor.summary()["steps_watched"] == 8


@GPU
def test_a_capture_moves_no_random_stream() -> None:
    """A resumed run captures its graphs elsewhere in the schedule and draws the same numbers all the same."""
    rows = []
    for ahead in ((), (3, 5)):
        trial = Trial(device="cuda", dropout=0.5)
        replayed = GraphSteps(trial.steps)
        for shape in ahead:
            replayed._graphs[(len(EXAMPLES), shape)] = replayed._capture(EXAMPLES, shape)
        torch.cuda.manual_seed(7)
        for shape in (3, 5, 3, 5):
            replayed(EXAMPLES, shape)
        rows.append([loss for loss, _, _ in trial.rows(4)])
    assert rows[0] == pytest.approx(rows[1], rel=1e-4)
