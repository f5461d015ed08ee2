"""A small stack and inputs for it. Legend: B batch, L length, D width."""

import torch
from torch import Tensor

from dtfixup.transformer import StackConfig, TransformerStack

CONFIG = StackConfig(layers=3, dim=6, heads=2, mlp_dim=10, relations=4)


def make_stack(strategy: str, config: StackConfig = CONFIG) -> TransformerStack:
    torch.manual_seed(0)
    return TransformerStack(config, strategy).double()


def make_inputs(length: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    x_BLD = 2 * torch.randn(2, length, 6, dtype=torch.float64, generator=random)
    keep_BL = torch.tensor([[True] * length, [True] * (length - 1) + [False]])
    return x_BLD, keep_BL, torch.randint(4, (2, length, length), generator=random)
