"""The paper's error analysis without reading by hand: Table 7, Figures 3 and 4.

In: a run's result file and `beams.jsonl`, or the queries of any model, and the dataset. Out: `RunErrors`: for every
question of a split its hardness, and where the likeliest query is wrong by exact match, what kind of error it is:

- false negative: the query gives the gold query's rows on the database and on every one of some random variants of its
  content (`sql/variants.py`), and somewhere there were rows to compare. Or the two differ in nothing but what exact
  match means to leave out, and is strict about in nested queries;
- column, sketch, both: what is wrong with all other queries, as `evaluation/error_kinds.py` defines it.

Departs: the paper's authors read every failed query. Rows are stricter in that literals and DISTINCT count, and more
lenient where the variants miss a difference.
Files of errors hold positions, classes and counts, never text of the dataset, which is not ours to publish.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from dtfixup.errors import CheckpointError, DataError
from dtfixup.files import read_json, write_json
from dtfixup.provenance import commit, hardware
from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.evaluation.error_kinds import Clause, Difference, difference
from dtfixup.sql.evaluation.evaluate import ALL, Summary, summarise
from dtfixup.sql.evaluation.exact_match import Hardness
from dtfixup.sql.evaluation.execution_accuracy import (
    ExecutionOutcome,
    ExecutionVerdict,
    Pair,
    evaluate_execution,
    summarise_execution,
)
from dtfixup.sql.evaluation.score import judge_beams, read_beams, read_result, require_same
from dtfixup.sql.finetune.task import TUNING
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.weights.tensors import read_content
from dtfixup.weights.trained import weights_file

NAME = "spider-errors"
_RUN_FIELDS = ("name", "command", "commit", "seed", "encoder", "encoder_sha256", "data_hash", "config")
_LEVELS = {"E": Hardness.EASY, "M": Hardness.MEDIUM, "H": Hardness.HARD, "X": Hardness.EXTRA}
_RIGHT = "."


class ErrorClass(StrEnum):
    """Why exact match calls a query wrong, in the order of Table 7."""

    FALSE_NEGATIVE = "false negative"
    COLUMN = "column"
    SKETCH = "sketch"
    BOTH = "both"

    @property
    def letter(self) -> str:
        """What stands for the class in a file."""
        return self.value[0].upper()


COLUMN_ERRORS = frozenset({ErrorClass.COLUMN, ErrorClass.BOTH})
SKETCH_ERRORS = frozenset({ErrorClass.SKETCH, ErrorClass.BOTH})
_CLASSES = {kind.letter: kind for kind in ErrorClass}


@dataclass(frozen=True)
class RunErrors:
    """The errors of one run; everything that a file of errors holds, but for where the file came from."""

    split: str
    variants: int
    run: Mapping[str, Any]
    """What the result file says of the run: seed, encoder, configuration and the like; no metrics."""
    beams_sha256: str
    levels: tuple[Hardness, ...]
    """One for each question of the split, in its order."""
    classes: tuple[ErrorClass | None, ...]
    """One for each question; None where the query is right."""
    clauses: Mapping[Clause, Mapping[ErrorClass, int]]
    """How many queries of a class differ from gold in a clause; one query may differ in several."""
    unjudged: tuple[int, ...] = ()
    """Questions whose queries could not be run against each other, so no false negative was found among them."""

    def count(self, level: Hardness | None = None) -> dict[ErrorClass, int]:
        """Errors by class, over one level or over all."""
        kinds = zip(self.classes, self.levels, strict=True)
        found = Counter(kind for kind, own in kinds if level is None or own is level)
        return {kind: found[kind] for kind in ErrorClass}

    def to_json(self) -> dict[str, Any]:
        counts = {name.value: self.count(name) for name in Hardness} | {ALL: self.count()}
        letters = {level: letter for letter, level in _LEVELS.items()}
        return {
            "split": self.split,
            "variants": self.variants,
            "run": dict(self.run),
            "beams_sha256": self.beams_sha256,
            "counts": {name: {**found, ALL: sum(found.values())} for name, found in counts.items()},
            "clauses": {clause.value: dict(found) for clause, found in self.clauses.items()},
            "hardness": "".join(letters[level] for level in self.levels),
            "classes": "".join(kind.letter if kind else _RIGHT for kind in self.classes),
            "unjudged": list(self.unjudged),
        }


def analyse_run(
    result: Path,
    beams: Path,
    dataset: Dataset,
    split: str = "dev",
    *,
    variants: int = 10,
    workers: int | None = None,
    show_progress: bool = True,
) -> RunErrors:
    """Classify the errors of a run.

    Args:
        result: the run's result file, which is not changed.
        beams: the run's queries, as `write_beams` writes them: one line for each example of the split, in its order.
        dataset: the folder that the run's data was prepared from.
        split: what the run was evaluated on.
        variants: on how much randomised content the rows are compared too. Three let some queries pass by luck that
            ten tell apart.
        workers: processes that run queries; one for every core by default.
        show_progress: show bars.
    """
    content = read_result(result, split)
    return analyse_queries(
        beams,
        dataset,
        split,
        run={field: content[field] for field in _RUN_FIELDS if field in content},
        check=lambda found: require_same(content["metrics"], found, split, result, beams),
        variants=variants,
        workers=workers,
        show_progress=show_progress,
    )


def analyse_queries(
    beams: Path,
    dataset: Dataset,
    split: str = "dev",
    *,
    run: Mapping[str, Any],
    check: Callable[[Summary], None] = lambda found: None,
    variants: int = 10,
    workers: int | None = None,
    show_progress: bool = True,
) -> RunErrors:
    """As `analyse_run`, without a result file: `run` says whose queries they are, `check` sees what they score."""
    examples = dataset.split(split)
    queries = [beam[0] if beam else "" for beam in read_beams(beams, len(examples))]
    judged = judge_beams(examples, [[query] for query in queries], dataset, show_progress=show_progress)
    verdicts = [verdict for (verdict,) in judged]
    check(summarise(verdicts))
    wrong = {
        position: Pair(example.database, example.query, query)
        for position, (example, query, verdict) in enumerate(zip(examples, queries, verdicts, strict=True))
        if not verdict.exact
    }
    executed = evaluate_execution(
        list(wrong.values()), dataset, variants=variants, workers=workers, show_progress=show_progress
    )
    classes: list[ErrorClass | None] = [None] * len(examples)
    clauses = {clause: dict.fromkeys(ErrorClass, 0) for clause in Clause}
    for (position, pair), execution in zip(wrong.items(), executed, strict=True):
        found = difference(pair.gold, pair.predicted, dataset.schemas[pair.database])
        classes[position] = kind = classify(found, execution)
        for clause in found.clauses:
            clauses[clause][kind] += 1
    positions = list(wrong)
    return RunErrors(
        split=split,
        variants=variants,
        run=run,
        beams_sha256=_digest(beams),
        levels=tuple(verdict.hardness for verdict in verdicts),
        classes=tuple(classes),
        clauses=clauses,
        unjudged=tuple(positions[place] for place, _ in summarise_execution(executed).unjudged),
    )


def run_of(model: Path, beam: int) -> dict[str, Any]:
    """What a model, in a file or a run's folder, says of the run that made it, as `RunErrors.run` has it."""
    file = weights_file(model)
    content = read_content(file)
    if not {"fingerprint", "config"} <= content.keys():
        raise CheckpointError(f"{file} does not say how it was trained: give the queries and the result of its run")
    made_of, training = content["fingerprint"], content["config"]
    config = {field.name: made_of[field.name] for field in fields(SqlSpConfig) if field.name in made_of}
    return {
        "name": model.stem,
        "seed": training.get("seed"),
        "encoder": made_of.get("encoder"),
        "weights_sha256": _digest(file),
        "is_tuned": TUNING in made_of,
        "config": {**config, "training": training, "beam": beam},
    }


def classify(found: Difference, execution: ExecutionVerdict) -> ErrorClass:
    """The class of a query that exact match calls wrong. Empty results alone do not show that two queries are equal."""
    if not found.clauses or (execution.outcome is ExecutionOutcome.EQUAL and execution.is_evident):
        return ErrorClass.FALSE_NEGATIVE
    if found.sketch and found.columns:
        return ErrorClass.BOTH
    return ErrorClass.SKETCH if found.sketch else ErrorClass.COLUMN


def write_errors(path: Path, errors: RunErrors, command: str, started: float) -> Path:
    """Write a file of errors; `started` is what `begin` returned."""
    record = {
        "name": NAME,
        "command": command,
        "commit": commit(),
        "hardware": hardware(),
        "wall_seconds": round(time.monotonic() - started, 1),
    }
    return write_json(path, record | errors.to_json())


def read_errors(path: str | Path) -> RunErrors:
    """The content of a file of errors."""
    content = read_json(path)
    try:
        found = RunErrors(
            split=str(content["split"]),
            variants=int(content["variants"]),
            run=dict(content["run"]),
            beams_sha256=str(content["beams_sha256"]),
            levels=tuple(_LEVELS[letter] for letter in content["hardness"]),
            classes=tuple(None if letter == _RIGHT else _CLASSES[letter] for letter in content["classes"]),
            clauses={
                Clause(clause): {ErrorClass(kind): int(count) for kind, count in counts.items()}
                for clause, counts in content["clauses"].items()
            },
            unjudged=tuple(map(int, content["unjudged"])),
        )
        if len(found.levels) != len(found.classes):
            raise ValueError(f"it has {len(found.levels)} levels and {len(found.classes)} classes")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is no file of errors, or one of another version: {error!r}; `dtfixup sql errors` writes them"
        ) from None
    return found


# Table 7, Figures 3 and 4.


def failures(models: Mapping[str, RunErrors]) -> dict[str, dict[str, int]]:
    """Table 7: for each model how many queries fail in each class, and in all."""
    return {
        model: {kind.value: count for kind, count in errors.count().items()} | {ALL: sum(errors.count().values())}
        for model, errors in models.items()
    }


class Wrong(StrEnum):
    """Which questions a breakdown is over."""

    ALL = "all"
    """Those that every model gets wrong: Figure 3."""
    ANY = "any"
    """Those that some model gets wrong: Figure 4."""


@dataclass(frozen=True)
class Breakdown:
    """Percentages by model, of the questions that all or any of the models get wrong; none where there are none."""

    questions: int
    column: Mapping[str, float]
    """Share with a column error: column or both."""
    sketch: Mapping[str, float]
    """Share with a sketch error: sketch or both."""


def breakdown(models: Mapping[str, RunErrors], wrong: Wrong) -> Breakdown:
    """Figures 3 and 4. False negatives are not wrong here."""
    if len({errors.levels for errors in models.values()}) > 1:
        raise DataError(f"the errors of {', '.join(models)} are not of the same questions: analyse one split for all")
    errors_of = {model: [kind in COLUMN_ERRORS | SKETCH_ERRORS for kind in of.classes] for model, of in models.items()}
    together = all if wrong is Wrong.ALL else any
    chosen = [place for place, each in enumerate(zip(*errors_of.values(), strict=True)) if together(each)]

    def shares(kinds: frozenset[ErrorClass]) -> dict[str, float]:
        if not chosen:
            return {}
        return {
            model: 100 * sum(errors.classes[place] in kinds for place in chosen) / len(chosen)
            for model, errors in models.items()
        }

    return Breakdown(len(chosen), shares(COLUMN_ERRORS), shares(SKETCH_ERRORS))


# For a reader who has the dataset.


@dataclass(frozen=True)
class WrongExample:
    """One error in full. Text of the dataset: not to be published."""

    position: int
    database: str
    question: str
    gold: str
    predicted: str
    kind: ErrorClass
    hardness: Hardness
    clauses: tuple[Clause, ...]


def wrong_examples(errors: RunErrors, beams: Path, dataset: Dataset) -> list[WrongExample]:
    """Every error of a run with its question and its queries, in the order of the split."""
    if _digest(beams) != errors.beams_sha256:
        raise DataError(f"{beams} is not the file that the errors were found in: give that, or analyse this one")
    examples = dataset.split(errors.split)
    if len(examples) != len(errors.classes):
        raise DataError(
            f"{dataset.folder} has {len(examples)} questions in {errors.split}, and the errors are of "
            f"{len(errors.classes)}: give the dataset that they were found in"
        )
    found = []
    for position, (example, beam) in enumerate(zip(examples, read_beams(beams, len(examples)), strict=True)):
        kind, query = errors.classes[position], beam[0] if beam else ""
        if kind is not None:
            clauses = difference(example.query, query, dataset.schemas[example.database]).clauses
            level = errors.levels[position]
            found.append(
                WrongExample(position, example.database, example.question, example.query, query, kind, level, clauses)
            )
    return found


def show_errors(errors: RunErrors, console: Console) -> None:
    """Print the errors by class and level, and by the clauses that differ."""
    by_level = Table(title=f"{errors.split}, wrong by exact match", title_justify="left")
    by_level.add_column()
    levels: Sequence[Hardness | None] = (*Hardness, None)
    for level in levels:
        by_level.add_column(level.value if level else ALL, justify="right")
    counts = [errors.count(level) for level in levels]
    for kind in ErrorClass:
        by_level.add_row(kind.value, *(str(count[kind]) for count in counts), end_section=kind is ErrorClass.BOTH)
    by_level.add_row(ALL, *(str(sum(count.values())) for count in counts))
    console.print(by_level)
    by_clause = Table(title="clauses that differ, several in one query", title_justify="left")
    by_clause.add_column()
    for kind in ErrorClass:
        by_clause.add_column(kind.value, justify="right")
    for clause, found in errors.clauses.items():
        by_clause.add_row(clause.value, *(str(found[kind]) for kind in ErrorClass))
    console.print(by_clause)
    if errors.unjudged:
        numbers = ", ".join(str(position + 1) for position in errors.unjudged)
        console.print(f"could not be run, so they are no false negatives: questions {numbers}")


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from None
