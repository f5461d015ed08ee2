"""Weights cast together: the same numbers as autocast, and gradients in the parameters' own type."""

import torch
from torch import nn

from dtfixup.training.casting import call_cast, cast_names


def _model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4, bias=False))


def test_only_linear_layers_are_cast_and_kept_ones_are_not() -> None:
    model = _model()
    assert cast_names(model) == ["0.weight", "0.bias", "3.weight"]
    assert cast_names(model, keep=[model[0]]) == ["3.weight"]
    assert cast_names(nn.Linear(2, 2)) == ["weight", "bias"]


def test_a_cast_call_gives_what_autocast_gives_with_gradients_in_full_precision() -> None:
    model, x = _model(), torch.randn(5, 8)
    outputs, gradients = [], []
    for cast in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            y = call_cast(model, torch.bfloat16, cast_names(model), x) if cast else model(x)
        y.float().square().sum().backward()
        outputs.append(y.detach())
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert torch.equal(*outputs)
    for plain, cast in zip(*gradients, strict=True):
        assert cast.dtype == torch.float32
        torch.testing.assert_close(cast, plain, rtol=0.02, atol=0.02)


def test_a_cast_to_the_same_type_changes_nothing() -> None:
    model, x = _model(), torch.randn(5, 8)
    model(x).sum().backward()
    plain = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    call_cast(model, torch.float32, cast_names(model), x).sum().backward()
    for before, parameter in zip(plain, model.parameters(), strict=True):
        assert torch.equal(before, parameter.grad)


def test_a_weight_that_is_not_used_has_no_gradient() -> None:
    model = nn.ModuleDict({"used": nn.Linear(3, 2), "other": nn.Linear(3, 2)})
    model.forward = lambda x: model["used"](x)
    call_cast(model, torch.bfloat16, cast_names(model), torch.randn(4, 3).bfloat16()).sum().backward()
    assert model["used"].weight.grad is not None
    assert model["other"].weight.grad is None
