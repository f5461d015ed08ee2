"""Every table and figure of the paper, and ours: names of experiments → training runs.

In: names, and the setup that all runs of a call have in common. Out: the plan, a list of `Run`s, first seeds first, so
that a sweep that ends early has something of everything. The command, its list and its sweeps all use it.
Works on a bare GPU box.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from rich.console import Console

from dtfixup.encoders import encoder_sha256
from dtfixup.errors import ConfigError
from dtfixup.files import read_json
from dtfixup.provenance import RESULT
from dtfixup.reading.train import ReadingSource, train_reading
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.sql.model.prepared import open_prepared
from dtfixup.sql.model.train import train_sql
from dtfixup_paper.runs.run import Content, Run
from dtfixup_paper.runs.sweep import Outcome
from dtfixup_paper.tables import ours, reclor, spider_tables, spider_tune
from dtfixup_paper.tables.cells import Budget, Cell, Experiment, Setup, metric_of
from dtfixup_paper.tables.cost import expected_seconds
from dtfixup_paper.tables.settings import write_settings
from dtfixup_paper.tables.tuning import tuned_settings

EVERYTHING, TUNING = "all", "tune"
SETTINGS = "settings.yaml"
"""The file that tuning writes into the folder of its results."""
_ORDER = (
    spider_tables.DEPTH, spider_tables.MAIN, spider_tables.HARDNESS, spider_tables.CURVE, spider_tables.BATCH,
    spider_tables.ERRORS, reclor.MAIN, reclor.DEPTH, ours.PEERS, ours.MU, ours.LIMITS, spider_tune.TUNE, reclor.TUNE,
)  # fmt: skip
EXPERIMENTS: Mapping[str, Experiment] = {experiment.name: experiment for experiment in _ORDER}
"""By name."""
GROUPS: Mapping[str, Sequence[str]] = {
    EVERYTHING: tuple(EXPERIMENTS),
    TUNING: (spider_tune.TUNE.name, reclor.TUNE.name),
}
"""Names that stand for several."""


def named(names: Iterable[str]) -> list[Experiment]:
    """Experiments by name, each once; "tune" is the tuning of both tasks, "all" is everything.

    >>> [experiment.name for experiment in named(["tune", "reclor-tune"])]
    ['spider-tune', 'reclor-tune']
    """
    wanted = [name for given in names for name in GROUPS.get(given, [given])]
    if unknown := [name for name in wanted if name not in EXPERIMENTS]:
        choices = f"{', '.join(EXPERIMENTS)}, or {' or '.join(sorted(GROUPS))} for several"
        raise ConfigError(f"there is no experiment {unknown[0]!r}: choose from {choices}")
    return [EXPERIMENTS[name] for name in dict.fromkeys(wanted)]


def plan(names: Iterable[str], setup: Setup, *, seeds: int | None = None, command: str = "") -> list[Run]:
    """The runs of some experiments, first seeds first; a run that several experiments share is there once.

    Args:
        names: of experiments.
        setup: budget, encoder and settings.
        seeds: of every cell, instead of its own number.
        command: recorded in the result files.
    """
    cells: dict[str, Cell] = {}
    counts: dict[str, int] = {}
    for experiment in named(names):
        for cell in experiment.cells(setup):
            cells.setdefault(cell.path, cell)
            counts[cell.path] = max(counts.get(cell.path, 0), seeds or cell.seeds)
    return [
        Run(path, seed, cell.config_of(seed), metric_of(cell.config), expected_seconds(cell.config), command)
        for seed in range(1, max(counts.values(), default=0) + 1)
        for path, cell in cells.items()
        if seed <= counts[path]
    ]


def needs(runs: Iterable[Run]) -> tuple[bool, bool]:
    """Whether some of the runs train on Spider, and whether some train on ReClor."""
    is_sql = {isinstance(run.config, SqlSpConfig) for run in runs}
    return True in is_sql, False in is_sql


@dataclass(frozen=True)
class Sources:
    """Where the data are, and how runs are trained on them; data that no run needs may be missing."""

    spider: Path | None = None
    """Prepared dataset with the splits train and dev, and made-up examples for the runs that train with them."""
    reclor: Path | None = None
    """Folder with train and val."""

    @cached_property
    def reading(self) -> ReadingSource:
        return ReadingSource(_given(self.reclor, "ReClor"))

    @cached_property
    def spider_hash(self) -> str:
        return str(open_prepared(_given(self.spider, "Spider")).index["data_hash"])

    def data_hash(self, run: Run) -> str:
        return self.spider_hash if isinstance(run.config, SqlSpConfig) else self.reading.data.data_hash

    def encoder_sha256(self, run: Run) -> str:
        return _encoder_sha256(run.config.encoder)

    def train(self, run: Run, folder: Path, resume: bool) -> Content | None:
        quiet = Console(quiet=True)
        if isinstance(run.config, SqlSpConfig):
            data = open_prepared(_given(self.spider, "Spider"))
            done = train_sql(
                run.config, data, folder, name=run.label, command=run.command, resume=resume, console=quiet
            )
        else:
            done = train_reading(
                run.config, self.reading, folder, name=run.label, command=run.command, resume=resume, console=quiet
            )
        content: Content | None = read_json(folder / RESULT) if done.metrics else None
        return content


def write_tuned(names: Iterable[str], setup: Setup, outcomes: Iterable[Outcome], out: Path) -> str:
    """Write what won the tuning among some experiments to a settings file in `out`, and return the message about it.

    Only the budget `gpu` chooses settings: those of `paper` are the paper's.
    """
    tuning = [experiment for experiment in named(names) if experiment.name in GROUPS[TUNING]]
    cells = [cell for experiment in tuning for cell in experiment.cells(setup)]
    if not cells or setup.budget is not Budget.GPU:
        return ""
    results = {(each.run.path, each.run.seed): each.content for each in outcomes if each.content is not None}
    tuned = tuned_settings(setup, cells, results)
    lines = ["What won:", *tuned.won] if tuned.won else ["No tuning is whole, so nothing has won."]
    if tuned.unlearnt:
        lines.append(f"No run learnt anything: {'; '.join(tuned.unlearnt)}. What won at the depth below holds there.")
    if tuned.unfinished:
        lines.append(f"Runs are missing, so these keep the settings from before: {', '.join(tuned.unfinished)}.")
    if tuned.won:
        file = write_settings(out / SETTINGS, tuned.settings, "\n".join(lines))
        lines.append(f"Train the other experiments with these by --settings {file}")
    return "\n".join(lines)


@cache
def _encoder_sha256(encoder: str) -> str:
    return encoder_sha256(encoder)


def _given(folder: Path | None, name: str) -> Path:
    if folder is None:
        raise ConfigError(f"some of these experiments need {name}: give its folder, or leave them out")
    return folder.absolute()
