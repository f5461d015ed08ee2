"""A dataset of questions and queries → `prepared.py`'s arrays, for a named encoder.

In: a folder in Spider's layout. Out: `arrays.safetensors` and `index.json`, the same bytes for the same inputs. Each
database is a part: parts are made in parallel, kept on disk until all are there, and taken up again after a stop.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dtfixup.errors import ConfigError, DataError, SqlError
from dtfixup.files import read_json
from dtfixup.processes import map_supervised
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import Dataset, Example, open_dataset
from dtfixup.sql.database.location import DatabaseLike
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import sql_grammar
from dtfixup.sql.grammar.transitions import ApplyRule, SelectColumn, Step, steps_of
from dtfixup.sql.grammar.tree import Literal
from dtfixup.sql.linking.candidates import Candidate, covers
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database, describe_question
from dtfixup.sql.model.prepared import ARRAYS, INDEX, SYNTHETIC, write_prepared
from dtfixup.sql.preparation.assembly import Part, assemble_parts, part_of, question_row, read_part, write_part
from dtfixup.sql.preparation.fingerprint import data_hash, databases_of, fingerprint_of
from dtfixup.weights.arrays import Array, map_arrays

SPLITS = ("train", "dev")
_PARTS = ".parts"


@dataclass(frozen=True)
class PrepareReport:
    """What a run of `prepare` did."""

    folder: Path
    was_there: bool
    """Whether nothing had to be done."""
    examples: dict[str, int]
    unreadable: tuple[dict[str, Any], ...]
    """Gold queries that the grammar cannot say, with the reason."""
    uncovered: dict[str, int]
    """Per split, queries with a literal that is no candidate."""


def prepare(
    data: str | Path,
    out: str | Path,
    *,
    encoder: str = "minilm",
    splits: Sequence[str] = SPLITS,
    synthetic: int = 0,
    phrases: int = 0,
    workers: int | None = None,
    show_progress: bool = True,
) -> PrepareReport:
    """Prepare a dataset for training; a second call with the same inputs does nothing.

    `synthetic` is how many examples are made of the split `train` by `synthesis`, and `phrases` how many are made over
    its databases by the phrase book; together they are the split `synthetic`.
    """
    from dtfixup.encoders import load_tokenizer  # brings torch, which the workers never need

    if (synthetic or phrases) and ("train" not in splits or SYNTHETIC in splits):
        raise ConfigError("made-up examples come from the split train, which must be among the splits, and make one")
    dataset, folder = open_dataset(data), Path(out)
    examples = {split: dataset.split(split) for split in splits}
    tokenizer = load_tokenizer(encoder)
    fingerprint = fingerprint_of(data_hash(dataset, examples), tokenizer.sha256, synthetic, phrases)
    if _is_done(folder, fingerprint):
        return _report(folder, was_there=True)
    made_up = _synthesised(dataset, synthetic, workers, show_progress) if synthetic else []
    made_up += _phrased(dataset, phrases, workers, show_progress) if phrases else []
    if made_up:
        examples[SYNTHETIC] = [example for example, _ in made_up]
    parts = folder / _PARTS / fingerprint[:16]
    _discard_other_parts(parts)
    files = _make_parts(dataset, examples, parts, workers, show_progress)
    made = {database: read_part(file) for database, file in files.items()}
    arrays, index = assemble_parts(made, examples, tokenizer.pieces)
    if made_up:
        sources = [index["databases"].index(source) for _, source in made_up]
        arrays["example.source"][slice(*index["splits"][SYNTHETIC])] = sources
    index |= {
        "fingerprint": fingerprint,
        "encoder": {
            "name": encoder,
            "tokenizer_sha256": tokenizer.sha256,
            "cls": tokenizer.cls_id,
            "sep": tokenizer.sep_id,
            "pad": tokenizer.pad_id,
        },
        "data_hash": data_hash(dataset, examples),
        "grammar": hashlib.sha256(json.dumps(sql_grammar().rules).encode()).hexdigest(),
    }
    write_prepared(folder, arrays, index, [dataset.schemas[database] for database in index["databases"]])
    shutil.rmtree(folder / _PARTS)
    return _report(folder, was_there=False)


def _synthesised(dataset: Dataset, count: int, workers: int | None, show_progress: bool) -> list[tuple[Example, str]]:
    """Made-up examples, each with the database whose question gave its words."""
    from dtfixup.sql.synthesis.templates import synthesise

    train = dataset.split("train")
    made = synthesise(dataset, count=count, seed=0, workers=workers, show_progress=show_progress)
    return [(synthetic.example, train[synthetic.source].database) for synthetic in made]


def _phrased(dataset: Dataset, count: int, workers: int | None, show_progress: bool) -> list[tuple[Example, str]]:
    """Examples out of the phrase book, each with its own database, since no other gave it words."""
    from dtfixup.sql.synthesis.phrases import make_phrases

    made = make_phrases(dataset, count=count, seed=0, workers=workers, show_progress=show_progress)
    return [(phrased.example, phrased.example.database) for phrased in made.examples]


def _report(folder: Path, *, was_there: bool) -> PrepareReport:
    index = read_json(folder / INDEX)
    sizes = {split: last - first for split, (first, last) in index["splits"].items()}
    return PrepareReport(folder, was_there, sizes, tuple(index["unreadable"]), index["uncovered"])


def _is_done(folder: Path, fingerprint: str) -> bool:
    if not (folder / INDEX).is_file():
        return False
    try:
        found = read_json(folder / INDEX).get("fingerprint") == fingerprint
        map_arrays(folder / ARRAYS)
    except DataError:
        return False
    return bool(found)


# Parts: one per database, each made in a worker.


def _discard_other_parts(parts: Path) -> None:
    """Parts of other inputs are of no use to anyone."""
    for other in parts.parent.glob("*") if parts.parent.is_dir() else ():
        if other != parts:
            shutil.rmtree(other)
    parts.mkdir(parents=True, exist_ok=True)


def _make_parts(
    dataset: Dataset,
    examples: Mapping[str, Sequence[Example]],
    parts: Path,
    workers: int | None,
    show_progress: bool,
) -> dict[str, Path]:
    by_database: dict[str, list[Example]] = {database: [] for database in databases_of(examples)}
    for example in (example for split in examples.values() for example in split):
        by_database[example.database].append(example)
    paths = {database: parts / f"{number:04d}.json" for number, database in enumerate(by_database)}
    missing = [database for database in by_database if not paths[database].is_file()]
    missing.sort(key=lambda database: -len(by_database[database]))  # the longest first: none is waited for at the end
    tasks = {
        database: _Task(
            dataset.schemas[database], dataset.database_file(database), by_database[database], paths[database]
        )
        for database in missing
    }
    map_supervised(_write_part, tasks, "preparing databases", workers=workers, show_progress=show_progress)
    return paths


class _Task(NamedTuple):
    """One database, its questions and the file of its part."""

    schema: Schema
    database: Path
    examples: list[Example]
    part: Path


def make_part(schema: Schema, database: DatabaseLike, examples: Sequence[Example]) -> Part:
    """Everything about one database and its questions but subwords."""
    inputs = describe_database(schema, open_content(schema, database))
    reader = SqlReader(schema)
    made = [_example_row(example, inputs, reader) for example in examples]
    return part_of(inputs, [row for row, _ in made], [codes for _, codes in made])


def _write_part(task: _Task) -> None:
    write_part(task.part, make_part(task.schema, task.database, task.examples))


def _example_row(example: Example, database: DatabaseInputs, reader: SqlReader) -> tuple[dict[str, Any], Array]:
    question = describe_question(example.question, database)
    steps: tuple[Step, ...] = ()
    reason = None
    try:
        steps = steps_of(reader.read(example.query))
    except SqlError as error:
        reason = str(error).removesuffix(f": {example.query}")
    gold = {"query": example.query, "steps": _step_rows(steps, question.candidates), "unreadable": reason}
    return question_row(example.question, question) | gold, question.codes


def _step_rows(steps: Sequence[Step], values: Sequence[Candidate]) -> list[list[int]]:
    grammar = sql_grammar()
    seen: dict[int, int] = {}  # how many children of a step were decided
    rows = []
    for step in steps:
        child = seen.get(step.parent, 0)
        seen[step.parent] = child + 1
        match step.action:
            case ApplyRule(rule):
                index = rule
            case SelectColumn(column):
                index = column
            case _:
                index = value_index(step.action.literal, values)
        state = grammar.states[step.state]
        rows.append([state.choice, index, step.state, step.parent, child, int(grammar.field_S[step.state])])
    return rows


def value_index(literal: Literal, values: Sequence[Candidate]) -> int:
    """The candidate that is a literal, or -1; one with the very text where several are."""
    same = [index for index, candidate in enumerate(values) if covers(candidate, literal.text)]
    return next((index for index in same if values[index].text == literal.text), same[0] if same else -1)
