"""The schedule is the paper's anneal, with a warm-up only where one is asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import ConfigError
from dtfixup.training.schedule import anneal


def test_the_papers_anneal() -> None:
    assert [anneal(step, 100) for step in (0, 36, 84, 100)] == pytest.approx([1.0, 0.8, 0.4, 0.0])


def test_warm_up_rises_linearly_from_the_first_step() -> None:
    assert [anneal(step, 100, warmup=4, power=0) for step in range(6)] == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])


@given(st.integers(1, 500), st.integers(0, 500), st.floats(0, 2))
def test_the_factor_stays_between_zero_and_one(total: int, step: int, power: float) -> None:
    step = min(step, total)
    assert 0 <= anneal(step, total, warmup=total // 3, power=power) <= 1


@pytest.mark.parametrize(("step", "total", "warmup"), [(-1, 10, 0), (11, 10, 0), (0, 10, 11), (0, 10, -1)])
def test_steps_outside_the_schedule_are_refused(step: int, total: int, warmup: int) -> None:
    with pytest.raises(ConfigError):
        anneal(step, total, warmup=warmup)
