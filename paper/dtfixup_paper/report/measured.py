"""Sections of the report that are no table of the paper: the parser itself, stability, speed, tuning and cost.

In: `Results`, and for tuning and cost the cells with their results. Out: `Section`s. A number from a file that is named
here shows that name; where the file is missing, the table says so.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from dtfixup.fixup import STRATEGIES, MuChoice
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.training.config import to_json
from dtfixup_paper.report.cells import (
    NOT_YET,
    SPIDER_COLLAPSED,
    CellResult,
    CellResults,
    counted,
    every_run,
    files_of,
    has_collapsed,
    mean_and_deviation,
    unique,
)
from dtfixup_paper.report.curves import flatten
from dtfixup_paper.report.markdown import Entry, Section, command, table
from dtfixup_paper.runs.run import State
from dtfixup_paper.tables.cells import TITLES, Cell, RunConfig, metric_of
from dtfixup_paper.tables.paper_numbers import LEVELS
from dtfixup_paper.tables.result_files import ResultFile, Results, read_config, shortly

_OURS = "ours"
_PARSER_RUNS = {"DT-Fixup, N = 24": "sql/minilm", "standard, N = 24, a rate that was not tuned": "sql/standard"}
EXACT, EXECUTION = "dev_exact{}", "dev_execution{}"
"""Metrics by hardness: `{}` is the level."""
_MEASURES = {"exact match": EXACT, "execution": EXECUTION, "exact match, best of the beam of 5": "dev_exact{}_beam"}


def parser_section(results: Results) -> Section:
    """The runs of the `minilm` preset: accuracy on Spider's dev by hardness."""
    rows: list[Sequence[Entry | str]] = []
    files: list[ResultFile] = []
    for model, stem in _PARSER_RUNS.items():
        own = results.called(stem)
        config = next(filter(None, (read_config(SqlSpConfig, file.content) for file in own)), SqlSpConfig())
        result = CellResult(Cell(model, "", "", config, seeds=len(own)), tuple(own))
        rows += [(f"{model}: {measure}", *level_entries(result, metric)) for measure, metric in _MEASURES.items()]
        files += own
    encoders, hardware = (unique(str(file.content.get(name, "")) for file in files) for name in ("encoder", "hardware"))
    described = f"Encoder {', '.join(encoders)}; {', '.join(hardware)}." if files else ""
    caption = (
        "Spider dev, 1,034 questions, in percent; beam 5, mean ± standard deviation over the seeds. Execution compares "
        f"rows on the database and on randomised variants of its content. {described} Files: {shortly(files)}."
    )
    blocks = (table(("", *LEVELS), rows, caption), _commands(files))
    return Section("parser", "The parser by hardness", _OURS, blocks)


def level_entries(result: CellResult, metric: str) -> list[Entry]:
    """A metric at every level of hardness, where `{}` in its name stands for the level."""
    return [_level_entry(result, metric.format("" if level == "all" else f"_{level}")) for level in LEVELS]


def _level_entry(result: CellResult, metric: str) -> Entry:
    """A cell by another metric than its own, with seeds and epochs; "not scored yet" where no file has it."""
    scored = [file for file in result.files if isinstance(file.metrics.get(metric), int | float)]
    if not scored:
        return Entry("not scored yet" if result.files else NOT_YET, "", result.warning, is_bold=False)
    epochs = unique(str(file.content["config"]["training"]["epochs"]) for file in scored)
    note = f"{counted(len(scored), 'seed')} · {'/'.join(epochs)} epochs"
    text = mean_and_deviation([float(file.metrics[metric]) for file in scored])
    if result.is_split:
        text = every_run((file for file in result.files if file in scored or file.state is State.DIVERGED), metric)
    return Entry(text, note, result.warning)


def _commands(files: Iterable[ResultFile]) -> str:
    """What made the files; of runs that differ only in their seed the first; nothing without files."""
    first = {file.stem: file for file in reversed(list(files))}
    lines = unique(str(file.content.get("command", "")) for file in reversed(first.values()))
    return command("\n".join(lines)) if lines else ""


def stability_section(results: Results) -> Section:
    """What the monitor measured in all Spider runs of the folder."""
    order = list(STRATEGIES)
    groups: dict[tuple[int, str, int, str], list[tuple[ResultFile, SqlSpConfig]]] = {}
    for file, config in results.runs(SqlSpConfig):
        if (model := config.model).strategy in STRATEGIES:
            measured = STRATEGIES[model.strategy].needs_input_norm
            limit = f"{model.stream_limit:g} μ" if model.stream_limit and measured else "none"
            start = "" if config.mu is MuChoice.MAX or not measured else ", another μ"
            groups.setdefault((order.index(model.strategy), start, model.layers, limit), []).append((file, config))
    rows: list[Sequence[Entry | str]] = []
    for (strategy, start, layers, limit), runs in sorted(groups.items()):
        files = [file for file, _ in runs]
        skipped, steps = (sum(int(file.metrics.get(name, 0)) for file in files) for name in ("skipped_steps", "steps"))
        entries = [
            str(len(files)),
            str(sum(file.state is State.DIVERGED for file in files)),
            str(sum(has_collapsed(*run) for run in runs)),
            f"{skipped:,} of {steps:,}",
            _highest(files, "highest_growth"),
            _highest(files, "highest_input_norm_over_mu"),
        ]
        rows.append((TITLES[order[strategy]] + start, str(layers), limit, *map(Entry, entries)))
    if not rows:
        return Section("stability", "Stability", _OURS, ("There is no Spider training run in the folder yet.",))
    ends, watched = ("runs", "diverged", "collapsed"), ("skipped steps", "highest growth", "highest input")
    caption = (
        "All Spider training runs of the folder, of whatever experiment. Collapsed: below "
        f"{SPIDER_COLLAPSED:.0f} % at the end. Skipped: batches whose gradient norm is far too large. Growth: the "
        "longest vector that a layer put out, over the longest input of that step. Input: the longest input, over the "
        "μ of the initialisation. Both are the highest of all runs and steps, and are measured where the strategy "
        "needs the input norm. Steps, growth and input are those of finished runs. Another μ: runs of mu-choice, "
        "initialised with a number other than the largest input norm."
    )
    block = table(("strategy", "N", "stream limit", *ends, *watched), rows, caption)
    return Section("stability", "Stability", _OURS, (block,))


def _highest(files: Sequence[ResultFile], metric: str) -> str:
    values = [float(file.metrics[metric]) for file in files if isinstance(file.metrics.get(metric), int | float)]
    return f"{max(values):,.1f}" if values else ""


def speed_section(results: Results) -> Section:
    """Measurements of time and memory, each with its file."""
    rows = [row for stem, measures in _SPEED.items() for row in _speed_rows(results, stem, measures)]
    caption = "N = 24 relation-aware layers unless the line says otherwise; each line names its hardware and its file."
    files = [file for stem in _SPEED for file in results.called(stem)]
    blocks = (table(("what", "measured", "file"), rows, caption, words=3), _commands(files))
    return Section("speed", "Speed", _OURS, blocks)


_SPEED: Mapping[str, Sequence[tuple[str, str]]] = {
    "measurements/relation-attention": (
        ("the layers alone, forward and backward, batch 16, n = 100 / 256 / 512",
         "{fused_n100_ms:.1f} / {fused_n256_ms:.1f} / {fused_n512_ms:.1f} ms"),
        ("the same by the textbook",
         "{plain_n100_ms:.0f} / {plain_n256_ms:.0f} / {plain_n512_ms:,.0f} ms"),
        ("the same without relations",
         "{no_relations_n100_ms:.1f} / {no_relations_n256_ms:.1f} / {no_relations_n512_ms:.1f} ms"),
        ("memory at n = 512: ours, by the textbook", "{fused_n512_peak_gib:.1f}, {plain_n512_peak_gib:.1f} GiB"),
    ),
    "sql/batch16": (
        ("a training step at batch 16", "{step_ms:.1f} ms"),
        ("training with evaluation, batch 16, 60 epochs of the 7,000 examples", "{train_seconds:.0f} s"),
    ),
    "sql/decode": (("all {decoded_questions:,} questions of dev, beam 5, SQL written out", "{decode_seconds:.1f} s"),),
    "sql/decode-cpu": (
        ("one question, beam 5: median and 95th percentile", "{beam5_p50_ms:.0f} and {beam5_p95_ms:.0f} ms"),
    ),
    "measurements/reading-answer": (
        ("one question about a passage, four options: median and 95th percentile",
         "{answer_p50_ms:.0f} and {answer_p95_ms:.0f} ms"),
        ("the same in fp32", "{answer_fp32_p50_ms:.0f} and {answer_fp32_p95_ms:.0f} ms"),
    ),
    "measurements/paper-step": (
        ("a step of the paper's configuration, RoBERTa-large with random weights, batch 16",
         "{step_ms:.1f} ms, {peak_gib:.1f} GiB"),
    ),
}  # fmt: skip
"""For each stem of a file, what its metrics measure, and how the table shows them."""


def _speed_rows(results: Results, stem: str, measures: Sequence[tuple[str, str]]) -> Iterable[tuple[str, Entry, str]]:
    files = results.called(stem)
    for what, measured in measures:
        for file in files:
            try:
                texts = what.format_map(file.metrics), measured.format_map(file.metrics)
            except (KeyError, TypeError, ValueError):
                texts = what, "missing in the file"
            yield texts[0], Entry(texts[1], note=str(file.content.get("hardware", ""))), file.name
        if not files:
            yield re.sub(r"\{.*?\}", "…", what), Entry(NOT_YET, is_bold=False), f"{stem}-seed*.json"


def tried_section(results: Results) -> list[Section]:
    """What was tried by hand on held-out databases, one run each; nothing without such files."""
    files = results.called("sql/held-out")
    rows = []
    for run in (run for file in files for run in file.content.get("runs", [])):
        value = run.get("held_out_exact")
        number = Entry(f"{value:.1f}" if isinstance(value, int | float) else "")
        rows.append((str(run.get("change", "")), str(run.get("epochs", "")), number))
    if not rows:
        return []
    caption = (
        "Exact match on 20 training databases that were held out, one run each, so about a point either way is chance. "
        f"Files: {', '.join(file.name for file in files)}."
    )
    commands = [command(str(file.content.get("command", ""))) for file in files]
    blocks = (table(("change", "epochs", "exact match, %"), rows, caption), *commands)
    return [Section("tried", "What was tried on held-out databases", _OURS, blocks)]


def tune_table(cells: CellResults, caption: str) -> str:
    """The settings of every cell that differ, and their results, the best of its strategy and depth first."""
    settings = [_settings(result.cell.config) for result in cells]
    columns = varying(settings)

    def rank(pair: tuple[CellResult, Mapping[str, Any]]) -> tuple[int, int, float]:
        model, values = pair[0].cell.config.model, pair[0].values
        return list(STRATEGIES).index(model.strategy), model.layers, -fmean(values or [-1.0])

    rows: list[Sequence[Entry | str]] = []
    for result, fields in sorted(zip(cells, settings, strict=True), key=rank):
        model, values = result.cell.config.model, [fields.get(names[0]) for names in columns.values()]
        shown = [f"{value:.3g}" if isinstance(value, float) else str(value) for value in values]
        minutes = f"{minutes_of(result.files):.1f}" if result.files else ""
        rows.append(
            (TITLES[model.strategy] if model.layers else "", str(model.layers), *shown, result.entry(), minutes)
        )
    titles = ["warm-up, steps" if title == "warmup" else title for title in columns]
    measure = f"{metric_of(cells[0].cell.config).replace('_', ' ')}, %"
    return table(("strategy", "N", *titles, measure, "minutes"), rows, caption)


def varying(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Fields that differ, by a short title; several that always have the same value share one column.

    >>> varying([{"a.rate": 1, "b.drop": 2, "c.drop": 2, "d": 0}, {"a.rate": 3, "b.drop": 4, "c.drop": 4, "d": 0}])
    {'rate': ['a.rate'], 'drop': ['b.drop', 'c.drop']}
    """
    same: dict[tuple[str, ...], list[str]] = {}
    for field in unique(field for fields in settings for field in fields):
        values = tuple(str(fields.get(field)) for fields in settings)
        if len(set(values)) > 1 and field not in ("model.strategy", "model.layers", "training.seed"):
            same.setdefault(values, []).append(field)
    short = [fields[0].rpartition(".")[2] for fields in same.values()]
    titles = [name if short.count(name) == 1 else fields[0] for name, fields in zip(short, same.values(), strict=True)]
    return {title.replace("_", " "): fields for title, fields in zip(titles, same.values(), strict=True)}


def _settings(config: RunConfig) -> dict[str, Any]:
    """The fields of a configuration, with the encoder's rate in place of its ratio to that of the rest."""
    rate = config.training.update.learning_rate
    fields = flatten(to_json(config)).items()
    return dict(("encoder_rate", value * rate) if name == "encoder_factor" else (name, value) for name, value in fields)


def cost_section(experiments: Mapping[str, CellResults]) -> Section:
    """What the runs of every experiment took; a run of several counts in each, and once in the sum."""
    every = files_of(result for cells in experiments.values() for result in cells)
    groups = {name: files_of(cells) for name, cells in experiments.items()} | {"all, each run once": every}
    rows = [(name, Entry(str(len(files))), Entry(f"{minutes_of(files):,.1f}")) for name, files in groups.items()]
    silent = [file for file in every if "at_once" not in file.content]
    caption = (
        "Wall time of the runs themselves, start and evaluation included, seeds beyond the plan too; runs that shared "
        "the GPU divide its time among them. "
    )
    if silent:
        caption += (
            f"{counted(len(silent), 'older file')}, {minutes_of(silent):.0f} minutes, do not say whether the GPU was "
            "shared, which it was for most: they count in full. "
        )
    caption += "The paper names about 30 hours for a Spider run and about 6 for a ReClor run, on one P100."
    return Section("cost", "What it cost", _OURS, (table(("experiment", "runs", "minutes"), rows, caption),))


def minutes_of(files: Iterable[ResultFile]) -> float:
    """Minutes of the machine's time that the runs took."""
    return sum(file.seconds for file in files) / 60
