"""The rule by which settings win: tuning cells and their results → settings.

At each depth that a strategy is tuned at, the best run on held-out training data wins. On Spider that is the best exact
match with the beam, and of equals the best without one; on ReClor the best accuracy of the runs that left chance. Of
equals the lowest rate wins. With several seeds the means count. A strategy's tuning is whole when all runs of its grids
have ended; a depth at which no run learnt anything has what won at the depth below.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from statistics import fmean
from typing import Any

from dtfixup.errors import DataError
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup_paper.runs.run import SETTLED, Content
from dtfixup_paper.tables.cells import TITLES, Cell, Setup, Trial
from dtfixup_paper.tables.chance import is_at_chance
from dtfixup_paper.tables.settings import Settings

Rank = tuple[float, float]
_NOTHING: Rank = (0.0, 0.0)  # of a run that diverged
SeedResults = Mapping[tuple[str, int], Content]
"""Contents of result files by path and seed."""


@dataclass
class Tuned:
    """What tuning found."""

    settings: Settings
    """With what won in place of what was there before."""
    won: list[str] = field(default_factory=list)
    """What won at each depth, in words."""
    unlearnt: list[str] = field(default_factory=list)
    """Where no run learnt anything."""
    unfinished: list[str] = field(default_factory=list)
    """Strategies that keep the settings from before, because runs are missing."""


def tuned_settings(setup: Setup, cells: Iterable[Cell], results: SeedResults) -> Tuned:
    """Put what won into the setup's settings, for every strategy whose tuning is whole."""
    grids: dict[tuple[bool, str], dict[int, list[Cell]]] = {}
    for cell in cells:
        assert cell.trial is not None  # these are cells of tuning
        key = isinstance(cell.config, SqlSpConfig), cell.trial.strategy
        grids.setdefault(key, {}).setdefault(cell.trial.layers, []).append(cell)
    tuned = Tuned(setup.settings)
    for (is_sql, strategy), by_depth in grids.items():
        task, title = "Spider" if is_sql else "ReClor", TITLES.get(strategy, strategy)
        ranks = {layers: _ranks(grid, results) for layers, grid in by_depth.items()}
        if not all(ranks.values()):
            tuned.unfinished.append(f"{title} ({task})")
            continue
        chosen: dict[int, Any] = {}
        for layers, grid in by_depth.items():
            place = f"{task}, {title}" + (f", N = {layers}" if layers else "")
            rank, trial = _best(ranks[layers], grid)
            if rank[0]:
                chosen[layers] = trial.settings
                tuned.won.append(f"{place}: {trial.settings}")
            else:
                tuned.unlearnt.append(place)
        if chosen:
            field_name = task.lower()
            others = getattr(tuned.settings, field_name)
            tuned.settings = replace(tuned.settings, **{field_name: {**others, strategy: chosen}})
    return tuned


def _best(ranks: Sequence[Rank], grid: Sequence[Cell]) -> tuple[Rank, Trial]:
    """The best rank and its trial; of equals the lowest rate, and then the first."""
    trials = [cell.trial for cell in grid if cell.trial is not None]
    place = max(range(len(trials)), key=lambda place: (ranks[place], -trials[place].settings.learning_rate))
    return ranks[place], trials[place]


def _ranks(grid: Sequence[Cell], results: SeedResults) -> list[Rank]:
    """The mean rank of each cell, over the seeds that all of them have; none if there is no such seed."""
    by_seed: list[list[Rank]] = []
    for seed in count(1):
        contents = [results.get((cell.path, seed), {}) for cell in grid]
        if not all(content.get("state") in SETTLED for content in contents):
            break
        by_seed.append([_rank(cell, content) for cell, content in zip(grid, contents, strict=True)])
    pairs = (zip(*ranks, strict=True) for ranks in zip(*by_seed, strict=True))
    return [(fmean(first), fmean(second)) for first, second in pairs]


def _rank(cell: Cell, content: Content) -> Rank:
    """How good a run is; the first number is 0 where it learnt nothing."""
    metrics = content["metrics"]
    if content["state"] == "diverged":
        return _NOTHING
    try:
        if isinstance(cell.config, SqlSpConfig):
            return metrics["held_out_exact"], metrics["held_out_exact_greedy"]
        return float(not is_at_chance(metrics, "held_out")), metrics["held_out_accuracy"]
    except KeyError as error:
        raise DataError(f"a result of {cell.path} has no metric {error}, so it cannot be compared") from None
