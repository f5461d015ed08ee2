"""Cells of an experiment and the result files of a folder → a table with the paper's numbers beside ours.

A mean is over the seeds, with the standard deviation of a sample. A run has failed if it diverged, on ReClor did not
leave chance (`chance.py`), or on Spider collapsed: it reached its end far below what two layers have. On ReClor
a diverged run counts as chance in the mean, as in its own table. On Spider there is no such value, and a mean of runs
that train and runs that do not is of neither: where a cell has both, all runs stand there, one by one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from dtfixup.sql.model.config import SqlSpConfig
from dtfixup_paper.report.document import Entry, Kind, Table, labels
from dtfixup_paper.runs.run_identity import State, known_by
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
    """Runs that an error ended, which has nothing to do with training: they count as not there."""
    rivals: tuple[int, ...] = ()
    """Seeds that several files have different ends of."""

    @property
    def values(self) -> tuple[float, ...]:
        """What goes into the mean, by seed."""
        metric = metric_of(self.cell.config)
        found = [self._chance if file.state is State.DIVERGED else file.number(metric) for file in self.files]
        return tuple(value for value in found if value is not None)

    @property
    def diverged(self) -> int:
        return sum(file.state is State.DIVERGED for file in self.files)

    @property
    def at_chance(self) -> int:
        """Runs to the end that did not leave chance."""
        metric, finished = metric_of(self.cell.config), (file for file in self.files if file.state is State.FINISHED)
        known = [file.metrics for file in finished if {"chance", "evaluated_examples", metric} <= file.metrics.keys()]
        return sum(is_at_chance(each, metric.removesuffix("_accuracy")) for each in known)

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
        """Mean and deviation; every run, by seed, where some trained and others failed; empty where no run has one."""
        if not self.values:
            return ""
        return each_end(self.files, metric_of(self.cell.config)) if self.is_split else mean_and_deviation(self.values)

    @property
    def _chance(self) -> float | None:
        return None if isinstance(self.cell.config, SqlSpConfig) else RECLOR_CHANCE

    @property
    def planned(self) -> int:
        return self.cell.seeds

    @property
    def there(self) -> int:
        """Of the planned runs; those of more seeds than planned do not make up for others."""
        return sum(int(file.content.get("seed", 0)) <= self.planned for file in self.files)

    @property
    def note(self) -> str:
        """Seeds and epochs; whether their data differ; that none failed, where the paper says how many of its did."""
        seeds = f"{len(self.files)} of {self.planned}" if len(self.files) < self.planned else str(len(self.files))
        word = "seed" if seeds == "1" else "seeds"
        failed = self.diverged + self.at_chance + self.collapsed
        asked = " · none failed" if self.files and "failed" in self.cell.paper and not failed else ""
        data = {file.content.get("data_hash") for file in self.files}
        differ = " · not all on the same data" if len(data) > 1 else ""
        chosen = " · chosen" if self.cell.is_chosen else ""
        return f"{seeds} {word} · {counted(self.cell.config.training.epochs, 'epoch')}{chosen}{differ}{asked}"

    @property
    def missing(self) -> str:
        """That nothing has run; nothing where something has."""
        return "" if self.files else NOT_YET

    @property
    def warning(self) -> str:
        """How many runs failed, and how, and where files contradict each other; nothing where all is well."""
        parts = [(self.diverged, "diverged"), (self.at_chance, "at chance"), (self.collapsed, "collapsed")]
        told = [f"{count} of {len(self.files)} {how}" for count, how in parts if count]
        told += [f"{self.stopped} stopped by an error"] if self.stopped else []
        return ", ".join(told + [f"several files for seed {seed}, the first by name is shown" for seed in self.rivals])

    def entry(self) -> Entry:
        """As a table shows it."""
        if not self.files:
            return Entry(NOT_YET, Kind.MISSING, self.note, self.warning)
        return Entry(self.summary or "failed", Kind.OURS, self.note, self.warning)


def each_end(files: Iterable[ResultFile], metric: str) -> str:
    """What each run came to."""
    diverged = State.DIVERGED
    return ", ".join(diverged.value if file.state is diverged else f"{file.number(metric):.1f}" for file in files)


def has_collapsed(file: ResultFile, config: RunConfig) -> bool:
    """Whether a Spider run reached its end and is below what any trained model has; one epoch is no training."""
    if not isinstance(config, SqlSpConfig) or config.training.epochs == 1 or file.state is not State.FINISHED:
        return False
    metric = metric_of(config)
    return metric in file.metrics and file.number(metric) < SPIDER_COLLAPSED


Found = Sequence[CellResult]
"""All cells of an experiment."""


def results_of(cells: Iterable[Cell], results: Results) -> list[CellResult]:
    """Each cell with what is there of it."""
    found = []
    for cell in cells:
        files = tuple(results.of(cell))
        there = {file.content.get("seed") for file in files}
        stopped = {file.content.get("seed") for file in results.failed(cell)} - there
        found.append(CellResult(cell, files, len(stopped), tuple(results.rivals(cell))))
    return found


def table_of(found: Sequence[CellResult], caption: str = "", corner: str = "") -> Table:
    """Rows and columns as the cells name them, the longer side down; before our number the paper's, if it has one."""
    downs, acrosses = _names(found, lambda cell: cell.row), _names(found, lambda cell: cell.column)
    by_place = {(each.cell.row, each.cell.column): each for each in found}
    if len(by_place) < len(found):
        raise ValueError("two cells of a table stand in one place: give each its own row or column")
    if len(acrosses) > len(downs):
        downs, acrosses = acrosses, downs
        by_place = {(column, row): each for (row, column), each in by_place.items()}
    in_paper = {across for (_, across), each in by_place.items() if each.cell.paper}
    rows = []
    for down in downs:
        entries = labels([down])
        for across in acrosses:
            place = by_place.get((down, across))
            if across in in_paper:
                entries.append(Entry(place.cell.paper if place else "", Kind.PAPER))
            entries.append(place.entry() if place else Entry("", Kind.LABEL))
        rows.append(tuple(entries))
    if not in_paper:
        return Table((corner, *acrosses), tuple(rows), caption)
    spans = [(across, 2 if across in in_paper else 1) for across in acrosses]
    headings = [heading for _, span in spans for heading in (("paper", "ours") if span == 2 else ("ours",))]
    return Table((corner, *headings), tuple(rows), caption, groups=(("", 1), *spans))


def caption_of(found: Sequence[CellResult], budget: str, paper: str) -> str:
    """What ours was trained with, in so far as all cells agree, and what the paper has instead."""
    configs = [each.cell.config for each in found]
    encoders = unique(file.encoder for each in found for file in each.files) or unique(c.encoder for c in configs)
    sizes = [f"{name} ({_SIZES[name]})" if name in _SIZES else name for name in encoders]
    said = [f"encoder {' and '.join(sizes)}", f"budget {budget}"]
    epochs = _range(config.training.epochs for config in configs)
    said.append(f"{epochs} epoch{'' if epochs == '1' else 's'}")
    said.append(f"batch {_range(c.training.batch_size * c.training.accumulate for c in configs)}")
    made_up = {isinstance(config, SqlSpConfig) and config.synthetic > 0 for config in configs}
    if True in made_up:
        said.append(f"made-up examples beside the real ones{' in some rows' if False in made_up else ''}")
    return f"Ours: {', '.join(said)}. The paper: {paper}."


def progress(found: Iterable[CellResult]) -> tuple[int, int]:
    """Runs that are there, of how many; a run that stands in several cells counts once."""
    largest: dict[str, CellResult] = {}
    for each in found:
        key = known_by(each.cell.config)
        if key not in largest or largest[key].planned < each.planned:
            largest[key] = each
    return sum(each.there for each in largest.values()), sum(each.planned for each in largest.values())


def files_of(found: Iterable[CellResult]) -> list[ResultFile]:
    """All files of the cells, each once, by name."""
    return [file for _, file in sorted({file.path: file for each in found for file in each.files}.items())]


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
    """What a picture calls the runs of a configuration; `NO_LAYERS` without new layers."""
    return config.model.strategy if config.model.layers else NO_LAYERS


def _names(found: Sequence[CellResult], part: Callable[[Cell], str]) -> list[str]:
    return unique(part(each.cell) for each in found)


def _range(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return " or ".join(str(number) for number in found) if len(found) < 3 else f"{found[0]} to {found[-1]}"
