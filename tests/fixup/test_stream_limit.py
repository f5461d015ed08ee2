"""`StreamLimit`: identity up to the limit, a sphere beyond it.

Legend: B batch, L length, D width.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dtfixup.errors import ConfigError
from dtfixup.fixup import StreamLimit, dt_fixup_, strategy_named
from dtfixup.transformer import StackConfig, TransformerStack


def limit_of(longest: float) -> StreamLimit:
    limit = StreamLimit(1.0)
    limit.set_(longest)
    return limit


@settings(deadline=None)
@given(st.floats(0.1, 10.0), st.integers(0, 1000))
def test_a_vector_is_shortened_to_the_limit_and_keeps_its_direction(longest: float, seed: int) -> None:
    x_BLD = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(seed)) * 3
    y_BLD = limit_of(longest)(x_BLD)
    length_BL, limited_BL = x_BLD.norm(dim=-1), y_BLD.norm(dim=-1)
    torch.testing.assert_close(limited_BL, length_BL.clamp_max(longest))
    torch.testing.assert_close(nn.functional.cosine_similarity(x_BLD, y_BLD, dim=-1), torch.ones(2, 3))


def test_what_is_short_enough_stays_bit_for_bit() -> None:
    x_BLD = torch.randn(2, 3, 5)
    assert torch.equal(limit_of(float(x_BLD.norm(dim=-1).max()) * 1.001)(x_BLD), x_BLD)
    assert torch.equal(StreamLimit(2.0)(x_BLD * 1e6), x_BLD * 1e6)  # mu is not set


def test_the_gradient_is_that_of_the_formula_and_finite_at_zero() -> None:
    torch.manual_seed(0)
    x_BLD = torch.randn(2, 3, 5, dtype=torch.double, requires_grad=True)
    lengths = x_BLD.detach().norm(dim=-1)
    limit = limit_of(float(lengths.median()) * 1.01).double()
    assert lengths.min() < limit.longest < lengths.max()
    assert torch.autograd.gradcheck(limit, x_BLD + 0)
    zero_BLD = torch.zeros(1, 1, 5, requires_grad=True)
    limit_of(1.0)(zero_BLD).sum().backward()
    assert torch.equal(zero_BLD.grad, torch.ones(1, 1, 5))


def test_lower_precisions_are_kept() -> None:
    x_BLD = 100 * torch.randn(2, 3, 8).bfloat16()
    y_BLD = limit_of(2.0)(x_BLD)
    assert y_BLD.dtype is torch.bfloat16
    torch.testing.assert_close(y_BLD.float().norm(dim=-1), torch.full((2, 3), 2.0), rtol=1e-2, atol=0)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan")])
def test_a_factor_must_be_positive(factor: float) -> None:
    with pytest.raises(ConfigError, match="above 0"):
        StreamLimit(factor)


def stack_of(limit: float, strategy: str = "dt-fixup") -> TransformerStack:
    config = StackConfig(layers=3, dim=8, heads=2, mlp_dim=16, stream_limit=limit)
    return TransformerStack(config, strategy)


def test_dt_fixup_sets_them_from_mu_and_leaves_the_start_as_it_was() -> None:
    x_BLD = torch.randn(2, 5, 8)
    mu = float(x_BLD.norm(dim=-1).max())
    plain, limited = stack_of(0.0), stack_of(2.0)
    for stack in (plain, limited):
        dt_fixup_(stack, mu, generator=torch.Generator().manual_seed(1))
    assert limited.limit is not None
    assert float(limited.limit.longest) == pytest.approx(2 * mu)
    assert torch.equal(plain(x_BLD), limited(x_BLD))


def test_no_vector_leaves_a_layer_longer() -> None:
    stack = stack_of(1.5)
    dt_fixup_(stack, 1.0, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.mul_(30)
    seen: list[float] = []
    for layer in stack.layers:
        layer.register_forward_pre_hook(lambda _, args: seen.append(float(args[0].norm(dim=-1).max())))
    with torch.no_grad():
        y_BLD = stack(10 * torch.randn(2, 5, 8))
    seen.append(float(y_BLD.norm(dim=-1).max()))
    assert len(seen) == 4
    assert seen == pytest.approx([1.5] * 4, rel=1e-5)


def test_the_length_travels_with_the_weights() -> None:
    stack, other = stack_of(2.0), stack_of(2.0)
    dt_fixup_(stack, 3.0)
    other.load_state_dict(stack.state_dict())
    assert other.limit is not None
    assert float(other.limit.longest) == 6.0


def test_strategies_that_measure_no_mu_have_none() -> None:
    assert not strategy_named("standard").needs_input_norm
    standard = stack_of(2.0, "standard")
    assert standard.limit is None
    assert not [name for name in stack_of(0.0).state_dict() if "limit" in name]


def test_a_limit_below_mu_is_refused() -> None:
    with pytest.raises(ConfigError, match="would change the start"):
        stack_of(0.5)
