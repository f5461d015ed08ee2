"""The formulas against numbers worked out by hand, what they refuse, and how they move."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import ConfigError, InputNormError
from dtfixup.fixup.scaling import (
    admin_skips,
    deepnorm_gain,
    deepnorm_skip,
    relation_factor,
    t_fixup_factor,
    vanilla_factor,
)

depths = st.integers(1, 1000)
norms = st.floats(1e-3, 1e3)
by_norm = pytest.mark.parametrize("factor", [relation_factor, vanilla_factor])
by_depth = pytest.mark.parametrize("factor", [t_fixup_factor, deepnorm_skip, deepnorm_gain])


@pytest.mark.parametrize(
    ("layers", "mu", "expected"),
    [
        (1, 0.5, 1 / 2),  # 4/4 + 2/2 + 2 = 4
        (4, 0.5, 1 / 4),
        (2, 1, 1 / 4),  # 4 + 2 + 2 = 8
        (8, 1, 1 / 8),
        (22, 2, 1 / 22),  # 16 + 4 + 2 = 22
        (11, 3, 1 / 22),  # 36 + 6 + 2 = 44
        (24, 10, 0.009936607918964554),  # 400 + 20 + 2 = 422, times 24: 10128
    ],
)
def test_relation_factor_by_hand(layers: int, mu: float, expected: float) -> None:
    assert relation_factor(layers, mu) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("layers", "mu", "expected"),
    [(1, 0.5, 1), (4, 0.25, 1), (16, 3, 1 / 24), (25, 10, 1 / 100), (2, 1, 0.35355339059327373)],
)
def test_vanilla_factor_by_hand(layers: int, mu: float, expected: float) -> None:
    assert vanilla_factor(layers, mu) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("layers", "expected"), [(1, 0.67), (16, 0.335), (81, 0.67 / 3), (24, 0.302706671209298)])
def test_t_fixup_factor_by_hand(layers: int, expected: float) -> None:
    assert t_fixup_factor(layers) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("layers", "expected"), [(1, 1.189207115002721), (8, 2), (128, 4), (648, 6)])
def test_deepnorm_skip_by_hand(layers: int, expected: float) -> None:
    assert deepnorm_skip(layers) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("layers", "expected"), [(1, 0.5946035575013605), (2, 1 / 2), (32, 1 / 4), (162, 1 / 6)])
def test_deepnorm_gain_by_hand(layers: int, expected: float) -> None:
    assert deepnorm_gain(layers) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("input_variance", "branch_variances", "expected"),
    [(1, [3, 5], [1, 2]), (0.25, [2, 4, 10, 99], [0.5, 1.5, 2.5, 4.031128874149275]), (4, [7], [2]), (4, [], [])],
)
def test_admin_skips_by_hand(input_variance: float, branch_variances: list[float], expected: list[float]) -> None:
    assert admin_skips(input_variance, branch_variances) == pytest.approx(expected, rel=1e-12)


@by_norm
@pytest.mark.parametrize("layers", [0, -1])
def test_no_layers_are_refused_beside_a_norm(factor, layers: int) -> None:
    with pytest.raises(ConfigError, match=f"at least 1, got {layers}"):
        factor(layers, 1.0)


@by_depth
@pytest.mark.parametrize("layers", [0, -1])
def test_no_layers_are_refused(factor, layers: int) -> None:
    with pytest.raises(ConfigError, match=f"at least 1, got {layers}"):
        factor(layers)


@by_norm
@pytest.mark.parametrize("mu", [0, 0.0, -1.0, 1e-30, 1e30, 1e200, math.nan, math.inf, -math.inf])
def test_an_unusable_norm_is_refused(factor, mu: float) -> None:
    with pytest.raises(InputNormError, match="positive finite number"):
        factor(2, mu)


@by_norm
@given(layers=depths, mu=norms, growth=st.floats(1.001, 10))
def test_a_larger_norm_gives_a_smaller_factor(factor, layers: int, mu: float, growth: float) -> None:
    assert 0 < factor(layers, growth * mu) < factor(layers, mu)


@by_norm
@given(layers=depths, mu=norms)
def test_four_times_the_depth_halves_the_factor(factor, layers: int, mu: float) -> None:
    assert factor(4 * layers, mu) == pytest.approx(factor(layers, mu) / 2)


@given(layers=depths, mu=norms)
def test_relations_cost_less_and_less_as_the_norm_grows(layers: int, mu: float) -> None:
    assert relation_factor(layers, mu) < vanilla_factor(layers, mu)
    assert relation_factor(layers, 1e9 * mu) == pytest.approx(vanilla_factor(layers, 1e9 * mu), rel=1e-5)


@pytest.mark.parametrize(("factor", "ratio"), [(t_fixup_factor, 1 / 2), (deepnorm_gain, 1 / 2), (deepnorm_skip, 2)])
@given(layers=depths)
def test_sixteen_times_the_depth_halves_or_doubles(factor, ratio: float, layers: int) -> None:
    assert factor(16 * layers) == pytest.approx(ratio * factor(layers))


@given(input_variance=st.floats(0, 100), variances=st.lists(st.floats(0, 100), max_size=8))
def test_admin_skips_grow_from_the_input_deviation(input_variance: float, variances: list[float]) -> None:
    skips = admin_skips(input_variance, variances)
    assert len(skips) == len(variances)
    assert skips == sorted(skips)
    if skips:
        assert skips[0] ** 2 == pytest.approx(input_variance)
        assert skips[-1] ** 2 == pytest.approx(input_variance + sum(variances[:-1]))
