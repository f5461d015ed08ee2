"""Follow, while training, what the theorem assumes about a stack without layer norms.

The factors hold while the inputs stay near the mu they were computed from, while the residual stream
does not grow through depth, and while no single batch has a gradient far out of line. A deep stack
can train well for thousands of steps, lose one of these, and then break on one batch.

In: the stack, the report of its initialisation, and a call of `step()` after each backward pass.
Out: alerts that name the assumption that broke, and scalars for TensorBoard. The step itself only
launches work on the device; numbers are read every `every` steps, from a copy that has arrived.
"""

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError
from dtfixup.fixup.layers import Stack, first_module, layers_of, padding_keep, parameters_of
from dtfixup.fixup.norms import call_arguments, stack_input
from dtfixup.fixup.report import FixupReport

_log = logging.getLogger("dtfixup")


class Assumption(StrEnum):
    """What must stay true for the initialisation to keep its promise."""

    INPUT_NORM = "input norm"
    GROWTH = "growth through depth"
    GRADIENT = "gradient norm"


@dataclass(frozen=True)
class Alert:
    """An assumption that broke, and when. `value` is the ratio that `limit` bounds."""

    step: int
    assumption: Assumption
    value: float
    limit: float
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class _Excursion:
    """A time above a limit: its latest step, and the ratio that was last told of."""

    step: int
    worst: float

    def outdone_by(self, ratio: float) -> bool:
        return ratio > 2 * self.worst or (math.isnan(ratio) and not math.isnan(self.worst))


class ScalarWriter(Protocol):
    """What is used of TensorBoard's `SummaryWriter`."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object: ...


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
    """Start to follow a stack; call `step()` on the result after each backward pass, before clipping.

    Args:
        stack: the layers that `report` is about.
        report: what `dt_fixup_` returned; its input norm is the mu that inputs are held against. A mask of
            real vectors is taken from the stack's own call (ours, PyTorch's); for other stacks set
            `monitor.keep = mask` before each forward pass, if there is padding.
        before_dropout: where dropout is applied to the stack's input outside the stack, the module
            whose output is the input before dropout. mu was measured without dropout, which makes
            vectors longer. (`TransformerStack` drops inside itself and needs nothing.)
        writer: a TensorBoard `SummaryWriter`, or anything with its `add_scalar`.
        callback: called with each alert; alerts are also logged as warnings and kept in `alerts`.
        every: how many steps lie between two readings.
        first_step: the number of the first step, for a run that is resumed.
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
    return Monitor(stack, report, limits, before_dropout, writer, callback, every, first_step)


class Monitor:
    """Made by `watch`. Use it as a context manager, or `close()` it, to read the last steps and remove the hooks."""

    def __init__(
        self,
        stack: Stack,
        report: FixupReport,
        limits: dict[Assumption, float],
        before_dropout: nn.Module | None,
        writer: ScalarWriter | None,
        callback: Callable[[Alert], object] | None,
        every: int,
        first_step: int,
    ) -> None:
        self.alerts: list[Alert] = []
        assert report.input_norm is not None  # watch() has refused others
        self._stack, self._mu, self._limits, self._every = stack, report.input_norm, limits, every
        self._wants_mask = report.padding_left_out
        self._writer, self._callback = writer, callback
        self._count, self._first_step = 0, first_step
        self._parameters = parameters_of(stack)
        layers = [layer for _, layer, _ in layers_of(stack)]
        self._columns = 2 + len(layers)  # input norm, gradient norm, norm after each layer
        self._now, self._steps = torch.zeros(self._columns), torch.zeros(every, self._columns)
        self._called = False
        self._arriving: tuple[Tensor, torch.cuda.Event | None, int] | None = None
        self._gradients: deque[float] = deque(maxlen=max(every, 100))
        self._excursions: dict[Assumption, _Excursion] = {}
        self.keep: Tensor | None = None  # set before the forward pass, where the stack is not called with a mask
        self._keep: Tensor | None = None
        enter = first_module(stack).register_forward_pre_hook(self._look_at_call, with_kwargs=True)
        self._handles = [enter]
        self._before_dropout = before_dropout
        self._source: Tensor | None = None
        if before_dropout is not None:
            self._handles.append(before_dropout.register_forward_hook(self._look_at_source))
        for place, layer in enumerate(layers, start=2):
            self._handles.append(layer.register_forward_hook(self._look_after(place)))

    def step(self) -> None:
        """Take note of this step. Call it after `backward()` and before gradients are clipped or cleared."""
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        if not self._called and self._count == 0:
            raise ConfigError(
                "no training pass went through the watched stack: watch the part of the model that is really called, "
                "and call watch() before the first call of a compiled model"
            )
        if not gradients:
            raise ConfigError("the stack has no gradients: call step() after backward() and before zero_grad()")
        self._now[1].copy_(torch.nn.utils.get_total_norm(gradients))
        self._source = None
        slot = self._count % self._every
        self._steps[slot].copy_(self._now)
        self._now.zero_()
        self._count += 1
        if slot == self._every - 1:
            self._read_arrived()
            self._arriving = (*self._send(), self._count - self._every)
        if self._arriving is not None and (self._arriving[1] is None or self._arriving[1].query()):
            self._read_arrived()

    def close(self) -> None:
        """Read what is left and remove the hooks."""
        self._read_arrived()
        left = self._count % self._every
        if left:
            self._read(self._steps[:left].cpu(), self._count - left)
            self._count += self._every - left
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
        arguments = call_arguments(module, args, kwargs)
        own = padding_keep(self._stack, arguments)
        self._keep = self.keep if own is None else own
        if self._wants_mask and self._keep is None:
            self._wants_mask = False
            _log.warning(
                "μ was measured without padding, but the watched stack is called without a mask: where there "
                "is padding, set monitor.keep to the mask of real vectors before each forward pass"
            )
        entering = stack_input(module, arguments)
        if not self._called:
            self._called = True
            self._now, self._steps = self._now.to(entering.device), self._steps.to(entering.device)
        if self._before_dropout is not None:
            if self._source is None:
                raise ConfigError(
                    f"before_dropout= is a {type(self._before_dropout).__name__} that was not called before the stack: "
                    "name the module whose output, after dropout, enters the stack"
                )
            entering = self._source
        self._note(0, entering)

    def _look_at_source(self, module: nn.Module, args: object, output: Any) -> None:
        if torch.is_grad_enabled():
            self._source = (output[0] if isinstance(output, tuple) else output).detach()

    def _look_after(self, place: int) -> Callable[[nn.Module, object, Any], None]:
        def hook(module: nn.Module, args: object, output: Any) -> None:
            if torch.is_grad_enabled():
                self._note(place, output[0] if isinstance(output, tuple) else output)

        return hook

    def _note(self, place: int, x: Tensor) -> None:
        """Raise column `place` to the largest norm in x; a NaN stays a NaN. In place, so that a CUDA graph keeps it."""
        norms = torch.linalg.vector_norm(x.detach(), dim=-1, dtype=torch.float32)
        if self._keep is not None:
            if self._keep.shape != norms.shape:
                raise ConfigError(
                    f"the mask of real vectors is {tuple(self._keep.shape)}, but there are {tuple(norms.shape)} "
                    "vectors: set monitor.keep to a mask of that shape, or to None"
                )
            norms = norms.masked_fill(~self._keep.to(norms.device, torch.bool, non_blocking=True), 0.0)
        largest = norms.max().to(self._now.device, non_blocking=True)
        self._now[place].copy_(torch.maximum(self._now[place], largest))

    def _send(self) -> tuple[Tensor, torch.cuda.Event | None]:
        """A copy of the last steps on its way to the host, and the event of its arrival; nothing waits for it."""
        if self._steps.device.type != "cuda":
            return self._steps.to("cpu", copy=True), None
        with torch.cuda.device(self._steps.device):
            host = torch.empty(self._steps.shape, pin_memory=True).copy_(self._steps, non_blocking=True)
            arrival = torch.cuda.Event()
            arrival.record()
        return host, arrival

    def _read_arrived(self) -> None:
        if self._arriving is not None:
            rows, arrival, start = self._arriving
            if arrival is not None:
                arrival.synchronize()  # does not wait: it has been asked for, or was sent `every` steps ago
            self._arriving = None
            self._read(rows, start)

    def _read(self, rows: Tensor, start: int) -> None:
        for offset, (entering, gradient, *after) in enumerate(rows.tolist()):
            self._judge(self._first_step + start + offset, entering, gradient, after)

    def _judge(self, step: int, entering: float, gradient: float, after: list[float]) -> None:
        broken = [place for place, norm in enumerate(after) if math.isnan(norm)]
        place = broken[0] if broken else max(range(len(after)), key=after.__getitem__)
        largest = after[place]
        growth = largest / entering if entering else 0.0
        usual = median(self._gradients) if len(self._gradients) >= 10 else None
        ratios = {Assumption.INPUT_NORM: entering / self._mu, Assumption.GROWTH: growth}
        if usual:
            ratios[Assumption.GRADIENT] = gradient / usual
        elif not math.isfinite(gradient):
            ratios[Assumption.GRADIENT] = gradient
        texts = {
            Assumption.INPUT_NORM: f"input norm {entering / self._mu:.1f} × μ at step {step:,}",
            Assumption.GROWTH: f"residual stream grew {growth:.1f} × up to layer {place + 1} at step {step:,}",
            Assumption.GRADIENT: f"gradient norm {gradient:.3g} at step {step:,}, usually {usual or 0:.3g}",
        }
        for assumption, ratio in ratios.items():
            self._compare(step, assumption, ratio, texts[assumption])
        if math.isfinite(gradient):
            self._gradients.append(gradient)
        self._write(step, entering, growth, gradient)

    def _compare(self, step: int, assumption: Assumption, ratio: float, text: str) -> None:
        """One alert when a limit is passed, and the next when it got twice as bad or came back after a quiet time."""
        limit = self._limits[assumption]
        if ratio <= limit:
            return
        last = self._excursions.get(assumption)
        if last is not None and step - last.step <= 2 * self._every and not last.outdone_by(ratio):
            self._excursions[assumption] = _Excursion(step, last.worst)
            return
        self._excursions[assumption] = _Excursion(step, ratio)
        alert = Alert(step, assumption, ratio, limit, text)
        self.alerts.append(alert)
        _log.warning("%s", alert)
        if self._callback is not None:
            self._callback(alert)

    def _write(self, step: int, entering: float, growth: float, gradient: float) -> None:
        if self._writer is not None:
            self._writer.add_scalar("dtfixup/input_norm_over_mu", entering / self._mu, step)
            self._writer.add_scalar("dtfixup/growth", growth, step)
            self._writer.add_scalar("dtfixup/gradient_norm", gradient, step)
