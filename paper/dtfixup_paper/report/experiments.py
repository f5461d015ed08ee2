"""One section of the report for each experiment: its table beside the paper's, its pictures, and the command.

In: an `Experiment`, and its cells with their results. Out: a `Section`. Most experiments are a table of their cells;
those of `_BLOCKS` show something else of the same runs.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from dtfixup.sql.model.config import SqlSpConfig
from dtfixup_paper.report import figures
from dtfixup_paper.report.cells import (
    NOT_YET,
    RECLOR_CHANCE,
    SPIDER_COLLAPSED,
    CellResult,
    CellResults,
    caption_of,
    counted,
    files_of,
    progress,
    table_of,
    unique,
)
from dtfixup_paper.report.curves import Band, Curve, band_of, curve_of, panels_figure
from dtfixup_paper.report.markdown import Block, Entry, Picture, Section, command, escape, files_block, table
from dtfixup_paper.report.measured import EXACT, EXECUTION, level_entries, minutes_of, tune_table
from dtfixup_paper.reproduce import EXPERIMENTS
from dtfixup_paper.runs.run import State
from dtfixup_paper.tables.cells import Budget, Experiment
from dtfixup_paper.tables.paper_numbers import BESIDE, LEVELS, SCHEDULE, TABLE_1, TABLE_3_OURS
from dtfixup_paper.tables.settings import NO_LAYERS
from dtfixup_paper.tables.spider_tables import LEVEL, epochs_to

_DOTS = " Dots alone: a run failed and another did not."


@dataclass(frozen=True)
class _Task:
    """What cells of one dataset have in common."""

    name: str
    measure: str
    """In percent."""
    metric: str
    """In the curve of a run."""
    options: str
    """Of `dtfixup reproduce`, for the data."""
    chance: float | None = None

    @property
    def axis(self) -> str:
        return f"{self.measure}, %"


_SPIDER = _Task("spider", "Spider dev: exact match", "exact", "--data spider")
_RECLOR = _Task("reclor", "ReClor val: accuracy", "accuracy", "--reclor reclor", RECLOR_CHANCE)


def experiment_section(
    experiment: Experiment,
    cells: CellResults,
    budget: Budget,
    encoder: str | None = None,
    analysis: Sequence[Block] | None = None,
) -> Section:
    """The experiment's table, pictures, remarks, the paper's other rows, files and command.

    Args:
        experiment: what the section is about.
        cells: its cells with their results.
        budget: of the runs.
        encoder: of the runs, if it is not the budget's own.
        analysis: shown in place of the table of the cells.
    """
    make = _BLOCKS.get(experiment.name, _table_blocks)
    blocks = list(analysis or (make(cells, _caption(cells, budget)) if cells else ()))
    remarks = [experiment.remark, experiment.gpu_remark if budget is Budget.GPU else ""]
    blocks.append(escape(" ".join(filter(None, remarks))))
    for printed in BESIDE.get(experiment.name, ()):
        if printed is not TABLE_1:
            caption = f"{printed.reference} of the paper, not reproducible here. {printed.reason}"
            blocks.append(table(printed.headings, printed.rows, caption))
    blocks.append(files_block(files_of(cells)))
    if experiment.name in EXPERIMENTS:
        options = [task.options for task in (_SPIDER, _RECLOR) if _of_task(cells, task)]
        if encoder is not None and budget is not Budget.SMOKE:
            options.insert(0, f"--encoder {shlex.quote(encoder)}")
        blocks.append(command(" ".join([f"dtfixup reproduce {experiment.name} --budget {budget}", *options])))
    return Section(experiment.name, experiment.title, experiment.reference, blocks, *progress(cells))


def _caption(cells: CellResults, budget: Budget) -> str:
    """What differs from the paper, for each task of the table."""
    parts = [(task, part) for task in (_SPIDER, _RECLOR) if (part := _of_task(cells, task))]
    texts = [f"{_measure(part[0])}. {caption_of(part, budget, SCHEDULE[task.name])}" for task, part in parts]
    if _of_task(cells, _RECLOR):
        texts.append("On ReClor a run that diverged counts as chance.")
    if any(result.at_chance for result in cells):
        texts.append(
            "At chance: not more than three standard errors above it, or with the loss of equal probabilities, "
            "whatever the accuracy."
        )
    if any(result.collapsed for result in cells):
        texts.append(f"Collapsed: below {SPIDER_COLLAPSED:.0f} % at the end.")
    if any(result.is_split for result in cells):
        texts.append("A cell in which some runs failed and others did not shows every run, by seed, and no mean.")
    texts.append("Mean ± standard deviation over the seeds, after the last epoch; failed runs are named.")
    return " ".join(texts)


def _measure(result: CellResult) -> str:
    """Task, metric and split.

    >>> from dtfixup_paper.tables.cells import Cell
    >>> _measure(CellResult(Cell("", "", "", SqlSpConfig(hold_out=20), seeds=1), ()))
    'Spider, exact match in percent on held-out databases of train'
    """
    config = result.cell.config
    if isinstance(config, SqlSpConfig):
        return f"Spider, exact match in percent on {'held-out databases of train' if config.hold_out else 'dev'}"
    return f"ReClor, accuracy in percent on {'held-out examples of train' if config.hold_out else 'val'}"


def _task(result: CellResult) -> _Task:
    return _SPIDER if isinstance(result.cell.config, SqlSpConfig) else _RECLOR


def _of_task(cells: CellResults, task: _Task) -> list[CellResult]:
    return [result for result in cells if _task(result) is task]


def _line_name(result: CellResult) -> str:
    """The strategy; `NO_LAYERS` without new layers."""
    model = result.cell.config.model
    return model.strategy if model.layers else NO_LAYERS


def _table_blocks(cells: CellResults, caption: str) -> list[Block]:
    return [table_of(cells, caption)]


def _main_blocks(cells: CellResults, caption: str) -> list[Block]:
    """Table 1 with our deepest DT-Fixup runs below the paper's rows, and table 2, which are the cells."""
    fixup = [result for result in cells if _line_name(result) == "dt-fixup"]
    deepest = max((result.cell.config.model.layers for result in fixup), default=0)
    rows: list[Sequence[Entry | str]] = list(TABLE_1.rows)
    for result in (result for result in fixup if result.cell.config.model.layers == deepest):
        encoders = unique(file.encoder for file in result.files) or [result.cell.config.encoder]
        entry = result.entry()
        if result.values:
            entry = replace(entry, text=f"{max(result.values):.1f}", note=f"the best of {result.note}")
        rows.append((Entry(f"SQL-SP + {', '.join(encoders)} (ours)", result.cell.row, is_bold=False), entry, ""))
    first = f"Table 1. The paper's rows are not reproducible here. {TABLE_1.reason}"
    return [table(TABLE_1.headings, rows, first), table_of(cells, f"Table 2. {caption}")]


def _hardness_blocks(cells: CellResults, caption: str) -> list[Block]:
    """Table 3: one row of the paper's, and ours by exact match and by execution."""
    rows: list[Sequence[Entry | str]] = [("DT-Fixup SQL-SP, exact match", *TABLE_3_OURS)]
    for result in cells:
        for measure, metric in (("exact match", EXACT), ("execution", EXECUTION)):
            rows.append((f"ours, {result.cell.row}, {measure}", *level_entries(result, metric)))
    return [table(("Model", *LEVELS), rows, caption)]


def _depth_blocks(cells: CellResults, caption: str) -> list[Block]:
    """Table 5, drawn as lines too."""
    blocks: list[Block] = [table_of(cells, caption, corner="new layers")]
    lines = _lines(cells, lambda result: result.values)
    if not lines:
        return blocks
    task = _task(cells[0])
    paper = [replace(line, split=()) for line in _lines(cells, lambda result: _printed(result.cell.paper))]
    figure = figures.depth_figure(lines, ylabel=task.axis, chance=task.chance, paper=paper)
    label = "; ".join(f"{line.label}: " + ", ".join(_points(line)) for line in lines)
    caption = "Ours: solid, with the standard deviation and the seeds as dots. The paper's means: dashed."
    caption += _DOTS if any(line.split for line in lines) else ""
    return [*blocks, Picture(f"{task.name}-depth", figure, label, caption)]


def _reclor_depth_blocks(cells: CellResults, caption: str) -> list[Block]:
    """Table 5 of ReClor, with the curves that led there."""
    return [*_depth_blocks(cells, caption), *_curves_picture("reclor-curves", cells, RECLOR_CHANCE, "chance")]


def _lines(cells: CellResults, values: Callable[[CellResult], Sequence[float]]) -> list[figures.DepthLine]:
    lines: dict[str, dict[int, Sequence[float]]] = {}
    split: dict[str, list[int]] = {}
    for result in cells:
        name, layers = _line_name(result), result.cell.config.model.layers
        if layers and (numbers := values(result)):
            lines.setdefault(name, {})[layers] = numbers
            split.setdefault(name, []).extend([layers] if result.is_split else [])
    return [figures.DepthLine(label, by_depth, split[label]) for label, by_depth in lines.items()]


def _points(line: figures.DepthLine) -> list[str]:
    """Means, and every seed that has a value where some failed.

    >>> _points(figures.DepthLine("standard", {8: [61.0, 62.0], 16: [60.0, 20.0], 24: [59.0]}, split=[16, 24]))
    ['61.5 at 8', '60.0 and 20.0 at 16', '59.0 alone at 24']
    """
    points = []
    for depth, values in sorted(line.values.items()):
        if depth in line.means:
            text = f"{line.means[depth]:.1f}"
        else:
            text = " and ".join(f"{value:.1f}" for value in values) + (" alone" if len(values) == 1 else "")
        points.append(f"{text} at {depth}")
    return points


def _printed(paper: str) -> list[float]:
    """The mean that the paper prints.

    >>> _printed("73.79 ± 0.49"), _printed("failed"), _printed("")
    ([73.79], [], [])
    """
    try:
        return [float(paper.split()[0])]
    except (IndexError, ValueError):
        return []


def _curve_blocks(cells: CellResults, caption: str) -> list[Block]:
    """Figure 2, and the number that it shows."""
    rows = [(f"{result.cell.row}, {result.cell.column}", *_goal_entries(result)) for result in cells]
    headings = ("", f"epochs to {LEVEL:.0f}", "seeds that reach it", "at the end")
    below = (
        f"Epochs to {LEVEL:.0f}: the first evaluation with at least {LEVEL:.0f} exact match (greedy, during training), "
        f"as the mean of the seeds that reach it. {caption}"
    )
    return [*_curves_picture("spider-curves", cells, LEVEL, f"{LEVEL:.0f}"), table(headings, rows, below)]


def _curves_picture(name: str, cells: CellResults, level: float, level_name: str) -> list[Block]:
    """Evaluations during training, a panel for each depth; nothing if no run has any."""
    panels: dict[str, list[Band]] = {}
    for result in cells:
        if curves := _curves(result):
            panels.setdefault(f"N = {result.cell.config.model.layers}", []).append(band_of(_line_name(result), curves))
    if not panels:
        return []
    measure = _task(cells[0]).measure
    columns = min(len(panels), 3 if len(panels) == 3 else 2)
    size = (figures.WIDTH, 0.7 + 2.0 * -(-len(panels) // columns))
    figure = panels_figure(panels, ylabel=f"{measure.split(': ')[1]}, %", level=level, columns=columns, size=size)
    label = "; ".join(
        f"{title}: {band.label} {band.mean[-1]:.1f} at the end" for title, bands in panels.items() for band in bands
    )
    caption = f"{measure} during training: the mean of the seeds, lowest to highest shaded; dotted: {level_name}."
    return [Picture(name, figure, label, caption)]


def _goal_entries(result: CellResult) -> list[Entry | str]:
    if not result.files:
        return [result.entry(), "", ""]
    curves = [(file, file.content.get("curve") or []) for file in result.files]
    shared = _shared([row["epoch"] for row in curve] for file, curve in curves if file.state is State.FINISHED)
    compared = ([row for row in curve if row["epoch"] in shared] for _, curve in curves)
    firsts = [first for curve in compared if (first := epochs_to(curve)) is not None]
    epochs = f"{fmean(firsts):.1f}" if firsts else "never"
    seeds = f"{len(firsts)} of {len(result.files)}"
    return [Entry(epochs, result.note), Entry(seeds), replace(result.entry(), note="")]


def _shared(curves: Iterable[Iterable[float]]) -> set[float]:
    """The epochs that are in all of them."""
    epochs = [set(curve) for curve in curves]
    return set.intersection(*epochs) if epochs else set()


def _curves(result: CellResult) -> list[Curve]:
    """Of the finished seeds, at the epochs that all were evaluated at."""
    files = [file for file in result.files if file.state is State.FINISHED and file.content.get("curve")]
    curves = [curve_of(file.content, file.path, _task(result).metric) for file in files]
    shared = _shared(curve.points for curve in curves)
    points = [{epoch: value for epoch, value in curve.points.items() if epoch in shared} for curve in curves]
    return [replace(curve, points=kept) for curve, kept in zip(curves, points, strict=True) if kept]


def _bar_blocks(cells: CellResults, caption: str, name: str) -> list[Block]:
    """A table, and bars for each task."""
    blocks: list[Block] = [table_of(cells, caption)]
    for task in (_SPIDER, _RECLOR):
        part = _of_task(cells, task)
        if not any(result.values for result in part):
            continue
        panels: dict[str, dict[str, figures.Bar]] = {}
        for result in part:
            panels.setdefault(result.cell.column, {})[result.cell.row] = _bar(result)
        figure = figures.bars_figure(panels, xlabel=task.axis, chance=task.chance)
        label = "; ".join(
            f"{result.cell.row}, {result.cell.column}: {result.summary}" for result in part if result.values
        )
        words = "Means, with the seeds as dots." + (_DOTS if any(result.is_split for result in part) else "")
        blocks.append(Picture(f"{name}-{task.name}", figure, label, words))
    return blocks


def _bar(result: CellResult) -> figures.Bar:
    colour = figures.COLOURS[result.cell.config.model.strategy]
    values = ", ".join(f"{value:.1f}" for value in result.values) if result.is_split else result.summary
    text = "\n".join(filter(None, (values if result.files else NOT_YET, result.warning)))
    return figures.Bar(result.values, text, colour, has_mean=not result.is_split)


def _tune_blocks(cells: CellResults, caption: str) -> list[Block]:
    """Every setting that was tried, and what trying them cost."""
    files = files_of(cells)
    cost = f"{counted(len(files), 'run')}, {minutes_of(files):.1f} minutes in all."
    held_out = "Evaluated on training examples that were held out, never on dev or val."
    return [tune_table(cells, f"{cost} {held_out} {caption}")]


_BLOCKS: Mapping[str, Callable[[CellResults, str], Sequence[Block]]] = {
    "spider-main": _main_blocks,
    "spider-hardness": _hardness_blocks,
    "spider-depth": _depth_blocks,
    "reclor-depth": _reclor_depth_blocks,
    "spider-curves": _curve_blocks,
    "init-peers": partial(_bar_blocks, name="init-peers"),
    "mu-choice": partial(_bar_blocks, name="mu-choice"),
    "limits": partial(_bar_blocks, name="limits"),
    "spider-tune": _tune_blocks,
    "reclor-tune": _tune_blocks,
}
"""By the name of the experiment."""
