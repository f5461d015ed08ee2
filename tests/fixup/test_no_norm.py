"""`nn.TransformerEncoder` after `dt_fixup_` computes x + F in every mode, fused path or not.

Legend: B batch, L length, D width, H heads.
"""

import copy
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtfixup.fixup import dt_fixup_
from dtfixup.fixup.no_norm import NoNorm

N, D, H = 3, 8, 2
KEEP_BL = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]]).bool()  # padding last: nested tensors apply


def encoder(norm_first: bool = False, *, dropout: float = 0.0, **options: object) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(D, H, 16, dropout, norm_first=norm_first, batch_first=True, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch tells that pre-norm layers have no nested tensors
        return nn.TransformerEncoder(layer, N)


def fixed(norm_first: bool = False, part: Callable[[nn.Module], object] = lambda stack: stack) -> nn.TransformerEncoder:
    """After DT-Fixup, with biases away from zero so that a skipped one would show."""
    stack = encoder(norm_first)
    dt_fixup_(part(stack), 0.4)
    for name, parameter in stack.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    return stack


def by_hand(stack: nn.TransformerEncoder, x_BLD: Tensor, keep_BL: Tensor | None) -> Tensor:
    """x + attention(x), then x + MLP(x), from the weights alone."""
    for layer in stack.layers:
        attention = layer.self_attn
        qkv = F.linear(x_BLD, attention.in_proj_weight, attention.in_proj_bias)
        q, k, v = (part.unflatten(-1, (H, D // H)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        logits = q @ k.mT / (D // H) ** 0.5
        if keep_BL is not None:
            logits = logits.masked_fill(~keep_BL[:, None, None], -torch.inf)
        x_BLD = x_BLD + attention.out_proj((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x_BLD = x_BLD + layer.linear2(layer.linear1(x_BLD).relu())
    return x_BLD


def run(stack: nn.Module, x_BLD: Tensor, keep_BL: Tensor | None, *, evaluate: bool) -> Tensor:
    """Outputs at the real positions; evaluation without gradients is where PyTorch fuses."""
    stack.train(not evaluate)
    with torch.set_grad_enabled(not evaluate):
        y_BLD = stack(x_BLD, src_key_padding_mask=None if keep_BL is None else ~keep_BL)
    return y_BLD if keep_BL is None else y_BLD[keep_BL]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


modes = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
masks = pytest.mark.parametrize("keep_BL", [None, KEEP_BL], ids=["unpadded", "padded"])


@pytest.mark.parametrize("part", [lambda stack: stack, lambda stack: stack.layers], ids=["encoder", "layers"])
@masks
@modes
def test_evaluation_equals_training_equals_the_equation(norm_first: bool, keep_BL: Tensor | None, part) -> None:
    stack, x_BLD = fixed(norm_first, part), torch.randn(*KEEP_BL.shape, D)
    expected = by_hand(stack, x_BLD, keep_BL)
    expected = expected if keep_BL is None else expected[keep_BL]
    training = run(stack, x_BLD, keep_BL, evaluate=False)
    torch.testing.assert_close(training, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(run(stack, x_BLD, keep_BL, evaluate=True), training, rtol=1e-5, atol=1e-5)


def test_a_stack_without_biases_evaluates_as_it_trains() -> None:
    stack, x_BLD = encoder(bias=False), torch.randn(*KEEP_BL.shape, D)
    dt_fixup_(stack, 0.4)
    training = run(stack, x_BLD, KEEP_BL, evaluate=False)
    torch.testing.assert_close(run(stack, x_BLD, KEEP_BL, evaluate=True), training, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_new_layers_behind_layers_with_norms_evaluate_as_they_train() -> None:
    stack, x_BLD = fixed(part=lambda stack: stack.layers[1:]), torch.randn(*KEEP_BL.shape, D)
    training = run(stack, x_BLD, KEEP_BL, evaluate=False)
    torch.testing.assert_close(run(stack, x_BLD, KEEP_BL, evaluate=True), training, rtol=1e-5, atol=1e-5)


def test_the_norm_behind_the_layers_stays_when_only_the_layers_are_given() -> None:
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, H, 16, batch_first=True), N, norm=nn.LayerNorm(D))
    assert dt_fixup_(stack.layers, 1.0).norms_removed == tuple(f"{i}.norm{j}" for i in range(N) for j in (1, 2))
    assert isinstance(stack.norm, nn.LayerNorm)


@modes
def test_gradients_reach_every_weight(norm_first: bool) -> None:
    stack = fixed(norm_first)
    stack(torch.randn(*KEEP_BL.shape, D), src_key_padding_mask=~KEEP_BL).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in stack.parameters())


@modes
def test_evaluation_with_gradients_equals_evaluation_without(norm_first: bool) -> None:
    stack, x_BLD = fixed(norm_first).eval(), torch.randn(*KEEP_BL.shape, D)
    with torch.no_grad():
        expected = stack(x_BLD)
    torch.testing.assert_close(stack(x_BLD), expected, rtol=1e-5, atol=1e-5)


@modes
def test_a_state_dict_goes_from_one_treated_stack_to_another(norm_first: bool) -> None:
    stack, other, x_BLD = fixed(norm_first), fixed(norm_first), torch.randn(*KEEP_BL.shape, D)
    assert not torch.equal(stack(x_BLD), other(x_BLD))
    other.load_state_dict(stack.state_dict())
    assert torch.equal(stack(x_BLD), other(x_BLD))
    assert not any("norm" in name for name in stack.state_dict())


def test_a_deep_copy_computes_the_same_on_weights_of_its_own() -> None:
    stack, x_BLD = fixed(), torch.randn(*KEEP_BL.shape, D)
    twin = copy.deepcopy(stack)
    expected = run(stack, x_BLD, KEEP_BL, evaluate=True)
    nn.init.zeros_(stack.layers[0].linear2.weight)
    assert torch.equal(run(twin, x_BLD, KEEP_BL, evaluate=True), expected)
    assert isinstance(twin.layers[0].norm1, NoNorm)


def test_dropout_is_still_on_in_training_and_off_in_evaluation() -> None:
    stack, x_BLD = encoder(dropout=0.5), torch.randn(*KEEP_BL.shape, D)
    dt_fixup_(stack, 0.4)
    assert not torch.equal(run(stack, x_BLD, None, evaluate=False), run(stack, x_BLD, None, evaluate=False))
    assert torch.equal(run(stack, x_BLD, None, evaluate=True), run(stack, x_BLD, None, evaluate=True))
