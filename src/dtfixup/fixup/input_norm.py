"""mu: how large the vectors are that enter the new layers (section 3.3, third step of the method).

In: a model, its new stack and the training batches. Out: an `InputNorm` with the largest norm, the
99th percentile and the mean. One pass, constant memory, any device; over all ranks under
`torch.distributed`. Legend: B batch, L length, D width; leading dimensions may be any.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from dtfixup.errors import InputNormError
from dtfixup.fixup.calls import (
    Batch,
    call_arguments,
    describe_batch,
    device_of,
    distributed,
    evaluation_mode,
    run_model,
    stack_input,
    to_device,
    tracked,
    without_fused_layers,
)
from dtfixup.fixup.layers import Stack, first_module, padding_keep

Keep = str | int | Callable[[Any], Tensor] | None

_BINS = 8192
_LOG10_LOW, _LOG10_HIGH = -8.0, 8.0


@dataclass(frozen=True)
class InputNorm:
    """Norms of the vectors that enter the stack; `float(input_norm)` is mu, the largest.

    `p99` comes from a histogram with bins 0.45 % wide, so it is exact to about 0.25 %.
    """

    max: float
    p99: float
    mean: float
    vectors: int
    batches: int
    padding_left_out: bool = False

    def __float__(self) -> float:
        return self.max

    def __str__(self) -> str:
        return (
            f"input norm: max {self.max:.4g}, p99 {self.p99:.4g}, mean {self.mean:.4g} "
            f"({self.vectors:,} vectors in {self.batches:,} batches)"
        )


class MuChoice(StrEnum):
    """The number of an `InputNorm` that serves as mu: the paper's maximum, or another one for comparison."""

    MAX = "max"
    P99 = "p99"
    MEAN = "mean"
    TOO_LARGE = "10 max"
    TOO_SMALL = "0.1 max"

    def of(self, measured: InputNorm) -> InputNorm:
        """The norms with the chosen number in place of the largest.

        >>> float(MuChoice.TOO_LARGE.of(InputNorm(max=8.0, p99=6.0, mean=4.0, vectors=9, batches=1)))
        80.0
        """
        others = {
            MuChoice.P99: measured.p99,
            MuChoice.MEAN: measured.mean,
            MuChoice.TOO_LARGE: 10 * measured.max,
            MuChoice.TOO_SMALL: measured.max / 10,
        }
        return replace(measured, max=others.get(self, measured.max))


def measure_input_norm(
    model: nn.Module,
    stack: Stack,
    batches: Iterable[Batch],
    *,
    keep: Keep = None,
    forward: Callable[[nn.Module, Batch], object] | None = None,
    progress: bool = True,
) -> InputNorm:
    """Run every batch through the model and measure the vectors that enter `stack`.

    Dropout is off and no gradients are kept; each module's training flag is put back afterwards.

    Args:
        model: the whole model; `initialise_free_` has set its free parameters outside the stack.
        stack: the new layers, a part of `model`.
        batches: a tensor is passed as `model(batch)`, a tuple as `model(*batch)`, a mapping as
            `model(**batch)`; tensors are moved to the model's device.
        keep: which vectors are real (True or 1) and not padding: a key of a mapping batch, an index
            of a tuple batch, or a function of the batch; its shape is the stack's input without the
            last dimension. By default the mask that the stack itself is called with, where the
            stack is ours or PyTorch's, else the `attention_mask` of a mapping batch, else all count.
        forward: replaces the call of the model, where its arguments are not the batch.
        progress: show a progress bar.
    """
    if isinstance(model, nn.parallel.DistributedDataParallel):
        model = model.module  # its own forward talks to the other ranks, which may have fewer batches
    device = device_of(model)
    tally = _Tally(device)
    state: dict[str, Any] = {"batch": None, "index": 0}

    def measure(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        arguments = call_arguments(module, args, kwargs)
        x = stack_input(module, arguments)
        mask = keep_mask(stack, arguments, keep, state["batch"], x)
        tally.add(x, mask, state["index"])

    failure: Exception | None = None
    handle = first_module(stack).register_forward_pre_hook(measure, with_kwargs=True)
    try:
        with evaluation_mode(model.modules()), without_fused_layers(), torch.no_grad():
            for index, batch in enumerate(tracked(batches, "input norm", progress)):
                state["index"], state["batch"] = index, to_device(batch, device)
                calls = tally.calls
                run_model(model, state["batch"], forward)
                tally.batches += 1
                if tally.calls == calls:
                    raise InputNormError(
                        f"the model did not call the stack ({type(first_module(stack)).__name__}) for batch {index}: "
                        "pass the layers that the model calls, or give forward="
                    )
        if tally.batches == 0:
            raise InputNormError("there are no batches: give the training data, not an exhausted iterator")
    except Exception as error:  # raised after the other ranks know of it
        failure = error
    finally:
        handle.remove()
    return tally.over_all_ranks(failure)


class _Tally:
    """Running maximum, sum and log-spaced histogram of norms, on the device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.precision = torch.float32 if device.type == "mps" else torch.float64
        self.max = torch.zeros((), dtype=self.precision, device=device)
        self.sum = torch.zeros((), dtype=self.precision, device=device)
        self.histogram = torch.zeros(_BINS, dtype=torch.int64, device=device)
        self.calls = 0
        self.batches = 0
        self.masked = False

    def add(self, x: Tensor, keep: Tensor | None, batch_index: int) -> None:
        self.calls += 1
        norms = torch.linalg.vector_norm(x.detach().to(self.precision), dim=-1)
        if keep is not None:
            self.masked = True
            norms = norms[keep.to(device=norms.device, dtype=torch.bool)]
        norms = norms.flatten().to(self.device)
        if norms.numel() == 0:
            return
        if not bool(torch.isfinite(norms).all()):
            raise InputNormError(
                f"batch {batch_index} puts NaN or infinity into the stack: look at that batch and at the layers "
                "below the stack (a mask that is wrong, or a learning rate that already broke the encoder)"
            )
        self.max = torch.maximum(self.max, norms.max())
        self.sum = self.sum + norms.sum()
        place = (norms.clamp_min(10.0**_LOG10_LOW).log10() - _LOG10_LOW) / (_LOG10_HIGH - _LOG10_LOW)
        bins = (place * _BINS).long().clamp_(0, _BINS - 1)
        self.histogram += torch.bincount(bins, minlength=_BINS)

    def over_all_ranks(self, failure: Exception | None) -> InputNorm:
        """Merge the ranks. If one failed, all fail, so that none waits forever."""
        batches = torch.tensor(self.batches, dtype=torch.int64, device=self.device)
        if distributed():
            failed = torch.tensor(int(failure is not None), device=self.device)
            torch.distributed.all_reduce(failed, op=torch.distributed.ReduceOp.MAX)
            if failure is None and bool(failed):
                raise InputNormError("measuring the input norm failed on another rank: see its error")
            if failure is None:
                torch.distributed.all_reduce(self.max, op=torch.distributed.ReduceOp.MAX)
                for part in (self.sum, self.histogram, batches):
                    torch.distributed.all_reduce(part)
        if failure is not None:
            raise failure
        count = int(self.histogram.sum())
        if count == 0:
            raise InputNormError("the mask keeps no vector: True or 1 must mean a real vector, not padding")
        if float(self.max) == 0:
            raise InputNormError("every vector that enters the stack is zero: the layers below it are not initialised")
        rank = int((self.histogram.cumsum(0) < math.ceil(0.99 * count)).sum())
        middle = _LOG10_LOW + (rank + 0.5) * (_LOG10_HIGH - _LOG10_LOW) / _BINS
        return InputNorm(
            max=float(self.max),
            p99=min(10.0**middle, float(self.max)),
            mean=float(self.sum) / count,
            vectors=count,
            batches=int(batches),
            padding_left_out=self.masked,
        )


def keep_mask(stack: Stack, arguments: dict[str, Any], keep: Keep, batch: Batch, x: Tensor) -> Tensor | None:
    """The mask of real vectors for one call, checked against the shape of x."""
    mask, source = _find_mask(stack, arguments, keep, batch)
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise InputNormError(f"the mask ({source}) must be a tensor, got {type(mask).__name__}")
    if tuple(mask.shape) != tuple(x.shape[:-1]):
        raise InputNormError(
            f"the mask ({source}) has shape {tuple(mask.shape)}, but the stack receives {tuple(x.shape)}, so it must "
            f"be {tuple(x.shape[:-1])}: pass keep=, a function of the batch that gives True for every real vector"
        )
    if mask.dtype != torch.bool and bool(((mask != 0) & (mask != 1)).any()):
        raise InputNormError(f"the mask ({source}) must hold True or 1 for real vectors, False or 0 for padding only")
    return mask


def _find_mask(stack: Stack, arguments: dict[str, Any], keep: Keep, batch: Batch) -> tuple[Tensor | None, str]:
    if callable(keep):
        return keep(batch), "from keep"
    if keep is not None:
        try:
            return batch[keep], f"batch[{keep!r}]"
        except (KeyError, IndexError, TypeError) as error:
            raise InputNormError(f"keep={keep!r} is not in the batch, which is a {describe_batch(batch)}") from error
    own = padding_keep(stack, arguments)
    if own is not None:
        return own, "of the stack's own call"
    if isinstance(batch, Mapping) and isinstance(batch.get("attention_mask"), Tensor):
        return batch["attention_mask"], "batch['attention_mask']"
    return None, ""
