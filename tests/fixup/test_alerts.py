"""The judge: which assumption it names and when, and its summary in numbers that JSON can hold."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.fixup.alerts import Assumption, Judge

MU = 2.0
NORMS = st.one_of(st.floats(0, 1e6), st.sampled_from([math.nan, math.inf]))


def judge_of(
    rows: list[tuple[float, list[float], float]], limit: float = math.inf, *, every: int = 5, **limits: float
) -> Judge:
    """A judge after these steps: the norm that enters, the norms after each layer, the gradient norm."""
    named = {assumption: limits.get(assumption.name.lower(), limit) for assumption in Assumption}
    judge = Judge(MU, named, every)
    for step, (entering, after, gradient) in enumerate(rows):
        judge.judge(step, entering, after, gradient)
    return judge


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
def test_an_excursion_is_named_at_its_start_and_when_it_doubles(ratios: list[float], steps: list[int]) -> None:
    judge = judge_of([(MU * ratio, [MU], 1.0) for ratio in ratios], input_norm=2.0, every=2)
    assert [alert.step for alert in judge.alerts if alert.assumption is Assumption.INPUT_NORM] == steps


@pytest.mark.parametrize(
    ("gradients", "named"),
    [
        ([1.0] * 15 + [100.0] + [1.0] * 4, {15: "gradient norm 100 at step 15, usually 1"}),
        ([1.0] * 8 + [100.0], {}),  # too few steps to know the usual norm
        ([1.0, math.nan, 1.0], {1: "gradient norm nan at step 1, usually 0"}),
        (
            [math.nan] * 10 + [1.0] * 10 + [100.0],  # a norm that is not finite does not become usual
            {0: "gradient norm nan at step 0, usually 0", 20: "gradient norm 100 at step 20, usually 1"},
        ),
    ],
)
def test_a_gradient_is_compared_with_the_usual_one(gradients: list[float], named: dict[int, str]) -> None:
    judge = judge_of([(MU, [MU], gradient) for gradient in gradients], gradient=20.0, every=2)
    assert {alert.step: str(alert) for alert in judge.alerts} == named
    assert all(alert.assumption is Assumption.GRADIENT for alert in judge.alerts)


@pytest.mark.parametrize(("after", "growth"), [([2.0, 18.0, 4.0], "9.0"), ([2.0, math.nan, math.nan], "nan")])
def test_growth_names_the_layer_with_the_largest_norm_or_the_first_nan(after: list[float], growth: str) -> None:
    (alert,) = judge_of([(MU, after, 1.0)], growth=8.0).alerts
    assert (alert.assumption, alert.limit) == (Assumption.GROWTH, 8.0)
    assert str(alert) == f"residual stream grew {growth} × up to layer 2 at step 0"


def test_the_highest_of_each_scalar_may_come_from_different_steps() -> None:
    rows = [(2.0, [1.0, 8.0], 0.1), (6.0, [6.0, 3.0], 0.2), (1.0, [1.0, 1.0], 0.7), (2.0, [2.0, 2.0], 0.3)]
    assert judge_of(rows).summary() == {
        "mu": MU,
        "highest_input_norm_over_mu": 3.0,
        "highest_growth": 4.0,
        "highest_gradient_norm": 0.7,
        "alerts": 0.0,
        "steps_watched": 4.0,
        "steps_not_finite": 0.0,
    }


def test_alerts_are_counted() -> None:
    judge = judge_of([(10.0, [90.0], 0.1)], limit=4.0)
    assert [alert.assumption for alert in judge.alerts] == [Assumption.INPUT_NORM, Assumption.GROWTH]
    assert judge.summary()["alerts"] == 2.0


@pytest.mark.parametrize(
    "row", [(math.nan, [2.0], 1.0), (2.0, [math.inf], 1.0), (2.0, [2.0], math.nan)], ids=["input", "growth", "gradient"]
)
def test_a_step_that_is_not_finite_is_counted_and_does_not_hide_the_others(
    row: tuple[float, list[float], float],
) -> None:
    summary = judge_of([(2.0, [6.0], 0.5), row, (4.0, [4.0], 0.5)]).summary()
    assert summary["steps_not_finite"] == 1.0
    assert (summary["highest_input_norm_over_mu"], summary["highest_growth"]) == (2.0, 3.0)


@given(st.lists(st.tuples(NORMS, st.lists(NORMS, min_size=2, max_size=2), NORMS), max_size=20))
def test_a_summary_always_fits_into_json(rows: list[tuple[float, list[float], float]]) -> None:
    summary = judge_of(rows, limit=3.0).summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["steps_watched"] == len(rows)
    finite = [gradient for _, _, gradient in rows if math.isfinite(gradient)]
    assert summary["highest_gradient_norm"] == max(finite, default=0.0)
