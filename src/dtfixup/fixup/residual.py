"""How a branch joins the residual stream, which is where the strategies differ.

In: the stream x and a branch's output F. Out: the stream after the branch.
Legend: B batch, L length, D width.
"""

from enum import StrEnum

import torch
from torch import Tensor, nn


class NormPlacement(StrEnum):
    """Where a layer normalises."""

    NONE = "none"
    PRE = "pre"  # x + F(LN x)
    POST = "post"  # LN(x + F(x)), Eq. 3 and 4


class SkipKind(StrEnum):
    """What multiplies the two sides of the addition."""

    PLAIN = "plain"  # x + F
    GATED = "gated"  # x + a F, a learned and zero at the start (ReZero)
    CONSTANT = "constant"  # c x + F (DeepNorm)
    LEARNED = "learned"  # w * x + F, w a learned vector (Admin)


class Residual(nn.Module):
    """One skip connection with its normalisation."""

    def __init__(self, dim: int, norm: NormPlacement, skip: SkipKind, *, strategy_name: str, constant: float) -> None:
        super().__init__()
        self.strategy_name = strategy_name
        self.pre = norm is NormPlacement.PRE
        self.kind = skip
        self.constant = constant
        self.norm = None if norm is NormPlacement.NONE else nn.LayerNorm(dim)
        self.gate = nn.Parameter(torch.zeros(())) if skip is SkipKind.GATED else None
        self.weight_D = nn.Parameter(torch.ones(dim)) if skip is SkipKind.LEARNED else None

    @property
    def plain(self) -> bool:
        return self.kind is SkipKind.PLAIN

    def enter(self, x_BLD: Tensor) -> Tensor:
        """The branch's input."""
        return self.norm(x_BLD) if self.norm is not None and self.pre else x_BLD

    def leave(self, x_BLD: Tensor, branch_BLD: Tensor) -> Tensor:
        """The stream after the branch."""
        if self.gate is not None:
            branch_BLD = self.gate * branch_BLD
        if self.weight_D is not None:
            x_BLD = self.weight_D * x_BLD
        elif self.kind is SkipKind.CONSTANT:
            x_BLD = self.constant * x_BLD
        y_BLD = x_BLD + branch_BLD
        return self.norm(y_BLD) if self.norm is not None and not self.pre else y_BLD
