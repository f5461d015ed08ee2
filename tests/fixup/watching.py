"""Small stacks to watch, and a writer that keeps what the monitor writes. Legend: B batch, L length, D width."""

from typing import Any

import torch
from torch import Tensor, nn

from dtfixup.fixup import Monitor, dt_fixup_, watch
from dtfixup.transformer import StackConfig, TransformerStack

N, D, MU = 3, 8, 5.0


class Recorder:
    """Keeps the scalars by tag and step, and refuses a second one for the same."""

    def __init__(self) -> None:
        self.scalars: dict[tuple[str, int], float] = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        key = tag.removeprefix("dtfixup/"), global_step
        assert key not in self.scalars
        self.scalars[key] = scalar_value

    def of(self, tag: str) -> dict[int, float]:
        return {step: value for (name, step), value in self.scalars.items() if name == tag}

    def inputs(self) -> list[float]:
        """Input norms over mu, in the order of the steps."""
        return [value for _, value in sorted(self.of("input_norm_over_mu").items())]


def vectors(norm: float = MU, length: int = 4) -> Tensor:
    x_BLD = torch.randn(2, length, D)
    return norm * x_BLD / x_BLD.norm(dim=-1, keepdim=True)


def ours(kind: type[TransformerStack] = TransformerStack, **options: Any) -> TransformerStack:
    return kind(StackConfig(layers=N, dim=D, heads=2, mlp_dim=16, **options))


def pytorch() -> nn.TransformerEncoder:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 16, 0.0, batch_first=True), N)


def watched(stack: nn.Module | None = None, **options: Any) -> tuple[nn.Module, Monitor, Recorder]:
    stack, recorder = stack or ours(), Recorder()
    return stack, watch(stack, dt_fixup_(stack, MU), **{"every": 4, "writer": recorder, **options}), recorder


def train_step(stack: nn.Module, norm: float = MU) -> None:
    """Forward and backward on random vectors of this norm."""
    stack(vectors(norm)).square().mean().backward()
