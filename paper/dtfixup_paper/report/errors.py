"""The error analysis in the report: table 7, figures 3 and 4, clauses that differ, and a page of the errors themselves.

In: files of errors (`spider_errors.py`) among the results; for the page of errors also the dataset and the runs'
`beams.jsonl`. That page holds text of the dataset, which is not ours to publish.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dtfixup.errors import ConfigError, DataError
from dtfixup.files import file_sha256
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.evaluation.error_kinds import Clause
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.training.config import from_json
from dtfixup_paper.report.cells import CellResults, caption_of, counted
from dtfixup_paper.report.figures import COLOURS, shares_figure
from dtfixup_paper.report.markdown import Block, Entry, Picture, Section, code, command, escape, files_block, table
from dtfixup_paper.runs.run import differences
from dtfixup_paper.tables.cells import TITLES, Budget
from dtfixup_paper.tables.paper_numbers import SCHEDULE, TABLE_7, TABLE_7_MODELS, WRONG_BY_ALL, WRONG_BY_ANY
from dtfixup_paper.tables.result_files import ResultFile, Results, shortly
from dtfixup_paper.tables.spider_errors import (
    NAME,
    ErrorClass,
    RunErrors,
    Wrong,
    WrongExample,
    breakdown,
    failures,
    read_errors,
    wrong_examples,
)

_NOT_YET = "not analysed yet"
EXAMPLES = "errors"
"""The page of errors, without suffix."""
_HOW_TO_READ = (
    "To read the errors themselves, with Spider at hand: dtfixup report --data spider --beams FOLDER, where the runs' "
    "beams.jsonl are. Without --result, dtfixup sql errors writes those of the shipped model in a minute on a CPU."
)
_OPACITY = dict(zip(TABLE_7_MODELS, (1.0, 0.5, 1.0), strict=True))


@dataclass(frozen=True)
class Analysed:
    """A file of errors."""

    file: ResultFile
    errors: RunErrors
    config: SqlSpConfig

    @property
    def seed(self) -> int:
        return int(self.errors.run.get("seed", self.config.training.seed))

    @property
    def note(self) -> str:
        config = self.config
        how = "fine-tuned for " if self.errors.run.get("is_tuned") else ""
        parts = [config.encoder, f"seed {self.seed}", how + counted(config.training.epochs, "epoch")]
        if config.splits != "train":
            parts.append(config.splits.replace(",", " and "))
        if config.synthetic:
            parts.append("made-up examples")
        return " · ".join(parts)


def analysed(results: Results) -> list[Analysed]:
    """All files of errors."""
    analyses = []
    for file in results.files:
        if file.content.get("name") != NAME:
            continue
        errors = read_errors(file.path)
        try:
            config = from_json(SqlSpConfig, errors.run.get("config", {}))
        except ConfigError as error:
            raise DataError(
                f"{file.path} does not name its run: {error}; write it again by dtfixup sql errors"
            ) from None
        analyses.append(Analysed(file, errors, config))
    return analyses


def table_7(files: Sequence[Analysed], models: CellResults) -> dict[str, Analysed]:
    """A run for each column of table 7, of the configurations of three cells; if possible with a seed that all have."""
    groups: dict[int, dict[str, Analysed]] = {}
    for analysis in sorted(files, key=lambda analysis: analysis.seed):
        for column, model in zip(TABLE_7_MODELS, models, strict=True):
            if not differences(model.cell.config_of(analysis.config.training.seed), analysis.errors.run):
                groups.setdefault(analysis.seed, {}).setdefault(column, analysis)
    best = max(groups.values(), key=len, default={})
    for group in groups.values():
        best = {**group, **best}
    return {model: best[model] for model in TABLE_7_MODELS if model in best}


def error_blocks(
    files: Sequence[Analysed], models: CellResults, budget: Budget, has_examples: bool
) -> tuple[list[Block], int]:
    """All that can be shown without text of the dataset, and how many of table 7's three models were analysed."""
    chosen = table_7(files, models)
    trained = f"{caption_of(models, budget, SCHEDULE['spider'])} One run of each model."
    blocks: list[Block] = [_failures_table(chosen, trained)]
    if missing := [model for model in TABLE_7_MODELS if model not in chosen]:
        blocks.append(f"Figures 3 and 4 are over all three models; {escape(', '.join(missing))}: {_NOT_YET}.")
    else:
        blocks.append(_shares_picture(chosen))
    if files:
        blocks += [_all_runs_table(files), _clauses_table(chosen or {files[0].file.name: files[0]})]
    blocks.append(files_block([analysis.file for analysis in files]))
    blocks.append(command("dtfixup sql errors --result FILE --beams FILE --data spider --out results/NAME.json"))
    page = f"Every error with its question and its queries: [{EXAMPLES}.html]({EXAMPLES}.html), not to be published."
    return [*blocks, page if has_examples else escape(_HOW_TO_READ)], len(chosen)


def examples_page(files: Sequence[Analysed], models: CellResults, dataset: Dataset, beams: Path | None) -> str:
    """Every error in full, by model and kind, as Markdown."""
    chosen = table_7(files, models)
    others = {analysis.file.path.stem: analysis for analysis in files if analysis not in chosen.values()}
    paths = {} if beams is None else {file_sha256(path): path for path in sorted(beams.rglob("*beams.jsonl"))}
    runs, lost = [], []
    for number, (model, analysis) in enumerate({**chosen, **others}.items(), 1):
        path = paths.get(analysis.errors.beams_sha256)
        if path is None:
            lost.append(analysis.file)
            continue
        examples = wrong_examples(analysis.errors, path, dataset)
        blocks = [_examples_block(kind, [one for one in examples if one.kind is kind]) for kind in ErrorClass]
        runs.append(Section(f"run{number}", model, counted(len(examples), "error"), blocks))
    parts = ["# Every error, with its question and its queries", "Questions and gold queries: Spider (CC BY-SA 4.0)."]
    parts += ["\n".join(run.link for run in runs), *map(str, runs)]
    if lost:
        parts.append(escape(f"No beams.jsonl matches {shortly(lost)}: give the folder of those runs with --beams."))
    return "\n\n".join(filter(None, parts)) + "\n"


def _examples_block(kind: ErrorClass, examples: Sequence[WrongExample]) -> str:
    lines = [
        f"- {escape(example.question)} ({escape(example.database)}, {example.hardness})\n"
        f"  - gold: {code(example.gold)}\n"
        f"  - predicted: {code(example.predicted)}"
        for example in examples
    ]
    return "\n".join([f"### {kind} ({len(examples)})", "", *lines])


def _failures_table(chosen: Mapping[str, Analysed], trained: str) -> str:
    counts = failures({model: analysis.errors for model, analysis in chosen.items()})
    missing = Entry(_NOT_YET, is_bold=False)
    rows = []
    for kind, printed in TABLE_7.items():
        row: list[Entry | str] = [kind]
        for model, number in zip(TABLE_7_MODELS, printed, strict=True):
            note = chosen[model].note if model in chosen and kind == "all" else ""
            row += [number, Entry(str(counts[model][kind]), note) if model in chosen else missing]
        rows.append(row)
    variants = next((analysis.errors.variants for analysis in chosen.values()), None)
    caption = (
        "Questions of Spider's dev that are wrong by exact match. False negative: the same rows as the gold query on "
        f"the database{f' and on {variants} random variants of its content' if variants else ''}; the paper's authors "
        f"read every query instead. {trained}"
    )
    if chosen:
        caption += f" Files: {', '.join(analysis.file.name for analysis in chosen.values())}."
    headings = [f"{model}, {whose}" for model in TABLE_7_MODELS for whose in ("paper", "ours")]
    return table(("", *headings), rows, caption)


def _shares_picture(chosen: Mapping[str, Analysed]) -> Picture:
    """Figures 3 and 4."""
    breakdowns = {wrong: breakdown({model: run.errors for model, run in chosen.items()}, wrong) for wrong in Wrong}
    panels = {
        f"wrong in {wrong.value} model{'s' if wrong is Wrong.ALL else ''} ({shares.questions})": {
            "column error": shares.column,
            "sketch error": shares.sketch,
        }
        for wrong, shares in breakdowns.items()
        if shares.questions
    }
    label = "; ".join(
        f"{title}, {kind}: " + ", ".join(f"{share:.0f} % ({model})" for model, share in shares.items())
        for title, kinds in panels.items()
        for kind, shares in kinds.items()
    )
    caption = (
        f"Figures 3 and 4, ours: of the {breakdowns[Wrong.ALL].questions} questions that all three models get wrong "
        f"(the paper: {WRONG_BY_ALL}) and the {breakdowns[Wrong.ANY].questions} that any does ({WRONG_BY_ANY}), the "
        "share with a column error and with a sketch error; false negatives are left out. The paper prints no numbers "
        "in its bars."
    )
    shades = {model: (COLOURS[run.config.model.strategy], _OPACITY[model]) for model, run in chosen.items()}
    return Picture("errors", shares_figure(panels, shades, ylabel="share, %"), label, caption)


def _all_runs_table(files: Sequence[Analysed]) -> str:
    rows = []
    for analysis in files:
        count = analysis.errors.count()
        numbers = [*(count[kind] for kind in ErrorClass), sum(count.values())]
        model = f"{TITLES.get(analysis.config.model.strategy, '')}, N = {analysis.config.model.layers}"
        rows.append((Entry(model, analysis.note, is_bold=False), *(Entry(str(number)) for number in numbers)))
    return table(("run", *ErrorClass, "all"), rows, "Every run whose errors were analysed.")


def _clauses_table(chosen: Mapping[str, Analysed]) -> str:
    clauses = [analysis.errors.clauses for analysis in chosen.values()]
    rows = [(clause.value, *(Entry(str(sum(own.get(clause, {}).values()))) for own in clauses)) for clause in Clause]
    caption = "Wrong queries that differ from the gold query in a clause; one query may differ in several."
    return table(("clause", *chosen), rows, caption)
