"""Stacks: what they compute with every strategy and kernel, and what they refuse."""

from dataclasses import replace

import pytest
import torch

from dtfixup.errors import ConfigError, RelationError
from dtfixup.fixup import STRATEGIES
from dtfixup.transformer import Kernel, TransformerStack
from tests.transformer.operations import READS_A_NUMBER, Operations
from tests.transformer.stacks import CONFIG, make_inputs, make_stack


@pytest.mark.parametrize("kernel", [Kernel.PLAIN, Kernel.AUTO])
@pytest.mark.parametrize("relations", [0, 4])
@pytest.mark.parametrize("strategy", STRATEGIES)
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
