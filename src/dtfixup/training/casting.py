"""Weights in a lower precision for one pass, all cast together: autocast would launch a kernel for each.

In: a module, a type, and which of its parameters to leave as they are. Out: the module's output, computed with cast
weights; gradients arrive at the parameters in their own type. Two multi-tensor kernels a pass instead of two a weight.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call


class _CastTogether(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.dtypes = [weight.dtype for weight in weights]
        ctx.set_materialize_grads(False)
        cast = [torch.empty_like(weight, dtype=dtype) for weight in weights]
        torch._foreach_copy_(cast, list(weights))
        return tuple(cast)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        there = [(place, gradient) for place, gradient in enumerate(gradients) if gradient is not None]
        cast = [torch.empty_like(gradient, dtype=ctx.dtypes[place]) for place, gradient in there]
        torch._foreach_copy_(cast, [gradient for _, gradient in there])
        out: list[Tensor | None] = [None] * len(gradients)
        for (place, _), gradient in zip(there, cast, strict=True):
            out[place] = gradient
        return None, *out


def cast_names(model: nn.Module, *, keep: Sequence[nn.Module] = ()) -> list[str]:
    """Names of the weights that matrix products read: those of linear layers outside the modules to keep."""
    kept = {module for top in keep for module in top.modules()}
    return [
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear) and module not in kept
        for name, _ in module.named_parameters(recurse=False)
    ]


def call_cast(model: nn.Module, dtype: torch.dtype, names: Sequence[str], *arguments: Any) -> Any:
    """`model(*arguments)` with the named parameters in `dtype`."""
    parameters = dict(model.named_parameters())
    cast = _CastTogether.apply(dtype, *(parameters[name] for name in names))  # type: ignore[no-untyped-call]
    return functional_call(model, dict(zip(names, cast, strict=True)), arguments)
