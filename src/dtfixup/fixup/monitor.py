"""Watch during training whether the theorem's assumptions about a stack without layer norms hold.

The factors are valid while the inputs stay near the mu they were computed from, the residual stream does not grow
through depth, and no batch has a gradient far above the usual. A deep stack can train well for thousands of steps,
violate one of these, and then break on one batch.

In: the stack, the report of its initialisation, and a call of `step()` after each backward pass.
Out: alerts that name the broken assumption, scalars for TensorBoard, a summary. The device never waits for the
host: hooks and `record()` launch the same kernels on the same memory in every step, and the slot of a step's row is
counted on the device, so CUDA graphs can hold them. The host counts steps in `advance()`. Once in `every` steps it
reads a copy that has arrived.

Legend: B batch, L length, D width, K tensors of norms, S slots, one per step until they are read, C columns
of a step: input norm, norm after each layer, gradient norm.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from dtfixup.errors import ConfigError
from dtfixup.fixup.alerts import Alert, Assumption, Judge, ScalarWriter
from dtfixup.fixup.calls import call_arguments, stack_input
from dtfixup.fixup.layers import Stack, first_module, last_module, layers_of, padding_keep, parameters_of
from dtfixup.fixup.report import FixupReport

_log = logging.getLogger("dtfixup")


def watch(
    stack: Stack,
    report: FixupReport,
    *,
    before_dropout: nn.Module | None = None,
    writer: ScalarWriter | None = None,
    callback: Callable[[Alert], object] | None = None,
    every: int = 50,
    first_step: int = 0,
    max_input_ratio: float = 2.0,
    max_growth: float = 8.0,
    max_gradient_ratio: float = 20.0,
) -> "Monitor":
    """Watch a stack; call `step()` on the result after each backward pass, before clipping.

    If the training step is captured in CUDA graphs, call the two halves of `step()`: see `Monitor`.

    Args:
        stack: the layers that `report` is about.
        report: the result of `dt_fixup_`; inputs are compared with its input norm, mu. A mask of
            real vectors is taken from the stack's own call (ours, PyTorch's); for other stacks set
            `monitor.keep = mask` before each forward pass, if there is padding.
        before_dropout: if dropout is applied to the stack's input outside the stack, the module
            whose output is the input before dropout. mu was measured without dropout, which makes
            vectors longer. (`TransformerStack` drops inside itself and needs nothing.)
        writer: a TensorBoard `SummaryWriter`, or anything with its `add_scalar`.
        callback: called with each alert; alerts are also logged as warnings and kept in `alerts`.
        every: number of steps between two readings.
        first_step: number of the first step, for a resumed run.
        max_input_ratio: largest input norm, as a multiple of mu.
        max_growth: largest norm after any layer, as a multiple of the largest input norm of the step.
        max_gradient_ratio: largest gradient norm, as a multiple of the median of the steps before.
    """
    if report.input_norm is None:
        raise ConfigError(f"the report of {report.strategy} has no input norm to watch: watch() is for dt-fixup")
    if every < 1:
        raise ConfigError(f"every must be at least 1, got {every}")
    limits = {
        Assumption.INPUT_NORM: max_input_ratio,
        Assumption.GROWTH: max_growth,
        Assumption.GRADIENT: max_gradient_ratio,
    }
    judge = Judge(report.input_norm, limits, every, writer, callback)
    return Monitor(stack, judge, report.padding_left_out, before_dropout, every, first_step)


@dataclass(frozen=True)
class _Copy:
    """The rows of the last steps on their way to the host, sent after step `count`."""

    rows_SC: Tensor
    recorded: Tensor
    arrival: torch.cuda.Event | None
    count: int


class Monitor:
    """Made by `watch`. Use it as a context manager, or `close()` it, to read the last steps and remove the hooks.

    For a training step in CUDA graphs that share a pool, call the halves of `step()`:

        with monitor.warm_up():  # the passes before a capture are no steps
            train_step()  # ends with monitor.record(), between backward and clipping
        with torch.cuda.graph(graph):
            train_step()
        ...
        graph.replay()
        monitor.advance()  # once a step, on the stream of the replay
    """

    def __init__(
        self,
        stack: Stack,
        judge: Judge,
        wants_mask: bool,
        before_dropout: nn.Module | None,
        every: int,
        first_step: int,
    ) -> None:
        self.keep: Tensor | None = None  # to be set before the forward pass if the stack is called without a mask
        self._stack, self._judge, self._wants_mask = stack, judge, wants_mask
        self._every, self._first_step, self._count = every, first_step, 0
        self._parameters = parameters_of(stack)
        layers = [layer for _, layer, _ in layers_of(stack)]
        columns = 1 + len(layers) + 1
        self._row_C, self._rows_SC = torch.zeros(columns), torch.zeros(every, columns)
        self._recorded = torch.zeros(1, dtype=torch.long)  # steps that the device has counted
        self._placed, self._called, self._warming = False, False, False
        self._copy: _Copy | None = None
        self._held: list[tuple[int, Tensor]] = []  # column and norms, between a hook and the end of the pass
        self._held_captured = False
        self._keep: Tensor | None = None
        self._before_dropout = before_dropout
        self._source_norms: Tensor | None = None
        enter = first_module(stack).register_forward_pre_hook(self._look_at_call, with_kwargs=True)
        self._handles: list[RemovableHandle] = [enter]
        if before_dropout is not None:
            self._handles.append(before_dropout.register_forward_hook(self._look_at_source))
        for column, layer in enumerate(layers, start=1):
            self._handles.append(layer.register_forward_hook(self._look_after(column)))
        self._handles.append(last_module(stack).register_forward_hook(self._look_at_end))

    @property
    def alerts(self) -> list[Alert]:
        """The alerts of all steps that were read so far."""
        return self._judge.alerts

    def summary(self) -> dict[str, float]:
        """Numbers for a result file, of the steps read so far; after `close()`, of all steps. See `Judge.summary`."""
        return self._judge.summary()

    def to(self, device: torch.device | str) -> "Monitor":
        """Keep the rows on this device. The first pass does so too, unless it is captured in a CUDA graph."""
        self._row_C, self._rows_SC, self._recorded = (
            kept.to(device) for kept in (self._row_C, self._rows_SC, self._recorded)
        )
        self._placed = True
        return self

    def step(self) -> None:
        """Record and count this step. Call it after `backward()` and before gradients are clipped or cleared."""
        self.record()
        self.advance()

    def record(self) -> None:
        """The device's half of `step()`: write the row of this step. Nothing is read, so a CUDA graph can hold it."""
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        if not self._called:
            raise ConfigError(
                "no training pass went through the watched stack: watch the layers that the model calls, and call "
                "watch() before the first call of a compiled model"
            )
        if not gradients:
            raise ConfigError("the stack has no gradients: call step() after backward() and before zero_grad()")
        if self._warming and _capturing():
            raise ConfigError("a CUDA graph is captured inside warm_up(), which counts no step: leave warm_up() first")
        self._fold()
        self._source_norms = None
        self._row_C[-1].copy_(torch.nn.utils.get_total_norm(gradients))
        slot = self._recorded.remainder(self._every)
        self._rows_SC.index_copy_(0, slot, self._row_C[None])
        self._recorded.add_(0 if self._warming else 1)  # a warm-up must run this kernel too
        self._row_C.zero_()

    def advance(self) -> None:
        """The host's half of `step()`: count the step, and judge the steps whose rows have arrived."""
        if self._warming:
            return
        self._count += 1
        if self._count % self._every == 0:
            self._read_copy()
            self._copy = self._send()
        if self._copy is not None and (self._copy.arrival is None or self._copy.arrival.query()):
            self._read_copy()

    @contextmanager
    def warm_up(self) -> Iterator[None]:
        """Passes inside do not count as steps: they run all kernels, and their records are dropped."""
        self._fold()
        row_C, self._warming = self._row_C.clone(), True
        try:
            yield
        finally:
            self._warming, self._held, self._source_norms = False, [], None
            self._row_C.copy_(row_C)

    def close(self) -> None:
        """Read the remaining steps and remove the hooks."""
        if not self._handles:
            return
        try:
            self._read_copy()
            recorded, left = int(self._recorded.item()), self._count % self._every
            if recorded != self._count:  # a warning: an error would hide the one that ended a step halfway
                _log.warning("%s", _out_of_step(recorded, self._count))
            self._read(self._rows_SC[:left].cpu(), self._count - left)
        finally:
            for handle in self._handles:
                handle.remove()
            self._handles = []

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _look_at_call(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not torch.is_grad_enabled():
            return  # a validation pass is no training step
        self._fold()
        self._held_captured = _capturing()
        arguments = call_arguments(module, args, kwargs)
        own = padding_keep(self._stack, arguments)
        self._keep = self.keep if own is None else own
        if self._wants_mask and self._keep is None:
            self._wants_mask = False
            _log.warning(
                "μ was measured without padding, but the watched stack is called without a mask: if there is "
                "padding, set monitor.keep to the mask of real vectors before each forward pass"
            )
        entering = stack_input(module, arguments)
        if not self._placed:
            if self._held_captured:
                raise ConfigError(
                    "the first pass through the watched stack is captured in a CUDA graph, which would own the "
                    "monitor's memory: call monitor.to(device) before, or make a pass inside monitor.warm_up()"
                )
            self.to(entering.device)
        self._called = True
        if self._before_dropout is None:
            self._hold(0, _norms(entering))
        elif self._source_norms is not None:
            self._hold(0, self._source_norms)
        else:
            raise ConfigError(
                f"before_dropout= is a {type(self._before_dropout).__name__} that was not called before the stack: "
                "name the module whose output, after dropout, enters the stack"
            )

    def _look_at_source(self, module: nn.Module, args: object, output: Any) -> None:
        if torch.is_grad_enabled():
            self._source_norms = _norms(output)

    def _look_after(self, column: int) -> Callable[[nn.Module, object, Any], None]:
        def hook(module: nn.Module, args: object, output: Any) -> None:
            if torch.is_grad_enabled():
                self._hold(column, _norms(output))

        return hook

    def _look_at_end(self, module: nn.Module, args: object, output: object) -> None:
        if torch.is_grad_enabled():
            self._fold()

    def _hold(self, column: int, norms_BL: Tensor) -> None:
        if self._keep is not None and self._keep.shape != norms_BL.shape:
            raise ConfigError(
                f"the mask of real vectors is {tuple(self._keep.shape)}, but there are {tuple(norms_BL.shape)} "
                "vectors: set monitor.keep to a mask of that shape, or to None"
            )
        self._held.append((column, norms_BL.to(self._row_C.device, non_blocking=True)))

    def _fold(self) -> None:
        """Raise the row to the largest of the held norms; a NaN stays a NaN.

        Every pass ends with it. Norms that are held between passes come from layers recomputed in a backward pass.
        """
        held = sorted(self._held, key=lambda item: item[0])
        self._held = []
        if not held or self._held_captured != _capturing():
            return  # an aborted pass: its norms are outside the graph's memory, or only inside it
        columns = [column for column, _ in held]
        largest_K = self._largest([norms_BL for _, norms_BL in held])
        if columns == list(range(columns[0], columns[-1] + 1)):
            row_K = self._row_C[columns[0] : columns[-1] + 1]
            torch.maximum(row_K, largest_K, out=row_K)
            return
        for column, largest in zip(columns, largest_K.unbind(), strict=True):  # a layer was called again
            self._row_C[column].copy_(torch.maximum(self._row_C[column], largest))

    def _largest(self, norms: list[Tensor]) -> Tensor:
        if len({norms_BL.shape for norms_BL in norms}) > 1:  # only without a mask
            return torch.stack([norms_BL.amax() for norms_BL in norms])
        norms_KBL = torch.stack(norms)
        if self._keep is not None:
            norms_KBL.masked_fill_(~self._keep.to(norms_KBL.device, torch.bool, non_blocking=True), 0.0)
        return norms_KBL.flatten(1).amax(1)

    def _send(self) -> _Copy:
        """Send the rows to the host without waiting."""
        kept = (self._rows_SC, self._recorded)
        if self._rows_SC.device.type != "cuda":
            rows_SC, recorded = (tensor.to("cpu", copy=True) for tensor in kept)
            return _Copy(rows_SC, recorded, None, self._count)
        with torch.cuda.device(self._rows_SC.device):
            rows_SC, recorded = (
                torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
                for tensor in kept
            )
            arrival = torch.cuda.Event()
            arrival.record()
        return _Copy(rows_SC, recorded, arrival, self._count)

    def _read_copy(self) -> None:
        copy, self._copy = self._copy, None
        if copy is None:
            return
        if copy.arrival is not None:
            copy.arrival.synchronize()  # does not wait: it has arrived, or was sent `every` steps ago
        recorded = int(copy.recorded.item())
        if recorded != copy.count:
            raise ConfigError(_out_of_step(recorded, copy.count))
        self._read(copy.rows_SC, copy.count - self._every)

    def _read(self, rows_SC: Tensor, start: int) -> None:
        for step, (entering, *after, gradient) in enumerate(rows_SC.tolist(), start=self._first_step + start):
            self._judge.judge(step, entering, after, gradient)


def _capturing() -> bool:
    """Whether kernels launched now go into a CUDA graph instead of running."""
    if torch.compiler.is_compiling() or not torch.cuda.is_initialized():
        return False
    return torch.cuda.is_current_stream_capturing()


def _norms(output: Any) -> Tensor:
    """The norm of each vector, [B, L, D] -> [B, L]; the vectors can be freed."""
    x_BLD: Tensor = output[0] if isinstance(output, tuple) else output
    return torch.linalg.vector_norm(x_BLD.detach(), dim=-1, dtype=torch.float32)


def _out_of_step(recorded: int, count: int) -> str:
    return (
        f"record() ran {recorded:,} times on the device in {count:,} steps, so rows and steps do not match: call "
        "record() and advance() once per step each, and run the passes before a CUDA graph inside warm_up()"
    )
