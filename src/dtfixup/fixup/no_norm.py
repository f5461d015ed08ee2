"""Remove the layer norms of a stack, in a way that PyTorch's fused kernels respect too."""

from torch import Tensor, nn

from dtfixup.fixup.layers import LayerWeights, Stack, modules_of

NORMS = (nn.LayerNorm, nn.RMSNorm)
"""Norms that are removed wherever they are in a stack; layers may name others."""


class NoNorm(nn.Module):
    """Replaces a removed layer norm and returns its input.

    In evaluation mode, `nn.TransformerEncoderLayer` has a fused path that reads `eps`, `weight` and `bias` of its
    norms and normalises by itself. An `eps` that differs from itself keeps the layer off that path; a weight with
    its own dispatch keeps the container around it off.
    """

    eps = float("nan")

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.bias = _Undispatched()

    def forward(self, x: Tensor) -> Tensor:
        return x


class _Undispatched:
    """Not a tensor: with it, PyTorch does not use fused kernels."""

    @classmethod
    def __torch_function__(cls, func: object, types: object, args: object = (), kwargs: object = None) -> object:
        raise TypeError("this layer norm was removed by DT-Fixup and has no weight")


def norms_of(stack: Stack, layers: list[tuple[str, nn.Module, LayerWeights]]) -> set[nn.Module]:
    named = {norm for _, _, weights in layers for norm in weights.norms}
    return named | {module for _, module in modules_of(stack) if isinstance(module, NORMS)}


def remove_norms_(stack: Stack, norms: set[nn.Module]) -> list[str]:
    removed = []
    for path, parent in list(modules_of(stack)):
        for name, child in parent._modules.items():  # named_children() leaves out a second name of the same norm
            if child in norms:
                setattr(parent, name, NoNorm())
                removed.append(f"{path}.{name}" if path else name)
    return removed
