"""The fused kernels against the textbook form in double precision, in value and every gradient.

They run on a GPU, or in Triton's interpreter. Legend: B batch, L length, D width, Z width of a head.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dtfixup.errors import RelationError
from dtfixup.fixup import dt_fixup_
from dtfixup.transformer import Kernel, RelationAttention, StackConfig, TransformerStack
from dtfixup.transformer.layer import MLP, TransformerLayer
from tests.interpreter import DEVICE, GPU, INTERPRETED, needs_interpreter, run_interpreted, runs_kernels
from tests.transformer.operations import Operations

EXACTNESS = {"highest": 1e-5, "high": 1e-3, "fp16": 1e-3, "bf16": 5e-3}
HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}
Results = dict[str, Tensor]

needs_gpu = pytest.mark.skipif(not GPU, reason="needs a GPU")
in_every_precision = pytest.mark.parametrize(
    "precision",
    ["highest", "high", "fp16", pytest.param("bf16", marks=needs_gpu)],  # the interpreter multiplies bf16 as integers
)


@needs_interpreter
def test_without_a_gpu_tritons_interpreter_runs_these_tests() -> None:
    run_interpreted(__file__)


@pytest.fixture(autouse=True)
def _kernels_are_chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if INTERPRETED:
        monkeypatch.setattr(RelationAttention, "kernel_for", lambda layer, x_BLD: layer.kernel)
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@dataclass(frozen=True)
class Shape:
    batch: int = 2
    length: int = 9
    heads: int = 4
    width: int = 8
    relations: int = 7

    @property
    def dim(self) -> int:
        return self.heads * self.width

    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """x, a mask that hides some vectors of the first example and all of the last, relation ids."""
        random = torch.Generator().manual_seed(1)
        x_BLD = torch.randn(self.batch, self.length, self.dim, generator=random)
        keep_BL = torch.rand(self.batch, self.length, generator=random) > 0.3
        keep_BL[-1] = False
        relation_BLL = torch.randint(self.relations, (self.batch, self.length, self.length), generator=random)
        return x_BLD.to(DEVICE), keep_BL.to(DEVICE), relation_BLL.to(DEVICE)

    def attention(self, kernel: Kernel = Kernel.FUSED) -> RelationAttention:
        torch.manual_seed(0)
        return RelationAttention(self.dim, self.heads, self.relations, kernel=kernel).to(DEVICE)


def computing(precision: str) -> AbstractContextManager[object]:
    """Sets how products are computed; the precision of float32 is set back after every test."""
    if precision in HALF:
        return torch.autocast(DEVICE.type, HALF[precision])
    torch.set_float32_matmul_precision(precision)
    return nullcontext()


def results(module: nn.Module, run: Callable[[Tensor], Tensor], x_BLD: Tensor) -> Results:
    """The output and the gradients of an arbitrary scalar of it, by name of what they are the gradient of."""
    x_BLD = x_BLD.clone().requires_grad_()
    y_BLD = run(x_BLD)
    direction_BLD = torch.linspace(-30, 30, y_BLD.numel(), dtype=torch.float64, device=DEVICE).sin().view_as(y_BLD)
    names, parameters = zip(*module.named_parameters(), strict=True)
    of_x, *of_parameters = torch.autograd.grad((y_BLD * direction_BLD).sum(), (x_BLD, *parameters))
    return {"output": y_BLD.detach(), "x": of_x, **dict(zip(names, of_parameters, strict=True))}


def require_as_exact(found: Results, textbook: Results, exact: Results, precision: str) -> None:
    """As far from the exact results as the textbook form of the same precision; a little more is chance."""
    assert found.keys() == textbook.keys() == exact.keys()
    for name, wanted in exact.items():
        size = wanted.norm().clamp(min=0.1)  # with one relation, its key's gradient is zero
        error, allowed = ((results[name].double() - wanted).norm() / size for results in (found, textbook))
        assert error <= EXACTNESS[precision] + 3 * allowed, f"{name}: error {error:.1e}, of the textbook {allowed:.1e}"


def require_textbook(
    shape: Shape, precision: str = "highest", *, masked: bool = True, add_input: bool = False, ids: Any = torch.long
) -> None:
    x_BLD, keep_BL, relation_BLL = shape.inputs()

    def run(layer: RelationAttention, x_BLD: Tensor) -> Results:
        keep = keep_BL if masked else None
        return results(layer, lambda x: layer(x, keep, relation_BLL.to(ids), add_input=add_input), x_BLD)

    with computing(precision):
        found, textbook = (run(shape.attention(kernel), x_BLD) for kernel in (Kernel.FUSED, Kernel.PLAIN))
    assert {value.dtype for name, value in found.items()} == {torch.float32}
    require_as_exact(found, textbook, run(shape.attention(Kernel.PLAIN).double(), x_BLD.double()), precision)


@runs_kernels
@in_every_precision
@pytest.mark.parametrize("add_input", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_branch_equals_the_textbook(precision: str, add_input: bool, masked: bool) -> None:
    require_textbook(Shape(), precision, masked=masked, add_input=add_input)


@runs_kernels
@pytest.mark.parametrize(
    "shape",
    [
        *(Shape(heads=heads) for heads in (1, 8, 16, 17)),
        *(Shape(width=width) for width in (1, 3, 16, 24)),
        *(Shape(relations=relations) for relations in (1, 2, 16, 17, 56, 64, 67, 256)),
        *(Shape(length=length) for length in (1, 2, 15, 16, 17, 37)),
        *(Shape(batch=batch, length=3) for batch in (1, 3, 35)),
    ],
    ids=str,
)
def test_any_shape(shape: Shape) -> None:
    require_textbook(shape)


@needs_gpu
@in_every_precision
@pytest.mark.parametrize("length", [100, 129, 300, 512])
def test_the_shapes_of_text_to_sql(length: int, precision: str) -> None:
    require_textbook(Shape(batch=3, length=length, heads=8, width=32, relations=56), precision, add_input=True)


@needs_gpu
def test_the_longest_rows_that_the_kernel_takes() -> None:
    shape = Shape(batch=1, length=1024, heads=8, width=32, relations=56)
    assert replace(shape, length=1025).attention(Kernel.AUTO).kernel_for(torch.ones(1, 1025, 256, device=DEVICE)) is (
        Kernel.TABLES
    )
    require_textbook(shape, "bf16")


@runs_kernels
@pytest.mark.parametrize("ids", [torch.uint8, torch.int16, torch.int32])
def test_narrow_integer_ids_are_taken(ids: torch.dtype) -> None:
    require_textbook(Shape(), ids=ids)


@runs_kernels
def test_ids_and_masks_need_not_lie_in_order() -> None:
    layer, (x_BLD, keep_BL, relation_BLL) = Shape().attention(), Shape().inputs()
    expected_BLD = layer(x_BLD, keep_BL, relation_BLL)
    strided_BLD = layer(
        x_BLD.permute(2, 1, 0).contiguous().permute(2, 1, 0), keep_BL.T.contiguous().T, relation_BLL.mT.contiguous().mT
    )
    torch.testing.assert_close(strided_BLD, expected_BLD)


@runs_kernels
def test_an_id_out_of_range_is_refused() -> None:
    x_BLD, keep_BL, relation_BLL = Shape().inputs()
    with pytest.raises(RelationError, match="this layer has 0 to 6"):
        Shape().attention()(x_BLD, keep_BL, relation_BLL + 256)  # as a byte it would be in range


@runs_kernels
def test_an_empty_batch_goes_through() -> None:
    layer, x_BLD = Shape().attention(), torch.zeros(0, 9, 32, device=DEVICE)
    found = results(layer, lambda x: layer(x, None, torch.zeros(0, 9, 9, device=DEVICE).long()), x_BLD)
    assert found["output"].shape == (0, 9, 32)
    assert not any(value.any() for value in found.values())


@runs_kernels
def test_padding_changes_nothing_for_real_positions() -> None:
    layer, (x_BLD, _, relation_BLL) = Shape().attention(), Shape().inputs()
    keep_BL = torch.arange(9, device=DEVICE) < torch.tensor([[9], [5]], device=DEVICE)
    padded_BLD = layer(x_BLD + 100 * ~keep_BL[..., None], keep_BL, relation_BLL)
    alone_BLD = layer(x_BLD[1:, :5], None, relation_BLL[1:, :5, :5])
    torch.testing.assert_close(padded_BLD[1:, :5], alone_BLD, rtol=1e-5, atol=1e-6)


@runs_kernels
def test_a_second_derivative_is_refused() -> None:
    layer, mlp, (x_BLD, keep_BL, relation_BLL) = Shape().attention(), MLP(32, 8, bias=False), Shape().inputs()
    from dtfixup.transformer.relation_kernels import MlpBranch

    x_BLD.requires_grad_()
    up, down = (linear.weight.to(DEVICE) for linear in (mlp.up, mlp.down))
    for y_BLD in (layer(x_BLD, keep_BL, relation_BLL), MlpBranch.apply(x_BLD, up, down, torch.float32, True)):
        (gradient_BLD,) = torch.autograd.grad(y_BLD.square().sum(), x_BLD, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            gradient_BLD.sum().backward()


@runs_kernels
@in_every_precision
@pytest.mark.parametrize("add_input", [False, True])
def test_the_mlp_equals_the_textbook(precision: str, add_input: bool) -> None:
    from dtfixup.transformer.relation_kernels import MlpBranch

    torch.manual_seed(0)
    mlp = MLP(24, 50, bias=False).to(DEVICE)
    weights = (mlp.up.weight, mlp.down.weight)
    x_BLD = Shape(heads=3).inputs()[0]

    def by_hand(x_BLD: Tensor) -> Tensor:
        return mlp(x_BLD) + x_BLD if add_input else mlp(x_BLD)

    with computing(precision):
        textbook = results(mlp, by_hand, x_BLD)
        dtype = HALF.get(precision, torch.float32)
        with torch.autocast(DEVICE.type, enabled=False):
            found = results(mlp, lambda x: MlpBranch.apply(x, *weights, dtype, add_input), x_BLD)
    mlp.double()
    require_as_exact(found, textbook, results(mlp, by_hand, x_BLD.double()), precision)


def make_stack(kernel: Kernel, strategy: str = "dt-fixup") -> TransformerStack:
    torch.manual_seed(0)
    stack = TransformerStack(StackConfig(layers=3, dim=32, heads=4, mlp_dim=50, relations=7, kernel=kernel), strategy)
    if strategy == "dt-fixup":
        dt_fixup_(stack, 3.0)
    return stack.to(DEVICE)


@runs_kernels
@in_every_precision
@pytest.mark.parametrize(("strategy", "joined"), [("dt-fixup", True), ("pre-ln", False)])
def test_a_stack_equals_the_textbook(
    strategy: str, joined: bool, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    joins, seen = TransformerLayer._joins_in_kernel, []
    monkeypatch.setattr(TransformerLayer, "_joins_in_kernel", lambda layer, x: seen.append(joins(layer, x)) or seen[-1])
    x_BLD, keep_BL, relation_BLL = Shape().inputs()

    def run(stack: TransformerStack, x_BLD: Tensor) -> Results:
        return results(stack, lambda x: stack(x, keep_BL, relation_BLL), x_BLD)

    with computing(precision):
        found = run(make_stack(Kernel.FUSED, strategy), x_BLD)
        assert seen == [joined] * 3
        textbook = run(make_stack(Kernel.PLAIN, strategy), x_BLD)
    require_as_exact(found, textbook, run(make_stack(Kernel.PLAIN, strategy).double(), x_BLD.double()), precision)


@runs_kernels
def test_attention_and_mlp_multiply_in_autocasts_type() -> None:
    stack, (x_BLD, keep_BL, relation_BLL) = make_stack(Kernel.FUSED), Shape().inputs()
    with torch.autocast(DEVICE.type, torch.float16), Operations() as operations:
        results(stack, lambda x: stack(x, keep_BL, relation_BLL), x_BLD)
    assert operations.product_types == {torch.float16}


@runs_kernels
def test_a_hook_sees_its_branch_and_changes_nothing() -> None:
    watched, alone, seen = make_stack(Kernel.FUSED), make_stack(Kernel.FUSED), []
    for branch in (watched.layers[1].attention, watched.layers[1].mlp):
        branch.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0] + output))
    x_BLD, keep_BL, relation_BLL = Shape().inputs()
    y_BLD = watched(x_BLD, keep_BL, relation_BLL)
    torch.testing.assert_close(y_BLD, alone(x_BLD, keep_BL, relation_BLL), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(watched.layers[2](seen[1], keep_BL, relation_BLL), y_BLD, rtol=1e-5, atol=1e-5)
    assert len(seen) == 2


@runs_kernels
def test_no_tensor_has_a_vector_for_every_pair() -> None:
    shape = Shape(length=60, heads=2, width=16, relations=5)
    layer, (x_BLD, keep_BL, relation_BLL) = shape.attention(), shape.inputs()
    with Operations() as operations:
        results(layer, lambda x: layer(x, keep_BL, relation_BLL), x_BLD)
    assert operations.largest == 2 * 2 * 60 * 72 < 2 * 60 * 60 * 16  # 60 + 5, aligned


@needs_gpu
def test_a_cuda_graph_holds_the_stack() -> None:
    stack, (x_BLD, keep_BL, relation_BLL) = make_stack(Kernel.AUTO), Shape().inputs()

    def gradients() -> tuple[Tensor, ...]:
        return torch.autograd.grad(stack(x_BLD, keep_BL, relation_BLL).square().sum(), list(stack.parameters()))

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        gradients()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = gradients()
    x_BLD.mul_(-0.5)
    graph.replay()
    torch.testing.assert_close(captured, gradients())
