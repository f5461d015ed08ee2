"""Relation-aware attention: the kernels of every machine against Eq. 5 written out, and against each other."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

from dtfixup.errors import ConfigError, RelationError
from dtfixup.transformer import Attention, Kernel, RelationAttention, relation_attention
from tests.transformer.operations import READS_A_NUMBER, Operations

ANYWHERE = (Kernel.PLAIN, Kernel.TABLES)
both_kernels = pytest.mark.parametrize("kernel", ANYWHERE)


def make_attention(
    dim: int = 6, heads: int = 2, relations: int = 3, *, bias: bool = False, kernel: Kernel = Kernel.TABLES
) -> RelationAttention:
    torch.manual_seed(0)
    return RelationAttention(dim, heads, relations, bias=bias, kernel=kernel).double()


def make_inputs(batch: int, length: int, dim: int = 6, relations: int = 3, *, seed: int = 1) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    x_BLD = 2 * torch.randn(batch, length, dim, dtype=torch.float64, generator=random)
    return x_BLD, torch.randint(relations, (batch, length, length), generator=random)


def project(linear: torch.nn.Linear, x_D: Tensor) -> Tensor:
    y_D = linear.weight @ x_D
    return y_D if linear.bias is None else y_D + linear.bias


def attention_by_hand(layer: RelationAttention, x_BLD: Tensor, keep_BL: Tensor, relation_BLL: Tensor) -> Tensor:
    batch, length, dim = x_BLD.shape
    width = dim // layer.heads
    z_BLD = torch.zeros_like(x_BLD)
    for b, h, i in product(range(batch), range(layer.heads), range(length)):
        head = slice(h * width, (h + 1) * width)
        q_Z = project(layer.query, x_BLD[b, i])[head]
        odds, values = [], []
        for j in range(length):
            if keep_BL[b, j]:
                relation = int(relation_BLL[b, i, j])
                key_Z = project(layer.key, x_BLD[b, j])[head] + layer.relation_key_RZ[relation]
                odds.append(math.exp(float(q_Z @ key_Z) / math.sqrt(width)))
                values.append(project(layer.value, x_BLD[b, j])[head] + layer.relation_value_RZ[relation])
        z_BLD[b, i, head] = sum(odd / sum(odds) * value_Z for odd, value_Z in zip(odds, values, strict=True))
    return torch.stack([torch.stack([project(layer.output, z_D) for z_D in z_LD]) for z_LD in z_BLD])


@both_kernels
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_equals_the_paper_written_out(kernel: Kernel, heads: int, bias: bool) -> None:
    layer = make_attention(heads=heads, bias=bias, kernel=kernel)
    x_BLD, relation_BLL = make_inputs(2, 4)
    keep_BL = torch.tensor([[True, True, True, True], [False, True, True, False]])
    expected_BLD = attention_by_hand(layer, x_BLD, keep_BL, relation_BLL)
    torch.testing.assert_close(layer(x_BLD, keep_BL, relation_BLL), expected_BLD)


@both_kernels
def test_gradients_are_those_of_finite_differences(kernel: Kernel) -> None:
    layer = make_attention(dim=4, bias=True, kernel=kernel)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    x_BLD, relation_BLL = make_inputs(1, 3, dim=4)
    keep_BL = torch.tensor([[True, True, False]])

    def run(x_BLD: Tensor, *values: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, values, strict=True)), (x_BLD, keep_BL, relation_BLL))

    assert torch.autograd.gradcheck(run, (x_BLD.requires_grad_(), *parameters))


@both_kernels
@torch.no_grad()
def test_zero_relation_tables_give_exactly_vanilla_attention(kernel: Kernel) -> None:
    layer = make_attention(bias=True, kernel=kernel)
    vanilla = Attention(6, 2, bias=True, kernel=Kernel.PLAIN).double()
    vanilla.load_state_dict({name: value for name, value in layer.state_dict().items() if "relation" not in name})
    x_BLD, relation_BLL = make_inputs(2, 4)
    keep_BL = torch.tensor([[True, True, True, False], [True, True, True, True]])
    assert not torch.allclose(layer(x_BLD, keep_BL, relation_BLL), vanilla(x_BLD, keep_BL))
    layer.relation_key_RZ.zero_()
    layer.relation_value_RZ.zero_()
    assert torch.equal(layer(x_BLD, keep_BL, relation_BLL), vanilla(x_BLD, keep_BL))


def gradients(layer: RelationAttention, x_BLD: Tensor, keep_BL: Tensor, relation_BLL: Tensor) -> dict[str, Tensor]:
    """The output and the gradient of an arbitrary scalar of it, by name of what it is the gradient of."""
    x_BLD = x_BLD.clone().requires_grad_()
    y_BLD = layer(x_BLD, keep_BL, relation_BLL)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    direction_BLD = torch.linspace(-1, 1, y_BLD.numel(), dtype=y_BLD.dtype).sin().view_as(y_BLD)
    of_x, *of_parameters = torch.autograd.grad((y_BLD * direction_BLD).sum(), (x_BLD, *parameters))
    return {"output": y_BLD.detach(), "x": of_x, **dict(zip(names, of_parameters, strict=True))}


@settings(deadline=None, max_examples=30)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 6),
    heads=st.integers(1, 3),
    width=st.integers(1, 4),
    relations=st.integers(1, 7),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_kernels_agree_in_value_and_in_every_gradient(
    batch: int, length: int, heads: int, width: int, relations: int, bias: bool, seed: int
) -> None:
    plain = make_attention(heads * width, heads, relations, bias=bias, kernel=Kernel.PLAIN)
    tables = make_attention(heads * width, heads, relations, bias=bias, kernel=Kernel.TABLES)
    x_BLD, relation_BLL = make_inputs(batch, length, heads * width, relations, seed=seed)
    keep_BL = torch.arange(length) <= torch.arange(batch)[:, None]
    expected = gradients(plain, x_BLD, keep_BL, relation_BLL)
    torch.testing.assert_close(gradients(tables, x_BLD, keep_BL, relation_BLL), expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (Kernel.PLAIN, "attend_by_pairs"),
        (Kernel.TABLES, "attend_by_tables"),
        ("plain", "attend_by_pairs"),
        ("tables", "attend_by_tables"),
        ("auto", "attend_by_tables"),
    ],
)
def test_a_kernel_runs_its_own_function(kernel: Kernel, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    for function in ("attend_by_pairs", "attend_by_tables"):
        monkeypatch.setattr(relation_attention, function, lambda q, *_, function=function: ran.append(function) or q)
    x_BLD, relation_BLL = make_inputs(1, 2)
    make_attention(kernel=kernel)(x_BLD, None, relation_BLL)
    assert ran == [name]


@settings(deadline=None, max_examples=25)
@given(
    kernel=st.sampled_from(ANYWHERE),
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    extra=st.integers(0, 3),
    seed=st.integers(0, 99),
)
@torch.no_grad()
def test_padding_changes_nothing_for_real_positions(kernel: Kernel, lengths: list[int], extra: int, seed: int) -> None:
    layer = make_attention(bias=True, kernel=kernel)
    padded_BLD, relation_BLL = make_inputs(len(lengths), max(lengths) + extra, seed=seed)
    keep_BL = torch.arange(max(lengths) + extra) < torch.tensor(lengths)[:, None]
    y_BLD = layer(padded_BLD + 100 * ~keep_BL[..., None], keep_BL, relation_BLL)
    for b, real in enumerate(lengths):
        alone_1LD = layer(padded_BLD[b : b + 1, :real], None, relation_BLL[b : b + 1, :real, :real])
        torch.testing.assert_close(y_BLD[b, :real], alone_1LD[0])


@both_kernels
def test_a_fully_padded_example_gives_no_nan(kernel: Kernel) -> None:
    layer = make_attention(kernel=kernel)
    x_BLD, relation_BLL = make_inputs(2, 3)
    keep_BL = torch.tensor([[True, True, True], [False, False, False]])
    for name, value in gradients(layer, x_BLD, keep_BL, relation_BLL).items():
        assert value.isfinite().all(), name


@both_kernels
@pytest.mark.parametrize("wrong", [-1, 3, 1000])
def test_a_relation_id_out_of_range_is_refused(kernel: Kernel, wrong: int) -> None:
    layer = make_attention(kernel=kernel)
    x_BLD, relation_BLL = make_inputs(2, 3)
    relation_BLL[1, 2, 0] = wrong
    with pytest.raises(RelationError, match=f"relation ids run from .*{wrong}.*this layer has 0 to 2"):
        layer(x_BLD, None, relation_BLL)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("shape", [None, (3, 3), (2, 3), (1, 3, 3), (2, 3, 4), (2, 4, 4), (2, 3, 3, 1)])
def test_relation_ids_must_be_there_and_of_the_right_shape(shape: tuple[int, ...] | None, checked: bool) -> None:
    ids = None if shape is None else torch.zeros(shape, dtype=torch.long)
    with pytest.raises(RelationError, match="needs relation ids" if shape is None else r"expected \(2, 3, 3\)"):
        make_attention()(make_inputs(2, 3)[0], None, ids, checked=checked)


@pytest.mark.parametrize("number", [torch.float32, torch.float64, torch.bfloat16])
def test_relation_ids_that_are_no_integers_are_refused(number: torch.dtype) -> None:
    x_BLD, relation_BLL = make_inputs(2, 3)
    with pytest.raises(RelationError, match=f"must be integers, got {number}"):
        make_attention()(x_BLD, None, relation_BLL.to(number))


def test_an_empty_batch_goes_through() -> None:
    assert make_attention()(torch.zeros(0, 3, 6).double(), None, torch.zeros(0, 3, 3).long()).shape == (0, 3, 6)


def test_narrow_integer_ids_are_taken() -> None:
    layer = make_attention()
    x_BLD, relation_BLL = make_inputs(2, 3)
    assert torch.equal(layer(x_BLD, None, relation_BLL.to(torch.uint8)), layer(x_BLD, None, relation_BLL))


@pytest.mark.parametrize("relations", [0, -1])
def test_needs_at_least_one_relation(relations: int) -> None:
    with pytest.raises(ConfigError, match="at least one relation"):
        RelationAttention(4, 2, relations)


def test_tables_are_shared_over_heads_and_only_values_are_scaled() -> None:
    layer = make_attention(dim=6, heads=2, relations=5)
    assert layer.relation_key_RZ.shape == layer.relation_value_RZ.shape == (5, 3)
    (scaled,) = layer.relation_value_weights
    assert scaled is layer.relation_value_RZ


@both_kernels
@torch.no_grad()
def test_the_input_is_added_on_demand(kernel: Kernel) -> None:
    layer = make_attention(bias=True, kernel=kernel)
    x_BLD, relation_BLL = make_inputs(2, 4)
    branch_BLD = layer(x_BLD, None, relation_BLL)
    assert torch.equal(layer(x_BLD, None, relation_BLL, add_input=True), x_BLD + branch_BLD)


@both_kernels
@pytest.mark.parametrize(("checked", "reads"), [(False, 2), (True, 0)])
def test_ids_that_were_checked_are_not_looked_at(kernel: Kernel, checked: bool, reads: int) -> None:
    x_BLD, relation_BLL = make_inputs(2, 3)
    with Operations() as operations:
        make_attention(kernel=kernel)(x_BLD, None, relation_BLL, checked=checked)
    assert operations.count[READS_A_NUMBER] == reads


@pytest.mark.parametrize(
    ("kernel", "largest"),
    [
        (Kernel.TABLES, 2 * 2 * 12 * max(12, 5, 16)),  # B H L max(L, R, Z)
        (Kernel.PLAIN, 2 * 12 * 12 * 16),  # B L L Z
    ],
)
def test_only_the_textbook_form_has_a_vector_for_every_pair(kernel: Kernel, largest: int) -> None:
    layer = make_attention(32, 2, 5, kernel=kernel)
    x_BLD, relation_BLL = make_inputs(2, 12, 32, 5)
    keep_BL = torch.ones(2, 12, dtype=torch.bool)
    q_BHLZ, k_BHLZ, v_BHLZ = (layer.split(project(x_BLD)) for project in (layer.query, layer.key, layer.value))
    tables = (layer.relation_key_RZ, layer.relation_value_RZ)
    attend = relation_attention.attend_by_pairs if kernel is Kernel.PLAIN else relation_attention.attend_by_tables
    with Operations() as operations:
        z_BHLZ = attend(q_BHLZ, k_BHLZ, v_BHLZ, *tables, relation_BLL, keep_BL)
        torch.autograd.grad(z_BHLZ.sum(), (q_BHLZ, k_BHLZ, v_BHLZ, *tables))
    assert operations.largest == largest


@settings(deadline=None, max_examples=25)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 20),
    heads=st.integers(1, 4),
    width=st.integers(1, 9),
    relations=st.integers(1, 30),
)
def test_tables_need_memory_for_pairs_and_relations_and_no_more(
    batch: int, length: int, heads: int, width: int, relations: int
) -> None:
    layer = make_attention(heads * width, heads, relations)
    x_BLD, relation_BLL = make_inputs(batch, length, heads * width, relations)
    with Operations() as operations:
        gradients(layer, x_BLD, torch.ones(batch, length, dtype=torch.bool), relation_BLL)
    attention = batch * heads * length * max(length, relations, width)
    weights = heads * width * max(heads * width, relations)
    assert operations.largest <= max(attention, weights)


@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16, torch.float64])
def test_products_run_in_the_type_of_autocast_but_for_doubles(given: torch.dtype) -> None:
    x, linear = torch.ones(1, 2, dtype=given), nn.Linear(2, 2, dtype=given)
    assert relation_attention.compute_dtype(x) == linear(x).dtype == given
    with torch.autocast("cpu", torch.float16):
        assert relation_attention.compute_dtype(x) == linear(x).dtype
