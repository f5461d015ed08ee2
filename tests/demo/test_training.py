"""The demo's training: tuning, resuming after it, results; tiny, and real."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from matplotlib import image

from dtfixup.demo.training import (
    TRIALS,
    DemoConfig,
    DemoData,
    DemoRun,
    DemoTrial,
    accuracy,
    metrics,
    plot,
    prepare_stories,
    stories_hash,
    train_strategy,
)

TINY = DemoConfig(
    train=60, held_out=20, story_steps=(1, 2), layers=2, dim=16, heads=2, mlp_dim=16, batch_size=16, steps=12,
    tune_steps=4, evaluate_every=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def data() -> DemoData:
    return prepare_stories(TINY)


def silent(state: dict[str, object]) -> None:
    pass


def test_baselines_are_tuned_and_dt_fixup_runs_once() -> None:
    assert len(TRIALS["standard"]) >= 3
    assert len(TRIALS["pre-ln"]) >= 2
    assert len(TRIALS["dt-fixup"]) == 1
    assert all(candidate.warmup for candidate in TRIALS["standard"])
    assert not TRIALS["dt-fixup"][0].warmup


@pytest.mark.parametrize("strategy", list(TRIALS))
def test_a_strategy_is_tuned_and_trained_to_the_end(strategy: str, data: DemoData) -> None:
    seen: list[dict[str, object]] = []
    result = train_strategy(strategy, TINY, data, seen.append)
    assert result.steps == (4, 8, 12)
    assert len(result.validation) == 3
    assert result.learning_rate in {candidate.learning_rate for candidate in TRIALS[strategy]}
    assert set(result.by_story_steps) == {1, 2}
    assert result.accuracy == pytest.approx(sum(result.by_story_steps.values()) / 2)
    assert metrics([result])[f"{strategy.replace('-', '_')}_accuracy"] == result.accuracy
    assert seen[-1]["step"] == 10


def test_the_last_step_is_always_on_the_curve(data: DemoData) -> None:
    run = DemoRun("dt-fixup", DemoTrial(1e-3), replace(TINY, steps=6), data)
    run.train_until(6, silent)
    assert list(run.curve) == [4, 6]


def test_a_run_that_pauses_goes_on_as_if_it_had_not(data: DemoData) -> None:
    paused, straight = (DemoRun("dt-fixup", DemoTrial(1e-3), TINY, data) for _ in range(2))
    paused.train_until(5, silent)
    torch.rand(3)
    paused.train_until(12, silent)
    straight.train_until(12, silent)
    for left, right in zip(paused.model.parameters(), straight.model.parameters(), strict=True):
        assert torch.equal(left, right)


def test_dt_fixup_learns_what_it_is_shown(data: DemoData) -> None:
    config = replace(TINY, steps=150, evaluate_every=150)
    run = DemoRun("dt-fixup", DemoTrial(3e-3), config, data)
    before = accuracy(run.model, data.train)
    run.train_until(150, silent)
    assert accuracy(run.model, data.train) > before + 40


def test_the_data_hash_tells_data_apart(data: DemoData) -> None:
    other = replace(data, tune=data.validation)
    assert stories_hash(data) == stories_hash(data) != stories_hash(other)


def test_the_curves_are_drawn(data: DemoData, tmp_path: Path) -> None:
    result = train_strategy("dt-fixup", TINY, data, silent)
    picture = plot([result, replace(result, strategy="standard", warmup=7)], TINY, tmp_path / "new" / "demo.png")
    assert image.imread(picture).shape[0] > 300
