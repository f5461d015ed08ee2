"""Multi-head self-attention, Eq. 1-2, in textbook form: the oracle for every faster version.

Legend: B batch, H heads, L length, D width, Z width of a head (d_z).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError
from dtfixup.fixup import Weight


class Attention(nn.Module):
    """Plain attention: every vector attends to every real vector."""

    def __init__(self, dim: int, heads: int, *, bias: bool = False) -> None:
        super().__init__()
        if heads < 1 or dim % heads:
            raise ConfigError(f"the width {dim} cannot be split over {heads} heads: choose a divisor of {dim}")
        self.heads = heads
        self.query = nn.Linear(dim, dim, bias=bias)
        self.key = nn.Linear(dim, dim, bias=bias)
        self.value = nn.Linear(dim, dim, bias=bias)
        self.output = nn.Linear(dim, dim, bias=bias)

    @property
    def relation_value_weights(self) -> Sequence[Weight]:
        return ()

    def forward(self, x_BLD: Tensor, keep_BL: Tensor | None = None) -> Tensor:
        """z w, with z from Eq. 2; positions with keep False are attended to by nobody."""
        q_BHLZ, k_BHLZ, v_BHLZ = (self.split(project(x_BLD)) for project in (self.query, self.key, self.value))
        logits_BHLL = q_BHLZ @ k_BHLZ.mT / q_BHLZ.shape[-1] ** 0.5  # Eq. 1
        weights_BHLL = masked_softmax(logits_BHLL, keep_BL)
        return self.output(self.merge(weights_BHLL @ v_BHLZ))  # Eq. 2, and w of Eq. 3

    def split(self, x_BLD: Tensor) -> Tensor:
        return x_BLD.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def merge(self, z_BHLZ: Tensor) -> Tensor:
        return z_BHLZ.transpose(1, 2).flatten(2)


def masked_softmax(logits_BHLL: Tensor, keep_BL: Tensor | None) -> Tensor:
    """Softmax over the keys that are kept; uniform, and not NaN, where none is."""
    if keep_BL is not None:
        hidden_B11L = ~keep_BL.bool()[:, None, None, :]
        logits_BHLL = logits_BHLL.masked_fill(hidden_B11L, torch.finfo(logits_BHLL.dtype).min)
    return logits_BHLL.softmax(dim=-1)
