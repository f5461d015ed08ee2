"""What tuning chose in a folder of results, for whatever encoder: result files → the plan of all other experiments.

A strategy has what won there once every run of its grids has ended, at all the depths that it is tuned at; until then
it has what was chosen with MiniLM, and `told` says so. So the plan of a folder changes when a tuning is whole, and not
with each of its runs. In the paper's budget settings are the paper's, whatever tuning finds; smoke runs choose nothing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from statistics import fmean
from typing import Any, Generic

from dtfixup_paper.runs.run_identity import Content, Settled, State, encoder_name, state_of
from dtfixup_paper.tables import reclor_cells, spider_tune
from dtfixup_paper.tables.cells import TITLES, Budget, Plan, Tried, metric_of
from dtfixup_paper.tables.chance import is_at_chance
from dtfixup_paper.tables.settings import Choices, SettingsT
from dtfixup_paper.tables.spider import is_usual

Rank = tuple[float, float]
_NOTHING: Rank = (0.0, 0.0)  # of a run that diverged


def plan_of(budget: Budget, contents: Iterable[Content], encoder: str | None = None) -> Plan:
    """The budget, with what won the tuning there is of an encoder, the budget's own by default."""
    plan = Plan(budget)
    if budget is not Budget.GPU:
        return plan
    settled = Settled(contents)
    return replace(
        plan,
        spider=_Tuning(spider_tune.tried(budget), _spider_rank, settled, encoder).choose(plan.spider),
        reclor=_Tuning(reclor_cells.tried(budget), _reclor_rank, settled, encoder).choose(plan.reclor),
    )


def told(plan: Plan, encoder: str | None = None) -> str:
    """Whose settings the runs have; nothing where they are those that our own runs have."""
    is_ours, name = is_usual(encoder, plan.budget), encoder_name(encoder or "")
    if plan.budget is not Budget.GPU:
        is_papers = plan.budget is Budget.PAPER and not is_ours
        return "The settings are the paper's, which has another encoder, and not tuned." if is_papers else ""
    unlearnt = [f"{_place(*place)} ({task})" for task, own in _tasks(plan) for place in own.unlearnt]
    if is_ours and not unlearnt and _is_shipped(plan):
        return ""
    won = [f"{', '.join(map(_title, own.here))} ({task})" for task, own in _tasks(plan) if own.here]
    said = [f"Settings that won the tuning beside these results: {'; '.join(won)}."] if won else []
    if unlearnt:
        below = "what won at the depth below holds there, if anything did"
        said.append(f"No run of the tuning learnt anything: {'; '.join(unlearnt)}; {below}.")
    if not is_ours and any(own.tables.keys() - set(own.here) for _, own in _tasks(plan)):
        said.append(f"The{' other' if won else ''} settings were chosen with MiniLM.")
    if not is_ours and any(own.tables.keys() - {*own.here, *dict(own.unlearnt)} for _, own in _tasks(plan)):
        said.append(f"dtfixup reproduce tune finds those of {name}.")
    return " ".join(said)


def winners(plan: Plan, names: Collection[str]) -> list[str]:
    """What won in these experiments, of strategies whose tuning is whole: a line for each of them and each depth."""
    return [
        f"{task}, {_place(name, layers)}: {settings}"
        for (task, own), experiment in zip(_tasks(plan), (spider_tune.TUNE, reclor_cells.RECLOR_TUNE), strict=True)
        if experiment.name in names
        for name in own.here
        for layers, settings in own.tables[name].items()
    ]


@dataclass(frozen=True)
class _Tuning(Generic[SettingsT]):
    """All that is tried on a task, which run is the better one, and what is there of it."""

    tried: Sequence[Tried[SettingsT]]
    rank: Callable[[Mapping[str, Any]], Rank | None]
    """Of a run's metrics; None where they lack something, the first number 0 where the run learnt nothing."""
    settled: Settled
    encoder: str | None

    def choose(self, shipped: Choices[SettingsT]) -> Choices[SettingsT]:
        """What won, of strategies whose tuning is whole; what is shipped, of the others."""
        won = {strategy: self._won(strategy) for strategy in dict.fromkeys(each.strategy for each in self.tried)}
        learnt = {name: {depth: best for depth, best in table.items() if best} for name, table in won.items()}
        here = {strategy: table for strategy, table in learnt.items() if table}
        unlearnt = [(name, depth) for name, table in won.items() for depth, best in table.items() if best is None]
        return Choices({**shipped.tables, **here}, tuple(here), tuple(unlearnt))

    def _won(self, strategy: str) -> dict[int, SettingsT | None]:
        """What won at each depth, None where no run learnt anything; nothing while a run is missing."""
        found: dict[int, SettingsT | None] = {}
        for layers in dict.fromkeys(each.layers for each in self.tried if each.strategy == strategy):
            grid = [each for each in self.tried if (each.strategy, each.layers) == (strategy, layers)]
            ranks = self._ranks(grid)
            if not ranks:
                return {}
            rank, _, settings = max(
                ((rank, -each.settings.learning_rate, each.settings) for rank, each in zip(ranks, grid, strict=True)),
                key=lambda entry: entry[:2],
            )
            found[layers] = settings if rank[0] else None
        return found

    def _ranks(self, grid: Sequence[Tried[SettingsT]]) -> list[Rank]:
        """Of each entry, in the mean over the seeds that all of them have on the same data; none if not even one."""
        rows: list[list[Rank]] = []
        data: set[Any] = set()
        for seed in count(1):
            contents = [found for each in grid if (found := self._find(each, seed)) is not None]
            ranks = [rank for found in contents if (rank := self._rank(found)) is not None]
            data |= {found.get("data_hash") for found in contents}
            if len(ranks) < len(grid) or len(data) > 1:
                break
            rows.append(ranks)
        return [
            (fmean(first), fmean(second))
            for first, second in (zip(*own, strict=True) for own in zip(*rows, strict=True))
        ]

    def _find(self, each: Tried[SettingsT], seed: int) -> Content | None:
        config = each.config if self.encoder is None else replace(each.config, encoder=self.encoder)
        return self.settled.find(config, seed, metric=metric_of(config))

    def _rank(self, content: Content) -> Rank | None:
        return _NOTHING if state_of(content) is State.DIVERGED else self.rank(content["metrics"])


def _spider_rank(metrics: Mapping[str, Any]) -> Rank | None:
    """The best exact match with the beam, and of equals the best without one."""
    if not _are_there(metrics, "held_out_exact", "held_out_exact_greedy"):
        return None
    return metrics["held_out_exact"], metrics["held_out_exact_greedy"]


def _reclor_rank(metrics: Mapping[str, Any]) -> Rank | None:
    """The most right answers of the runs that left chance."""
    if not _are_there(metrics, "held_out_accuracy", "chance", "evaluated_examples"):
        return None
    return float(not is_at_chance(metrics, "held_out")), metrics["held_out_accuracy"]


def _are_there(metrics: Mapping[str, Any], *names: str) -> bool:
    return all(isinstance(metrics.get(name), int | float) for name in names)


def _tasks(plan: Plan) -> tuple[tuple[str, Choices[Any]], ...]:
    return ("Spider", plan.spider), ("ReClor", plan.reclor)


def _title(strategy: str) -> str:
    return TITLES.get(strategy, strategy)


def _place(strategy: str, layers: int) -> str:
    return f"{_title(strategy)}, N = {layers}" if layers else strategy


def _is_shipped(plan: Plan) -> bool:
    """Whether what won is what was chosen before, at all depths that were tuned."""
    return all(
        before.of(name, layers) == settings
        for (_, own), (_, before) in zip(_tasks(plan), _tasks(Plan(plan.budget)), strict=True)
        for name in own.here
        for layers, settings in own.tables[name].items()
    )
