"""Multi-head self-attention, Eq. 1-2.

`attend_plain` is the textbook form, the oracle; otherwise PyTorch's fused attention computes the same.
Legend: B batch, H heads, L length, Q queries, D width, Z width of a head (d_z).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from dtfixup.errors import ConfigError
from dtfixup.fixup import Weight
from dtfixup.transformer.kernel_choice import Kernel


class Attention(nn.Module):
    """Plain attention: every vector attends to every real vector."""

    def __init__(self, dim: int, heads: int, *, bias: bool = False, kernel: Kernel = Kernel.AUTO) -> None:
        super().__init__()
        self.kernel = Kernel(kernel)
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
        """z w, with z from Eq. 2; no vector attends to positions with keep False."""
        return self.attend(x_BLD, x_BLD, keep_BL)

    def attend(self, from_BQD: Tensor, x_BLD: Tensor, keep_BL: Tensor | None) -> Tensor:
        """[B, Q, D]: the same for some vectors only, which attend to all x."""
        q_BHQZ, k_BHLZ, v_BHLZ = map(self.split, (self.query(from_BQD), self.key(x_BLD), self.value(x_BLD)))
        attend = attend_plain if self.kernel is Kernel.PLAIN else attend_fused
        return self.output(self.merge(attend(q_BHQZ, k_BHLZ, v_BHLZ, keep_BL)))  # w of Eq. 3

    def split(self, x_BLD: Tensor) -> Tensor:
        return x_BLD.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def merge(self, z_BHLZ: Tensor) -> Tensor:
        return z_BHLZ.transpose(1, 2).flatten(2)


def attend_plain(q_BHLZ: Tensor, k_BHLZ: Tensor, v_BHLZ: Tensor, keep_BL: Tensor | None) -> Tensor:
    """z of Eq. 1-2, written as the equations are."""
    logits_BHLL = q_BHLZ @ k_BHLZ.mT / q_BHLZ.shape[-1] ** 0.5  # Eq. 1
    return masked_softmax(logits_BHLL, keep_BL) @ v_BHLZ  # Eq. 2


def attend_fused(q_BHLZ: Tensor, k_BHLZ: Tensor, v_BHLZ: Tensor, keep_BL: Tensor | None) -> Tensor:
    """The same without a tensor of [L, L], if PyTorch has a kernel for the device.

    For an input without any key, the value is the same; the gradient is finite, but differs from the plain form's.
    """
    added_B11L = None
    if keep_BL is not None:  # added and finite, so that a row without a key is uniform and not NaN
        hidden_B11L = ~keep_BL.bool()[:, None, None, :]
        added_B11L = torch.zeros_like(hidden_B11L, dtype=q_BHLZ.dtype)
        added_B11L = added_B11L.masked_fill(hidden_B11L, torch.finfo(q_BHLZ.dtype).min)
    return scaled_dot_product_attention(q_BHLZ, k_BHLZ, v_BHLZ, attn_mask=added_B11L)


def masked_softmax(logits_BHLL: Tensor, keep_BL: Tensor | None) -> Tensor:
    """Softmax over the kept keys; uniform instead of NaN if there is none."""
    if keep_BL is not None:
        hidden_B11L = ~keep_BL.bool()[:, None, None, :]
        logits_BHLL = logits_BHLL.masked_fill(hidden_B11L, torch.finfo(logits_BHLL.dtype).min)
    return logits_BHLL.softmax(dim=-1)
