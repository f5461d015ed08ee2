"""Layers and stacks: how each strategy joins branches to the stream, and what a stack refuses."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError, RelationError
from dtfixup.fixup import STRATEGIES
from dtfixup.transformer import Kernel, RelationAttention, StackConfig, TransformerLayer, TransformerStack
from tests.transformer.operations import READS_A_NUMBER, Operations

CONFIG = StackConfig(layers=3, dim=6, heads=2, mlp_dim=10, relations=4)
Branch = Callable[[Tensor], Tensor]


def make_stack(strategy: str, config: StackConfig = CONFIG) -> TransformerStack:
    torch.manual_seed(0)
    return TransformerStack(config, strategy).double()


def make_inputs(length: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    x_BLD = 2 * torch.randn(2, length, 6, dtype=torch.float64, generator=random)
    keep_BL = torch.tensor([[True] * length, [True] * (length - 1) + [False]])
    return x_BLD, keep_BL, torch.randint(4, (2, length, length), generator=random)


def normalise(x_BLD: Tensor) -> Tensor:
    centred_BLD = x_BLD - x_BLD.mean(-1, keepdim=True)
    return centred_BLD / (centred_BLD.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def mlp_by_hand(layer: TransformerLayer, x_BLD: Tensor) -> Tensor:
    return (x_BLD @ layer.mlp.up.weight.T).clamp(min=0) @ layer.mlp.down.weight.T


# x, the branch F, the learned skip weight or gate -> the stream after the branch; N = 3
FORMULAS: dict[str, Callable[[Tensor, Branch, Tensor], Tensor]] = {
    "dt-fixup": lambda x, F, _: x + F(x),
    "t-fixup": lambda x, F, _: x + F(x),
    "unscaled": lambda x, F, _: x + F(x),
    "standard": lambda x, F, _: normalise(x + F(x)),
    "pre-ln": lambda x, F, _: x + F(normalise(x)),
    "rezero": lambda x, F, gate: x + gate * F(x),
    "deepnorm": lambda x, F, _: normalise(1.5650845800732873 * x + F(x)),
    "admin": lambda x, F, omega: normalise(omega * x + F(x)),
}


def test_every_strategy_has_a_formula_here() -> None:
    assert FORMULAS.keys() == STRATEGIES.keys()


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


@pytest.mark.parametrize("kernel", [Kernel.PLAIN, Kernel.AUTO])
@pytest.mark.parametrize("relations", [0, 4])
@pytest.mark.parametrize("strategy", FORMULAS)
def test_the_first_vector_alone_is_that_of_the_whole_stack(strategy: str, relations: int, kernel: Kernel) -> None:
    stack = make_stack(strategy, replace(CONFIG, relations=relations, kernel=kernel, bias=True))
    x_BLD, keep_BL, relation_BLL = make_inputs()
    arguments = (x_BLD.requires_grad_(), keep_BL, *((relation_BLL,) if relations else ()))
    gradients = []
    for y_B1D in (stack(*arguments)[:, :1], stack(*arguments, first_only=True)):
        torch.testing.assert_close(y_B1D, stack(*arguments)[:, :1], rtol=1e-12, atol=1e-12)
        gradients.append(torch.autograd.grad(y_B1D.square().sum(), [x_BLD, *stack.parameters()], allow_unused=True))
    for whole, first in zip(*gradients, strict=True):
        torch.testing.assert_close(first, whole, rtol=1e-9, atol=1e-12)


@torch.no_grad()
def test_the_last_layer_computes_the_first_vector_alone() -> None:
    stack = make_stack("dt-fixup", replace(CONFIG, relations=0))
    x_BLD, keep_BL, _ = make_inputs()
    sizes: list[int] = []
    for layer in (stack.layers[1], stack.layers[2]):
        layer.mlp.register_forward_hook(lambda module, args, y_BLD: sizes.append(y_BLD.shape[1]))
        layer.attention.query.register_forward_hook(lambda module, args, y_BLD: sizes.append(y_BLD.shape[1]))
    stack(x_BLD, keep_BL, first_only=True)
    assert sizes == [4, 4, 1, 1]


@torch.no_grad()
def test_rezero_is_the_identity_at_the_start() -> None:
    x_BLD, keep_BL, relation_BLL = make_inputs()
    assert torch.equal(make_stack("rezero")(x_BLD, keep_BL, relation_BLL), x_BLD)


@torch.no_grad()
@pytest.mark.parametrize("names", [(Kernel.PLAIN, Kernel.TABLES), ("plain", "tables")], ids=["enum", "string"])
def test_both_kernels_make_the_same_stack(names: tuple[str, str]) -> None:
    plain, tables = (make_stack("dt-fixup", replace(CONFIG, kernel=name)) for name in names)
    assert {layer.attention.kernel for layer in plain.layers} == {Kernel.PLAIN}
    assert {layer.attention.kernel for layer in tables.layers} == {Kernel.TABLES}
    torch.testing.assert_close(plain(*make_inputs()), tables(*make_inputs()))


@torch.no_grad()
def test_without_a_gpu_a_stack_takes_tables_and_refuses_the_fused_kernel() -> None:
    auto, tables = make_stack("dt-fixup"), make_stack("dt-fixup", replace(CONFIG, kernel=Kernel.TABLES))
    assert auto.config.kernel is Kernel.AUTO
    assert torch.equal(auto(*make_inputs()), tables(*make_inputs()))
    fused = make_stack("dt-fixup", replace(CONFIG, kernel=Kernel.FUSED))
    for module in (fused, fused.layers[0]):
        with pytest.raises(ConfigError, match='"fused" cannot be used here'):
            module(*make_inputs())


@pytest.mark.parametrize("wrong", [-1, 4, 260])
@pytest.mark.parametrize("part", ["stack", "layer", "attention"])
def test_ids_out_of_range_are_refused_at_every_level(part: str, wrong: int) -> None:
    stack = make_stack("dt-fixup")
    module = {"stack": stack, "layer": stack.layers[1], "attention": stack.layers[1].attention}[part]
    x_BLD, keep_BL, relation_BLL = make_inputs()
    relation_BLL[1, 3, 2] = wrong
    with pytest.raises(RelationError, match=f"run from .*{wrong}.*, but this layer has 0 to 3"):
        module(x_BLD, keep_BL, relation_BLL)


@torch.no_grad()
def test_ids_are_checked_and_widened_once_for_all_layers() -> None:
    x_BLD, keep_BL, relation_BLL = make_inputs()
    bytes_BLL = relation_BLL.to(torch.uint8)
    for layers in (1, 3):
        stack = make_stack("dt-fixup", replace(CONFIG, layers=layers))
        with Operations() as operations:
            stack(x_BLD, keep_BL, bytes_BLL)
        assert operations.count[READS_A_NUMBER] == 2  # the smallest id and the largest
        assert operations.count["aten::_to_copy"] == 1


@pytest.mark.parametrize("layers", [1, 3])
def test_a_vanilla_stack_reads_no_number(layers: int) -> None:
    x_BLD, keep_BL, _ = make_inputs()
    stack = make_stack("dt-fixup", replace(CONFIG, layers=layers, relations=0))
    with Operations() as operations:
        stack(x_BLD, keep_BL).sum().backward()
    assert operations.count[READS_A_NUMBER] == 0


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


def test_a_stack_builds_dt_fixup_layers_by_default() -> None:
    stack = TransformerStack(CONFIG)
    assert stack.strategy.name == "dt-fixup"
    assert len(stack.layers) == 3
    assert not any(isinstance(module, torch.nn.LayerNorm) for module in stack.modules())


def test_a_strategy_can_be_given_as_an_object() -> None:
    assert TransformerStack(CONFIG, STRATEGIES["pre-ln"]).strategy is STRATEGIES["pre-ln"]


@pytest.mark.parametrize("dropout", ["dropout", "input_dropout"])
@torch.no_grad()
def test_dropout_acts_in_training_only(dropout: str) -> None:
    stack, plain = make_stack("dt-fixup", replace(CONFIG, **{dropout: 0.5})), make_stack("dt-fixup")
    expected_BLD = plain(*make_inputs())
    assert not torch.allclose(stack(*make_inputs()), expected_BLD)
    assert torch.equal(stack.eval()(*make_inputs()), expected_BLD)


@torch.no_grad()
def test_branch_dropout_leaves_the_stream_alone() -> None:
    stack = make_stack("dt-fixup", replace(CONFIG, dropout=0.999999))
    x_BLD, keep_BL, relation_BLL = make_inputs()
    assert torch.equal(stack(x_BLD, keep_BL, relation_BLL), x_BLD)


@pytest.mark.parametrize("shape", [(4, 6), (2, 4, 5), (1, 2, 4, 6), (6,)])
def test_an_input_of_the_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"takes \[B, L, 6\]"):
        make_stack("dt-fixup")(torch.zeros(shape, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(2,), (2, 5), (1, 4), (4, 2), (2, 4, 1)])
def test_a_mask_of_the_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    x_BLD, _, relation_BLL = make_inputs()
    with pytest.raises(ConfigError, match=r"keep_BL must be \(2, 4\)"):
        make_stack("dt-fixup")(x_BLD, torch.ones(shape, dtype=torch.bool), relation_BLL)


def test_a_vanilla_stack_refuses_relation_ids() -> None:
    with pytest.raises(RelationError, match="vanilla stack"):
        make_stack("dt-fixup", replace(CONFIG, relations=0))(*make_inputs())


def test_a_relation_aware_stack_needs_relation_ids() -> None:
    with pytest.raises(RelationError, match="needs relation ids"):
        make_stack("dt-fixup")(make_inputs()[0])


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


def test_a_width_that_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be split over 4 heads"):
        TransformerStack(replace(CONFIG, heads=4))
