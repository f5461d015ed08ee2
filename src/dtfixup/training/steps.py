"""Training steps: eager, or as CUDA graphs.

In: a function from example numbers to the sum of their losses, and an `Updater`. Out: updated parameters; loss,
gradient norm and skip of every step in a log on the device. If an update sees one batch of one rank, a graph per shape
holds the whole step, from gathering the batch to Adam: a step costs the host one copy and one launch. If gradients are
summed over batches or ranks, a graph per shape adds the gradients of a batch, and one more graph makes the update. All
graphs share their memory.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from typing import Generic

import torch
from torch import Tensor

from dtfixup.errors import ConfigError
from dtfixup.fixup import Monitor
from dtfixup.training.plan import ShapeT
from dtfixup.training.update import Updater

LossSum = Callable[[Tensor, ShapeT], Tensor]
Combine = Callable[[Sequence[Tensor]], None]
"""Replaces tensors by their sums over the ranks."""


class StepLog:
    """A ring of (loss, gradient norm, skipped) of the last steps, on the device."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.size = size
        self._rows_TF = torch.zeros(size, 3, device=device)
        self._next = torch.zeros(1, dtype=torch.long, device=device)

    def write(self, loss: Tensor, norm: Tensor, skip: Tensor) -> None:
        """Append a row, by device work only."""
        self._rows_TF.index_copy_(0, self._next, torch.stack([loss.float(), norm, skip])[None])
        self._next.copy_((self._next + 1) % self.size)

    def read(self, steps: int) -> list[tuple[float, float, bool]]:
        """The last `steps` rows, oldest first; waits for the device."""
        if steps > self.size:
            raise ConfigError(f"the log holds the last {self.size} steps, not {steps}: read it more often")
        end, rows = int(self._next), self._rows_TF.tolist()
        last = [rows[(end - steps + offset) % self.size] for offset in range(steps)]
        return [(loss, norm, bool(skip)) for loss, norm, skip in last]


class EagerSteps(Generic[ShapeT]):
    """The plain form: one Python call per operation.

    Args:
        loss_sum: the sum of the losses of the real rows.
        updater: holds the parameters and updates them.
        log: receives a row per step.
        monitor: watches the stack.
        combine: sums gradients over several ranks.
        in_parts: whether an update sees several batches: gradients then stay in place and are added up.
    """

    def __init__(
        self,
        loss_sum: LossSum[ShapeT],
        updater: Updater,
        log: StepLog,
        monitor: Monitor | None = None,
        *,
        combine: Combine | None = None,
        in_parts: bool = False,
    ) -> None:
        self.loss_sum, self.updater, self.log, self.monitor = loss_sum, updater, log, monitor
        self.combine, self.in_parts = combine, in_parts or combine is not None
        self._loss = torch.zeros_like(updater.norm)

    def __call__(self, examples: Tensor, shape: ShapeT) -> None:
        """Update by the mean over one batch."""
        self.update([(examples, shape)], count_real(examples))

    def update(self, batches: Sequence[tuple[Tensor, ShapeT]], count: int) -> None:
        """Update by the mean over `count` examples, in these batches and those of other ranks."""
        share = torch.full_like(self.updater.norm, 1 / max(count, 1))
        self.clear()
        for examples, shape in batches:
            self.add(examples.to(share.device), share, shape)
        self.finish()

    def clear(self) -> None:
        """Begin an update. Like `add` and `apply`, device work only."""
        self._loss.zero_()
        for parameter in self.updater.parameters:
            if not self.in_parts:
                parameter.grad = None
            elif parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            else:
                parameter.grad.zero_()

    def add(self, examples: Tensor, share: Tensor, shape: ShapeT) -> None:
        """Add a batch's share of loss and gradients."""
        loss = self.loss_sum(examples, shape) * share
        loss.backward()
        self._loss.add_(loss.detach())

    def apply(self) -> None:
        """Update from the sum of the gradients."""
        if self.monitor is not None:
            self.monitor.record()
        self.updater.apply_()
        self.log.write(self._loss, self.updater.norm, self.updater.skip)

    def finish(self, apply: Callable[[], None] | None = None) -> None:
        """End an update: sum over the ranks, `apply`, and let the monitor count."""
        if self.combine is not None:
            gradients = [parameter.grad for parameter in self.updater.parameters if parameter.grad is not None]
            self.combine([*gradients, self._loss])
        (apply or self.apply)()
        if self.monitor is not None:
            self.monitor.advance()


class GraphSteps(Generic[ShapeT]):
    """The same steps as CUDA graphs; each shape is captured at its first use."""

    def __init__(self, eager: EagerSteps[ShapeT]) -> None:
        self.eager = eager
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self._apply: torch.cuda.CUDAGraph | None = None
        self._share = torch.ones_like(eager.updater.norm)
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, examples: Tensor, shape: ShapeT) -> None:
        """Update by the mean over one batch."""
        self.update([(examples, shape)], count_real(examples))

    def update(self, batches: Sequence[tuple[Tensor, ShapeT]], count: int) -> None:
        """Update by the mean over `count` examples, in these batches and those of other ranks."""
        self._share.fill_(1 / max(count, 1))
        if not self.eager.in_parts:
            ((examples, shape),) = batches
            self._replay(examples, shape)
            if self.eager.monitor is not None:
                self.eager.monitor.advance()
            return
        self.eager.clear()
        for examples, shape in batches:
            self._replay(examples, shape)
        self.eager.finish(self._replay_apply)

    def _replay(self, examples: Tensor, shape: ShapeT) -> None:
        key = (len(examples), shape)
        if key not in self._graphs:
            self._graphs[key] = self._capture(examples, shape)
        graph, static = self._graphs[key]
        static.copy_(examples, non_blocking=True)
        graph.replay()

    def _replay_apply(self) -> None:
        if self._apply is None:
            self._apply = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._apply, pool=self._pool):
                self.eager.apply()
        self._apply.replay()

    def _capture(self, examples: Tensor, shape: ShapeT) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        static = examples.to(self._share.device)
        self._warm_up(static, shape)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            if self.eager.in_parts:
                self.eager.add(static, self._share, shape)
            else:
                self.eager.clear()
                self.eager.add(static, self._share, shape)
                self.eager.apply()
        if not self.eager.in_parts:
            for parameter in self.eager.updater.parameters:
                parameter.grad = None
        return graph, static

    def _warm_up(self, static: Tensor, shape: ShapeT) -> None:
        """Let libraries pick kernels, and Triton compile, before the capture; random streams do not move."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        uncounted = nullcontext() if self.eager.monitor is None else self.eager.monitor.warm_up()
        with torch.cuda.stream(stream), uncounted, torch.random.fork_rng([static.device]):
            loss = self.eager.loss_sum(static, shape)
            torch.autograd.grad(loss, self.eager.updater.parameters, allow_unused=True)
        torch.cuda.current_stream().wait_stream(stream)


def count_real(examples: Tensor) -> int:
    """The number of rows that hold an example."""
    return int((examples >= 0).sum())
