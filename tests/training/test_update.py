"""An update is AdamW on clipped gradients, skips what is far out of line, and keeps an average."""

import copy
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn

from dtfixup.errors import ConfigError
from dtfixup.training.update import ParameterGroup, UpdateConfig, Updater, parameter_groups


def small_model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def set_gradients(model: nn.Module, scale: float, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = scale * torch.randn(parameter.shape, generator=random)


def state(updater: Updater) -> list[torch.Tensor]:
    moments = [tensor for held in updater.optimizer.state.values() for tensor in held.values()]
    return [tensor.detach().clone() for tensor in (*updater.parameters, *moments, updater.usual)]


@pytest.mark.parametrize("scale", [0.01, 3.0])
def test_it_is_adamw_on_clipped_gradients(scale: float) -> None:
    model = small_model()
    plain = copy.deepcopy(model)
    config = UpdateConfig(learning_rate=0.01, clip=1.0, weight_decay=0.1, betas=(0.8, 0.95))
    updater = Updater(parameter_groups(model, [("first", model[0], 0.25)]), config)
    optimizer = torch.optim.AdamW(
        [{"params": plain[0].parameters(), "lr": 0.0}, {"params": plain[2].parameters(), "lr": 0.0}],
        betas=(0.8, 0.95),
        weight_decay=0.1,
    )
    for step, factor in enumerate((1.0, 0.5, 0.25)):
        for group, rate in zip(optimizer.param_groups, (0.0025, 0.01), strict=True):
            group["lr"] = rate * factor
        for each in (model, plain):
            set_gradients(each, scale, step)
        norm = nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()
        updater.set_rate(factor)
        updater.apply_()
        assert float(updater.norm) == pytest.approx(float(norm))
        assert not updater.skip
    for found, wanted in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("scale", [25.0, float("inf"), float("nan")])
def test_a_batch_far_out_of_line_changes_nothing(scale: float) -> None:
    model = small_model()
    updater = Updater(parameter_groups(model, []), UpdateConfig(spike=20.0))
    updater.set_rate(1.0)
    set_gradients(model, 1.0, 0)
    updater.apply_()
    before = state(updater)
    set_gradients(model, scale, 0)
    updater.apply_()
    assert updater.skip
    assert all(torch.equal(found, wanted) for found, wanted in zip(state(updater), before, strict=True))
    set_gradients(model, 15.0, 0)
    updater.apply_()
    assert not updater.skip
    assert not any(torch.equal(found, wanted) for found, wanted in zip(state(updater), before, strict=True))


def test_the_usual_norm_follows_the_batches_taken() -> None:
    model = small_model()
    updater = Updater(parameter_groups(model, []), UpdateConfig(spike=20.0))
    norms = []
    for scale in (1.0, 100.0, 3.0):
        set_gradients(model, scale, 0)
        updater.apply_()
        norms.append(float(updater.norm))
    assert float(updater.usual) == pytest.approx(0.99 * norms[0] + 0.01 * norms[2])


def test_late_in_a_run_a_hard_example_is_no_spike() -> None:
    model = small_model()
    updater = Updater(parameter_groups(model, []), UpdateConfig(spike=20.0, clip=5.0))
    skipped = []
    for scale in (1e-4, 1e-2, 1e3):
        set_gradients(model, scale, 0)
        updater.apply_()
        skipped.append(bool(updater.skip))
    assert float(updater.usual) < 5 < float(updater.norm) / 20
    assert skipped == [False, False, True]


def test_the_average_is_kept_and_lent() -> None:
    model = small_model()
    updater = Updater(parameter_groups(model, []), UpdateConfig(learning_rate=0.1, average=0.75))
    start = [parameter.detach().clone() for parameter in updater.parameters]
    updater.set_rate(1.0)
    set_gradients(model, 1.0, 0)
    updater.apply_()
    now = [parameter.detach().clone() for parameter in updater.parameters]
    with updater.averaged():
        for parameter, before, after in zip(updater.parameters, start, now, strict=True):
            torch.testing.assert_close(parameter.detach(), 0.75 * before + 0.25 * after)
    assert all(torch.equal(parameter, after) for parameter, after in zip(updater.parameters, now, strict=True))
    with suppress(ZeroDivisionError), updater.averaged():
        raise ZeroDivisionError
    assert all(torch.equal(parameter, after) for parameter, after in zip(updater.parameters, now, strict=True))


def test_without_an_average_the_weights_stay() -> None:
    updater = Updater(parameter_groups(small_model(), []), UpdateConfig())
    before = state(updater)
    with updater.averaged():
        assert all(torch.equal(found, wanted) for found, wanted in zip(state(updater), before, strict=True))


def test_groups_hold_each_trained_parameter_once() -> None:
    model = small_model()
    model[2].weight.requires_grad_(False)
    first, rest = parameter_groups(model, [("first", model[0], 0.1)])
    assert (first.name, first.factor, len(first.parameters)) == ("first", 0.1, 2)
    assert rest == ParameterGroup("new", (model[2].bias,))


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"clip": 0.0},
        {"epsilon": 0.0},
        {"spike": 1.0},
        {"average": 1.0},
        {"betas": (0.9, 1.0)},
        {"weight_decay": -0.1},
    ],
)
def test_values_that_cannot_work(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        UpdateConfig(**change)


def test_there_must_be_something_to_train() -> None:
    with pytest.raises(ConfigError, match="no parameter to train"):
        Updater([ParameterGroup("none", ())], UpdateConfig())
