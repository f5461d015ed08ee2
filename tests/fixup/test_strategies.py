"""Each strategy keeps its rule: where it normalises, what schedule it needs, how its weights start."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from dtfixup.errors import InputNormError, StrategyError
from dtfixup.fixup import STRATEGIES, FixupReport, Residual, strategy_named
from dtfixup.transformer import StackConfig, TransformerStack

DEPTH = 4
SCALED = ("value.weight", "output.weight", "up.weight", "down.weight", "relation_value_RZ")
UNSCALED = ("query.weight", "key.weight", "relation_key_RZ")


def make_stack(strategy: str, relations: int = 5, *, bias: bool = False) -> TransformerStack:
    config = StackConfig(layers=DEPTH, dim=8, heads=2, mlp_dim=12, relations=relations, bias=bias)
    torch.manual_seed(0)
    return TransformerStack(config, strategy)


def make_profile(stack: TransformerStack, *batches_BLD: Tensor) -> Callable[[], object]:
    length = batches_BLD[0].shape[1]
    relation_BLL = torch.arange(length**2).remainder(5).view(1, length, length).expand(len(batches_BLD[0]), -1, -1)
    ids = (None, relation_BLL) if stack.config.relations else ()
    return lambda: [stack(x_BLD, *ids) for x_BLD in batches_BLD]


def initialise(stack: TransformerStack, strategy: str) -> FixupReport:
    x_BLD = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(3))
    return strategy_named(strategy).initialise_(
        stack, input_norm=1.0, profile=make_profile(stack, x_BLD), generator=torch.Generator().manual_seed(4)
    )


@torch.no_grad()
def measured_factors(strategy: str, relations: int = 5) -> dict[str, float]:
    """What each matrix was multiplied by, against the same draw of unscaled Xavier."""
    stack, xavier = make_stack(strategy, relations), make_stack("unscaled", relations)
    initialise(stack, strategy)
    initialise(xavier, "unscaled")
    start = dict(xavier.named_parameters())
    factors = {}
    for name, parameter in stack.named_parameters():
        if parameter.ndim == 2:
            factors[name] = float((parameter / start[name]).mean())
            torch.testing.assert_close(parameter, factors[name] * start[name])
    return factors


@pytest.mark.parametrize(
    ("strategy", "relations", "scaled"),
    [
        ("standard", 5, 1.0),
        ("pre-ln", 5, 1.0),
        ("rezero", 5, 1.0),
        ("admin", 5, 1.0),
        ("t-fixup", 5, 0.47376154339498687),  # 0.67 * 4^(-1/4)
        ("t-fixup", 0, 0.47376154339498687),
        ("deepnorm", 5, 0.42044820762685725),  # (8 * 4)^(-1/4)
        ("dt-fixup", 5, 0.1767766952966369),  # mu = 1: (4 * 8)^(-1/2)
        ("dt-fixup", 0, 0.25),  # mu = 1: 4^(-1/2) / 2
    ],
)
def test_value_output_mlp_and_relation_values_are_scaled_and_nothing_else(
    strategy: str, relations: int, scaled: float
) -> None:
    factors = measured_factors(strategy, relations)
    assert len(factors) == DEPTH * (8 if relations else 6)
    for name, factor in factors.items():
        assert name.endswith((*SCALED, *UNSCALED))
        assert factor == pytest.approx(scaled if name.endswith(SCALED) else 1.0, rel=1e-5), name


@pytest.mark.parametrize(
    ("strategy", "placement", "warmup", "norms"),
    [
        ("standard", "post", "full", 2 * DEPTH),
        ("pre-ln", "pre", "none", 2 * DEPTH + 1),
        ("dt-fixup", "none", "none", 0),
        ("t-fixup", "none", "none", 0),
        ("unscaled", "none", "none", 0),
        ("rezero", "none", "none", 0),
        ("admin", "post", "full", 2 * DEPTH),
        ("deepnorm", "post", "short", 2 * DEPTH),
    ],
)
def test_normalisation_and_warmup(strategy: str, placement: str, warmup: str, norms: int) -> None:
    stack = make_stack(strategy)
    report = initialise(stack, strategy)
    assert report.strategy == strategy
    assert (stack.strategy.norm, stack.strategy.warmup) == (placement, warmup)
    assert sum(isinstance(module, nn.LayerNorm) for module in stack.modules()) == norms


def test_only_dt_fixup_needs_the_input_norm() -> None:
    assert [name for name, strategy in STRATEGIES.items() if strategy.needs_input_norm] == ["dt-fixup"]


@torch.no_grad()
def test_admin_skips_are_the_accumulated_deviations_of_the_branches() -> None:
    stack = make_stack("admin", relations=0)
    batches = [scale * torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(5)) for scale in (1.0, 3.0)]
    strategy_named("admin").initialise_(stack, profile=make_profile(stack, *batches))
    variances = []
    for x_BLD in batches:
        seen = [x_BLD.var()]
        for layer in stack.layers:
            for branch in (layer.attention, layer.mlp):
                branch_BLD = branch(x_BLD)
                seen.append(branch_BLD.var())
                x_BLD = nn.functional.layer_norm(x_BLD + branch_BLD, (8,))
        variances.append(torch.stack(seen))
    expected = torch.stack(variances).mean(0).cumsum(0).sqrt()[:-1]
    skips = [module.weight_D for module in stack.modules() if isinstance(module, Residual)]
    assert len(skips) == 2 * DEPTH
    for skip_D, value in zip(skips, expected, strict=True):
        torch.testing.assert_close(skip_D, value.expand(8))
        assert skip_D.requires_grad


def admin_skips(stack: TransformerStack, profile: Callable[[], object]) -> list[float]:
    strategy_named("admin").initialise_(stack, profile=profile, generator=torch.Generator().manual_seed(4))
    return [module.weight_D[0].item() for module in stack.modules() if isinstance(module, Residual)]


def test_padding_does_not_count_for_admin() -> None:
    quiet, loud, unmasked = (make_stack("admin", relations=0) for _ in range(3))
    x_BLD = torch.randn(2, 3, 8)
    keep_BL = torch.tensor([[True, True, True], [True, False, False]])
    loud_BLD = x_BLD.masked_fill(~keep_BL[..., None], 1e3)
    expected = admin_skips(quiet, lambda: quiet(x_BLD, keep_BL))
    assert admin_skips(loud, lambda: loud(loud_BLD, keep_BL)) == pytest.approx(expected, rel=1e-5)
    assert admin_skips(unmasked, lambda: unmasked(loud_BLD))[0] > 10 * expected[0]


def test_dropout_is_off_while_admin_profiles_and_modes_come_back() -> None:
    x_BLD, config = torch.randn(2, 3, 8), make_stack("admin", relations=0).config
    dropping = TransformerStack(replace(config, dropout=0.5, input_dropout=0.5), "admin").train()
    dropping.layers[1].eval()
    modes = [module.training for module in dropping.modules()]
    without = make_stack("admin", relations=0)
    assert admin_skips(dropping, lambda: dropping(x_BLD)) == admin_skips(without, lambda: without(x_BLD))
    assert [module.training for module in dropping.modules()] == modes


@pytest.mark.parametrize(
    ("profile", "error", "message"),
    [
        (None, StrategyError, "admin needs profile="),
        (lambda: None, StrategyError, "did not run the stack"),
        (lambda: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
)
def test_a_stack_is_as_good_as_new_after_admin_failed(profile: object, error: type[Exception], message: str) -> None:
    stack, fresh = make_stack("admin").train(), make_stack("admin").train()
    with pytest.raises(error, match=message):
        strategy_named("admin").initialise_(stack, profile=profile)
    assert all(module.training for module in stack.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in stack.modules())
    assert initialise(stack, "admin") == initialise(fresh, "admin")
    for parameter, expected in zip(stack.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(parameter, expected)


def test_dt_fixup_needs_the_input_norm() -> None:
    with pytest.raises(InputNormError, match="dt-fixup needs input_norm"):
        strategy_named("dt-fixup").initialise_(make_stack("dt-fixup"))


@pytest.mark.parametrize("wanted", ["standard", "pre-ln", "rezero", "admin", "deepnorm"])
@pytest.mark.parametrize("built", STRATEGIES)
def test_strategies_with_their_own_structure_refuse_other_stacks(wanted: str, built: str) -> None:
    stack = make_stack(built)
    if wanted == built:
        assert initialise(stack, wanted).strategy == wanted
    else:
        with pytest.raises(StrategyError, match=f"{wanted} needs layers .* built for {built}"):
            initialise(stack, wanted)


def test_strategies_with_their_own_structure_refuse_layers_of_pytorch() -> None:
    with pytest.raises(StrategyError, match="built for no strategy"):
        strategy_named("standard").initialise_(nn.TransformerEncoderLayer(8, 2, 12))


@pytest.mark.parametrize("wanted", ["dt-fixup", "t-fixup", "unscaled"])
@pytest.mark.parametrize("built", ["rezero", "admin", "deepnorm"])
def test_norm_free_strategies_refuse_skips_that_are_not_plain(wanted: str, built: str) -> None:
    with pytest.raises(StrategyError, match=f"was built for {built}"):
        initialise(make_stack(built), wanted)


@pytest.mark.parametrize("wanted", ["dt-fixup", "t-fixup", "unscaled"])
@pytest.mark.parametrize("built", ["standard", "pre-ln"])
@torch.no_grad()
def test_norm_free_strategies_take_the_norms_out_of_plain_stacks(wanted: str, built: str) -> None:
    stack, own = make_stack(built, relations=0), make_stack(wanted, relations=0)
    report = initialise(stack, wanted)
    initialise(own, wanted)
    assert len(report.norms_removed) == 2 * DEPTH + (built == "pre-ln")
    x_BLD = torch.randn(2, 3, 8)
    assert torch.equal(stack(x_BLD), own(x_BLD))


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(StrategyError, match="no strategy 'postln': choose one of dt-fixup, standard, pre-ln"):
        strategy_named("postln")
    with pytest.raises(StrategyError, match="no strategy 'DT-Fixup'"):
        TransformerStack(StackConfig(layers=1), "DT-Fixup")
