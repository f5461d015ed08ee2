"""Cast all weights of a model together for one pass; autocast would launch a kernel for each weight.

In: a model, a dtype, and the names of the weights to cast. Out: the model's output, computed with the cast weights;
gradients arrive at the parameters in their own dtype. A pass takes two multi-tensor kernels.
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
        present = [(index, gradient) for index, gradient in enumerate(gradients) if gradient is not None]
        cast = [torch.empty_like(gradient, dtype=ctx.dtypes[index]) for index, gradient in present]
        torch._foreach_copy_(cast, [gradient for _, gradient in present])
        out: list[Tensor | None] = [None] * len(gradients)
        for (index, _), gradient in zip(present, cast, strict=True):
            out[index] = gradient
        return None, *out


def cast_names(model: nn.Module, *, keep: Sequence[nn.Module] = ()) -> list[str]:
    """Names of the parameters of linear layers, except inside the modules of `keep`."""
    kept = {module for top in keep for module in top.modules()}
    return [
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear) and module not in kept
        for name, _ in module.named_parameters(recurse=False)
    ]


def call_cast(model: nn.Module, dtype: torch.dtype, names: Sequence[str], *arguments: Any) -> Any:
    """Call `model(*arguments)` with the named parameters in `dtype`."""
    parameters = dict(model.named_parameters())
    cast = _CastTogether.apply(dtype, *(parameters[name] for name in names))  # type: ignore[no-untyped-call]
    return functional_call(model, dict(zip(names, cast, strict=True)), arguments)
