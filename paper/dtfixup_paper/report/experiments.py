"""One section of the report for each experiment: its table beside the paper's, its picture, and the command.

In: an `Experiment` and what is there of its cells. Out: a `Section`. Most experiments are a table of their cells; those
of `_SPECIAL` show something else of the same runs.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from dtfixup.sql.model.config import SqlSpConfig
from dtfixup_paper.report import figures
from dtfixup_paper.report.cells import (
    RECLOR_CHANCE,
    SPIDER_COLLAPSED,
    CellResult,
    Found,
    caption_of,
    counted,
    files_of,
    line_name,
    progress,
    table_of,
    unique,
)
from dtfixup_paper.report.curves import COLOURS, Band, Curve, DepthLine, band_of, curve_of, depth_figure, panels_figure
from dtfixup_paper.report.document import (
    Block,
    Command,
    Entry,
    Files,
    Kind,
    Note,
    Picture,
    Section,
    Table,
    labels,
)
from dtfixup_paper.report.measured import level_entry, metric_at, tune_table
from dtfixup_paper.runs.run_identity import State
from dtfixup_paper.tables.cells import Budget, Experiment, RunConfig
from dtfixup_paper.tables.paper_numbers import BESIDE, LEVELS, SCHEDULE, TABLE_1, TABLE_3_OURS, PaperTable
from dtfixup_paper.tables.result_files import shortly
from dtfixup_paper.tables.settings import NO_LAYERS
from dtfixup_paper.tables.spider_curves import LEVEL, epochs_to

_DATA = {"spider": "--data spider", "reclor": "--reclor reclor"}


def experiment_section(experiment: Experiment, found: Found, budget: Budget, encoder: str | None = None) -> Section:
    """The experiment's table, picture, remarks, the paper's other rows, files and command."""
    caption = _caption(found, budget)
    make = _SPECIAL.get(experiment.name, _table_blocks)
    blocks: list[Block] = list(make(found, caption)) if found else []
    remarks = [experiment.remark, experiment.gpu_remark if budget is Budget.GPU else ""]
    blocks += [Note(" ".join(filter(None, remarks)))] if any(remarks) else []
    blocks += [_reference(table) for table in BESIDE.get(experiment.name, ()) if table is not TABLE_1]
    blocks += _endings(experiment, found, budget, encoder)
    there, planned = progress(found)
    return Section(experiment.name, experiment.title, experiment.reference, tuple(blocks), there, planned)


def _endings(experiment: Experiment, found: Found, budget: Budget, encoder: str | None) -> list[Block]:
    """Files, and the command, which experiments of somebody's own have not."""
    from dtfixup_paper.reproduce import EXPERIMENTS  # takes a second

    files = files_of(found)
    named: list[Block] = [Files(len(files), shortly(files))] if files else []
    if experiment.name not in EXPERIMENTS:
        return named
    tasks = {_task(each.cell.config) for each in found}
    data = "".join(f" {option}" for task, option in _DATA.items() if task in tasks)
    named_encoder = "" if encoder is None or budget is Budget.SMOKE else f" --encoder {shlex.quote(encoder)}"
    return [*named, Command(f"dtfixup reproduce {experiment.name} --budget {budget}{named_encoder}{data}")]


def _caption(found: Found, budget: Budget) -> str:
    """What differs from the paper, for each task of the table."""
    parts = {task: [each for each in found if _task(each.cell.config) == task] for task in SCHEDULE}
    texts = [f"{_measure(part[0])}. {caption_of(part, budget, SCHEDULE[task])}" for task, part in parts.items() if part]
    if parts["reclor"]:
        texts.append("On ReClor a run that diverged counts as chance.")
    if any(each.at_chance for each in found):
        texts.append(
            "At chance: not more than three standard errors above it, or with the loss of equal probabilities, "
            "whatever the accuracy."
        )
    if any(each.collapsed for each in found):
        texts.append(f"Collapsed: below {SPIDER_COLLAPSED:.0f} % at the end.")
    if any(each.is_split for each in found):
        texts.append("Where some runs failed and others did not, every run stands there, by seed, and no mean.")
    ending = (
        "Mean ± standard deviation over the seeds, after the last epoch; where no run is said to have failed, none did."
    )
    return " ".join([*texts, ending])


def _measure(each: CellResult) -> str:
    """Task, metric and split.

    >>> from dtfixup_paper.tables.cells import Cell
    >>> _measure(CellResult(Cell("", "", "", SqlSpConfig(hold_out=20), seeds=1), ()))
    'Spider, exact match in percent on held-out databases of train'
    """
    config = each.cell.config
    if isinstance(config, SqlSpConfig):
        return f"Spider, exact match in percent on {'held-out databases of train' if config.hold_out else 'dev'}"
    return f"ReClor, accuracy in percent on {'held-out examples of train' if config.hold_out else 'val'}"


def _task(config: RunConfig) -> str:
    return "spider" if isinstance(config, SqlSpConfig) else "reclor"


def _reference(table: PaperTable) -> Table:
    rows = tuple((*labels([row[0]]), *(Entry(text, Kind.PAPER) for text in row[1:])) for row in table.rows)
    caption = f"{table.reference} of the paper, not reproducible here. {table.reason}"
    return Table(table.headings, rows, caption, is_reference=True)


def _table_blocks(found: Found, caption: str) -> list[Block]:
    return [table_of(found, caption)]


def _main_blocks(found: Found, caption: str) -> list[Block]:
    """Tables 1 and 2: the cells are table 2, and the deepest DT-Fixup runs stand in table 1."""
    fixup = [each for each in found if line_name(each.cell.config) == "dt-fixup"]
    deepest = max((each.cell.config.model.layers for each in fixup), default=0)
    rows = [(*labels([row[0]]), *(Entry(text, Kind.PAPER) for text in row[1:])) for row in TABLE_1.rows]
    for each in fixup:
        if each.cell.config.model.layers == deepest:
            encoders = unique(file.encoder for file in each.files) or [each.cell.config.encoder]
            entry = each.entry()
            if each.values:
                entry = replace(entry, text=f"{max(each.values):.1f}", note=f"the best of {each.note}")
            name = Entry(f"SQL-SP + {', '.join(encoders)} (ours)", Kind.LABEL, each.cell.row)
            rows.append((name, entry, Entry("", Kind.LABEL)))
    said = f"Table 1. The paper's rows are not reproducible here. {TABLE_1.reason}"
    return [Table(TABLE_1.headings, tuple(rows), said), table_of(found, f"Table 2. {caption}")]


def _hardness_blocks(found: Found, caption: str) -> list[Block]:
    """Table 3: one row of the paper's, and ours by exact match and by execution."""
    rows = [(*labels(["DT-Fixup SQL-SP, exact match"]), *(Entry(text, Kind.PAPER) for text in TABLE_3_OURS))]
    for each in found:
        for measure, metric in (("exact match", "dev_exact"), ("execution", "dev_execution")):
            entries = [level_entry(each, metric_at(metric, level)) for level in LEVELS]
            rows.append((*labels([f"ours, {each.cell.row}, {measure}"]), *entries))
    return [Table(("Model", *LEVELS), tuple(rows), caption)]


def _depth_blocks(found: Found, caption: str) -> list[Block]:
    """Table 5, drawn as lines too."""
    blocks: list[Block] = [table_of(found, caption, corner="new layers")]
    lines = _lines(found, lambda each: each.values)
    if not lines:
        return blocks
    task = _task(found[0].cell.config)
    alone = [value for each in found if not each.cell.config.model.layers for value in each.values]
    draw = partial(
        depth_figure,
        lines,
        ylabel="Spider dev: exact match, %" if task == "spider" else "ReClor val: accuracy, %",
        baseline=(NO_LAYERS, alone) if alone else None,
        chance=RECLOR_CHANCE if task == "reclor" else None,
        paper=[replace(line, split=()) for line in _lines(found, lambda each: _printed(each.cell.paper))],
        size=(figures.WIDTH, 3.6),
    )
    said = "; ".join(f"{line.label}: " + ", ".join(_points(line)) for line in lines)
    words = "Ours: solid, with the standard deviation and the seeds as dots. The paper's means: dashed."
    if any(line.split for line in lines):
        words += " Dots alone: a run failed and another did not."
    return [*blocks, Picture(f"{task}-depth", figures.svg_of(f"{task}-depth", draw), said, words)]


def _lines(found: Found, values: Callable[[CellResult], Sequence[float]]) -> list[DepthLine]:
    lines: dict[str, dict[int, Sequence[float]]] = {}
    split: dict[str, list[int]] = {}
    for each in found:
        if (layers := each.cell.config.model.layers) and (numbers := values(each)):
            lines.setdefault(name := line_name(each.cell.config), {})[layers] = numbers
            if each.is_split:
                split.setdefault(name, []).append(layers)
    return [DepthLine(label, by_depth, split.get(label, ())) for label, by_depth in lines.items()]


def _points(line: DepthLine) -> list[str]:
    """Means, and every seed that has a value where some failed.

    >>> _points(DepthLine("standard", {8: [61.0, 62.0], 16: [60.0, 20.0], 24: [59.0]}, split=[16, 24]))
    ['61.5 at 8', '60.0 and 20.0 at 16', '59.0 alone at 24']
    """
    told = []
    for depth, values in sorted(line.values.items()):
        each = f"{' and '.join(f'{value:.1f}' for value in values)}{' alone' if len(values) == 1 else ''}"
        told.append(f"{f'{line.means[depth]:.1f}' if depth in line.means else each} at {depth}")
    return told


def _printed(paper: str) -> list[float]:
    """The mean that the paper prints.

    >>> _printed("73.79 ± 0.49"), _printed("failed"), _printed("")
    ([73.79], [], [])
    """
    try:
        return [float(paper.split()[0])]
    except (IndexError, ValueError):
        return []


def _curve_blocks(found: Found, caption: str) -> list[Block]:
    """Figure 2, and the number that it shows."""
    panels: dict[str, list[Band]] = {}
    for each in found:
        if curves := _curves(each):
            title = f"N = {each.cell.config.model.layers}"
            panels.setdefault(title, []).append(band_of(line_name(each.cell.config), curves))
    rows = [(*labels([f"{each.cell.row}, {each.cell.column}"]), *_goal_entries(each)) for each in found]
    said = (
        f"The first evaluation with at least {LEVEL:.0f} exact match (greedy, during training), as the mean of the "
        f"seeds that get there. {caption}"
    )
    blocks: list[Block] = [
        Table(("", f"epochs to {LEVEL:.0f}", "seeds that get there", "at the end"), tuple(rows), said)
    ]
    if not panels:
        return blocks
    columns = 3 if len(panels) == 3 else 2
    size = (figures.WIDTH, 0.7 + 2.0 * -(-len(panels) // columns))
    draw = partial(panels_figure, panels, ylabel="exact match, %", level=LEVEL, columns=columns, size=size)
    label = "; ".join(
        f"{title}: {band.label} {band.mean[-1]:.1f} at the end" for title, bs in panels.items() for band in bs
    )
    words = f"Exact match on dev during training: the mean of the seeds, lowest to highest shaded; dotted: {LEVEL:.0f}."
    return [Picture("spider-curves", figures.svg_of("spider-curves", draw), label, words), *blocks]


def _goal_entries(each: CellResult) -> list[Entry]:
    if not each.files:
        return [each.entry(), Entry("", Kind.LABEL), Entry("", Kind.LABEL)]
    curves = [(file, file.content.get("curve") or []) for file in each.files]
    shared = _shared([row["epoch"] for row in curve] for file, curve in curves if file.state is State.FINISHED)
    compared = ([row for row in curve if row["epoch"] in shared] for _, curve in curves)
    firsts = [first for curve in compared if (first := epochs_to(curve)) is not None]
    epochs = f"{fmean(firsts):.1f}" if firsts else "never"
    return [
        Entry(epochs, Kind.OURS, each.note),
        Entry(f"{len(firsts)} of {len(each.files)}"),
        replace(each.entry(), note=""),
    ]


def _shared(curves: Iterable[Iterable[float]]) -> set[float]:
    """The epochs that are in all of them."""
    epochs = [set(curve) for curve in curves]
    return set.intersection(*epochs) if epochs else set()


def _curves(each: CellResult) -> list[Curve]:
    """Of the finished seeds, at the epochs that all were evaluated at."""
    metric = "exact" if _task(each.cell.config) == "spider" else "accuracy"
    files = [file for file in each.files if file.state is State.FINISHED and file.content.get("curve")]
    curves = [curve_of(file.content, file.path, metric) for file in files]
    shared = _shared(curve.points for curve in curves)
    points = [{epoch: value for epoch, value in curve.points.items() if epoch in shared} for curve in curves]
    return [replace(curve, points=kept) for curve, kept in zip(curves, points, strict=True) if kept]


def _bar_blocks(found: Found, caption: str, name: str) -> list[Block]:
    """A table, and bars for each task."""
    blocks: list[Block] = [table_of(found, caption)]
    for task in SCHEDULE:
        part = [each for each in found if _task(each.cell.config) == task]
        if not any(each.values for each in part):
            continue
        panels: dict[str, dict[str, figures.Bar]] = {}
        for each in part:
            colour = COLOURS[each.cell.config.model.strategy]
            said = ", ".join(filter(None, (each.missing, each.warning)))
            text = ", ".join(f"{value:.1f}" for value in each.values) if each.is_split else each.summary
            bar = figures.Bar(each.values, text, colour, said, has_mean=not each.is_split)
            panels.setdefault(each.cell.column, {})[each.cell.row] = bar
        measure = "Spider dev: exact match, %" if task == "spider" else "ReClor val: accuracy, %"
        chance = RECLOR_CHANCE if task == "reclor" else None
        draw = partial(figures.bars_figure, panels, xlabel=measure, chance=chance)
        label = "; ".join(f"{each.cell.row}, {each.cell.column}: {each.summary}" for each in part if each.values)
        picture = f"{name}-{task}"
        words = "Means, with the seeds as dots."
        words += " Dots alone: a run failed and another did not." if any(each.is_split for each in part) else ""
        blocks.append(Picture(picture, figures.svg_of(picture, draw), label, words))
    return blocks


def _tune_blocks(found: Found, caption: str) -> list[Block]:
    """Every setting that was tried, and what trying them cost."""
    minutes = sum(file.seconds for file in files_of(found)) / 60
    cost = f"{counted(len(files_of(found)), 'run')}, {minutes:.1f} minutes in all. Evaluated on training examples that "
    return [replace(tune_table(found), caption=f"{cost}were held out, never on dev or val. {caption}")]


_SPECIAL: Mapping[str, Callable[[Found, str], Sequence[Block]]] = {
    "spider-main": _main_blocks,
    "spider-hardness": _hardness_blocks,
    "spider-depth": _depth_blocks,
    "reclor-depth": _depth_blocks,
    "spider-curves": _curve_blocks,
    "init-peers": partial(_bar_blocks, name="init-peers"),
    "mu-choice": partial(_bar_blocks, name="mu-choice"),
    "limits": partial(_bar_blocks, name="limits"),
    "spider-tune": _tune_blocks,
    "reclor-tune": _tune_blocks,
}
"""By the name of the experiment."""
