"""What is known of databases and questions → flat arrays, words cut into subwords.

In: `DatabaseInputs` and `QuestionInputs`. Out: the arrays that `prepared.py` describes. A `Part` is one database and
its questions before words are cut: `assemble_parts` joins those of a dataset, `assemble_question` is for one question.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dtfixup.files import read_json, write_atomically
from dtfixup.sql.database.dataset import Example
from dtfixup.sql.grammar.rules import Choice, kind_index
from dtfixup.sql.linking.candidates import Candidate, Source
from dtfixup.sql.linking.inputs import DatabaseInputs, QuestionInputs
from dtfixup.sql.model.prepared import pack_texts, starts
from dtfixup.weights.arrays import Array, map_arrays, write_arrays

_SOURCES = tuple(Source)


@dataclass(frozen=True)
class Part:
    """One database and its questions; words are not yet cut into subwords."""

    arrays: Mapping[str, Array]
    """Of the database `column.table`, `column.kind`, `relation`; and `link`, of all questions one after the other."""
    items: Sequence[Sequence[str]]
    """The words of each column and table."""
    rows: Sequence[dict[str, Any]]
    """The questions, as `question_row` makes them."""


def part_of(database: DatabaseInputs, rows: Sequence[dict[str, Any]], links: Sequence[Array]) -> Part:
    """A database with its questions and their links."""
    arrays: dict[str, Array] = {
        "column.table": np.array([column.table for column in database.schema.columns], np.int16),
        "column.kind": np.array(database.kinds, np.int8),
        "relation": database.relations.reshape(-1),
        "link": np.concatenate([codes.reshape(-1) for codes in links]),
    }
    return Part(arrays, database.item_words, rows)


def write_part(path: Path, part: Part) -> None:
    """Write a part as two files; the second makes it whole."""
    write_atomically(path.with_suffix(".safetensors"), lambda temporary: write_arrays(temporary, part.arrays))
    text = json.dumps({"items": part.items, "rows": part.rows})
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_part(path: Path) -> Part:
    """Read what `write_part` wrote."""
    text = read_json(path)
    return Part(map_arrays(path.with_suffix(".safetensors")), text["items"], text["rows"])


def question_row(text: str, question: QuestionInputs) -> dict[str, Any]:
    """A question of a part, as JSON values; it has no query yet."""
    previous = [None, *question.words[:-1]]
    return {
        "question": text,
        "query": "",
        "words": [word.text for word in question.words],
        "spaced": [last is None or last.end < word.start for last, word in zip(previous, question.words, strict=False)],
        "values": [_value_row(candidate) for candidate in question.candidates],
        "steps": [],
        "unreadable": None,
    }


def _value_row(candidate: Candidate) -> list[Any]:
    column, first, last = (
        -1 if number is None else number for number in (candidate.column, candidate.start, candidate.end)
    )
    kind = kind_index(candidate.kind, candidate.text)
    return [candidate.text, kind, column, first, last, _SOURCES.index(candidate.source)]


def assemble_question(
    text: str, question: QuestionInputs, database: DatabaseInputs, pieces: Callable[..., list[list[int]]]
) -> dict[str, Array]:
    """The arrays of one question without a query; `pieces` cuts words into subwords."""
    row = question_row(text, question)
    part = part_of(database, [row], [question.codes])
    return _arrays({"": part}, [("", row)], [part.arrays["link"]], pieces)


def assemble_parts(
    parts: Mapping[str, Part],
    examples: Mapping[str, Sequence[Example]],
    pieces: Callable[..., list[list[int]]],
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays of a whole dataset, and its index; `pieces` cuts words into subwords."""
    rows, links, ranges = _in_order(parts, examples)
    arrays = _arrays(parts, rows, links, pieces)
    unreadable, uncovered = [], dict.fromkeys(examples, 0)
    for split, (start, end) in ranges.items():
        for position in range(start, end):
            row = rows[position][1]
            if row["unreadable"] is not None:
                unreadable.append(
                    {"split": split, "index": position - start, "query": row["query"], "reason": row["unreadable"]}
                )
            uncovered[split] += any(choice == Choice.VALUE and index < 0 for choice, index, *_ in row["steps"])
    index = {"splits": ranges, "databases": list(parts), "unreadable": unreadable, "uncovered": uncovered}
    return arrays, index


def _arrays(
    parts: Mapping[str, Part],
    rows: Sequence[tuple[str, dict[str, Any]]],
    links: Sequence[Array],
    pieces: Callable[..., list[list[int]]],
) -> dict[str, Array]:
    """Databases and examples; the source of an example is its own database."""
    subwords = _Subwords(pieces, _all_words(parts))
    numbers = {database: number for number, database in enumerate(parts)}
    own = np.array([numbers[database] for database, _ in rows], np.int16)
    arrays = _database_arrays(parts, subwords) | _example_arrays(rows, links, subwords)
    return arrays | {"example.database": own, "example.source": own.copy()}


def _in_order(
    parts: Mapping[str, Part], examples: Mapping[str, Sequence[Example]]
) -> tuple[list[tuple[str, dict[str, Any]]], list[Array], dict[str, list[int]]]:
    """Rows and links in the order of the splits; a part holds its own in the same order."""
    taken = dict.fromkeys(parts, 0)
    offset = dict.fromkeys(parts, 0)
    rows: list[tuple[str, dict[str, Any]]] = []
    links: list[Array] = []
    ranges: dict[str, list[int]] = {}
    for split, members in examples.items():
        begin = len(rows)
        for example in members:
            database = example.database
            part = parts[database]
            row = part.rows[taken[database]]
            size = len(row["words"]) * len(part.items)
            rows.append((database, row))
            links.append(part.arrays["link"][offset[database] : offset[database] + size])
            taken[database] += 1
            offset[database] += size
        ranges[split] = [begin, len(rows)]
    return rows, links, ranges


def _all_words(parts: Mapping[str, Part]) -> dict[bool, list[str]]:
    """Every word once, those after a space and those not."""
    spaced: dict[str, None] = {}
    inside: dict[str, None] = {}
    for part in parts.values():
        for item in part.items:
            spaced |= dict.fromkeys(item)
        for row in part.rows:
            for word, is_spaced in zip(row["words"], row["spaced"], strict=True):
                (spaced if is_spaced else inside)[word] = None
            spaced |= dict.fromkeys(value[0] for value in row["values"])
    return {True: list(spaced), False: list(inside)}


class _Subwords:
    """Subwords of every word, cut once."""

    def __init__(self, pieces: Callable[..., list[list[int]]], words: Mapping[bool, list[str]]) -> None:
        self._ids = {
            (word, spaced): ids
            for spaced, known in words.items()
            for word, ids in zip(known, pieces(known, spaced=spaced), strict=True)
        }

    def of(self, words: Sequence[str], spaced: Sequence[bool] | None = None) -> tuple[list[int], list[int]]:
        """Token ids of words in a row, and the word of each."""
        ids: list[int] = []
        owner: list[int] = []
        for position, word in enumerate(words):
            pieces = self._ids[word, True if spaced is None else spaced[position]]
            ids += pieces
            owner += [position] * len(pieces)
        return ids, owner


def _database_arrays(parts: Mapping[str, Part], subwords: _Subwords) -> dict[str, Array]:
    items = [subwords.of(item) for part in parts.values() for item in part.items]
    return {
        "columns.start": starts([len(part.arrays["column.kind"]) for part in parts.values()]),
        "column.table": np.concatenate([part.arrays["column.table"] for part in parts.values()]),
        "column.kind": np.concatenate([part.arrays["column.kind"] for part in parts.values()]),
        "items.start": starts([len(part.items) for part in parts.values()]),
        "item_tokens.start": starts([len(ids) for ids, _ in items]),
        "item_token.id": _flat((ids for ids, _ in items), np.int32),
        "item_token.word": _flat((owner for _, owner in items), np.int16),
        "relations.start": starts([len(part.arrays["relation"]) for part in parts.values()]),
        "relation": np.concatenate([part.arrays["relation"] for part in parts.values()]),
    }


def _example_arrays(
    rows: Sequence[tuple[str, dict[str, Any]]], links: Sequence[Array], subwords: _Subwords
) -> dict[str, Array]:
    content = [row for _, row in rows]
    questions = [subwords.of(row["words"], row["spaced"]) for row in content]
    values = [value for row in content for value in row["values"]]
    value_tokens = [subwords.of([value[0]])[0] for value in values]
    steps = np.array([step for row in content for step in row["steps"]], np.int16).reshape(-1, 6)
    arrays: dict[str, Array] = {
        "example.words": np.array([len(row["words"]) for row in content], np.int16),
        "tokens.start": starts([len(ids) for ids, _ in questions]),
        "token.id": _flat((ids for ids, _ in questions), np.int32),
        "token.word": _flat((owner for _, owner in questions), np.int16),
        "links.start": starts([len(codes) for codes in links]),
        "link": np.concatenate(links),
        "steps.start": starts([len(row["steps"]) for row in content]),
        "values.start": starts([len(row["values"]) for row in content]),
        "value_tokens.start": starts([len(ids) for ids in value_tokens]),
        "value_token.id": _flat(value_tokens, np.int32),
    }
    for position, (name, kind) in enumerate(_STEP_FIELDS):
        arrays[f"step.{name}"] = np.ascontiguousarray(steps[:, position]).astype(kind)
    for position, (name, kind) in enumerate(_VALUE_FIELDS, 1):
        arrays[f"value.{name}"] = np.array([value[position] for value in values], kind)
    for name, texts in (
        ("questions", [row["question"] for row in content]),
        ("queries", [row["query"] for row in content]),
        ("value_texts", [value[0] for value in values]),
    ):
        arrays[_SINGULAR[name]], arrays[f"{name}.start"] = pack_texts(texts)
    return arrays


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
_SINGULAR = {"questions": "question", "queries": "query", "value_texts": "value_text"}


def _flat(rows: Iterable[Sequence[int]], kind: type[np.integer[Any]]) -> Array:
    return np.array([number for row in rows for number in row], kind)
