"""Cells of an experiment and the result files of a folder → a table with the paper's numbers beside ours.

A mean is over the seeds, with the standard deviation of a sample. A run has failed if it diverged, if on ReClor it did
not leave chance (`chance.py`), or if on Spider it collapsed: it ends far below what two layers reach. On ReClor a
diverged run counts as chance in the mean. On Spider a cell in which some runs failed and others did not shows every
run, because a mean would describe neither.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from dtfixup.sql.model.config import SqlSpConfig
from dtfixup_paper.report.markdown import Entry, table
from dtfixup_paper.runs.run import State
from dtfixup_paper.tables.cells import Cell, RunConfig, metric_of
from dtfixup_paper.tables.chance import is_at_chance
from dtfixup_paper.tables.result_files import ResultFile, Results

NOT_YET = "not run yet"
RECLOR_CHANCE = 25.0
"""Percent; four options."""
SPIDER_COLLAPSED = 30.0
"""Percent; the paper's broken models have 19 to 20, ours of two layers 59 and more."""
_SIZES = {
    "minilm": "22.7M parameters",
    "minilm-fp16": "22.7M parameters, stored in half precision",
    "roberta-large": "355M parameters",
}


@dataclass(frozen=True)
class CellResult:
    """A cell and its runs."""

    cell: Cell
    files: tuple[ResultFile, ...]
    """One for each seed."""
    stopped: int = 0
    """Runs that an error ended: they count as missing."""
    unfit: tuple[int, ...] = ()
    """Seeds that were trained with another configuration than the cell's."""

    @property
    def values(self) -> tuple[float, ...]:
        """What goes into the mean, by seed."""
        metric, is_spider = metric_of(self.cell.config), isinstance(self.cell.config, SqlSpConfig)
        ended = [file for file in self.files if not (is_spider and file.state is State.DIVERGED)]
        return tuple(RECLOR_CHANCE if file.state is State.DIVERGED else file.number(metric) for file in ended)

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
    def there(self) -> int:
        """How many of the planned runs there are; other seeds do not replace them."""
        return sum(file.seed <= self.cell.seeds for file in self.files)

    @property
    def note(self) -> str:
        """Seeds and epochs; whether their data differ; that none failed, where the paper counts its failed runs."""
        count, planned = len(self.files), self.cell.seeds
        seeds = f"{count} of {planned} seeds" if count < planned else counted(count, "seed")
        parts = [seeds, counted(self.cell.config.training.epochs, "epoch")]
        if self.cell.is_chosen:
            parts.append("chosen")
        if len({file.content.get("data_hash") for file in self.files}) > 1:
            parts.append("not all on the same data")
        if self.files and "failed" in self.cell.paper and not self.diverged + self.at_chance + self.collapsed:
            parts.append("none failed")
        return " · ".join(parts)

    @property
    def warning(self) -> str:
        """How many runs failed, and how, and where files contradict each other; empty where all is well."""
        counts = [(self.diverged, "diverged"), (self.at_chance, "at chance"), (self.collapsed, "collapsed")]
        parts = [f"{count} of {len(self.files)} {how}" for count, how in counts if count]
        parts += [f"{self.stopped} stopped by an error"] if self.stopped else []
        return ", ".join(parts + [f"seed {seed} was trained with another configuration" for seed in self.unfit])

    def entry(self) -> Entry:
        """The cell as a table shows it."""
        if not self.files:
            return Entry(NOT_YET, self.note, self.warning, is_bold=False)
        return Entry(self.summary or "failed", self.note, self.warning)


CellResults = Sequence[CellResult]
"""All cells of an experiment."""


def every_run(files: Iterable[ResultFile], metric: str) -> str:
    """The metric of each run, or that it diverged."""
    diverged = State.DIVERGED
    return ", ".join(diverged.value if file.state is diverged else f"{file.number(metric):.1f}" for file in files)


def has_collapsed(file: ResultFile, config: RunConfig) -> bool:
    """Whether a finished Spider run is below what any trained model reaches; one epoch is no training."""
    if not isinstance(config, SqlSpConfig) or config.training.epochs == 1 or file.state is not State.FINISHED:
        return False
    metric = metric_of(config)
    return metric in file.metrics and file.number(metric) < SPIDER_COLLAPSED


def results_of(cells: Iterable[Cell], results: Results) -> list[CellResult]:
    """Each cell with its result files."""
    pairs = []
    for cell in cells:
        files = tuple(results.of(cell))
        pairs.append(CellResult(cell, files, len(results.failed(cell)), tuple(results.unfit(cell))))
    return pairs


def table_of(cells: CellResults, caption: str = "", corner: str = "") -> str:
    """Rows and columns as the cells name them, the longer side down; the paper's number, if any, is before ours."""
    downs = unique(result.cell.row for result in cells)
    acrosses = unique(result.cell.column for result in cells)
    by_place = {(result.cell.row, result.cell.column): result for result in cells}
    if len(by_place) < len(cells):
        raise ValueError("two cells of a table have one row and column: give each its own")
    if len(acrosses) > len(downs):
        downs, acrosses = acrosses, downs
        by_place = {(column, row): result for (row, column), result in by_place.items()}
    ours = ", ours" if any(result.cell.paper for result in cells) else ""
    headings, columns = [corner], [list[Entry | str](downs)]
    for across in acrosses:
        results = [by_place.get((down, across)) for down in downs]
        if any(result and result.cell.paper for result in results):
            headings.append(f"{across}, paper")
            columns.append([result.cell.paper if result else "" for result in results])
        headings.append(f"{across}{ours}")
        columns.append([result.entry() if result else "" for result in results])
    return table(headings, list(zip(*columns, strict=True)), caption)


def caption_of(cells: CellResults, budget: str, paper: str) -> str:
    """What our runs were trained with, as far as all cells agree, and what the paper's were."""
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
        if key not in largest or largest[key].cell.seeds < result.cell.seeds:
            largest[key] = result
    return sum(result.there for result in largest.values()), sum(result.cell.seeds for result in largest.values())


def files_of(cells: Iterable[CellResult]) -> list[ResultFile]:
    """All files of the cells, each once, by name."""
    return [file for _, file in sorted({file.path: file for result in cells for file in result.files}.items())]


def mean_and_deviation(values: Sequence[float]) -> str:
    """The mean and the standard deviation of a sample, with one digit.

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
    """Each text once, in order."""
    return list(dict.fromkeys(texts))


def _range(numbers: Iterable[int]) -> str:
    values = sorted(set(numbers))
    return " or ".join(str(value) for value in values) if len(values) < 3 else f"{values[0]} to {values[-1]}"
