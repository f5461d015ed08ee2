"""One section of the report for each experiment: its table beside the paper's, its pictures, and the command.

In: an `Experiment`, and its cells with their results. Out: a `Section`. Most experiments are a table of their cells;
those of `_SPECIAL` show something else of the same runs.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
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
    line_name,
    progress,
    table_of,
    unique,
)
from dtfixup_paper.report.curves import COLOURS, Band, Curve, DepthLine, band_of, curve_of, depth_figure, panels_figure
from dtfixup_paper.report.markdown import Block, Entry, Picture, Section, command, escape, files_block, table
from dtfixup_paper.report.measured import level_entry, metric_at, tune_table
from dtfixup_paper.runs.run import State
from dtfixup_paper.tables.cells import Budget, Experiment, RunConfig
from dtfixup_paper.tables.paper_numbers import BESIDE, LEVELS, SCHEDULE, TABLE_1, TABLE_3_OURS, PaperTable
from dtfixup_paper.tables.settings import NO_LAYERS
from dtfixup_paper.tables.spider_tables import LEVEL, epochs_to

_DATA = {"spider": "--data spider", "reclor": "--reclor reclor"}
_MEASURES = {"spider": "Spider dev: exact match, %", "reclor": "ReClor val: accuracy, %"}
_DOTS = " Dots alone: a run failed and another did not."


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
    make = _SPECIAL.get(experiment.name, _table_blocks)
    blocks = list(analysis or (make(cells, _caption(cells, budget)) if cells else ()))
    remarks = [experiment.remark, experiment.gpu_remark if budget is Budget.GPU else ""]
    blocks += [escape(" ".join(filter(None, remarks)))] if any(remarks) else []
    blocks += [_reference(printed) for printed in BESIDE.get(experiment.name, ()) if printed is not TABLE_1]
    blocks += _endings(experiment, cells, budget, encoder)
    there, planned = progress(cells)
    return Section(experiment.name, experiment.title, experiment.reference, blocks, there, planned)


def _endings(experiment: Experiment, cells: CellResults, budget: Budget, encoder: str | None) -> list[Block]:
    """Files, and the command of an experiment that is ours."""
    from dtfixup_paper.reproduce import EXPERIMENTS  # takes a second

    files = files_of(cells)
    blocks: list[Block] = [files_block(files)] if files else []
    if experiment.name not in EXPERIMENTS:
        return blocks
    tasks = {_task(result.cell.config) for result in cells}
    data = "".join(f" {option}" for task, option in _DATA.items() if task in tasks)
    chosen = "" if encoder is None or budget is Budget.SMOKE else f" --encoder {shlex.quote(encoder)}"
    return [*blocks, command(f"dtfixup reproduce {experiment.name} --budget {budget}{chosen}{data}")]


def _caption(cells: CellResults, budget: Budget) -> str:
    """What differs from the paper, for each task of the table."""
    texts = []
    for task, schedule in SCHEDULE.items():
        if part := _of_task(cells, task):
            texts.append(f"{_measure(part[0])}. {caption_of(part, budget, schedule)}")
    if _of_task(cells, "reclor"):
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


def _task(config: RunConfig) -> str:
    return "spider" if isinstance(config, SqlSpConfig) else "reclor"


def _of_task(cells: CellResults, task: str) -> list[CellResult]:
    return [result for result in cells if _task(result.cell.config) == task]


def _reference(printed: PaperTable) -> str:
    caption = f"{printed.reference} of the paper, not reproducible here. {printed.reason}"
    return table(printed.headings, printed.rows, caption)


def _table_blocks(cells: CellResults, caption: str) -> list[Block]:
    return [table_of(cells, caption)]


def _main_blocks(cells: CellResults, caption: str) -> list[Block]:
    """Table 1 with our deepest DT-Fixup runs below the paper's rows, and table 2, which are the cells."""
    fixup = [result for result in cells if line_name(result.cell.config) == "dt-fixup"]
    deepest = max((result.cell.config.model.layers for result in fixup), default=0)
    rows: list[Sequence[Entry | str]] = list(TABLE_1.rows)
    for result in fixup:
        if result.cell.config.model.layers == deepest:
            encoders = unique(file.encoder for file in result.files) or [result.cell.config.encoder]
            entry = result.entry()
            if result.values:
                entry = replace(entry, text=f"{max(result.values):.1f}", note=f"the best of {result.note}")
            name = Entry(f"SQL-SP + {', '.join(encoders)} (ours)", result.cell.row, is_bold=False)
            rows.append((name, entry, ""))
    first = f"Table 1. The paper's rows are not reproducible here. {TABLE_1.reason}"
    return [table(TABLE_1.headings, rows, first), table_of(cells, f"Table 2. {caption}")]


def _hardness_blocks(cells: CellResults, caption: str) -> list[Block]:
    """Table 3: one row of the paper's, and ours by exact match and by execution."""
    rows: list[Sequence[Entry | str]] = [("DT-Fixup SQL-SP, exact match", *TABLE_3_OURS)]
    for result in cells:
        for measure, metric in (("exact match", "dev_exact"), ("execution", "dev_execution")):
            entries = [level_entry(result, metric_at(metric, level)) for level in LEVELS]
            rows.append((f"ours, {result.cell.row}, {measure}", *entries))
    return [table(("Model", *LEVELS), rows, caption)]


def _depth_blocks(cells: CellResults, caption: str) -> list[Block]:
    """Table 5, drawn as lines too."""
    blocks: list[Block] = [table_of(cells, caption, corner="new layers")]
    lines = _lines(cells, lambda result: result.values)
    if not lines:
        return blocks
    task = _task(cells[0].cell.config)
    alone = [value for result in cells if not result.cell.config.model.layers for value in result.values]
    figure = depth_figure(
        lines,
        ylabel=_MEASURES[task],
        baseline=(NO_LAYERS, alone) if alone else None,
        chance=RECLOR_CHANCE if task == "reclor" else None,
        paper=[replace(line, split=()) for line in _lines(cells, lambda result: _printed(result.cell.paper))],
        size=(figures.WIDTH, 3.6),
    )
    label = "; ".join(f"{line.label}: " + ", ".join(_points(line)) for line in lines)
    caption = "Ours: solid, with the standard deviation and the seeds as dots. The paper's means: dashed."
    caption += _DOTS if any(line.split for line in lines) else ""
    return [*blocks, Picture(f"{task}-depth", figure, label, caption)]


def _reclor_depth_blocks(cells: CellResults, caption: str) -> list[Block]:
    """Table 5 of ReClor, with the curves that led there."""
    curves = _curves_picture("reclor-curves", cells, level=RECLOR_CHANCE, level_name="chance")
    return [*_depth_blocks(cells, caption), *([curves] if curves else [])]


def _lines(cells: CellResults, values: Callable[[CellResult], Sequence[float]]) -> list[DepthLine]:
    lines: dict[str, dict[int, Sequence[float]]] = {}
    split: dict[str, list[int]] = {}
    for result in cells:
        if (layers := result.cell.config.model.layers) and (numbers := values(result)):
            lines.setdefault(name := line_name(result.cell.config), {})[layers] = numbers
            if result.is_split:
                split.setdefault(name, []).append(layers)
    return [DepthLine(label, by_depth, split.get(label, ())) for label, by_depth in lines.items()]


def _points(line: DepthLine) -> list[str]:
    """Means, and every seed that has a value where some failed.

    >>> _points(DepthLine("standard", {8: [61.0, 62.0], 16: [60.0, 20.0], 24: [59.0]}, split=[16, 24]))
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
    picture = _curves_picture("spider-curves", cells, level=LEVEL, level_name=f"{LEVEL:.0f}")
    return [*([picture] if picture else []), table(headings, rows, below)]


def _curves_picture(name: str, cells: CellResults, level: float, level_name: str) -> Picture | None:
    """Evaluations during training, a panel for each depth; None if no run has any."""
    panels: dict[str, list[Band]] = {}
    for result in cells:
        if curves := _curves(result):
            title = f"N = {result.cell.config.model.layers}"
            panels.setdefault(title, []).append(band_of(line_name(result.cell.config), curves))
    if not panels:
        return None
    columns = 3 if len(panels) == 3 else 2
    size = (figures.WIDTH, 0.7 + 2.0 * -(-len(panels) // columns))
    ylabel = _MEASURES[_task(cells[0].cell.config)]
    figure = panels_figure(panels, ylabel=ylabel.split(": ")[1], level=level, columns=columns, size=size)
    label = "; ".join(
        f"{title}: {band.label} {band.mean[-1]:.1f} at the end" for title, bands in panels.items() for band in bands
    )
    measure = ylabel.removesuffix(", %")
    caption = f"{measure} during training: the mean of the seeds, lowest to highest shaded; dotted: {level_name}."
    return Picture(name, figure, label, caption)


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
    metric = "exact" if _task(result.cell.config) == "spider" else "accuracy"
    files = [file for file in result.files if file.state is State.FINISHED and file.content.get("curve")]
    curves = [curve_of(file.content, file.path, metric) for file in files]
    shared = _shared(curve.points for curve in curves)
    points = [{epoch: value for epoch, value in curve.points.items() if epoch in shared} for curve in curves]
    return [replace(curve, points=kept) for curve, kept in zip(curves, points, strict=True) if kept]


def _bar_blocks(cells: CellResults, caption: str, name: str) -> list[Block]:
    """A table, and bars for each task."""
    blocks: list[Block] = [table_of(cells, caption)]
    for task, measure in _MEASURES.items():
        part = _of_task(cells, task)
        if not any(result.values for result in part):
            continue
        panels: dict[str, dict[str, figures.Bar]] = {}
        for result in part:
            panels.setdefault(result.cell.column, {})[result.cell.row] = _bar(result)
        figure = figures.bars_figure(panels, xlabel=measure, chance=RECLOR_CHANCE if task == "reclor" else None)
        label = "; ".join(
            f"{result.cell.row}, {result.cell.column}: {result.summary}" for result in part if result.values
        )
        words = "Means, with the seeds as dots." + (_DOTS if any(result.is_split for result in part) else "")
        blocks.append(Picture(f"{name}-{task}", figure, label, words))
    return blocks


def _bar(result: CellResult) -> figures.Bar:
    colour = COLOURS[result.cell.config.model.strategy]
    remark = ", ".join(filter(None, ("" if result.files else NOT_YET, result.warning)))
    text = ", ".join(f"{value:.1f}" for value in result.values) if result.is_split else result.summary
    return figures.Bar(result.values, text, colour, remark, has_mean=not result.is_split)


def _tune_blocks(cells: CellResults, caption: str) -> list[Block]:
    """Every setting that was tried, and what trying them cost."""
    files = files_of(cells)
    minutes = sum(file.seconds for file in files) / 60
    cost = f"{counted(len(files), 'run')}, {minutes:.1f} minutes in all."
    held_out = "Evaluated on training examples that were held out, never on dev or val."
    return [tune_table(cells, f"{cost} {held_out} {caption}")]


_SPECIAL: Mapping[str, Callable[[CellResults, str], Sequence[Block]]] = {
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
