"""Layers: the formula of each strategy, the paths through the kernels, their weights by role, their shapes."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError
from dtfixup.fixup import STRATEGIES
from dtfixup.transformer import Kernel, RelationAttention, StackConfig, TransformerLayer, TransformerStack
from tests.fixup.test_residual import FORMULAS, normalise
from tests.transformer.stacks import CONFIG, make_inputs, make_stack


def mlp_by_hand(layer: TransformerLayer, x_BLD: Tensor) -> Tensor:
    return (x_BLD @ layer.mlp.up.weight.T).clamp(min=0) @ layer.mlp.down.weight.T


@pytest.mark.parametrize("relations", [0, 4])
@pytest.mark.parametrize("strategy", FORMULAS)
@torch.no_grad()
def test_layers_follow_the_formula_of_their_strategy(strategy: str, relations: int) -> None:
    stack = make_stack(strategy, replace(CONFIG, relations=relations))
    x_BLD, keep_BL, relation_BLL = make_inputs()
    ids = (relation_BLL,) if relations else ()
    random = torch.Generator().manual_seed(2)
    y_BLD = x_BLD
    for layer in stack.layers:
        learned = []
        for residual in (layer.attention_residual, layer.mlp_residual):
            parameter = residual.gate if strategy == "rezero" else residual.weight_D
            if parameter is not None:
                parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=torch.float64))
            learned.append(parameter)
        before_BLD = y_BLD
        y_BLD = FORMULAS[strategy](y_BLD, lambda x, layer=layer: layer.attention(x, keep_BL, *ids), learned[0])
        y_BLD = FORMULAS[strategy](y_BLD, lambda x, layer=layer: mlp_by_hand(layer, x), learned[1])
        torch.testing.assert_close(layer(before_BLD, keep_BL, *ids), y_BLD)
    if strategy == "pre-ln":
        y_BLD = normalise(y_BLD)
    torch.testing.assert_close(stack(x_BLD, keep_BL, *ids), y_BLD)


@pytest.fixture
def _fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, up to the kernels."""
    monkeypatch.setattr(RelationAttention, "kernel_for", lambda layer, x_BLD: Kernel.FUSED)


def joins_in_kernel(layer: TransformerLayer) -> bool:
    return layer._joins_in_kernel(make_inputs()[0])


@pytest.mark.usefixtures("_fused")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_fused_kernel_joins_plain_skips_only(strategy: str) -> None:
    (layer, *_) = make_stack(strategy).layers
    assert joins_in_kernel(layer) is (strategy in ("dt-fixup", "t-fixup", "unscaled"))


@pytest.mark.usefixtures("_fused")
def test_a_vanilla_layer_has_no_fused_kernel() -> None:
    (layer, *_) = make_stack("dt-fixup", replace(CONFIG, relations=0)).layers
    assert not joins_in_kernel(layer)


@pytest.mark.parametrize("kernel", [Kernel.AUTO, Kernel.PLAIN, Kernel.TABLES])
def test_other_kernels_leave_the_joining_to_the_strategy(kernel: Kernel) -> None:
    (layer, *_) = make_stack("dt-fixup", replace(CONFIG, kernel=kernel)).layers
    assert not joins_in_kernel(layer)


@pytest.mark.usefixtures("_fused")
def test_dropout_on_a_branch_needs_the_branch() -> None:
    (layer, *_) = make_stack("dt-fixup", replace(CONFIG, dropout=0.1)).layers
    assert not joins_in_kernel(layer)
    assert joins_in_kernel(layer.eval())


@pytest.mark.usefixtures("_fused")
@pytest.mark.parametrize("hook", ["forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"])
@pytest.mark.parametrize("name", ["attention", "mlp", "mlp.up", "mlp.down", "dropout"])
def test_who_looks_at_a_branch_sees_it(name: str, hook: str) -> None:
    (layer, *_) = make_stack("dt-fixup").layers
    handle = getattr(layer.get_submodule(name), f"register_{hook}")(lambda *_: None)
    assert not joins_in_kernel(layer)
    handle.remove()
    assert joins_in_kernel(layer)


@pytest.mark.usefixtures("_fused")
@pytest.mark.parametrize("name", ["up", "down"])
def test_a_replaced_linear_module_is_called(name: str) -> None:
    (layer, *_) = make_stack("dt-fixup").layers
    setattr(layer.mlp, name, nn.Identity())
    assert not joins_in_kernel(layer)


@pytest.mark.usefixtures("_fused")
@pytest.mark.parametrize("hooked", [False, True])
@torch.no_grad()
def test_a_layer_takes_the_path_that_fits(hooked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    (layer, *_) = make_stack("dt-fixup", replace(CONFIG, kernel=Kernel.PLAIN)).layers
    x_BLD, keep_BL, relation_BLL = make_inputs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RelationAttention, "kernel_for", lambda layer, x_BLD: Kernel.PLAIN)
        expected_BLD = layer(x_BLD, keep_BL, relation_BLL)
        branch_BLD = layer.attention(x_BLD, keep_BL, relation_BLL)
    asked: list[bool] = []

    def fused(_: RelationAttention, x_BLD: Tensor, keep: Tensor, relation: Tensor, add_input: bool) -> Tensor:
        asked.append(add_input)
        return x_BLD + branch_BLD if add_input else branch_BLD

    monkeypatch.setattr(RelationAttention, "_fused", fused)
    monkeypatch.setattr(TransformerLayer, "_fused_mlp", lambda layer, x_BLD: x_BLD + layer.mlp(x_BLD))
    seen: list[Tensor] = []
    if hooked:
        layer.attention.register_forward_hook(lambda module, inputs, output: seen.append(output))
    torch.testing.assert_close(layer(x_BLD, keep_BL, relation_BLL), expected_BLD)
    assert asked == [not hooked]
    assert all(output is branch_BLD for output in seen)
    assert len(seen) == hooked


@pytest.mark.parametrize("strategy", ["dt-fixup", "t-fixup", "unscaled", "rezero"])
def test_layers_have_no_biases_unless_asked(strategy: str) -> None:
    def biases(config: StackConfig) -> list[str]:
        return [name for name, _ in TransformerStack(config, strategy).named_parameters() if "bias" in name]

    assert biases(CONFIG) == []
    assert len(biases(replace(CONFIG, bias=True))) == CONFIG.layers * (4 + 2)


@pytest.mark.parametrize("relations", [0, 4])
def test_fixup_weights_names_the_right_tensors(relations: int) -> None:
    layer = TransformerLayer(replace(CONFIG, relations=relations, bias=True), STRATEGIES["standard"])
    names = {id(parameter): name for name, parameter in layer.named_parameters()}
    weights = layer.fixup_weights()
    named = [(role.value, names[id(weight)]) for role, weight in weights.by_role()]
    relation_value = [("relation value", "attention.relation_value_RZ")] if relations else []
    assert named == [
        ("value", "attention.value.weight"),
        ("output", "attention.output.weight"),
        ("mlp", "mlp.up.weight"),
        ("mlp", "mlp.down.weight"),
        *relation_value,
    ]
    assert list(weights.branches) == [layer.attention, layer.mlp]
    assert weights.relation_aware is bool(relations)


@pytest.mark.parametrize(
    "wrong",
    [
        {"layers": 0},
        {"layers": -2},
        {"dim": 0},
        {"heads": 0},
        {"mlp_dim": 0},
        {"relations": -1},
        {"dropout": 1.0},
        {"dropout": -0.1},
        {"dropout": float("nan")},
        {"input_dropout": 1.5},
        {"input_dropout": -1e-9},
    ],
    ids=str,
)
def test_a_config_that_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="must"):
        replace(CONFIG, **wrong)


def test_an_unknown_kernel_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no kernel 'bogus': choose one of auto, plain, tables, fused"):
        replace(CONFIG, kernel="bogus")


def test_a_config_at_its_limits_is_accepted() -> None:
    config = StackConfig(layers=1, dim=1, heads=1, mlp_dim=1, relations=0, dropout=0.0, input_dropout=0.0)
    assert TransformerStack(config)(torch.ones(1, 1, 1)).shape == (1, 1, 1)


def test_the_default_shape_is_the_papers() -> None:
    config = StackConfig(layers=24)
    assert (config.dim, config.heads, config.mlp_dim) == (256, 8, 1024)
    assert (config.bias, config.dropout, config.input_dropout) == (False, 0.0, 0.0)
