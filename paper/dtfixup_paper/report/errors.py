"""The error analysis in the report: table 7, figures 3 and 4, clauses that differ, and the examples themselves.

In: files of errors (`spider_errors.py`) among the results; with the dataset and the runs' `beams.jsonl` also the text
of every error, which stays on this machine: it is not ours to publish.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dtfixup.errors import ConfigError, DataError
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.evaluation.error_kinds import Clause
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.training.config import from_json
from dtfixup_paper.report.cells import Found, caption_of, counted
from dtfixup_paper.report.curves import COLOURS
from dtfixup_paper.report.document import (
    Block,
    Browser,
    Command,
    Entry,
    Example,
    Files,
    Kind,
    Note,
    Picture,
    Table,
    labels,
)
from dtfixup_paper.report.figures import shares_figure, svg_of
from dtfixup_paper.runs.run_identity import known_by
from dtfixup_paper.tables.cells import TITLES, Budget
from dtfixup_paper.tables.paper_numbers import SCHEDULE, TABLE_7, TABLE_7_MODELS, WRONG_BY_ALL, WRONG_BY_ANY
from dtfixup_paper.tables.result_files import ResultFile, Results, shortly
from dtfixup_paper.tables.spider_errors import (
    NAME,
    ErrorClass,
    RunErrors,
    Wrong,
    breakdown,
    failures,
    read_errors,
    wrong_examples,
)

_NOT_YET = "not analysed yet"
_HOW_TO_READ = (
    "To read the errors themselves, with Spider at hand: dtfixup report --data spider --beams FOLDER, where the runs' "
    "beams.jsonl are. Those of the shipped model are written in a minute, without a GPU, by dtfixup sql errors without "
    "--result."
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
        parts += [config.splits.replace(",", " and ")] if config.splits != "train" else []
        parts += ["made-up examples"] if config.synthetic else []
        return " · ".join(parts)


def analysed(results: Results) -> list[Analysed]:
    """All files of errors."""
    found = []
    for file in results.files:
        if file.content.get("name") != NAME:
            continue
        errors = read_errors(file.path)
        try:
            config = from_json(SqlSpConfig, errors.run.get("config", {}))
        except ConfigError as error:
            raise DataError(f"{file.path} does not say of which run it is: {error}") from None
        found.append(Analysed(file, errors, config))
    return found


def table_7(files: Sequence[Analysed], models: Found) -> dict[str, Analysed]:
    """A run for each column of table 7, of the configurations of three cells; if possible with a seed that all have."""
    columns = dict(zip((known_by(each.cell.config) for each in models), TABLE_7_MODELS, strict=True))
    groups: dict[int, dict[str, Analysed]] = {}
    for each in sorted(files, key=lambda each: each.seed):
        if (column := columns.get(known_by(each.config))) is not None:
            groups.setdefault(each.seed, {}).setdefault(column, each)
    best = max(groups.values(), key=len, default={})
    for group in groups.values():
        best = {**group, **best}
    return {model: best[model] for model in TABLE_7_MODELS if model in best}


def error_blocks(
    results: Results, models: Found, budget: Budget, dataset: Dataset | None, beams: Path | None
) -> tuple[list[Block], int]:
    """Everything that can be shown of the errors, and how many of the three models of table 7 were analysed."""
    files = analysed(results)
    chosen = table_7(files, models)
    trained = f"{caption_of(models, budget, SCHEDULE['spider'])} One run of each model."
    blocks: list[Block] = [_failures_table(chosen, trained)]
    if len(chosen) == len(TABLE_7_MODELS):
        blocks.append(_shares_picture({model: each.errors for model, each in chosen.items()}, _shades(chosen)))
    else:
        missing = ", ".join(model for model in TABLE_7_MODELS if model not in chosen)
        blocks.append(Note(f"Figures 3 and 4 are over all three models; {missing}: {_NOT_YET}."))
    if files:
        blocks += [_all_runs_table(files), _clauses_table(chosen or {files[0].file.name: files[0]})]
        blocks.append(Files(len(files), shortly([each.file for each in files])))
    blocks.append(Command("dtfixup sql errors --result FILE --beams FILE --data spider --out results/NAME.json"))
    if dataset is None:
        blocks.append(Note(_HOW_TO_READ))
    else:
        others = {each.file.path.stem: each for each in files if each not in chosen.values()}
        blocks += _browser({**chosen, **others}, dataset, beams)
    return blocks, len(chosen)


def _shades(chosen: Mapping[str, Analysed]) -> dict[str, tuple[str, float]]:
    return {model: (COLOURS[each.config.model.strategy], _OPACITY[model]) for model, each in chosen.items()}


def _failures_table(chosen: Mapping[str, Analysed], trained: str) -> Table:
    counts = failures({model: each.errors for model, each in chosen.items()})
    rows = []
    for kind, printed in TABLE_7.items():
        entries = labels([kind])
        for model, number in zip(TABLE_7_MODELS, printed, strict=True):
            entries.append(Entry(number, Kind.PAPER))
            if model in chosen:
                entries.append(Entry(str(counts[model][kind]), Kind.OURS, chosen[model].note if kind == "all" else ""))
            else:
                entries.append(Entry(_NOT_YET, Kind.MISSING))
        rows.append(tuple(entries))
    used = ", ".join(each.file.name for each in chosen.values())
    variants = next((each.errors.variants for each in chosen.values()), None)
    caption = (
        "Questions of Spider's dev that are wrong by exact match. False negative: the same rows as the gold query on "
        f"the database{f' and on {variants} random variants of its content' if variants else ''}; the paper's authors "
        f"read every query instead. {trained}"
    )
    if used:
        caption += f" Files: {used}."
    groups = (("", 1), *((model, 2) for model in TABLE_7_MODELS))
    return Table(("", *["paper", "ours"] * len(TABLE_7_MODELS)), tuple(rows), caption, groups)


def _shares_picture(models: Mapping[str, RunErrors], shades: Mapping[str, tuple[str, float]]) -> Picture:
    found = {wrong: breakdown(models, wrong) for wrong in Wrong}
    panels = {
        f"wrong in {wrong.value} model{'s' if wrong is Wrong.ALL else ''} ({each.questions})": {
            "column error": each.column,
            "sketch error": each.sketch,
        }
        for wrong, each in found.items()
        if each.questions
    }
    texts = [
        f"{title}, {kind}: " + ", ".join(f"{share:.0f} % ({model})" for model, share in shares.items())
        for title, kinds in panels.items()
        for kind, shares in kinds.items()
    ]
    caption = (
        f"Figures 3 and 4, ours: of the {found[Wrong.ALL].questions} questions that all three models get wrong (the "
        f"paper: {WRONG_BY_ALL}) and the {found[Wrong.ANY].questions} that any does ({WRONG_BY_ANY}), the share with a "
        "column error and with a sketch error; false negatives left out. The paper prints no numbers in its bars."
    )
    return Picture(
        "errors", svg_of("errors", lambda: shares_figure(panels, shades, ylabel="share, %")), "; ".join(texts), caption
    )


def _all_runs_table(files: Sequence[Analysed]) -> Table:
    rows = []
    for each in files:
        count = each.errors.count()
        numbers = [*(count[kind] for kind in ErrorClass), sum(count.values())]
        model = f"{TITLES.get(each.config.model.strategy, '')}, N = {each.config.model.layers}"
        rows.append((Entry(model, Kind.LABEL, each.note), *(Entry(str(number)) for number in numbers)))
    return Table(("run", *ErrorClass, "all"), tuple(rows), "Every run whose errors were analysed.")


def _clauses_table(chosen: Mapping[str, Analysed]) -> Table:
    rows = [
        (
            *labels([clause.value]),
            *(Entry(str(sum(each.errors.clauses.get(clause, {}).values()))) for each in chosen.values()),
        )
        for clause in Clause
    ]
    caption = "Wrong queries that differ from the gold query in a clause; one query may differ in several."
    return Table(("clause", *chosen), tuple(rows), caption)


def _browser(chosen: Mapping[str, Analysed], dataset: Dataset, beams: Path | None) -> list[Block]:
    known = {} if beams is None else {_digest(path): path for path in sorted(beams.rglob("*beams.jsonl"))}
    examples, lost = [], []
    for model, each in chosen.items():
        path = known.get(each.errors.beams_sha256)
        if path is None:
            lost.append(each.file)
            continue
        examples += [
            Example(model, one.kind.value, one.hardness.value, one.database, one.question, one.gold, one.predicted)
            for one in wrong_examples(each.errors, path, dataset)
        ]
    blocks: list[Block] = []
    if examples:
        blocks += [Note("Every error, with text of Spider (CC BY-SA 4.0):"), Browser(tuple(examples))]
    if lost:
        blocks.append(Note(f"No beams.jsonl was found for {shortly(lost)}: give their folder with --beams."))
    return blocks


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
