"""A dataset of questions and queries → `prepared.py`'s arrays, for a named encoder.

In: a folder in Spider's layout. Out: `arrays.safetensors` and `index.json`, the same bytes for the same inputs. Worker
processes read and link the databases; then the words are cut into subwords.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtfixup.errors import ConfigError, DataError, SqlError
from dtfixup.files import read_json
from dtfixup.processes import map_supervised
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import Dataset, Example, open_dataset
from dtfixup.sql.database.location import DatabaseLike
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import sql_grammar
from dtfixup.sql.grammar.transitions import ApplyRule, SelectColumn, SelectValue, Step, steps_of
from dtfixup.sql.grammar.tree import Literal
from dtfixup.sql.linking.candidates import Candidate, covers
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database, describe_question
from dtfixup.sql.model.prepared import ARRAYS, INDEX, SYNTHETIC, write_prepared
from dtfixup.sql.preparation.assembly import Part, PartQuestion, assemble_parts, part_of, part_question
from dtfixup.sql.preparation.fingerprint import data_hash, databases_of, fingerprint_of
from dtfixup.weights.arrays import map_arrays

SPLITS = ("train", "dev")


@dataclass(frozen=True)
class PrepareReport:
    """The outcome of `prepare`."""

    folder: Path
    was_there: bool
    """Whether the prepared dataset was there before, and nothing was done."""
    examples: dict[str, int]
    unreadable: tuple[dict[str, Any], ...]
    """Gold queries outside the grammar, with the reason."""
    uncovered: dict[str, int]
    """The number of queries of each split with a literal that is not a candidate."""


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

    `synthetic` is the number of examples to make from the split `train`, `phrases` the number to make over its
    databases with the phrase book. Together they are the split `synthetic`.
    """
    from dtfixup.encoders import load_tokenizer  # imports torch, which the workers do not need

    if (synthetic or phrases) and ("train" not in splits or SYNTHETIC in splits):
        raise ConfigError(f"made-up examples come from the split train: --splits must name it, and not {SYNTHETIC}")
    dataset, folder = open_dataset(data), Path(out)
    examples = {split: dataset.split(split) for split in splits}
    tokenizer = load_tokenizer(encoder)
    fingerprint = fingerprint_of(data_hash(dataset, examples), tokenizer.sha256, synthetic, phrases)
    if _is_done(folder, fingerprint):
        return _report(folder, was_there=True)
    made_up = _make_up(dataset, synthetic, phrases, workers=workers, show_progress=show_progress)
    if made_up:
        examples[SYNTHETIC] = [example for example, _ in made_up]
    parts = _make_parts(dataset, examples, workers, show_progress)
    arrays, index = assemble_parts(parts, examples, tokenizer.pieces)
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
    return _report(folder, was_there=False)


def _make_up(dataset: Dataset, synthetic: int, phrases: int, **options: Any) -> list[tuple[Example, str]]:
    """Made-up examples, each with its source: the database whose question gave the words, or its own."""
    made_up: list[tuple[Example, str]] = []
    if synthetic:
        from dtfixup.sql.synthesis.templates import synthesise

        train = dataset.split("train")
        made = synthesise(dataset, count=synthetic, seed=0, **options)
        made_up += [(item.example, train[item.source].database) for item in made]
    if phrases:
        from dtfixup.sql.synthesis.phrases import make_phrases

        phrased = make_phrases(dataset, count=phrases, seed=0, **options)
        made_up += [(item.example, item.example.database) for item in phrased.examples]
    return made_up


def _report(folder: Path, *, was_there: bool) -> PrepareReport:
    index = read_json(folder / INDEX)
    sizes = {split: last - first for split, (first, last) in index["splits"].items()}
    return PrepareReport(folder, was_there, sizes, tuple(index["unreadable"]), index["uncovered"])


def _is_done(folder: Path, fingerprint: str) -> bool:
    if not (folder / INDEX).is_file():
        return False
    try:
        map_arrays(folder / ARRAYS)
        return bool(read_json(folder / INDEX).get("fingerprint") == fingerprint)
    except DataError:
        return False


def _make_parts(
    dataset: Dataset, examples: Mapping[str, Sequence[Example]], workers: int | None, show_progress: bool
) -> dict[str, Part]:
    """The part of every database, in alphabetical order."""
    by_database: dict[str, list[Example]] = {database: [] for database in databases_of(examples)}
    for example in (example for split in examples.values() for example in split):
        by_database[example.database].append(example)
    longest_first = sorted(by_database, key=lambda database: -len(by_database[database]))  # none runs alone at the end
    tasks = {
        database: (dataset.schemas[database], dataset.database_file(database), by_database[database])
        for database in longest_first
    }
    made = map_supervised(_make_part, tasks, "preparing databases", workers=workers, show_progress=show_progress)
    parts = dict(zip(tasks, made, strict=True))
    return {database: parts[database] for database in by_database}


def _make_part(task: tuple[Schema, Path, list[Example]]) -> Part:
    return make_part(*task)


def make_part(schema: Schema, database: DatabaseLike, examples: Sequence[Example]) -> Part:
    """Read and link one database and its questions."""
    inputs = describe_database(schema, open_content(schema, database))
    reader = SqlReader(schema)
    return part_of(inputs, [_read_example(example, inputs, reader) for example in examples])


def _read_example(example: Example, database: DatabaseInputs, reader: SqlReader) -> PartQuestion:
    question = describe_question(example.question, database)
    steps: tuple[Step, ...] = ()
    reason = None
    try:
        steps = steps_of(reader.read(example.query))
    except SqlError as error:
        reason = str(error).removesuffix(f": {example.query}")
    rows = _step_rows(steps, question.candidates)
    return part_question(example.question, question, query=example.query, steps=rows, unreadable=reason)


def _step_rows(steps: Sequence[Step], values: Sequence[Candidate]) -> list[list[int]]:
    grammar = sql_grammar()
    children: Counter[int] = Counter()  # of each step, so far
    rows = []
    for step in steps:
        child = children[step.parent]
        children[step.parent] += 1
        match step.action:
            case ApplyRule(number) | SelectColumn(number):
                index = number
            case SelectValue(literal):
                index = value_index(literal, values)
        state = grammar.states[step.state]
        rows.append([state.choice, index, step.state, step.parent, child, int(grammar.field_S[step.state])])
    return rows


def value_index(literal: Literal, values: Sequence[Candidate]) -> int:
    """The candidate that means a literal, or -1; of several, one with the same text if there is one."""
    same = [index for index, candidate in enumerate(values) if covers(candidate, literal.text)]
    return next((index for index in same if values[index].text == literal.text), same[0] if same else -1)
