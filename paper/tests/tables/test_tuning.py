"""The rule by which settings win."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dtfixup_paper.tables import reclor, spider_tune
from dtfixup_paper.tables.cells import Budget, Cell, Setup
from dtfixup_paper.tables.result_files import read_results
from dtfixup_paper.tables.settings import settings_at
from dtfixup_paper.tables.tuning import Tuned, tuned_settings

from dtfixup.errors import DataError
from dtfixup.sql.model.config import SqlSpConfig

RESULTS = Path(__file__).parents[3] / "results"
SETUP = Setup(Budget.GPU)
Results = dict[tuple[str, int], dict[str, Any]]


def grid_of(strategy: str, cells: Callable[[Setup], list[Cell]] = spider_tune.tune_cells) -> list[Cell]:
    return [cell for cell in cells(SETUP) if cell.trial is not None and cell.trial.strategy == strategy]


def result(cell: Cell, value: float | None, **metrics: float) -> dict[str, Any]:
    """What a file of a tuning run has; None where it diverged."""
    if value is None:
        return {"state": "diverged", "metrics": {}}
    measured: Mapping[str, float] = {"held_out_exact": value, "held_out_exact_greedy": value}
    if not isinstance(cell.config, SqlSpConfig):
        measured = {"held_out_accuracy": value, "held_out_loss": 2.0, "chance": 25.0, "evaluated_examples": 463}
    return {"state": "finished", "metrics": {**measured, **metrics}}


def results_of(grid: list[Cell], values: list[float | None], seed: int = 1) -> Results:
    return {(cell.path, seed): result(cell, value) for cell, value in zip(grid, values, strict=True)}


def tune(grid: list[Cell], results: Results) -> Tuned:
    return tuned_settings(SETUP, grid, results)


def chosen(tuned: Tuned, cell: Cell) -> Any:
    """What a cell's strategy has at the cell's depth."""
    assert cell.trial is not None
    by_depth: Any = tuned.settings.spider if isinstance(cell.config, SqlSpConfig) else tuned.settings.reclor
    return settings_at(by_depth, cell.trial.strategy, cell.trial.layers)


def settings(cell: Cell) -> Any:
    assert cell.trial is not None
    return cell.trial.settings


def test_the_published_settings_won_the_published_tuning() -> None:
    files = read_results(RESULTS)
    for cells, strategies in ((spider_tune.tune_cells(SETUP), 5), (reclor.tune_cells(SETUP), 6)):
        results = {(cell.path, file.seed): file.content for cell in cells for file in files.of(cell)}
        tuned = tuned_settings(SETUP, cells, results)
        assert (tuned.unlearnt, tuned.unfinished) == ([], [])
        places = {(cell.trial.strategy, cell.trial.layers): cell for cell in cells if cell.trial}
        assert len({strategy for strategy, _ in places}) == strategies
        assert len(tuned.won) == len(places)
        for cell in places.values():
            assert chosen(tuned, cell) == chosen(Tuned(SETUP.settings), cell), cell.column


@pytest.mark.parametrize("cells", [spider_tune.tune_cells, reclor.tune_cells])
def test_what_won_is_marked_once_in_every_grid(cells: Callable[[Setup], list[Cell]]) -> None:
    columns = [cell.column for cell in cells(SETUP) if cell.is_chosen]
    assert sorted(columns) == sorted({cell.column for cell in cells(SETUP)})
    assert not any(cell.is_chosen for cell in cells(Setup(Budget.SMOKE)))


def test_a_whole_grid_decides_and_a_part_of_one_does_not() -> None:
    grid = grid_of("pre-ln")
    results = results_of(grid, [40.0 + place for place in range(len(grid))])
    tuned = tune(grid, results)
    assert chosen(tuned, grid[0]) == settings(grid[-1])
    assert tuned.won == [f"Spider, pre-LN, N = 24: {settings(grid[-1])}"]
    last = (grid[-1].path, 1)
    failed: Results = {**results, last: {"state": "failed", "metrics": {}}}
    for less in (failed, {key: content for key, content in results.items() if key != last}):
        tuned = tune(grid, less)
        assert tuned.settings == SETUP.settings
        assert (tuned.won, tuned.unfinished) == ([], ["pre-LN (Spider)"])


def test_a_strategy_is_tuned_when_all_its_depths_are() -> None:
    grid = grid_of("standard")
    shallow = [cell for cell in grid if cell.config.model.layers == 8]
    results = results_of(shallow, [50.0] * len(shallow))
    assert tune(grid, results).settings == SETUP.settings
    deep = [cell for cell in grid if cell not in shallow]
    tuned = tune(grid, results | results_of(deep, [30.0 + place for place in range(len(deep))]))
    last = {cell.config.model.layers: settings(cell) for cell in grid}
    best = {8: settings(grid[0]), 16: last[16], 24: last[24]}
    assert tuned.settings.spider["standard"] == best, "of equals the first"


def test_runs_that_broke_or_learnt_nothing_do_not_win() -> None:
    grid = grid_of("pre-ln")
    results = results_of(grid, [None, *(50.0 for _ in grid[1:])])
    assert chosen(tune(grid, results), grid[0]) == settings(grid[1])
    results[grid[2].path, 1]["metrics"]["held_out_exact_greedy"] = 51.0
    assert chosen(tune(grid, results), grid[0]) == settings(grid[2]), "of equals the best without a beam"
    broken = tune(grid, results_of(grid, [None for _ in grid]))
    assert (broken.settings, broken.unlearnt) == (SETUP.settings, ["Spider, pre-LN, N = 24"])


def test_runs_at_chance_do_not_win() -> None:
    grid = grid_of("pre-ln", reclor.tune_cells)
    results = results_of(grid, [39.0, *(35.0 + place for place in range(1, len(grid)))])
    results[grid[0].path, 1]["metrics"]["held_out_loss"] = 1.3863
    assert chosen(tune(grid, results), grid[0]) == settings(grid[-1])
    assert tune(grid, results_of(grid, [26.0 for _ in grid])).unlearnt == ["ReClor, pre-LN, N = 16"]


def test_a_depth_at_which_nothing_learnt_has_what_won_below_it() -> None:
    grid = grid_of("standard", reclor.tune_cells)
    values = [26.0 if cell.config.model.layers == 24 else 40.0 - place / 10 for place, cell in enumerate(grid)]
    tuned = tune(grid, results_of(grid, values))
    assert set(tuned.settings.reclor["standard"]) == {4, 8, 16}
    at_16 = next(cell for cell in grid if cell.config.model.layers == 16)
    assert chosen(tuned, grid[-1]) == settings(at_16)
    assert tuned.unlearnt == ["ReClor, standard, N = 24"]


def test_of_equals_the_lowest_rate_wins() -> None:
    grid = grid_of("pre-ln", reclor.tune_cells)
    rates = [settings(cell).learning_rate for cell in grid]
    (high, low), values = (rates.index(6e-4), len(rates) - 1), [35.0 for _ in grid]
    assert rates[low] < rates[high]
    values[high] = values[low] = 36.0
    assert chosen(tune(grid, results_of(grid, [*values])), grid[0]) == settings(grid[low])


def test_more_seeds_count_where_all_have_them() -> None:
    grid = grid_of("admin")
    first = results_of(grid, [60.0, 59.0, *(10.0 for _ in grid[2:])])
    second = results_of(grid, [50.0, 58.0, *(90.0 for _ in grid[2:])], seed=2)
    assert chosen(tune(grid, first | second), grid[0]) == settings(grid[1]), "58.5; the others 55 and 50"
    del second[grid[-1].path, 2]
    assert chosen(tune(grid, first | second), grid[0]) == settings(grid[0])


@pytest.mark.parametrize(
    ("cells", "metric"), [(reclor.tune_cells, "chance"), (spider_tune.tune_cells, "held_out_exact_greedy")]
)
def test_a_file_that_lacks_a_metric_is_an_error(cells: Callable[[Setup], list[Cell]], metric: str) -> None:
    grid = grid_of("pre-ln", cells)
    results = results_of(grid, [40.0 for _ in grid])
    del results[grid[1].path, 1]["metrics"][metric]
    with pytest.raises(DataError, match=f"{grid[1].path} has no metric '{metric}'"):
        tune(grid, results)


def test_settings_of_the_setup_stay_where_nothing_was_tuned() -> None:
    grid = grid_of("dt-fixup")
    own = replace(SETUP.settings, spider={**SETUP.settings.spider, "admin": {2: settings(grid[3])}})
    tuned = tuned_settings(replace(SETUP, settings=own), grid, results_of(grid, [40.0 for _ in grid]))
    assert tuned.settings.spider["admin"] == {2: settings(grid[3])}
    assert tuned.settings.reclor == SETUP.settings.reclor
