"""The monitor: which broken assumption it names, what it does not count, and when it reads numbers.

Legend: B batch, L length, D width.
"""

import copy
import logging
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.tensorboard import SummaryWriter
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from dtfixup.errors import ConfigError
from dtfixup.fixup import Alert, Assumption, Monitor, dt_fixup_, measure_input_norm, strategy_named, watch
from tests.fixup.watching import MU, D, Recorder, ours, pytorch, train_step, vectors, watched

KEEP_BL = torch.tensor([[True, True, True, True], [True, True, False, False]])


class Dropping(nn.Module):
    """Dropout between a projection and the stack, as in models whose stack has none of its own."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.project, self.dropout = nn.Identity(), nn.Dropout(rate)
        self.stack = pytorch()

    def forward(self, x: Tensor) -> Tensor:
        return self.stack(self.dropout(self.project(x)))


def train(model: nn.Module, monitor: Monitor, batches: Iterable[Tensor], losses: Iterable[float] = ()) -> list[Alert]:
    """One backward pass and no update per batch; `losses` multiply the loss of each."""
    factors = iter(losses)
    for x in batches:
        model.zero_grad()
        (next(factors, 1.0) * model(x).square().mean()).backward()
        monitor.step()
    monitor.close()
    return monitor.alerts


def hooks_of(model: nn.Module) -> list[object]:
    return [hook for module in model.modules() for hook in (*module._forward_hooks, *module._forward_pre_hooks)]


def named(alerts: list[Alert]) -> list[tuple[int, str]]:
    return [(alert.step, alert.assumption.name) for alert in alerts]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_healthy_run_raises_no_alert(optimizer: type[torch.optim.Optimizer]) -> None:
    stack, monitor, recorder = watched(every=10)
    learner = optimizer(stack.parameters(), lr=1e-3)
    target = torch.randn(2, 4, D)
    with monitor:
        for _ in range(45):
            learner.zero_grad()
            (stack(vectors()) - target).square().mean().backward()
            monitor.step()
            learner.step()
    assert monitor.alerts == []
    assert list(recorder.of("growth")) == list(range(45))
    assert {tag for tag, _ in recorder.scalars} == {"input_norm_over_mu", "growth", "gradient_norm"}
    assert all(0.5 < growth < 2 for growth in recorder.of("growth").values())


def test_inflated_inputs_are_named_with_the_step_and_the_ratio(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Alert] = []
    stack, monitor, _ = watched(first_step=4_330, callback=heard.append)
    with caplog.at_level(logging.WARNING, logger="dtfixup"):
        alerts = train(stack, monitor, [vectors(MU if place < 10 else 2.3 * MU) for place in range(14)])
    assert [str(alert) for alert in alerts] == ["input norm 2.3 × μ at step 4,340"]
    assert (alerts[0].step, alerts[0].assumption, alerts[0].limit) == (4_340, Assumption.INPUT_NORM, 2.0)
    assert alerts[0].value == pytest.approx(2.3, rel=1e-5)
    assert heard == alerts
    assert caplog.messages == ["input norm 2.3 × μ at step 4,340"]


def test_growth_names_the_layer_up_to_which_the_stream_grew() -> None:
    stack, monitor, _ = watched()
    with torch.no_grad():
        stack.layers[1].mlp.down.weight.mul_(3_000)
        stack.layers[2].mlp.down.weight.zero_()
        stack.layers[2].attention.output.weight.zero_()
    (alert,) = train(stack, monitor, [vectors()])
    assert (alert.step, alert.assumption, alert.limit) == (0, Assumption.GROWTH, 8.0)
    assert str(alert) == f"residual stream grew {alert.value:.1f} × up to layer 2 at step 0"


def test_growth_is_the_largest_norm_after_any_layer_over_the_largest_at_the_entrance() -> None:
    stack, monitor, recorder = watched()
    nn.init.normal_(stack.layers[0].mlp.down.weight)
    x_BLD, norms = vectors(), []
    train(stack, monitor, [x_BLD])
    with torch.no_grad():
        y_BLD = x_BLD
        for layer in stack.layers:
            y_BLD = layer(y_BLD)
            norms.append(y_BLD.norm(dim=-1).max().item())
    assert recorder.scalars["growth", 0] == pytest.approx(max(norms) / MU, rel=1e-5)


def test_one_batch_with_a_huge_gradient_is_named() -> None:
    stack, monitor, recorder = watched()
    alerts = train(stack, monitor, [vectors()] * 20, losses=[1.0] * 15 + [100.0])
    assert named(alerts) == [(15, "GRADIENT")]
    usual = torch.nn.utils.get_total_norm([parameter.grad for parameter in stack.parameters()]).item()
    assert alerts[0].value == pytest.approx(100, rel=1e-4)
    assert str(alerts[0]) == f"gradient norm {100 * usual:.3g} at step 15, usually {usual:.3g}"
    assert recorder.scalars["gradient_norm", 19] == pytest.approx(usual, rel=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_inputs_that_are_not_finite_are_named_at_their_step(bad: float) -> None:
    stack, monitor, _ = watched()
    batches = [vectors() for _ in range(8)]
    batches[5][0, 1, 2] = bad
    alerts = train(stack, monitor, batches)
    assert named(alerts) == [(5, "INPUT_NORM"), (5, "GROWTH"), (5, "GRADIENT")]
    assert str(alerts[0]) == f"input norm {bad} × μ at step 5"


def test_a_nan_that_arises_inside_the_stack_is_named() -> None:
    stack, monitor, _ = watched()
    with torch.no_grad():
        stack.layers[1].mlp.down.weight[0, 0] = math.nan
    assert named(train(stack, monitor, [vectors()])) == [(0, "GROWTH"), (0, "GRADIENT")]


def test_the_summary_holds_all_steps_after_closing() -> None:
    stack, monitor, _ = watched()
    for norm in (MU, 3 * MU, 2 * MU, MU, MU):
        train_step(stack, norm)
        monitor.step()
    assert monitor.summary()["steps_watched"] == 4.0
    monitor.close()
    summary = monitor.summary()
    assert (summary["steps_watched"], summary["alerts"]) == (5.0, float(len(monitor.alerts)))
    assert summary["highest_input_norm_over_mu"] == pytest.approx(3.0)


def test_limits_can_be_set() -> None:
    limits = {"max_input_ratio": 1.1, "max_growth": 0.1, "max_gradient_ratio": 0.5}
    stack, monitor, _ = watched(**limits)
    alerts = train(stack, monitor, [vectors(1.2 * MU)] * 12)
    assert named(alerts) == [(0, "INPUT_NORM"), (0, "GROWTH"), (10, "GRADIENT")]


def input_ratio(model: nn.Module, stack: nn.Module, run: Callable[[], Tensor], **options: object) -> float:
    recorder = Recorder()
    keep = options.pop("keep", None)
    with watch(stack, dt_fixup_(stack, MU), writer=recorder, every=4, **options) as monitor:
        monitor.keep = keep
        model.train()
        run().sum().backward()
        monitor.step()
    return recorder.scalars["input_norm_over_mu", 0]


def test_norms_are_taken_before_the_dropout_of_our_stack() -> None:
    stack, x_BLD = ours(input_dropout=0.6), vectors()
    assert input_ratio(stack, stack, lambda: stack(x_BLD)) == pytest.approx(1.0, rel=1e-5)


def test_norms_are_taken_before_a_dropout_outside_the_stack_if_told_where() -> None:
    told, untold, x_BLD = Dropping(0.6), Dropping(0.6), vectors()
    before = input_ratio(told, told.stack, lambda: told(x_BLD), before_dropout=told.project)
    assert before == pytest.approx(1.0, rel=1e-5)
    assert input_ratio(untold, untold.stack, lambda: untold(x_BLD)) > 1.3


def loud() -> Tensor:
    return vectors().masked_fill(~KEEP_BL[..., None], 1e6)


@pytest.mark.parametrize("part", [lambda stack: stack, lambda stack: stack.layers], ids=["stack", "layers"])
@pytest.mark.parametrize("build", [ours, pytorch], ids=["ours", "torch"])
def test_padding_does_not_count_where_the_stack_is_called_with_a_mask(build: Callable, part: Callable) -> None:
    stack, x_BLD = build(), loud()
    mask = {"keep_BL": KEEP_BL} if build is ours else {"src_key_padding_mask": ~KEEP_BL}
    assert input_ratio(stack, part(stack), lambda: stack(x_BLD, **mask)) == pytest.approx(1.0, rel=1e-5)


def test_padding_does_not_count_by_a_mask_that_is_set_on_the_monitor() -> None:
    stack, x_BLD = ours(), loud()
    assert input_ratio(stack, stack, lambda: stack(x_BLD), keep=KEEP_BL) == pytest.approx(1.0, rel=1e-5)
    assert input_ratio(other := ours(), other, lambda: other(x_BLD)) > 1e5


def test_padding_does_not_grow() -> None:
    stack, monitor, _ = watched()
    (stack(loud(), KEEP_BL)[KEEP_BL]).sum().backward()
    monitor.step()
    monitor.close()
    assert monitor.alerts == []


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_validation_passes_are_not_counted(off: Callable[[], object]) -> None:
    stack, monitor, recorder = watched()
    stack(vectors()).sum().backward()
    with off():
        stack(vectors(100 * MU))
    monitor.step()
    monitor.close()
    assert monitor.alerts == []
    assert recorder.of("input_norm_over_mu") == {0: pytest.approx(1.0, rel=1e-5)}


def test_every_pass_of_a_step_counts_where_gradients_are_accumulated() -> None:
    stack, monitor, recorder = watched()
    for ratio in (1.0, 1.5, 0.5):
        stack(vectors(ratio * MU)).sum().backward()
    monitor.step()
    monitor.close()
    assert recorder.of("input_norm_over_mu") == {0: pytest.approx(1.5, rel=1e-5)}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls that wait for the device, as they are made."""
    made: list[str] = []
    for name in ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__"):
        original = getattr(Tensor, name)
        monkeypatch.setattr(Tensor, name, lambda self, *a, n=name, o=original: made.append(n) or o(self, *a))
    return made


def test_nothing_is_read_but_every_so_many_steps(reads: list[str]) -> None:
    stack, monitor, _ = watched(every=5)
    for step in range(1, 21):
        reads.clear()
        stack(vectors(3 * MU)).sum().backward()
        monitor.step()
        assert reads == (["item", "tolist"] if step in (5, 10, 15, 20) else [])
        assert len(monitor.alerts) == (step >= 5)


@pytest.mark.parametrize("steps", [0, 3, 5, 8, 13])
def test_closing_reads_what_is_left_and_removes_the_hooks(steps: int) -> None:
    stack, monitor, recorder = watched(every=5, first_step=100)
    train(stack, monitor, [vectors()] * steps)
    monitor.close()
    assert list(recorder.of("growth")) == list(range(100, 100 + steps))
    assert not hooks_of(stack)


def test_a_context_closes_the_monitor_after_an_error_too() -> None:
    stack, monitor, _ = watched()

    def fail_after_a_step() -> None:
        with monitor:
            stack(vectors(3 * MU)).sum().backward()
            monitor.step()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_a_step()
    assert named(monitor.alerts) == [(0, "INPUT_NORM")]
    assert not hooks_of(stack)


def test_scalars_reach_tensorboard_with_their_steps(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        stack, monitor, _ = watched(writer=writer, first_step=7)
        train(stack, monitor, [vectors(ratio * MU) for ratio in (1.0, 1.5, 0.5)])
    events = EventAccumulator(str(tmp_path)).Reload()
    tags = ["dtfixup/gradient_norm", "dtfixup/growth", "dtfixup/input_norm_over_mu"]
    assert sorted(events.Tags()["scalars"]) == tags
    found = {event.step: event.value for event in events.Scalars(tags[2])}
    assert found == pytest.approx({7: 1.0, 8: 1.5, 9: 0.5}, rel=1e-5)


@pytest.mark.parametrize("build", [ours, pytorch], ids=["ours", "torch"])
def test_hooks_change_neither_outputs_nor_gradients(build: Callable[[], nn.Module]) -> None:
    stack, x_BLD = build(), vectors()
    report = dt_fixup_(stack, MU)
    alone = copy.deepcopy(stack)
    with watch(stack, report) as monitor:
        outputs = [module(x_BLD) for module in (stack, alone)]
        for output in outputs:
            output.square().sum().backward()
        monitor.step()
    assert torch.equal(*outputs)
    for parameter, expected in zip(stack.parameters(), alone.parameters(), strict=True):
        assert torch.equal(parameter.grad, expected.grad)


def test_a_report_without_an_input_norm_is_refused() -> None:
    stack = ours()
    report = strategy_named("t-fixup").initialise_(stack)
    with pytest.raises(ConfigError, match=r"report of t-fixup has no input norm.*watch\(\) is for dt-fixup"):
        watch(stack, report)


@pytest.mark.parametrize("every", [0, -1])
def test_a_reading_every_zero_steps_is_refused(every: int) -> None:
    with pytest.raises(ConfigError, match=f"every must be at least 1, got {every}"):
        watched(every=every)


def test_the_mask_of_the_same_call_counts_before_dropout() -> None:
    stack, project = ours(), nn.Identity()
    monitor = watch(stack, dt_fixup_(stack, MU), before_dropout=project, every=1)
    for keep_BL in (KEEP_BL, KEEP_BL.flip(0)):
        x_BLD = torch.where(keep_BL[..., None], vectors(), 1e6)
        stack(nn.functional.dropout(project(x_BLD), 0.1), keep_BL).sum().backward()
        monitor.step()
    monitor.close()
    assert monitor.alerts == []


def test_a_mask_of_the_wrong_shape_is_not_passed_over() -> None:
    stack, monitor, _ = watched(pytorch())
    monitor.keep = KEEP_BL[:1]
    with monitor, pytest.raises(ConfigError, match=r"mask of real vectors is \(1, 4\), but there are \(2, 4\)"):
        stack(vectors())


# A monitor that would see nothing says so.


def test_a_stack_that_is_not_called_is_an_error() -> None:
    used, unused = ours(), ours()
    monitor = watch(unused, dt_fixup_(unused, 1.0))
    used(torch.randn(1, 2, 8)).sum().backward()
    with monitor, pytest.raises(ConfigError, match="no training pass went through"):
        monitor.step()


def test_a_step_after_the_gradients_are_cleared_is_an_error() -> None:
    stack = ours()
    with watch(stack, dt_fixup_(stack, 1.0)) as monitor:
        stack(torch.randn(1, 2, 8)).sum().backward()
        stack.zero_grad()
        with pytest.raises(ConfigError, match="before zero_grad"):
            monitor.step()


def test_a_module_before_dropout_counts_for_its_own_step_only() -> None:
    stack, project = ours(), nn.Identity()
    with watch(stack, dt_fixup_(stack, 1.0), before_dropout=project) as monitor:
        stack(project(torch.randn(1, 2, 8))).sum().backward()
        monitor.step()
        with pytest.raises(ConfigError, match="not called"):
            stack(torch.randn(1, 2, 8))


def test_layers_that_are_computed_again_in_the_backward_pass_can_be_watched_before_dropout() -> None:
    project, layers = nn.Linear(8, 8), ours().layers
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
    layer = ours().layers[0]
    report = dt_fixup_([layer, layer], 10.0)
    recorder = Recorder()
    with watch([layer, layer], report, writer=recorder, every=1) as monitor:
        layer(layer(torch.randn(1, 2, 8))).sum().backward()
        monitor.step()
    squares = sum(float(parameter.grad.square().sum()) for parameter in layer.parameters())
    assert recorder.of("gradient_norm") == {0: pytest.approx(squares**0.5)}
