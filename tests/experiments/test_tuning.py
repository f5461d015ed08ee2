"""What tuning chose in a folder of results, and that everything else is trained with it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtfixup.cli import main
from dtfixup.experiments import reproduce, spider_tune
from dtfixup.experiments import sweep as sweep_module
from dtfixup.experiments.cells import Budget, Plan, RunConfig, Tried, metric_of
from dtfixup.experiments.reclor_cells import tried as tried_on_reclor
from dtfixup.experiments.reproduce import EXPERIMENTS, GROUPS, Sources, train_in_parts
from dtfixup.experiments.run_identity import Content, Settled, State
from dtfixup.experiments.settings import NO_LAYERS, RECLOR, SPIDER
from dtfixup.experiments.smoke import small_encoder, small_reclor, small_spider
from dtfixup.experiments.spider import configure
from dtfixup.experiments.sweep import Outcome, Run, read_results
from dtfixup.experiments.tuning import plan_of, told, winners
from dtfixup.sql.prepared import open_prepared
from dtfixup.training.config import to_json

RESULTS = Path(__file__).parents[2] / "results"
TUNED = {
    "spider-tune": {"dt-fixup": {24}, "standard": {8, 16, 24}, "pre-ln": {24}, "admin": {24}, "deepnorm": {24}},
    "reclor-tune": {
        "dt-fixup": {0, 4, 16}, "standard": {4, 8, 16, 24}, "pre-ln": {16}, "admin": {24}, "deepnorm": {24},
    },
}  # fmt: skip
"""Strategies and depths; without new layers a configuration still has a strategy."""


def result(config: RunConfig, value: float | None, *, seed: int = 1, **metrics: Any) -> dict[str, Any]:
    """What a file of a tuning run has; None where it diverged."""
    measured = {metric_of(config): value, "held_out_exact_greedy": value, "chance": 25.0, "evaluated_examples": 463}
    return {
        "seed": seed,
        "config": to_json(config),
        "metrics": {} if value is None else {**measured, **metrics},
        "state": "diverged" if value is None else "finished",
    }


def grid_of(
    strategy: str, tried: Callable[[Budget], list[Any]] = spider_tune.tried, budget: Budget = Budget.GPU
) -> list[Tried[Any]]:
    return [each for each in tried(budget) if each.strategy == strategy]


def test_what_is_shipped_won_our_own_tuning() -> None:
    """A strategy whose tuning is whole has what won it; of the others, what was chosen has been tried at least."""
    contents = read_results(RESULTS)
    plan, settled = plan_of(Budget.GPU, contents), Settled(contents)
    assert {"dt-fixup", "standard"} <= set(plan.spider.here)
    assert {NO_LAYERS, "dt-fixup"} <= set(plan.reclor.here)
    for won, shipped in ((plan.spider, SPIDER), (plan.reclor, RECLOR)):
        for name in won.here:
            for layers, settings in won.tables[name].items():
                assert shipped.of(name, layers) == settings, (name, layers)  # type: ignore[comparison-overlap]
    assert told(plan) == ""
    for name, tuned in TUNED.items():
        cells = EXPERIMENTS[name].cells(Plan(Budget.GPU))
        found = {(cell.config.model.strategy, cell.config.model.layers) for cell in cells}
        assert found == {(strategy, layers) for strategy, depths in tuned.items() for layers in depths}
        for cell in cells:
            ended = settled.find(cell.config, 1, metric=metric_of(cell.config))
            assert ended is not None or not cell.is_chosen, cell.variant


def test_a_whole_grid_decides_and_a_part_of_one_does_not() -> None:
    grid = grid_of("pre-ln")
    contents = [result(each.config, 40.0 + place) for place, each in enumerate(grid)]
    assert plan_of(Budget.GPU, contents[:-1]) == Plan(Budget.GPU)
    plan = plan_of(Budget.GPU, contents)
    assert plan.spider.here == ("pre-ln",)
    assert plan.spider.of("pre-ln", 8) == plan.spider.of("pre-ln", 32) == grid[-1].settings
    assert plan.spider.of("dt-fixup", 24) == SPIDER.of("dt-fixup", 24)
    assert plan_of(Budget.SMOKE, contents) == Plan(Budget.SMOKE)
    failed = [*contents[:-1], {**contents[-1], "state": "failed"}]
    assert plan_of(Budget.GPU, failed) == Plan(Budget.GPU), "it will be trained again"


def test_a_strategy_is_tuned_when_all_its_depths_are() -> None:
    grid = grid_of("standard")
    shallow = [result(each.config, 50.0) for each in grid if each.layers == 8]
    assert plan_of(Budget.GPU, shallow).spider.here == ()
    deep = [result(each.config, 30.0 + place) for place, each in enumerate(grid) if each.layers > 8]
    plan = plan_of(Budget.GPU, shallow + deep)
    last = {each.layers: each.settings for each in grid}
    assert plan.spider.tables["standard"] == {8: grid[0].settings, 16: last[16], 24: last[24]}, "of equals the first"


def test_runs_that_broke_or_learnt_nothing_do_not_win() -> None:
    grid = grid_of("pre-ln")
    values = [None, *(50.0 for _ in grid[1:])]
    contents = [result(each.config, value) for each, value in zip(grid, values, strict=True)]
    assert plan_of(Budget.GPU, contents).spider.of("pre-ln", 24) == grid[1].settings
    greedy = [replace_metric(each, "held_out_exact_greedy", 51.0) if each is contents[2] else each for each in contents]
    assert plan_of(Budget.GPU, greedy).spider.of("pre-ln", 24) == grid[2].settings, "of equals the best without a beam"
    assert plan_of(Budget.GPU, [result(each.config, None) for each in grid]).spider.here == ()
    read = grid_of("pre-ln", tried_on_reclor)
    silent = [result(each.config, 39.0, held_out_loss=1.3863) for each in read[:1]]
    others = [result(each.config, 35.0 + place, held_out_loss=2.0) for place, each in enumerate(read[1:])]
    assert plan_of(Budget.GPU, silent + others).reclor.of("pre-ln", 16) == read[-1].settings
    at_chance = [result(each.config, 26.0, held_out_loss=1.4) for each in read]
    assert plan_of(Budget.GPU, at_chance).reclor == RECLOR


def replace_metric(content: Content, name: str, value: float) -> dict[str, Any]:
    return {**content, "metrics": {**content["metrics"], name: value}}


def test_more_seeds_count_where_all_have_them() -> None:
    grid = grid_of("admin")
    first = [
        result(each.config, value) for each, value in zip(grid, (60.0, 59.0, *(10.0 for _ in grid[2:])), strict=True)
    ]
    second = [
        result(each.config, value, seed=2)
        for each, value in zip(grid, (50.0, 58.0, *(90.0 for _ in grid[2:])), strict=True)
    ]
    assert plan_of(Budget.GPU, first + second[:-1]).spider.of("admin", 24) == grid[0].settings
    assert plan_of(Budget.GPU, first + second).spider.of("admin", 24) == grid[1].settings, "58.5; the others 55 and 50"


def test_an_encoder_has_its_own_tuning() -> None:
    grid = grid_of("dt-fixup")
    contents = [result(replace(each.config, encoder="mpnet"), 40.0 - place) for place, each in enumerate(grid)]
    assert plan_of(Budget.GPU, contents) == Plan(Budget.GPU), "MiniLM has none there"
    plan = plan_of(Budget.GPU, contents, "folder/mpnet")
    assert plan.spider.of("t-fixup", 24) == plan.spider.of("dt-fixup", 8) == grid[0].settings
    (cell, *_) = EXPERIMENTS["mu-choice"].cells(plan)
    assert cell.config.training.update.learning_rate == grid[0].settings.learning_rate
    marked = [cell.variant for cell in EXPERIMENTS["spider-tune"].cells(plan) if cell.is_chosen]
    assert [name for name in marked if name.startswith("dt-fixup")] == ["dt-fixup-n24-lr0.0004-drop0.3-smooth0.1"]


def test_whose_settings_runs_have_is_told() -> None:
    contents = [result(replace(each.config, encoder="mpnet"), 40.0) for each in grid_of("dt-fixup")]
    plan = plan_of(Budget.GPU, contents, "mpnet")
    assert told(plan, "mpnet") == (
        "Settings that won the tuning in this folder: DT-Fixup (Spider). Those of the others were chosen with MiniLM; "
        "dtfixup reproduce tune with this encoder finds its own."
    )
    assert told(Plan(Budget.GPU), "mpnet").startswith("The settings of all strategies were chosen with MiniLM")
    assert told(Plan(Budget.PAPER), "mpnet").startswith("The settings of all strategies are the paper's")
    assert [told(Plan(budget)) for budget in Budget] == ["", "", ""]
    own = plan_of(Budget.GPU, [result(each.config, 40.0) for each in grid_of("dt-fixup")])
    assert told(own) == "Settings that won the tuning in this folder: DT-Fixup (Spider).", "not those that were shipped"
    assert winners(own, ["reclor-tune"]) == []
    (line,) = winners(own, ["spider-tune", "reclor-tune"])
    assert line.startswith("Spider, DT-Fixup, N = 24: rate 0.0004, encoder 8e-05, dropout 0.3, smoothing 0")


def test_the_papers_settings_give_way_to_what_was_tuned() -> None:
    grid = grid_of("standard", budget=Budget.PAPER)
    plan = plan_of(Budget.PAPER, [result(each.config, 40.0) for each in grid])
    rates = [configure(plan, name, 8).training.update.learning_rate for name in ("standard", "dt-fixup")]
    assert rates == [grid[0].settings.learning_rate, 4e-4] != [4e-4, 4e-4]
    assert configure(plan, "dt-fixup", 24) == configure(Plan(Budget.PAPER), "dt-fixup", 24)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(small_prepared(tmp_path), small_reclor(), str(small_encoder()))


def small_prepared(folder: Path) -> Path:
    from dtfixup.sql.prepare import prepare

    out = folder / "prepared"
    prepare(small_spider(), out, encoder=str(small_encoder()), splits=("train", "dev"), workers=1, show_progress=False)
    return open_prepared(out).folder


def pretend(out: Path, state: State = State.FINISHED) -> Callable[[list[Run], float | None], list[Outcome]]:
    """In place of training: the first of each grid is the best, and others are worse by a point."""

    def train(runs: list[Run], seconds: float | None) -> list[Outcome]:
        del seconds
        out.mkdir(exist_ok=True)
        for place, run in enumerate(runs):
            content = result(run.config, 60.0 - place / 10, seed=run.seed, held_out_loss=2.0)
            (out / f"{run.name}.json").write_text(json.dumps(content | {"state": state.value}))
        trained.append([run.experiment.removesuffix("-random-bert") for run in runs])
        return [Outcome(run, state) for run in runs]

    trained: list[list[str]] = []
    train.trained = trained  # type: ignore[attr-defined]
    return train


def test_what_is_tuned_first_is_what_the_others_are_trained_with(
    sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    train = pretend(out)
    outcomes = train_in_parts(["reclor-main", "tune"], Budget.GPU, sources, out, train, seeds=1)
    first, second = train.trained  # type: ignore[attr-defined]
    assert (set(first), set(second)) == ({"spider-tune", "reclor-tune"}, {"reclor-main"})
    plan = plan_of(Budget.GPU, read_results(out), sources.encoder)
    won = plan.reclor.of("dt-fixup", 4)
    assert won == grid_of("dt-fixup", tried_on_reclor)[0].settings != RECLOR.of("dt-fixup", 4)
    assert outcomes[-1].run.config.model.input_dropout == won.dropout == 0.1
    said = " ".join(capsys.readouterr().out.split())
    assert f"ReClor, DT-Fixup, N = 4: {won}" in said
    assert "Spider, standard, N = 16: rate" in said
    assert "Settings that won the tuning in this folder: DT-Fixup, standard" in said


def test_the_others_wait_for_tuning_that_has_not_ended(
    sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    train = pretend(out, State.FAILED)
    outcomes = train_in_parts(["reclor-main", "reclor-tune"], Budget.GPU, sources, out, train, seeds=1)
    assert {each.run.experiment for each in outcomes} == {"reclor-tune-random-bert"}
    said = " ".join(capsys.readouterr().out.split())
    assert "What won, of strategies whose tuning is whole: none" in said
    assert "reclor-main: not begun, because tuning" in said
    train_in_parts(["reclor-main"], Budget.GPU, sources, out, train, seeds=1)
    said = " ".join(capsys.readouterr().out.split())
    assert "The settings of all strategies were chosen with MiniLM" in said
    assert len(train.trained) == 2, "it is not asked for, so nothing waits for it"  # type: ignore[attr-defined]


def test_time_is_shared_by_the_parts(sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, given = iter([100.0, 103.0, 140.0]), []
    monkeypatch.setattr(reproduce.time, "monotonic", lambda: next(clock))

    def train(runs: list[Run], seconds: float | None) -> list[Outcome]:
        given.append(seconds)
        return [Outcome(run, State.FINISHED) for run in runs]

    train_in_parts(["reclor-main", "reclor-tune"], Budget.GPU, sources, tmp_path, train, seeds=1, budget_seconds=30.0)
    assert given == [27.0, 0.0]


def test_the_list_and_the_command_have_the_plan_of_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder, out = small_encoder(), tmp_path / "out"
    monkeypatch.setattr(sweep_module, "run_sweep", lambda runs, out, **_: pretend(out)(runs, None))
    options = ["--reclor", str(small_reclor()), "--encoder", str(encoder), "--out", str(out), "--seeds", "1"]
    main(["reproduce", "reclor-main", "reclor-tune", *options])
    capsys.readouterr()
    main(["reproduce", "list", *options[2:]])
    said = capsys.readouterr().out
    (row,) = [line for line in said.splitlines() if "│ reclor-main" in line]
    assert [part.strip() for part in row.split("│")[3:5]] == ["3", "3"], "by what was chosen here"
    assert "Settings that won the tuning in this folder: no new layers, DT-Fixup" in " ".join(said.split())
    assert set(GROUPS["tune"]) == set(TUNED)
