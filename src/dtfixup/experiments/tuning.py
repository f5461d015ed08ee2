"""What tuning chose in a folder of results, for whatever encoder: result files → the plan of all other experiments.

A strategy has what won there once every run of its grids has ended, at all the depths that it is tuned at; until then
it has what was chosen with MiniLM, or in the paper's budget the paper's own settings, and `told` says so. So the plan
of a folder changes when a tuning is whole, and not with each of its runs. Smoke runs choose nothing.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from statistics import fmean
from typing import Any, Generic

from dtfixup.experiments import reclor_cells, spider_tune
from dtfixup.experiments.cells import TITLES, Budget, Plan, Tried, metric_of
from dtfixup.experiments.chance import is_at_chance
from dtfixup.experiments.run_identity import Content, Settled, State, state_of
from dtfixup.experiments.settings import Choices, SettingsT
from dtfixup.experiments.spider import is_usual

Rank = tuple[float, float]
_NOTHING: Rank = (0.0, 0.0)  # of a run that diverged


def plan_of(budget: Budget, contents: Iterable[Content], encoder: str | None = None) -> Plan:
    """The budget, with what won the tuning there is of an encoder, the budget's own by default."""
    plan = Plan(budget)
    if budget is Budget.SMOKE:
        return plan
    settled = Settled(contents)
    return replace(
        plan,
        spider=_Tuning(spider_tune.tried(budget), _spider_rank, settled, encoder).choose(plan.spider),
        reclor=_Tuning(reclor_cells.tried(budget), _reclor_rank, settled, encoder).choose(plan.reclor),
    )


def told(plan: Plan, encoder: str | None = None) -> str:
    """Whose settings the runs have; nothing where they are those that our own runs have."""
    if plan.budget is Budget.SMOKE:
        return ""
    is_ours = is_usual(encoder, plan.budget)
    won = [
        f"{', '.join(TITLES.get(name, name) for name in own.here)} ({task})" for task, own in _tasks(plan) if own.here
    ]
    if is_ours and (not won or (plan.budget is Budget.GPU and _is_shipped(plan))):
        return ""
    said = [f"Settings that won the tuning in this folder: {'; '.join(won)}."] if won else []
    if not is_ours and any(own.tables.keys() - set(own.here) for _, own in _tasks(plan)):
        whose = "are the paper's" if plan.budget is Budget.PAPER else "were chosen with MiniLM"
        what = "Those of the others" if won else "The settings of all strategies"
        said.append(f"{what} {whose}; dtfixup reproduce tune with this encoder finds its own.")
    return " ".join(said)


def winners(plan: Plan, names: Collection[str]) -> list[str]:
    """What won in these experiments, of strategies whose tuning is whole: a line for each of them and each depth."""
    return [
        f"{task}, {f'{TITLES[name]}, N = {layers}' if layers else name}: {settings}"
        for (task, own), experiment in zip(_tasks(plan), (spider_tune.TUNE, reclor_cells.RECLOR_TUNE), strict=True)
        if experiment.name in names
        for name in own.here
        for layers, settings in own.tables[name].items()
    ]


@dataclass(frozen=True)
class _Tuning(Generic[SettingsT]):
    """All that is tried on a task, which run is the better one, and what is there of it."""

    tried: Sequence[Tried[SettingsT]]
    rank: Callable[[Content], Rank]
    settled: Settled
    encoder: str | None

    def choose(self, shipped: Choices[SettingsT]) -> Choices[SettingsT]:
        """What won, of strategies whose tuning is whole; what is shipped, of the others."""
        won = {strategy: self._won(strategy) for strategy in dict.fromkeys(each.strategy for each in self.tried)}
        here = {strategy: table for strategy, table in won.items() if table}
        return Choices({**shipped.tables, **here}, tuple(here))

    def _won(self, strategy: str) -> dict[int, SettingsT]:
        """What won at each depth; nothing while a run is missing, or where none at some depth has learnt."""
        found = {}
        for layers in dict.fromkeys(each.layers for each in self.tried if each.strategy == strategy):
            grid = [each for each in self.tried if (each.strategy, each.layers) == (strategy, layers)]
            ranks = self._ranks(grid)
            best = max(ranks, default=_NOTHING)
            if not best[0]:
                return {}
            found[layers] = grid[ranks.index(best)].settings
        return found

    def _ranks(self, grid: Sequence[Tried[SettingsT]]) -> list[Rank]:
        """Of each entry, in the mean over the seeds that all of them have; none while the first seed is not whole."""
        rows: list[list[Rank]] = []
        for seed in count(1):
            row = [rank for each in grid if (rank := self._rank(each, seed)) is not None]
            if len(row) < len(grid):
                break
            rows.append(row)
        return [
            (fmean(first), fmean(second))
            for first, second in (zip(*own, strict=True) for own in zip(*rows, strict=True))
        ]

    def _rank(self, each: Tried[SettingsT], seed: int) -> Rank | None:
        config = each.config if self.encoder is None else replace(each.config, encoder=self.encoder)
        content = self.settled.find(config, seed, metric=metric_of(config))
        if content is None:
            return None
        return _NOTHING if state_of(content) is State.DIVERGED else self.rank(content)


def _spider_rank(content: Content) -> Rank:
    """The best exact match with the beam, and of equals the best without one."""
    metrics = content["metrics"]
    return metrics["held_out_exact"], metrics["held_out_exact_greedy"]


def _reclor_rank(content: Content) -> Rank:
    """The most right answers of the runs that left chance; of equals what is tried first, which has the lowest rate."""
    metrics = content["metrics"]
    return float(not is_at_chance(metrics, "held_out")), metrics["held_out_accuracy"]


def _tasks(plan: Plan) -> tuple[tuple[str, Choices[Any]], ...]:
    return ("Spider", plan.spider), ("ReClor", plan.reclor)


def _is_shipped(plan: Plan) -> bool:
    """Whether what won is what was chosen before, at all depths that were tuned."""
    return all(
        before.of(name, layers) == settings
        for (_, own), (_, before) in zip(_tasks(plan), _tasks(Plan(plan.budget)), strict=True)
        for name in own.here
        for layers, settings in own.tables[name].items()
    )
