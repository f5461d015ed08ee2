"""Plain attention against Eq. 1-3 written out head by head and position by position."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import functional_call
from torch.nn.utils.rnn import pad_sequence

from dtfixup.errors import ConfigError
from dtfixup.transformer import Attention, Kernel


def make_attention(dim: int = 6, heads: int = 2, *, bias: bool = False, kernel: Kernel = Kernel.AUTO) -> Attention:
    torch.manual_seed(0)
    return Attention(dim, heads, bias=bias, kernel=kernel).double()


def project(linear: torch.nn.Linear, x_D: Tensor) -> Tensor:
    y_D = linear.weight @ x_D
    return y_D if linear.bias is None else y_D + linear.bias


def attention_by_hand(layer: Attention, x_BLD: Tensor, keep_BL: Tensor) -> Tensor:
    batch, length, dim = x_BLD.shape
    width = dim // layer.heads
    z_BLD = torch.zeros_like(x_BLD)
    for b, h, i in product(range(batch), range(layer.heads), range(length)):
        head = slice(h * width, (h + 1) * width)
        kept = [j for j in range(length) if keep_BL[b, j]]
        q_Z = project(layer.query, x_BLD[b, i])[head]
        scores = [float(q_Z @ project(layer.key, x_BLD[b, j])[head]) / math.sqrt(width) for j in kept]
        total = sum(math.exp(score) for score in scores)
        for j, score in zip(kept, scores, strict=True):
            z_BLD[b, i, head] += math.exp(score) / total * project(layer.value, x_BLD[b, j])[head]
    return torch.stack([torch.stack([project(layer.output, z_D) for z_D in z_LD]) for z_LD in z_BLD])


@pytest.mark.parametrize("kernel", [Kernel.PLAIN, Kernel.AUTO])
@pytest.mark.parametrize("heads", [1, 2, 6])
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_equals_the_paper_written_out(heads: int, bias: bool, kernel: Kernel) -> None:
    layer = make_attention(heads=heads, bias=bias, kernel=kernel)
    x_BLD = 3 * torch.randn(2, 4, 6, dtype=torch.float64)
    keep_BL = torch.tensor([[True, True, True, True], [True, False, True, False]])
    torch.testing.assert_close(layer(x_BLD, keep_BL), attention_by_hand(layer, x_BLD, keep_BL))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_fused_form_is_the_plain_one_in_value_and_gradient(dtype: torch.dtype) -> None:
    keep_BL = torch.tensor([[True, True, True, False, False], [True] * 5, [False] * 5])
    torch.manual_seed(1)
    x_BLD, weight_BLD = (torch.randn(3, 5, 8, dtype=dtype) for _ in range(2))
    found = []
    for kernel in (Kernel.PLAIN, Kernel.AUTO):
        layer = make_attention(8, kernel=kernel).to(dtype)
        own_BLD = x_BLD.clone().requires_grad_()
        y_BLD = layer(own_BLD, keep_BL)
        (y_BLD * weight_BLD)[:2].sum().backward()
        found.append([y_BLD, own_BLD.grad, *(parameter.grad for parameter in layer.parameters())])
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.1}[dtype]
    for plain, fused in zip(*found, strict=True):
        assert plain is not None
        assert fused is not None
        torch.testing.assert_close(fused, plain, rtol=tolerance, atol=tolerance)


def test_no_mask_keeps_everything() -> None:
    layer = make_attention()
    x_BLD = torch.randn(2, 3, 6, dtype=torch.float64)
    assert torch.equal(layer(x_BLD), layer(x_BLD, torch.ones(2, 3, dtype=torch.bool)))


def test_an_integer_mask_means_the_same_as_a_boolean_one() -> None:
    layer = make_attention()
    x_BLD = torch.randn(1, 3, 6, dtype=torch.float64)
    keep_BL = torch.tensor([[1, 1, 0]])
    assert torch.equal(layer(x_BLD, keep_BL), layer(x_BLD, keep_BL.bool()))
    assert not torch.equal(layer(x_BLD, keep_BL), layer(x_BLD))


@pytest.mark.parametrize("bias", [False, True])
def test_gradients_are_those_of_finite_differences(bias: bool) -> None:
    layer = make_attention(dim=4, bias=bias)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    keep_BL = torch.tensor([[True, True, False]])

    def run(x_BLD: Tensor, *values: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, values, strict=True)), (x_BLD, keep_BL))

    x_BLD = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (x_BLD, *parameters))


@settings(deadline=None, max_examples=25)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3), extra=st.integers(0, 3), seed=st.integers(0, 99))
@torch.no_grad()
def test_padding_changes_nothing_for_real_positions(lengths: list[int], extra: int, seed: int) -> None:
    layer = make_attention(bias=True)
    torch.manual_seed(seed)
    alone = [torch.randn(length, 6, dtype=torch.float64) for length in lengths]
    rubbish_LD = 100 * torch.randn(max(lengths) + extra, 6, dtype=torch.float64)
    padded_BLD = pad_sequence([torch.cat([x_LD, rubbish_LD[len(x_LD) :]]) for x_LD in alone], batch_first=True)
    keep_BL = torch.arange(max(lengths) + extra) < torch.tensor(lengths)[:, None]
    for x_LD, y_LD in zip(alone, layer(padded_BLD, keep_BL), strict=True):
        torch.testing.assert_close(y_LD[: len(x_LD)], layer(x_LD[None])[0])


def test_a_fully_padded_example_is_the_mean_of_its_values_and_not_nan() -> None:
    layer = make_attention()
    x_BLD = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    y_BLD = layer(x_BLD, torch.tensor([[True, True, True], [False, False, False]]))
    mean_LD = layer.output(layer.value(x_BLD[1])).mean(0).expand(3, -1)
    torch.testing.assert_close(y_BLD[1], mean_LD)
    y_BLD.sum().backward()
    assert x_BLD.grad is not None
    assert x_BLD.grad.isfinite().all()


@pytest.mark.parametrize(("dim", "heads"), [(6, 4), (3, 2), (8, 16), (4, 0), (4, -2)])
def test_a_width_that_heads_do_not_divide_is_refused(dim: int, heads: int) -> None:
    with pytest.raises(ConfigError, match=f"{dim} cannot be split over {heads} heads"):
        Attention(dim, heads)


def test_has_no_relation_values() -> None:
    assert list(Attention(4, 2).relation_value_weights) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_input_without_a_key_has_finite_gradients(dtype: torch.dtype) -> None:
    layer = make_attention(8).to(dtype)
    x_BLD = torch.randn(1, 5, 8, dtype=dtype, requires_grad=True)
    layer(x_BLD, torch.zeros(1, 5, dtype=torch.bool)).sum().backward()
    assert x_BLD.grad is not None
    assert x_BLD.grad.isfinite().all()
