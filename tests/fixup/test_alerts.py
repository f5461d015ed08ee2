"""The judge's summary: the highest of each scalar over all steps, in numbers that JSON knows."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.fixup.alerts import Assumption, Judge

MU = 2.0
NORMS = st.one_of(st.floats(0, 1e6), st.sampled_from([math.nan, math.inf]))


def judge_of(rows: list[tuple[float, list[float], float]], limit: float = math.inf) -> Judge:
    judge = Judge(MU, dict.fromkeys(Assumption, limit), every=5)
    for step, (entering, after, gradient) in enumerate(rows):
        judge.judge(step, entering, after, gradient)
    return judge


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
