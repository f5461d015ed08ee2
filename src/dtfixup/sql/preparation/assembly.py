"""Inputs of databases and questions → flat arrays of subwords.

In: `DatabaseInputs` and `QuestionInputs`. Out: the arrays that `prepared.py` describes. A `Part` is one database and
its questions before words are cut into subwords. `assemble_parts` joins the parts of a dataset, `assemble_question` is
for one question.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dtfixup.sql.database.dataset import Example
from dtfixup.sql.grammar.rules import Choice, kind_index
from dtfixup.sql.linking.candidates import Candidate, Source
from dtfixup.sql.linking.inputs import DatabaseInputs, QuestionInputs
from dtfixup.sql.model.prepared import pack_texts, starts
from dtfixup.weights.arrays import Array

_SOURCES = tuple(Source)
_STEP_FIELDS = (
    ("choice", np.int8),
    ("index", np.int16),
    ("state", np.int16),
    ("parent", np.int16),
    ("child", np.int8),
    ("field", np.int8),
)
_VALUE_FIELDS = (
    ("kind", np.int8),
    ("column", np.int16),
    ("first", np.int16),
    ("last", np.int16),
    ("source", np.int8),
)

CutWords: TypeAlias = Callable[..., list[list[int]]]
"""`Tokenizer.pieces`: the subwords of each word."""


@dataclass(frozen=True)
class PartQuestion:
    """A question of a part."""

    text: str
    words: list[str]
    is_spaced: list[bool]
    """Whether a space is before each word."""
    links: Array
    values: list[list[Any]]
    """Text, kind, column, first and last word, and source of each candidate."""
    query: str = ""
    steps: Sequence[Sequence[int]] = ()
    unreadable: str | None = None
    """Why the query has no steps."""


@dataclass(frozen=True)
class Part:
    """One database and its questions, before words are cut into subwords."""

    tables: Array
    """The table of each column."""
    kinds: Array
    relations: Array
    items: Sequence[Sequence[str]]
    """The words of each column and table."""
    questions: Sequence[PartQuestion]


def part_of(database: DatabaseInputs, questions: Sequence[PartQuestion]) -> Part:
    """A database with its questions."""
    tables = np.array([column.table for column in database.schema.columns], np.int16)
    kinds = np.array(database.kinds, np.int8)
    return Part(tables, kinds, database.relations.reshape(-1), database.item_words, questions)


def part_question(text: str, inputs: QuestionInputs, **gold: Any) -> PartQuestion:
    """A question of a part; `gold` has `query`, `steps` and `unreadable`, if it has a query."""
    words = inputs.words
    is_spaced = [position == 0 or words[position - 1].end < word.start for position, word in enumerate(words)]
    values = [_value_row(candidate) for candidate in inputs.candidates]
    return PartQuestion(text, [word.text for word in words], is_spaced, inputs.codes.reshape(-1), values, **gold)


def _value_row(candidate: Candidate) -> list[Any]:
    positions = (-1 if number is None else number for number in (candidate.column, candidate.start, candidate.end))
    kind = kind_index(candidate.kind, candidate.text)
    return [candidate.text, kind, *positions, _SOURCES.index(candidate.source)]


def assemble_question(
    text: str, question: QuestionInputs, database: DatabaseInputs, cut_words: CutWords
) -> dict[str, Array]:
    """The arrays of one question without a query."""
    asked = part_question(text, question)
    return _arrays({"": part_of(database, [asked])}, [("", asked)], cut_words)


def assemble_parts(
    parts: Mapping[str, Part], examples: Mapping[str, Sequence[Example]], cut_words: CutWords
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays of a whole dataset, and its index; the questions of a part are in the order of the examples."""
    remaining = {database: iter(part.questions) for database, part in parts.items()}
    rows: list[tuple[str, PartQuestion]] = []
    ranges: dict[str, list[int]] = {}
    unreadable: list[dict[str, Any]] = []
    uncovered = dict.fromkeys(examples, 0)
    for split, members in examples.items():
        begin = len(rows)
        for position, example in enumerate(members):
            row = next(remaining[example.database])
            rows.append((example.database, row))
            uncovered[split] += any(choice == Choice.VALUE and value < 0 for choice, value, *_ in row.steps)
            if row.unreadable is not None:
                unreadable.append({"split": split, "index": position, "query": row.query, "reason": row.unreadable})
        ranges[split] = [begin, len(rows)]
    index = {"splits": ranges, "databases": list(parts), "unreadable": unreadable, "uncovered": uncovered}
    return _arrays(parts, rows, cut_words), index


def _arrays(
    parts: Mapping[str, Part], rows: Sequence[tuple[str, PartQuestion]], cut_words: CutWords
) -> dict[str, Array]:
    """The arrays of databases and examples; the source of an example is its own database."""
    subwords = _Subwords(cut_words, parts.values())
    numbers = {database: number for number, database in enumerate(parts)}
    own = np.array([numbers[database] for database, _ in rows], np.int16)
    arrays = _database_arrays(list(parts.values()), subwords) | _example_arrays([row for _, row in rows], subwords)
    return arrays | {"example.database": own, "example.source": own.copy()}


class _Subwords:
    """The subwords of every word of some parts."""

    def __init__(self, cut_words: CutWords, parts: Iterable[Part]) -> None:
        words: dict[bool, dict[str, None]] = {True: {}, False: {}}
        for part in parts:
            for item in part.items:
                words[True] |= dict.fromkeys(item)
            for row in part.questions:
                for word, is_spaced in zip(row.words, row.is_spaced, strict=True):
                    words[is_spaced][word] = None
                words[True] |= dict.fromkeys(value[0] for value in row.values)
        self._ids = {
            (word, spaced): ids
            for spaced, distinct in words.items()
            for word, ids in zip(distinct, cut_words(list(distinct), spaced=spaced), strict=True)
        }

    def of(self, words: Sequence[str], is_spaced: Sequence[bool] | None = None) -> tuple[list[int], list[int]]:
        """The token ids of a sequence of words, and the position of each token's word."""
        ids: list[int] = []
        owner: list[int] = []
        for position, word in enumerate(words):
            pieces = self._ids[word, True if is_spaced is None else is_spaced[position]]
            ids += pieces
            owner += [position] * len(pieces)
        return ids, owner


def _database_arrays(parts: Sequence[Part], subwords: _Subwords) -> dict[str, Array]:
    items = [subwords.of(item) for part in parts for item in part.items]
    return {
        "columns.start": starts([len(part.kinds) for part in parts]),
        "column.table": np.concatenate([part.tables for part in parts]),
        "column.kind": np.concatenate([part.kinds for part in parts]),
        "items.start": starts([len(part.items) for part in parts]),
        "item_tokens.start": starts([len(ids) for ids, _ in items]),
        "item_token.id": _flat((ids for ids, _ in items), np.int32),
        "item_token.word": _flat((owner for _, owner in items), np.int16),
        "relations.start": starts([len(part.relations) for part in parts]),
        "relation": np.concatenate([part.relations for part in parts]),
    }


def _example_arrays(rows: Sequence[PartQuestion], subwords: _Subwords) -> dict[str, Array]:
    questions = [subwords.of(row.words, row.is_spaced) for row in rows]
    values = [value for row in rows for value in row.values]
    value_tokens = [subwords.of([value[0]])[0] for value in values]
    steps = np.array([step for row in rows for step in row.steps], np.int16).reshape(-1, len(_STEP_FIELDS))
    arrays: dict[str, Array] = {
        "example.words": np.array([len(row.words) for row in rows], np.int16),
        "tokens.start": starts([len(ids) for ids, _ in questions]),
        "token.id": _flat((ids for ids, _ in questions), np.int32),
        "token.word": _flat((owner for _, owner in questions), np.int16),
        "links.start": starts([len(row.links) for row in rows]),
        "link": np.concatenate([row.links for row in rows]),
        "steps.start": starts([len(row.steps) for row in rows]),
        "values.start": starts([len(row.values) for row in rows]),
        "value_tokens.start": starts([len(ids) for ids in value_tokens]),
        "value_token.id": _flat(value_tokens, np.int32),
    }
    for position, (name, kind) in enumerate(_STEP_FIELDS):
        arrays[f"step.{name}"] = np.ascontiguousarray(steps[:, position]).astype(kind)
    for position, (name, kind) in enumerate(_VALUE_FIELDS, 1):
        arrays[f"value.{name}"] = np.array([value[position] for value in values], kind)
    arrays["question"], arrays["questions.start"] = pack_texts([row.text for row in rows])
    arrays["query"], arrays["queries.start"] = pack_texts([row.query for row in rows])
    arrays["value_text"], arrays["value_texts.start"] = pack_texts([value[0] for value in values])
    return arrays


def _flat(rows: Iterable[Sequence[int]], kind: type[np.integer[Any]]) -> Array:
    return np.array([number for row in rows for number in row], kind)
