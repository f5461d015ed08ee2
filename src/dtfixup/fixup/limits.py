"""Limits on the residual stream's vectors, as multiples of mu: on their length, and on what one layer adds to them.

DT-Fixup's bound holds while no input of the stack is longer than mu. Training goes past that: inputs grow, branches add
to them, and as attention logits grow with the square of the length, a stream three times as long turns a gradient that
passes 24 layers unchanged into one that is ten thousand times larger (`docs/results/stability.md`).
A limit of two or so leaves the stack at the start what the paper makes of it, bit for bit, and later shortens the few
vectors that are longer.
The length alone is not enough at high learning rates: a layer that adds a vector a thousand times as long as what it
read leaves, shortened, a thousandth of that, and of the gradient of all layers below. `keep_near` limits what is added.
Legend: B batch, L length, D width.
"""

import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError
from dtfixup.fixup.layers import Stack, modules_of

_NONE = torch.finfo(torch.float32).max


class StreamLimit(nn.Module):
    """Scales vectors that are longer than `factor` mu back to that length; all others stay as they are.

    `dt_fixup_` tells it mu, wherever it stands in the stack; before that it limits nothing. The length is kept with the
    weights.

    >>> limit = StreamLimit(2.0)
    >>> limit.set_(0.5)
    >>> limit(torch.tensor([[[3.0, 4.0], [0.3, 0.4]]]))
    tensor([[[0.6000, 0.8000],
             [0.3000, 0.4000]]])
    """

    longest: Tensor

    def __init__(self, factor: float) -> None:
        super().__init__()
        if not factor > 0:
            raise ConfigError(f"a limit is a multiple of mu above 0, such as 2; got {factor}")
        self.factor = factor
        self.register_buffer("longest", torch.tensor(_NONE))

    def set_(self, input_norm: float) -> None:
        """Vectors may be `factor * input_norm` long from now on."""
        self.longest.fill_(self.factor * input_norm)

    def forward(self, x_BLD: Tensor) -> Tensor:
        precise = torch.promote_types(x_BLD.dtype, torch.float32)
        length_BL1 = torch.linalg.vector_norm(x_BLD, dim=-1, keepdim=True, dtype=precise)
        share_BL1 = self.longest / length_BL1.clamp_min(self.longest)
        return x_BLD * share_BL1.to(x_BLD.dtype)

    def keep_near(self, x_BLD: Tensor, y_BLD: Tensor) -> Tensor:
        """What comes out of a layer, y, moved back towards what went in, x, where it is further away than the limit.

        >>> limit = StreamLimit(1.0)
        >>> limit.set_(2.0)
        >>> limit.keep_near(torch.tensor([[[1.0], [1.0]]]), torch.tensor([[[9.0], [2.5]]]))
        tensor([[[3.0000],
                 [2.5000]]])
        """
        precise = torch.promote_types(torch.promote_types(x_BLD.dtype, y_BLD.dtype), torch.float32)
        added_BLD = y_BLD.to(precise) - x_BLD.to(precise)
        share_BL1 = self.longest / torch.linalg.vector_norm(added_BLD, dim=-1, keepdim=True).clamp_min(self.longest)
        moved_BLD = (x_BLD.to(precise) + share_BL1 * added_BLD).to(y_BLD.dtype)
        return torch.where(share_BL1 < 1, moved_BLD, y_BLD)

    def extra_repr(self) -> str:
        return f"factor={self.factor:g}"


def set_limits_(stack: Stack, input_norm: float) -> None:
    """Tell mu to every limit in the stack."""
    for _, module in modules_of(stack):
        if isinstance(module, StreamLimit):
            module.set_(input_norm)
