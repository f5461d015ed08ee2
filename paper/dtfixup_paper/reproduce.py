"""Every table and figure of the paper, and ours: names → training runs.

In: names of experiments, a plan, and where the data are. Out: `Run`s for `sweep.run_sweep` or `cluster.run_on_ray`,
first seed first, so that a sweep that ends early has something of everything. A run that several experiments have is
there once, under the name of the first that has it, whichever was asked for. `train_in_parts` trains tuning before what
is trained with what it chose. Runs on a bare GPU box.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from rich import get_console

from dtfixup.encoders import encoder_sha256
from dtfixup.errors import ConfigError
from dtfixup.reading.train import ReadingSource
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.sql.model.prepared import open_prepared
from dtfixup_paper.runs.run_identity import SETTLED, Content, Settled, State, device_seconds, encoder_name, known_by
from dtfixup_paper.runs.runs import Run
from dtfixup_paper.runs.sweep import Outcome, read_results
from dtfixup_paper.tables.cells import Budget, Cell, Experiment, Plan, RunConfig, metric_of
from dtfixup_paper.tables.cost import expected_seconds
from dtfixup_paper.tables.init_peers import PEERS
from dtfixup_paper.tables.limits import LIMITS
from dtfixup_paper.tables.mu_choice import MU
from dtfixup_paper.tables.reclor import TrainReading
from dtfixup_paper.tables.reclor_cells import RECLOR_DEPTH, RECLOR_MAIN, RECLOR_TUNE
from dtfixup_paper.tables.spider import TrainSpider, is_usual
from dtfixup_paper.tables.spider_batch import BATCH
from dtfixup_paper.tables.spider_curves import FIGURE
from dtfixup_paper.tables.spider_depth import DEPTH, ERRORS
from dtfixup_paper.tables.spider_main import HARDNESS, MAIN
from dtfixup_paper.tables.spider_tune import TUNE
from dtfixup_paper.tables.tuning import plan_of, told, winners

EVERYTHING, TUNING = "all", "tune"
_ORDER = (
    DEPTH, MAIN, HARDNESS, FIGURE, BATCH, ERRORS, RECLOR_MAIN, RECLOR_DEPTH, PEERS, MU, LIMITS, TUNE,
    RECLOR_TUNE,
)  # fmt: skip
EXPERIMENTS: Mapping[str, Experiment] = {experiment.name: experiment for experiment in _ORDER}
"""By name."""
GROUPS: Mapping[str, Sequence[str]] = {EVERYTHING: tuple(EXPERIMENTS), TUNING: (TUNE.name, RECLOR_TUNE.name)}
"""Names that stand for several."""


@dataclass(frozen=True)
class Sources:
    """Where the data are; what no experiment asks for may be missing."""

    spider: Path | None = None
    """Prepared dataset with the splits train and dev, and made-up examples where experiments train with them."""
    reclor: Path | None = None
    """Folder with train and val."""
    encoder: str | None = None
    """Encoder by name or folder, instead of the budget's."""

    @cached_property
    def spider_hash(self) -> str:
        return str(open_prepared(self._given(self.spider, "Spider")).index["data_hash"])

    @cached_property
    def reading(self) -> ReadingSource:
        return ReadingSource(self._given(self.reclor, "ReClor"))

    def with_encoder(self, config: RunConfig) -> RunConfig:
        """The configuration on the encoder that was asked for."""
        return config if self.encoder is None else replace(config, encoder=self.encoder)

    def require_own_results(self, contents: Iterable[Content]) -> None:
        """Runs are known by their encoder's name: results of other weights that are called the same would be taken."""
        if self.encoder is None:
            return
        name, own = Path(self.encoder).name, encoder_sha256(self.encoder)
        for content in contents:
            if Path(str(content.get("encoder", ""))).name == name and content.get("encoder_sha256", own) != own:
                raise ConfigError(
                    f"the folder has results of another encoder that is called {name} too "
                    f"({content.get('name')}-seed{content.get('seed')}.json): rename this encoder's folder, or give "
                    "another one for the results"
                )

    def _given(self, folder: Path | None, name: str) -> Path:
        if folder is None:
            raise ConfigError(f"some of these experiments need {name}: give its folder, or leave them out")
        return folder


def named(names: Iterable[str]) -> list[Experiment]:
    """Experiments by name, each once; "tune" is the tuning of both tasks, "all" is all of them.

    >>> [experiment.name for experiment in named(["tune", "reclor-tune"])]
    ['spider-tune', 'reclor-tune']
    """
    wanted = [name for each in names for name in GROUPS.get(each, [each])]
    if unknown := [name for name in wanted if name not in EXPERIMENTS]:
        choices = f"{', '.join(EXPERIMENTS)}, or {' or '.join(sorted(GROUPS))} for several"
        raise ConfigError(f"there is no experiment {unknown[0]!r}: choose from {choices}")
    return [EXPERIMENTS[name] for name in dict.fromkeys(wanted)]


def runs_of(
    names: Iterable[str],
    plan: Plan,
    sources: Sources,
    *,
    seeds: int | None = None,
    command: str = "",
) -> list[Run]:
    """The runs of some experiments.

    Args:
        names: of experiments.
        plan: how much time they may take, and which settings were chosen.
        sources: data and encoder.
        seeds: of every cell, instead of its own number.
        command: what the result files say they were made by.
    """
    runs = []
    for seed, experiment, cell in planned(names, plan, seeds):
        config, label = sources.with_encoder(cell.config_of(seed)), label_of(experiment, plan.budget, sources.encoder)
        runs.append(_run(label, cell.variant, config, seed, sources, command))
    return runs


def train_in_parts(
    names: Iterable[str],
    budget: Budget,
    sources: Sources,
    out: Path,
    train: Callable[[list[Run], float | None, Sequence[Outcome]], list[Outcome]],
    *,
    seeds: int | None = None,
    command: str = "",
    budget_seconds: float | None = None,
) -> list[Outcome]:
    """Train experiments, and say whose settings they have: tuning first, then the others with what it chose.

    Args:
        names: of experiments.
        budget: how much time they may take; only with `gpu` does tuning choose anything.
        sources: data and encoder.
        out: folder of the result files.
        train: trains the runs of a part in so many seconds, given what became of those before it.
        seeds: of every cell, instead of its own number.
        command: what the result files say they were made by.
        budget_seconds: as in `run_sweep`, for all parts together.
    """
    sources.require_own_results(read_results(out))
    wanted, say, started = [experiment.name for experiment in named(names)], get_console().print, time.monotonic()

    def sweep(part: list[str], plan: Plan, before: Sequence[Outcome] = ()) -> list[Outcome]:
        left = None if budget_seconds is None else max(0.0, budget_seconds - (time.monotonic() - started))
        return train(runs_of(part, plan, sources, seeds=seeds, command=command), left, before)

    tuning = [name for name in wanted if name in GROUPS[TUNING]] if budget is Budget.GPU else []
    outcomes: list[Outcome] = []
    if tuning:
        outcomes = sweep(tuning, Plan(budget))
        won = winners(plan_of(budget, read_results(out), sources.encoder), tuning)
        if won:
            lines = ["What won, of strategies whose tuning is whole:", *won]
            say("\n".join(lines), soft_wrap=True, highlight=False)
    if any(each.was_stopped or each.state is State.WAITING for each in outcomes):
        return outcomes
    rest = [name for name in wanted if name not in tuning]
    if held := _held_back(rest, outcomes, budget):
        unsettled = [f"{each.run.name} ({each.state})" for each in outcomes if each.state not in SETTLED]
        more = f" and {len(unsettled) - 3} more" if len(unsettled) > 3 else ""
        say(
            f"{', '.join(held)}: not begun, because runs of the tuning that chooses their settings have no result: "
            f"{', '.join(unsettled[:3])}{more}. The same command tries them again; named without tuning, experiments "
            "are trained with the settings there are.",
            soft_wrap=True,
            highlight=False,
        )
    if part := [name for name in rest if name not in held]:
        plan = plan_of(budget, read_results(out), sources.encoder)
        if text := told(plan, sources.encoder):
            say(text, soft_wrap=True, highlight=False)
        outcomes = [*outcomes, *sweep(part, plan, outcomes)]
    return outcomes


def _held_back(names: Iterable[str], tuning: Iterable[Outcome], budget: Budget) -> list[str]:
    """The experiments on a task whose tuning has not settled."""
    kinds = {isinstance(each.run.config, SqlSpConfig) for each in tuning if each.state not in SETTLED}
    tasks = {name: needs([name], budget) for name in names} if kinds else {}
    return [
        name for name, (spider, reclor) in tasks.items() if (spider and True in kinds) or (reclor and False in kinds)
    ]


def label_of(experiment: str, budget: Budget, encoder: str | None = None) -> str:
    """What files call an experiment: budgets and encoders that are not ours are named, so that files stay apart.

    >>> label_of("spider-depth", Budget.GPU, "folder/minilm-fp16"), label_of("spider-depth", Budget.GPU, "x/mpnet")
    ('spider-depth', 'spider-depth-mpnet')
    >>> label_of("spider-depth", Budget.PAPER)
    'spider-depth-paper'
    """
    parts = [experiment] if budget is Budget.GPU else [experiment, budget.value]
    if encoder is None or is_usual(encoder, budget):
        return "-".join(parts)
    return "-".join([*parts, encoder_name(encoder)])


def planned(names: Iterable[str], plan: Plan, seeds: int | None = None) -> list[tuple[int, str, Cell]]:
    """Seed, experiment and cell of every run of some experiments, first seed first.

    What is trained the same is there once, in the cell of the first experiment of all that has it: files have the same
    names, and runs are evaluated as often, whichever experiment was asked for.
    """
    places: dict[str, tuple[str, Cell]] = {}
    for experiment in EXPERIMENTS.values():
        for cell in experiment.cells(plan):
            places.setdefault(known_by(cell.config), (experiment.name, cell))
    counts: dict[str, int] = {}
    for experiment in named(names):
        for cell in experiment.cells(plan):
            known = known_by(cell.config)
            counts[known] = max(counts.get(known, 0), seeds or cell.seeds)
    last = max(counts.values(), default=0)
    return [(seed, *places[known]) for seed in range(1, last + 1) for known in counts if seed <= counts[known]]


@dataclass(frozen=True)
class Cost:
    """What an experiment takes on one GPU."""

    runs: int
    there: int
    """Runs that have ended."""
    seconds: float
    """Of all: as measured where they have ended, shared by those that ran at once; by `cost.expected_seconds` else."""
    seconds_left: float


def cost_of(
    names: Iterable[str],
    plan: Plan,
    contents: Iterable[Content],
    encoder: str | None = None,
    seeds: int | None = None,
) -> Cost:
    """The cost of some experiments, given the result files there are; `seeds` as in `runs_of`."""
    settled, sources = Settled(contents), Sources(encoder=encoder)
    found, left = [], []
    runs = planned(names, plan, seeds)
    for seed, _, cell in runs:
        config = sources.with_encoder(cell.config_of(seed))
        content = settled.find(config, seed, metric=metric_of(config))
        if content is None:
            left.append(expected_seconds(config))
        else:
            found.append(device_seconds(content))
    return Cost(len(runs), len(found), sum(found) + sum(left), sum(left))


def _run(experiment: str, variant: str, config: RunConfig, seed: int, sources: Sources, command: str) -> Run:
    name = f"{experiment}-{variant}"
    train: Callable[[Path, bool], Content | None]
    if isinstance(config, SqlSpConfig):
        data_hash = sources.spider_hash
        assert sources.spider is not None  # the hash is of it
        train = TrainSpider(config, sources.spider.absolute(), name, command)
    else:
        data_hash = sources.reading.data.data_hash
        train = TrainReading(config, sources.reading, name, command)
    return Run(
        experiment,
        variant,
        seed,
        config,
        data_hash,
        train,
        metric=metric_of(config),
        cost=expected_seconds(config),
        command=command,
    )


def needs(names: Sequence[str], budget: Budget) -> tuple[bool, bool]:
    """Whether some of the experiments train on Spider, and whether some train on ReClor."""
    is_sql = [isinstance(cell.config, SqlSpConfig) for _, _, cell in planned(names, Plan(budget), seeds=1)]
    return any(is_sql), not all(is_sql)
