"""Cells of an experiment and the result files of a folder → a table with the paper's numbers beside ours.

A mean is over the seeds, with the standard deviation of a sample. A run has failed if it diverged, if on ReClor it did
not leave chance (`chance.py`), or if on Spider it collapsed: its end is far below what two layers have. On ReClor a
diverged run counts as chance in the mean. On Spider there is no such value, and a mean of runs that train and runs that
do not describes neither. A cell that has both shows every run.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from dtfixup.sql.model.config import SqlSpConfig
from dtfixup_paper.report.markdown import Entry, table
from dtfixup_paper.runs.run import State
from dtfixup_paper.tables.cells import Cell, RunConfig, metric_of
from dtfixup_paper.tables.chance import is_at_chance
from dtfixup_paper.tables.result_files import ResultFile, Results
from dtfixup_paper.tables.settings import NO_LAYERS

NOT_YET = "not run yet"
RECLOR_CHANCE = 25.0
"""Percent; four options."""
SPIDER_COLLAPSED = 30.0
"""Percent; the paper's broken models have 19 to 20, ours of two layers 59 and more."""
_SIZES = {"minilm": "22.7M parameters", "minilm-fp16": "22.7M parameters, stored in half precision"}
_SIZES["roberta-large"] = "355M parameters"


@dataclass(frozen=True)
class CellResult:
    """A cell and the runs there are of it."""

    cell: Cell
    files: tuple[ResultFile, ...]
    """One for each seed."""
    stopped: int = 0
    """Runs that ended by an error and not by training: they count as not there."""
    unfit: tuple[int, ...] = ()
    """Seeds that were trained with another configuration than the cell's."""

    @property
    def values(self) -> tuple[float, ...]:
        """What goes into the mean, by seed."""
        metric = metric_of(self.cell.config)
        values = [self._chance if file.state is State.DIVERGED else file.number(metric) for file in self.files]
        return tuple(value for value in values if value is not None)

    @property
    def diverged(self) -> int:
        return sum(file.state is State.DIVERGED for file in self.files)

    @property
    def at_chance(self) -> int:
        """Finished runs that did not leave chance."""
        metric, finished = metric_of(self.cell.config), (file for file in self.files if file.state is State.FINISHED)
        scored = [file.metrics for file in finished if {"chance", "evaluated_examples", metric} <= file.metrics.keys()]
        return sum(is_at_chance(metrics, metric.removesuffix("_accuracy")) for metrics in scored)

    @property
    def collapsed(self) -> int:
        return sum(has_collapsed(file, self.cell.config) for file in self.files)

    @property
    def is_split(self) -> bool:
        """Whether some runs of a Spider cell trained and others failed."""
        failed = self.diverged + self.collapsed
        return isinstance(self.cell.config, SqlSpConfig) and 0 < failed < len(self.files)

    @property
    def summary(self) -> str:
        """Mean and deviation; every run, by seed, where some trained and others failed; empty without a value."""
        if not self.values:
            return ""
        return every_run(self.files, metric_of(self.cell.config)) if self.is_split else mean_and_deviation(self.values)

    @property
    def _chance(self) -> float | None:
        return None if isinstance(self.cell.config, SqlSpConfig) else RECLOR_CHANCE

    @property
    def planned(self) -> int:
        return self.cell.seeds

    @property
    def there(self) -> int:
        """How many of the planned runs there are; other seeds do not stand in for them."""
        return sum(file.seed <= self.planned for file in self.files)

    @property
    def note(self) -> str:
        """Seeds and epochs; whether their data differ; that none failed, where the paper counts its failed runs."""
        seeds = f"{len(self.files)} of {self.planned}" if len(self.files) < self.planned else str(len(self.files))
        word = "seed" if seeds == "1" else "seeds"
        failed = self.diverged + self.at_chance + self.collapsed
        none_failed = " · none failed" if self.files and "failed" in self.cell.paper and not failed else ""
        data = {file.content.get("data_hash") for file in self.files}
        differ = " · not all on the same data" if len(data) > 1 else ""
        chosen = " · chosen" if self.cell.is_chosen else ""
        return f"{seeds} {word} · {counted(self.cell.config.training.epochs, 'epoch')}{chosen}{differ}{none_failed}"

    @property
    def warning(self) -> str:
        """How many runs failed, and how, and which were trained otherwise; empty where all is well."""
        counts = [(self.diverged, "diverged"), (self.at_chance, "at chance"), (self.collapsed, "collapsed")]
        parts = [f"{count} of {len(self.files)} {how}" for count, how in counts if count]
        parts += [f"{self.stopped} stopped by an error"] if self.stopped else []
        return ", ".join(parts + [f"seed {seed} was trained with another configuration" for seed in self.unfit])

    def entry(self) -> Entry:
        """As a table shows it."""
        if not self.files:
            return Entry(NOT_YET, self.note, self.warning, is_bold=False)
        return Entry(self.summary or "failed", self.note, self.warning)


def every_run(files: Iterable[ResultFile], metric: str) -> str:
    """The metric of each run, or that it diverged."""
    diverged = State.DIVERGED
    return ", ".join(diverged.value if file.state is diverged else f"{file.number(metric):.1f}" for file in files)


def has_collapsed(file: ResultFile, config: RunConfig) -> bool:
    """Whether a finished Spider run is below what any trained model has; one epoch is no training."""
    if not isinstance(config, SqlSpConfig) or config.training.epochs == 1 or file.state is not State.FINISHED:
        return False
    metric = metric_of(config)
    return metric in file.metrics and file.number(metric) < SPIDER_COLLAPSED


CellResults = Sequence[CellResult]
"""All cells of an experiment."""


def results_of(cells: Iterable[Cell], results: Results) -> list[CellResult]:
    """Each cell with its result files."""
    pairs = []
    for cell in cells:
        files = tuple(results.of(cell))
        pairs.append(CellResult(cell, files, len(results.failed(cell)), tuple(results.unfit(cell))))
    return pairs


def table_of(cells: CellResults, caption: str = "", corner: str = "") -> str:
    """Rows and columns as the cells name them, the longer side down; before our number the paper's, if it has one."""
    downs, acrosses = _names(cells, lambda cell: cell.row), _names(cells, lambda cell: cell.column)
    by_place = {(result.cell.row, result.cell.column): result for result in cells}
    if len(by_place) < len(cells):
        raise ValueError("two cells of a table have one row and column: give each its own")
    if len(acrosses) > len(downs):
        downs, acrosses = acrosses, downs
        by_place = {(column, row): result for (row, column), result in by_place.items()}
    in_paper = {across for (_, across), result in by_place.items() if result.cell.paper}
    rows = []
    for down in downs:
        row: list[Entry | str] = [down]
        for across in acrosses:
            result = by_place.get((down, across))
            if across in in_paper:
                row.append(result.cell.paper if result else "")
            row.append(result.entry() if result else "")
        rows.append(row)
    headings = [corner]
    for across in acrosses:
        if across in in_paper:
            headings.append(f"{across}, paper")
        headings.append(f"{across}, ours" if in_paper else across)
    return table(headings, rows, caption)


def caption_of(cells: CellResults, budget: str, paper: str) -> str:
    """What ours was trained with, as far as all cells agree, and what the paper was trained with."""
    configs = [result.cell.config for result in cells]
    encoders = unique(file.encoder for result in cells for file in result.files) or unique(c.encoder for c in configs)
    sizes = [f"{name} ({_SIZES[name]})" if name in _SIZES else name for name in encoders]
    parts = [f"encoder {' and '.join(sizes)}", f"budget {budget}"]
    epochs = _range(config.training.epochs for config in configs)
    parts.append(f"{epochs} epoch{'' if epochs == '1' else 's'}")
    parts.append(f"batch {_range(c.training.batch_size * c.training.accumulate for c in configs)}")
    made_up = {isinstance(config, SqlSpConfig) and config.synthetic > 0 for config in configs}
    if True in made_up:
        parts.append(f"made-up examples beside the real ones{' in some rows' if False in made_up else ''}")
    return f"Ours: {', '.join(parts)}. The paper: {paper}."


def progress(cells: Iterable[CellResult]) -> tuple[int, int]:
    """How many runs there are, and how many are planned; a run of several cells counts once."""
    largest: dict[str, CellResult] = {}
    for result in cells:
        key = result.cell.path
        if key not in largest or largest[key].planned < result.planned:
            largest[key] = result
    return sum(result.there for result in largest.values()), sum(result.planned for result in largest.values())


def files_of(cells: Iterable[CellResult]) -> list[ResultFile]:
    """All files of the cells, each once, by name."""
    return [file for _, file in sorted({file.path: file for result in cells for file in result.files}.items())]


def mean_and_deviation(values: Sequence[float]) -> str:
    """With one digit; the deviation of a sample, if there is one.

    >>> mean_and_deviation([70.0, 71.0]), mean_and_deviation([3])
    ('70.5 ± 0.7', '3.0')
    """
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def counted(count: float, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "seed"), counted(7000, "epoch")
    ('1 seed', '7,000 epochs')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def unique(texts: Iterable[str]) -> list[str]:
    """Each once, in order."""
    return list(dict.fromkeys(texts))


def line_name(config: RunConfig) -> str:
    """The name of a configuration's runs in a picture; `NO_LAYERS` without new layers."""
    return config.model.strategy if config.model.layers else NO_LAYERS


def _names(cells: CellResults, part: Callable[[Cell], str]) -> list[str]:
    return unique(part(result.cell) for result in cells)


def _range(numbers: Iterable[int]) -> str:
    values = sorted(set(numbers))
    return " or ".join(str(value) for value in values) if len(values) < 3 else f"{values[0]} to {values[-1]}"
