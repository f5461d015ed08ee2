"""A monitor that would see nothing says so instead of keeping quiet."""

import logging

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from dtfixup.errors import ConfigError
from dtfixup.fixup import dt_fixup_, measure_input_norm, watch
from dtfixup.transformer import StackConfig, TransformerStack


def stack() -> TransformerStack:
    return TransformerStack(StackConfig(layers=2, dim=8, heads=2, mlp_dim=16))


def test_a_stack_that_is_not_called_is_an_error() -> None:
    used, unused = stack(), stack()
    monitor = watch(unused, dt_fixup_(unused, 1.0))
    used(torch.randn(1, 2, 8)).sum().backward()
    with monitor, pytest.raises(ConfigError, match="no training pass went through"):
        monitor.step()


def test_a_step_after_the_gradients_are_cleared_is_an_error() -> None:
    watched = stack()
    with watch(watched, dt_fixup_(watched, 1.0)) as monitor:
        watched(torch.randn(1, 2, 8)).sum().backward()
        watched.zero_grad()
        with pytest.raises(ConfigError, match="before zero_grad"):
            monitor.step()


def test_a_module_before_dropout_counts_for_its_own_step_only() -> None:
    watched, project = stack(), nn.Identity()
    with watch(watched, dt_fixup_(watched, 1.0), before_dropout=project) as monitor:
        watched(project(torch.randn(1, 2, 8))).sum().backward()
        monitor.step()
        with pytest.raises(ConfigError, match="not called"):
            watched(torch.randn(1, 2, 8))


def test_layers_that_are_computed_again_in_the_backward_pass_can_be_watched_before_dropout() -> None:
    project, layers = nn.Linear(8, 8), stack().layers
    report = dt_fixup_(layers, 10.0)
    with watch(layers, report, before_dropout=project, every=1) as monitor:
        for _ in range(2):
            x_BLD = project(torch.randn(1, 2, 8))
            for layer in layers:
                x_BLD = checkpoint(layer, x_BLD, use_reentrant=False)
            x_BLD.sum().backward()
            monitor.step()
    assert monitor.alerts == []


class HuggingFace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(hidden_size=8, num_attention_heads=2, intermediate_size=16, attn_implementation="eager")
        self.layers = nn.ModuleList(BertLayer(config) for _ in range(2))

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, (1 - attention_mask)[:, None, None, :] * -1e9)
        return x


def test_a_mask_that_mu_had_and_the_monitor_has_not_is_asked_for_once(caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    model, mask = HuggingFace(), torch.tensor([[1.0, 1.0, 0.0]])
    batch = {"x": torch.randn(1, 3, 8) * torch.tensor([1.0, 1.0, 100.0])[:, None], "attention_mask": mask}
    mu = measure_input_norm(model, model.layers, [batch], progress=False)
    report = dt_fixup_(model.layers, mu)
    assert report.padding_left_out
    with caplog.at_level(logging.WARNING, "dtfixup"), watch(model.layers, report, every=1) as monitor:
        for _ in range(2):
            model(**batch).sum().backward()
            monitor.step()
    assert sum("set monitor.keep" in message for message in caplog.messages) == 1
    assert [alert.assumption.value for alert in monitor.alerts] == ["input norm"]
    with watch(model.layers, report, every=1) as monitor:
        monitor.keep = mask
        model(**batch).sum().backward()
        monitor.step()
    assert monitor.alerts == []


def test_a_layer_that_is_applied_twice_has_one_gradient() -> None:
    layer = stack().layers[0]
    report = dt_fixup_([layer, layer], 10.0)
    seen: list[float] = []

    class Writer:
        def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
            if tag.endswith("gradient_norm"):
                seen.append(scalar_value)

    with watch([layer, layer], report, writer=Writer(), every=1) as monitor:
        layer(layer(torch.randn(1, 2, 8))).sum().backward()
        monitor.step()
    squares = sum(float(parameter.grad.square().sum()) for parameter in layer.parameters())
    assert seen == [pytest.approx(squares**0.5)]
