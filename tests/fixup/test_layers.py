"""Which layers are found in a module, what they say about themselves, and what is refused."""

import re
import textwrap
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError, UnsupportedLayerError
from dtfixup.fixup import FusedRows, LayerWeights, Role, dt_fixup_, register_layer
from dtfixup.fixup.layers import bias_parameters, describe_layer, first_module, last_module, layers_of, modules_of
from dtfixup.transformer import StackConfig, TransformerStack

D = 8


class Undescribed(nn.Module):
    """A layer with the names of the error message's example, and no method yet."""

    def __init__(self) -> None:
        super().__init__()
        names = ("query", "key", "value", "output")
        self.attention = nn.ModuleDict({name: nn.Linear(D, D) for name in names})
        self.mlp = nn.ModuleDict({"up": nn.Linear(D, 2 * D), "down": nn.Linear(2 * D, D)})
        self.qkv = nn.Linear(D, 3 * D)


class Described(Undescribed):
    def fixup_weights(self) -> LayerWeights:
        return LayerWeights(
            value=[self.attention.value.weight],
            output=[self.attention.output.weight],
            mlp=[self.mlp.up.weight, self.mlp.down.weight],
        )


def ours(layers: int = 2) -> TransformerStack:
    return TransformerStack(StackConfig(layers=layers, dim=D, heads=2, mlp_dim=16))


def pasted_class(message: str) -> type[nn.Module]:
    """A layer class that got the method out of an error message, as a user would paste it."""
    block = re.search(r"\n\n(    from dtfixup.*?)\n\n[^ ]", message, re.DOTALL)
    namespace: dict[str, object] = {}
    exec(textwrap.dedent(block[1]), namespace)
    return type("Pasted", (Undescribed,), {"fixup_weights": namespace["fixup_weights"]})


def paths(stack: object) -> list[str]:
    return [path for path, _, _ in layers_of(stack)]


def test_layers_are_found_in_order_wherever_they_are() -> None:
    deep = nn.ModuleDict({"below": nn.Dropout(), "inner": nn.ModuleDict({"stack": ours()}), "last": Described()})
    assert paths(deep) == ["inner.stack.layers.0", "inner.stack.layers.1", "last"]
    assert paths(Described()) == [""]


@pytest.mark.parametrize("container", [list, tuple, nn.ModuleList, lambda layers: nn.Sequential(*layers)])
def test_lists_of_layers_count_from_zero(container: object) -> None:
    layers = [Described(), *ours().layers]
    stack = container(layers)
    assert paths(stack) == ["0", "1", "2"]
    assert [layer for _, layer, _ in layers_of(stack)] == layers
    assert "1.attention.value" in [path for path, _ in modules_of(stack)]


@pytest.mark.parametrize("container", [list, nn.ModuleList])
def test_the_stacks_input_enters_the_first_of_a_list_and_leaves_the_last(container: type) -> None:
    layers = [Described(), Described()]
    assert (first_module(container(layers)), last_module(container(layers))) == tuple(layers)


def test_the_stacks_input_enters_a_module_itself() -> None:
    for stack in (ours(), nn.Sequential(Described(), Described())):
        assert first_module(stack) is last_module(stack) is stack


@pytest.mark.parametrize("look", [layers_of, first_module, lambda stack: dt_fixup_(stack, 1.0)])
@pytest.mark.parametrize("empty", [[], nn.ModuleList()])
def test_an_empty_list_is_refused(look: object, empty: object) -> None:
    with pytest.raises(UnsupportedLayerError, match="empty list: pass the list of new layers"):
        look(empty)


def test_weights_outside_the_layers_are_refused_by_name_and_left_alone() -> None:
    stack = nn.ModuleDict({"layers": ours(), "embedding": nn.Embedding(3, D), "gate": nn.PReLU(D)})
    before = {name: tensor.clone() for name, tensor in stack.state_dict().items()}
    with pytest.raises(UnsupportedLayerError, match=r"outside its transformer layers: embedding.weight\. Pass only"):
        dt_fixup_(stack, 1.0)
    assert all(torch.equal(before[name], tensor) for name, tensor in stack.state_dict().items())


def test_a_decoder_beside_the_encoder_is_refused() -> None:
    with pytest.raises(UnsupportedLayerError, match=r"decoder\.layers\.0\.self_attn\.in_proj_weight"):
        layers_of(nn.Transformer(D, 2, 1, 1, 16, batch_first=True))


def test_one_unknown_module_among_known_ones_is_refused() -> None:
    with pytest.raises(UnsupportedLayerError, match="Undescribed does not say"):
        layers_of([Described(), Undescribed()])


def test_the_method_in_the_error_message_works_when_pasted() -> None:
    with pytest.raises(UnsupportedLayerError, match="Undescribed does not say which") as refusal:
        layers_of([Undescribed()])
    layer = pasted_class(str(refusal.value))()
    report = dt_fixup_([layer], 2.0)
    assert {row.name: row.role for row in report.tensors if row.factor != 1} == {
        "0.attention.value.weight": Role.VALUE,
        "0.attention.output.weight": Role.OUTPUT,
        "0.mlp.up.weight": Role.MLP,
        "0.mlp.down.weight": Role.MLP,
    }


def test_the_fused_form_in_the_error_message_works_when_pasted() -> None:
    with pytest.raises(UnsupportedLayerError) as refusal:
        layers_of([Undescribed()])
    fused = re.search(r"# of a fused \[q; k; v\]: (FusedRows\(.*\))\n", str(refusal.value))[1]
    layer = Undescribed()
    rows = eval(fused, {"FusedRows": FusedRows, "self": layer, "d": D})
    assert (rows.parameter, rows.start, rows.stop) == (layer.qkv.weight, 2 * D, 3 * D)


def test_a_class_of_somebody_else_can_be_registered_and_its_subclasses_follow() -> None:
    class Foreign(Undescribed):
        pass

    class Derived(Foreign):
        pass

    assert describe_layer(Foreign()) is None
    register_layer(Foreign, Described.fixup_weights)
    for kind in (Foreign, Derived):
        layer = kind()
        assert describe_layer(layer).value == [layer.attention.value.weight]


@pytest.mark.parametrize(
    ("value", "unscaled"),
    [
        ((2 * D, 3 * D), [(0, D)]),
        ((2 * D, 3 * D), [(0, D), (D + 1, 2 * D)]),
        ((2 * D, 3 * D), [(0, D), (D - 1, 2 * D)]),
        ((2 * D, 3 * D + 1), [(0, D), (D, 2 * D)]),
        ((2 * D, 3 * D), [(-D, 0), (0, D), (D, 2 * D)]),
        ((2 * D, 3 * D), [(0, 2 * D), (2 * D + 4, 3 * D)]),
        ((2 * D, 3 * D), [(0, 3 * D)]),
        ((2 * D, 3 * D), [(0, 2 * D), (2 * D, 2 * D)]),
    ],
    ids=["missing", "gap", "overlap", "beyond the end", "before the start", "twice", "whole and part", "empty"],
)
def test_rows_that_do_not_make_up_their_parameter_are_refused(
    value: tuple[int, int], unscaled: list[tuple[int, int]]
) -> None:
    class Fused(Undescribed):
        def fixup_weights(self) -> LayerWeights:
            rows = [FusedRows(self.qkv.weight, *part) for part in unscaled]
            return LayerWeights(value=[FusedRows(self.qkv.weight, *value)], output=[], mlp=[], unscaled=rows)

    layer = Fused()
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    with pytest.raises(UnsupportedLayerError, match=r"slices of 0\.qkv\.weight .* do not cover its 24 rows"):
        dt_fixup_([layer], 1.0)
    assert all(torch.equal(before[name], tensor) for name, tensor in layer.state_dict().items())


def test_a_fault_in_the_last_layer_leaves_the_first_untouched() -> None:
    class Faulty(Described):
        def fixup_weights(self) -> LayerWeights:
            return LayerWeights(value=[FusedRows(self.qkv.weight, 0, D)], output=[], mlp=[])

    good = Described()
    good.norm = nn.LayerNorm(D)
    before = {name: tensor.clone() for name, tensor in good.state_dict().items()}
    with pytest.raises(UnsupportedLayerError, match="do not cover"):
        dt_fixup_([good, Faulty()], 1.0)
    assert isinstance(good.norm, nn.LayerNorm)
    assert all(torch.equal(before[name], tensor) for name, tensor in good.state_dict().items())
    assert len(dt_fixup_([good], 1.0).norms_removed) == 1


def test_a_norm_with_two_names_is_removed_under_both() -> None:
    layer = Described()
    layer.first = layer.second = nn.LayerNorm(D)
    assert dt_fixup_(layer, 1.0).norms_removed == ("first", "second")
    assert not any(isinstance(module, nn.LayerNorm) for module in layer.modules())


def test_pytorchs_fused_projection_is_three_matrices() -> None:
    layer = nn.TransformerEncoderLayer(D, 2, 16)
    weights = describe_layer(layer)
    fused = layer.self_attn.in_proj_weight
    assert weights.value == [FusedRows(fused, 2 * D, 3 * D)]
    assert weights.unscaled == [FusedRows(fused, 0, D), FusedRows(fused, D, 2 * D)]
    assert not weights.relation_aware


def test_pytorchs_unfused_projections_are_told_apart() -> None:
    layer = nn.TransformerEncoderLayer(D, 2, 16)
    layer.self_attn = nn.MultiheadAttention(D, 2, kdim=4, vdim=4)
    weights = describe_layer(layer)
    assert weights.value == [layer.self_attn.v_proj_weight]
    assert weights.unscaled == [layer.self_attn.q_proj_weight, layer.self_attn.k_proj_weight]


def test_a_pytorch_layer_with_another_attention_is_refused() -> None:
    layer = nn.TransformerEncoderLayer(D, 2, 16)
    layer.self_attn = nn.Linear(D, D)
    with pytest.raises(UnsupportedLayerError, match="does not say which"):
        describe_layer(layer)


def test_only_what_is_added_is_a_bias() -> None:
    modules = SimpleNamespace(
        linear=nn.Linear(2, 3),
        conv=nn.Conv1d(2, 3, 1),
        bilinear=nn.Bilinear(2, 2, 3),
        lstm=nn.LSTM(2, 3),
        attention=nn.MultiheadAttention(4, 2, add_bias_kv=True),
        bare=nn.Linear(2, 3, bias=False),
        gate=nn.PReLU(3),
    )
    expected: set[Tensor] = {
        modules.linear.bias,
        modules.conv.bias,
        modules.bilinear.bias,
        modules.lstm.bias_ih_l0,
        modules.lstm.bias_hh_l0,
        modules.attention.in_proj_bias,
        modules.attention.bias_k,
        modules.attention.bias_v,
    }
    assert bias_parameters(vars(modules).values()) == expected


@pytest.mark.parametrize("fault", ["bias", "heads", "generator", "meta"])
def test_what_cannot_be_initialised_is_refused_before_anything_is_touched(fault: str) -> None:
    class Faulty(Described):
        def fixup_weights(self) -> LayerWeights:
            named = super().fixup_weights()
            value = {"bias": [self.mlp.up.bias], "heads": [self.by_head]}.get(fault, named.value)
            return LayerWeights(value=value, output=named.output, mlp=named.mlp)

    layer = Faulty()
    layer.norm = nn.LayerNorm(D)
    layer.by_head = nn.Parameter(torch.ones(2, D, D // 2))
    layer = layer.to("meta") if fault == "meta" else layer
    before = {} if fault == "meta" else {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    generator = SimpleNamespace(device=torch.device("cuda")) if fault == "generator" else None
    with pytest.raises((UnsupportedLayerError, ConfigError), match=r"dimensions|generator is on|meta device"):
        dt_fixup_(layer, 1.0, generator=generator)
    assert isinstance(layer.norm, nn.LayerNorm)
    assert all(torch.equal(value, layer.state_dict()[name]) for name, value in before.items())
