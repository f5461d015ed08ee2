"""What the monitor makes of unusual passes: recomputed, recurrent, reshaped, compiled.

Legend: B batch, L length, D width.
"""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dtfixup.fixup import Monitor, dt_fixup_, watch
from dtfixup.transformer import StackConfig, TransformerStack

N, D, MU = 3, 8, 5.0


class Recorder:
    def __init__(self) -> None:
        self.scalars: dict[tuple[str, int], float] = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.scalars[tag.removeprefix("dtfixup/"), global_step] = scalar_value


def vectors(norm: float = MU) -> Tensor:
    x_BLD = torch.randn(2, 4, D)
    return norm * x_BLD / x_BLD.norm(dim=-1, keepdim=True)


def stack_of(kind: type[TransformerStack] = TransformerStack) -> TransformerStack:
    return kind(StackConfig(layers=N, dim=D, heads=2, mlp_dim=16))


def watched(stack: nn.Module, **options: Any) -> tuple[Monitor, dict[tuple[str, int], float]]:
    recorder = Recorder()
    return watch(stack, dt_fixup_(stack, MU), every=1, writer=recorder, **options), recorder.scalars


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


class Recomputing(TransformerStack):
    """Layers that run without gradients first and again in the backward pass, the last one first."""

    def forward(self, x_BLD: Tensor, keep_BL: Tensor | None = None, relation_BLL: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x_BLD = checkpoint(layer, x_BLD, keep_BL, use_reentrant=True)
        return x_BLD


def test_layers_that_run_in_the_backward_pass_count_in_every_accumulated_pass() -> None:
    stack, again = stack_of(), stack_of(Recomputing)
    (monitor, expected), (other, found) = watched(stack), watched(again)
    with torch.no_grad():
        stack.layers[1].mlp.down.weight.mul_(1_000)
    again.load_state_dict(stack.state_dict())
    for norm, length in ((2 * MU, 2), (3 * MU, 4)):
        x_BLD = vectors(norm)[:, :length].requires_grad_()
        for model in (stack, again):
            model(x_BLD, torch.ones(2, length, dtype=torch.bool)).square().mean().backward()
    monitor.step()
    other.step()
    assert found == pytest.approx(expected, rel=1e-5)
    assert found["growth", 0] > 2


class Recurrent(nn.Module):
    """One layer, called again and again on its own output."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = stack_of().layers[0]

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.layer(x)
        return x


def test_a_layer_that_is_called_again_in_one_pass_counts_each_time() -> None:
    stack = Recurrent()
    monitor, found = watched(stack)
    stack.layer.mlp.down.weight.data.mul_(100)
    x_BLD, norms = vectors(), []
    with torch.no_grad():
        y_BLD = x_BLD
        for _ in range(3):
            y_BLD = stack.layer(y_BLD)
            norms.append(y_BLD.norm(dim=-1).max().item())
    for x in (x_BLD, x_BLD / 2):
        stack(x).sum().backward()
    monitor.step()
    assert norms[2] > 1.1 * norms[0]
    assert found["growth", 0] == pytest.approx(max(norms) / MU, rel=1e-5)


def test_vectors_before_dropout_may_have_another_shape_where_there_is_no_mask() -> None:
    stack, project = stack_of(), nn.Identity()
    monitor, found = watched(stack, before_dropout=project)
    x_BLD = vectors(2 * MU)
    stack(project(x_BLD.flatten(0, 1)).view_as(x_BLD) / 4).sum().backward()
    monitor.step()
    assert found["input_norm_over_mu", 0] == pytest.approx(2.0)
    assert found["growth", 0] == pytest.approx(0.25, rel=0.1)


def test_a_nan_of_an_earlier_pass_stays() -> None:
    stack = stack_of()
    monitor, found = watched(stack)
    for norm in (MU, math.nan, MU):
        stack(vectors(norm)).sum().backward()
    monitor.step()
    assert math.isnan(found["input_norm_over_mu", 0])
    assert math.isnan(found["growth", 0])


def test_a_compiled_stack_is_watched_alike_and_stays_in_one_graph() -> None:
    stack, other = stack_of(), stack_of()
    (monitor, expected), (compiled_monitor, found) = watched(stack), watched(other)
    other.load_state_dict(stack.state_dict())
    compiled = torch.compile(other, backend="eager", fullgraph=True)
    for norm in (MU, 2 * MU):
        x_BLD, keep_BL = vectors(norm), torch.ones(2, 4, dtype=torch.bool)
        stack(x_BLD, keep_BL).square().mean().backward()
        monitor.step()
        compiled(x_BLD, keep_BL).square().mean().backward()
        compiled_monitor.step()
    assert [found["input_norm_over_mu", step] for step in (0, 1)] == pytest.approx([1.0, 2.0])
    assert found == pytest.approx(expected, rel=1e-5)
