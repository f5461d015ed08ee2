"""A limit on the length of the residual stream's vectors, as a multiple of mu.

DT-Fixup's bound holds while no input of the stack is longer than mu. In training inputs grow, and branches add to them.
Attention logits grow with the square of the length. So in a stream three times as long, a gradient that passed 24
layers unchanged becomes ten thousand times larger (`docs/results/stability.md`). A limit of about two leaves the start
of training unchanged, bit for bit, and later shortens the few vectors that are longer.
Legend: B batch, L length, D width.
"""

import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError
from dtfixup.fixup.layers import Stack, modules_of

_NONE = torch.finfo(torch.float32).max


class StreamLimit(nn.Module):
    """Scale vectors longer than `factor` mu back to that length; leave all others unchanged.

    `dt_fixup_` sets mu for every limit in the stack; before, nothing is limited. The length is saved with the weights.

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
        """Limit vectors to the length `factor * input_norm`."""
        self.longest.fill_(self.factor * input_norm)

    def forward(self, x_BLD: Tensor) -> Tensor:
        precise = torch.promote_types(x_BLD.dtype, torch.float32)
        length_BL1 = torch.linalg.vector_norm(x_BLD, dim=-1, keepdim=True, dtype=precise)
        share_BL1 = self.longest / length_BL1.clamp_min(self.longest)
        return x_BLD * share_BL1.to(x_BLD.dtype)

    def extra_repr(self) -> str:
        return f"factor={self.factor:g}"


def set_limits_(stack: Stack, input_norm: float) -> None:
    """Set mu in every limit of the stack."""
    for _, module in modules_of(stack):
        if isinstance(module, StreamLimit):
            module.set_(input_norm)
