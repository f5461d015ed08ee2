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
from torch.utils.tensorboard import SummaryWriter

from dtfixup.errors import ConfigError
from dtfixup.fixup import Alert, Assumption, Monitor, dt_fixup_, strategy_named, watch
from dtfixup.transformer import StackConfig, TransformerStack

N, D, MU = 3, 8, 5.0
KEEP_BL = torch.tensor([[True, True, True, True], [True, True, False, False]])
Scalars = dict[str, dict[int, float]]


class Recorder:
    """Keeps the scalars by tag and step, and refuses a second one for the same."""

    def __init__(self) -> None:
        self.scalars: Scalars = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        steps = self.scalars.setdefault(tag.removeprefix("dtfixup/"), {})
        assert global_step not in steps
        steps[global_step] = scalar_value


class Dropping(nn.Module):
    """Dropout between a projection and the stack, as in models whose stack has none of its own."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.project, self.dropout = nn.Identity(), nn.Dropout(rate)
        self.stack = pytorch()

    def forward(self, x: Tensor) -> Tensor:
        return self.stack(self.dropout(self.project(x)))


def vectors(norm: float = MU) -> Tensor:
    x_BLD = torch.randn(2, 4, D)
    return norm * x_BLD / x_BLD.norm(dim=-1, keepdim=True)


def ours(**options: object) -> TransformerStack:
    return TransformerStack(StackConfig(layers=N, dim=D, heads=2, mlp_dim=16, **options))


def pytorch(**options: object) -> nn.TransformerEncoder:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 16, 0.0, batch_first=True, **options), N)


def watched(stack: nn.Module | None = None, **options: object) -> tuple[nn.Module, Monitor]:
    stack = ours() if stack is None else stack
    return stack, watch(stack, dt_fixup_(stack, MU), **{"every": 4, **options})


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
    recorder = Recorder()
    stack, monitor = watched(writer=recorder, every=10)
    learner = optimizer(stack.parameters(), lr=1e-3)
    target = torch.randn(2, 4, D)
    with monitor:
        for _ in range(45):
            learner.zero_grad()
            (stack(vectors()) - target).square().mean().backward()
            monitor.step()
            learner.step()
    assert monitor.alerts == []
    assert list(recorder.scalars["growth"]) == list(range(45))
    assert set(recorder.scalars) == {"input_norm_over_mu", "growth", "gradient_norm"}
    assert all(0.5 < growth < 2 for growth in recorder.scalars["growth"].values())


def test_inflated_inputs_are_named_with_the_step_and_the_ratio(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Alert] = []
    stack, monitor = watched(first_step=4_330, callback=heard.append)
    with caplog.at_level(logging.WARNING, logger="dtfixup"):
        alerts = train(stack, monitor, [vectors(MU if place < 10 else 2.3 * MU) for place in range(14)])
    assert [str(alert) for alert in alerts] == ["input norm 2.3 × μ at step 4,340"]
    assert (alerts[0].step, alerts[0].assumption, alerts[0].limit) == (4_340, Assumption.INPUT_NORM, 2.0)
    assert alerts[0].value == pytest.approx(2.3, rel=1e-5)
    assert heard == alerts
    assert caplog.messages == ["input norm 2.3 × μ at step 4,340"]


def test_growth_names_the_layer_up_to_which_the_stream_grew() -> None:
    stack, monitor = watched()
    with torch.no_grad():
        stack.layers[1].mlp.down.weight.mul_(3_000)
        stack.layers[2].mlp.down.weight.zero_()
        stack.layers[2].attention.output.weight.zero_()
    (alert,) = train(stack, monitor, [vectors()])
    assert (alert.step, alert.assumption, alert.limit) == (0, Assumption.GROWTH, 8.0)
    assert str(alert) == f"residual stream grew {alert.value:.1f} × up to layer 2 at step 0"


def test_growth_is_the_largest_norm_after_any_layer_over_the_largest_at_the_entrance() -> None:
    recorder = Recorder()
    stack, monitor = watched(writer=recorder)
    nn.init.normal_(stack.layers[0].mlp.down.weight)
    x_BLD, norms = vectors(), []
    train(stack, monitor, [x_BLD])
    with torch.no_grad():
        y_BLD = x_BLD
        for layer in stack.layers:
            y_BLD = layer(y_BLD)
            norms.append(y_BLD.norm(dim=-1).max().item())
    assert recorder.scalars["growth"][0] == pytest.approx(max(norms) / MU, rel=1e-5)


def test_one_batch_with_a_huge_gradient_is_named() -> None:
    recorder = Recorder()
    stack, monitor = watched(writer=recorder)
    alerts = train(stack, monitor, [vectors()] * 20, losses=[1.0] * 15 + [100.0])
    assert named(alerts) == [(15, "GRADIENT")]
    usual = torch.nn.utils.get_total_norm([parameter.grad for parameter in stack.parameters()]).item()
    assert alerts[0].value == pytest.approx(100, rel=1e-4)
    assert str(alerts[0]) == f"gradient norm {100 * usual:.3g} at step 15, usually {usual:.3g}"
    assert recorder.scalars["gradient_norm"][19] == pytest.approx(usual, rel=1e-5)


def test_the_first_gradients_are_no_measure_yet() -> None:
    stack, monitor = watched()
    assert train(stack, monitor, [vectors()] * 9, losses=[1.0] * 8 + [100.0]) == []


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_inputs_that_are_not_finite_are_named_at_their_step(bad: float) -> None:
    stack, monitor = watched()
    batches = [vectors() for _ in range(8)]
    batches[5][0, 1, 2] = bad
    alerts = train(stack, monitor, batches)
    assert named(alerts) == [(5, "INPUT_NORM"), (5, "GROWTH"), (5, "GRADIENT")]
    assert str(alerts[0]) == f"input norm {bad} × μ at step 5"


def test_a_gradient_that_is_not_finite_is_named_before_there_is_a_usual_one() -> None:
    stack, monitor = watched()
    assert named(train(stack, monitor, [vectors()] * 6, losses=[1.0, math.nan, 1.0])) == [(1, "GRADIENT")]


def test_gradients_that_are_not_finite_do_not_become_usual() -> None:
    stack, monitor = watched(every=2)
    alerts = train(stack, monitor, [vectors()] * 21, losses=[math.nan] * 10 + [1.0] * 10 + [100.0])
    assert named(alerts) == [(0, "GRADIENT"), (20, "GRADIENT")]


def test_a_nan_that_arises_inside_the_stack_is_named() -> None:
    stack, monitor = watched()
    with torch.no_grad():
        stack.layers[1].mlp.down.weight[0, 0] = math.nan
    assert named(train(stack, monitor, [vectors()])) == [(0, "GROWTH"), (0, "GRADIENT")]


@pytest.mark.parametrize(
    ("ratios", "steps"),
    [
        ([1, 3, 4, 5, 6, 3, 3, 3, 3, 3, 3, 3], [1]),
        ([1, 3, 4, 6.1, 12, 12.3, 1], [1, 3, 5]),
        ([3, 1, 1, 1, 3, 1, 1, 1, 3], [0]),
        ([3, 1, 1, 1, 1, 3, 1, 1, 1, 1, 3], [0, 5, 10]),
        ([3, math.nan, math.nan, 3, 100], [0, 1]),
        ([3, math.inf, math.inf, 3, math.nan], [0, 1, 4]),
    ],
    ids=["one", "twice as bad", "short pause", "quiet time", "nan", "infinity"],
)
def test_an_excursion_is_named_when_it_begins_and_when_it_gets_twice_as_bad(
    ratios: list[float], steps: list[int]
) -> None:
    stack, monitor = watched(every=2)
    alerts = train(stack, monitor, [vectors() * ratio for ratio in ratios])
    assert [alert.step for alert in alerts if alert.assumption is Assumption.INPUT_NORM] == steps


def test_limits_can_be_set() -> None:
    limits = {"max_input_ratio": 1.1, "max_growth": 0.1, "max_gradient_ratio": 0.5}
    stack, monitor = watched(**limits)
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
    return recorder.scalars["input_norm_over_mu"][0]


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
    stack, monitor = watched()
    (stack(loud(), KEEP_BL)[KEEP_BL]).sum().backward()
    monitor.step()
    monitor.close()
    assert monitor.alerts == []


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_validation_passes_are_not_counted(off: Callable[[], object]) -> None:
    recorder = Recorder()
    stack, monitor = watched(writer=recorder)
    stack(vectors()).sum().backward()
    with off():
        stack(vectors(100 * MU))
    monitor.step()
    monitor.close()
    assert monitor.alerts == []
    assert recorder.scalars["input_norm_over_mu"] == {0: pytest.approx(1.0, rel=1e-5)}


def test_every_pass_of_a_step_counts_where_gradients_are_accumulated() -> None:
    recorder = Recorder()
    stack, monitor = watched(writer=recorder)
    for ratio in (1.0, 1.5, 0.5):
        stack(vectors(ratio * MU)).sum().backward()
    monitor.step()
    monitor.close()
    assert recorder.scalars["input_norm_over_mu"] == {0: pytest.approx(1.5, rel=1e-5)}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls that wait for the device, as they are made."""
    made: list[str] = []
    for name in ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__"):
        original = getattr(Tensor, name)
        monkeypatch.setattr(Tensor, name, lambda self, *a, n=name, o=original: made.append(n) or o(self, *a))
    return made


def test_nothing_is_read_but_every_so_many_steps(reads: list[str]) -> None:
    stack, monitor = watched(every=5)
    for step in range(1, 21):
        reads.clear()
        stack(vectors(3 * MU)).sum().backward()
        monitor.step()
        assert reads == (["item", "tolist"] if step in (5, 10, 15, 20) else [])
        assert len(monitor.alerts) == (step >= 5)


@pytest.mark.parametrize("steps", [0, 3, 5, 8, 13])
def test_closing_reads_what_is_left_and_removes_the_hooks(steps: int) -> None:
    recorder = Recorder()
    stack, monitor = watched(writer=recorder, every=5, first_step=100)
    train(stack, monitor, [vectors()] * steps)
    monitor.close()
    assert list(recorder.scalars.get("growth", {})) == list(range(100, 100 + steps))
    assert not hooks_of(stack)


def test_a_context_closes_the_monitor_after_an_error_too() -> None:
    stack, monitor = watched()

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
        stack, monitor = watched(writer=writer, first_step=7)
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


def test_a_module_before_dropout_that_is_not_called_is_an_error() -> None:
    stack = ours()
    with (
        watch(stack, dt_fixup_(stack, MU), before_dropout=nn.Identity()),
        pytest.raises(ConfigError, match="not called"),
    ):
        stack(vectors())


def test_a_nan_is_placed_where_it_first_appears() -> None:
    stack, monitor = watched(every=1)
    with torch.no_grad():
        stack.layers[1].mlp.down.weight.fill_(math.nan)
    alerts = train(stack, monitor, [vectors()])
    monitor.close()
    assert any("up to layer 2 at step 0" in str(alert) for alert in [*alerts, *monitor.alerts])


def test_a_mask_of_the_wrong_shape_is_not_passed_over() -> None:
    stack, monitor = watched(pytorch())
    monitor.keep = KEEP_BL[:1]
    with monitor, pytest.raises(ConfigError, match=r"mask of real vectors is \(1, 4\), but there are \(2, 4\)"):
        stack(vectors())
