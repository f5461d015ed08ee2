"""A user's file of question/SQL pairs → rows with their line numbers.

In: CSV (separated by commas, semicolons or tabs), JSON or JSON lines. Out: `GivenPair`s in the order of the file. A
faulty row has a problem, which `pairs.py` lists; a faulty file is an error.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtfixup.errors import DataError

QUESTION_NAMES = ("question",)
SQL_NAMES = ("sql", "query")
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_MOST_QUOTED = 60
_BETWEEN_ROWS = re.compile(r"[ \t\n\r,]*")
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class GivenPair:
    """One row of the file."""

    line: int
    """Line where the row begins, from 1."""
    question: str
    sql: str
    """The query, in the database's dialect."""
    problem: str | None = None
    """Why the row has no question and query, which are empty then."""


def read_pair_file(path: str | Path) -> list[GivenPair]:
    """All rows of a file.

    Args:
        path: CSV whose first line names the columns, a JSON list of objects, or JSON lines of objects. The question is
            in `question`, the query in `sql` or `query`; other columns are ignored.
    """
    path = Path(path)
    readers = {".csv": _csv_rows, ".tsv": _csv_rows, ".json": _json_rows, ".jsonl": _json_lines}
    if path.suffix.lower() not in readers:
        raise DataError(f"{path}: unknown kind of file; use one of {', '.join(f'*{suffix}' for suffix in readers)}")
    rows = list(readers[path.suffix.lower()](_read_text(path), path))
    if not rows:
        raise DataError(f"{path} has no pair: every row needs a question and its SQL query")
    return rows


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if content.startswith(_UTF_16_MARKS):
        raise DataError(f"{path} is UTF-16 text: save it as UTF-8 (in a spreadsheet, 'CSV UTF-8')")
    try:
        return content.decode("utf-8-sig")  # spreadsheets write a byte order mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} is not UTF-8 text: line {line} has the byte {content[error.start]:#04x}: save it as UTF-8 (in a "
            "spreadsheet, 'CSV UTF-8')"
        ) from None


def _csv_rows(text: str, path: Path) -> Iterator[GivenPair]:
    separator, heading, positions = _heading(text, path)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        next(reader)
        line = reader.line_num + 1
        for cells in reader:
            if cells:
                if len(cells) > len(heading):
                    problem = f"it has {len(cells)} cells for {len(heading)} columns: put cells that contain "
                    yield GivenPair(line, "", "", f"{problem}{_SEPARATORS[separator]} in quotes")
                else:
                    question, sql = (cells[index] if index < len(cells) else "" for index in positions)
                    yield GivenPair(line, question, sql)
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path} is not CSV: {error}, at line {reader.line_num}: end a cell that begins with a quote with one, and "
            "double the quotes inside it"
        ) from None


def _heading(text: str, path: Path) -> tuple[str, list[str], tuple[int, int]]:
    """The separator, the names of all columns, and the positions of question and query."""
    first = text.partition("\n")[0].rstrip("\r")
    for separator in _SEPARATORS:
        heading = next(csv.reader([first], delimiter=separator), [])
        names = [name.strip().lower() for name in heading]
        question, sql = ([name for name in wanted if name in names] for wanted in (QUESTION_NAMES, SQL_NAMES))
        if question and sql:
            return separator, heading, (names.index(question[0]), names.index(sql[0]))
    raise DataError(
        f"{path} has no columns question and sql: its first line must name them, such as question,sql; it is "
        f"{_shorten(first.strip())!r}"
    )


def _json_rows(text: str, path: Path) -> Iterator[GivenPair]:
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise DataError(f"{path} is nested too deeply: expected objects with question and sql") from None
    if not isinstance(rows, list):
        raise DataError(f"{path} must be a JSON list of objects with question and sql, got {_shorten(text.strip())}")
    # `json.loads` does not say where rows begin, so each is decoded again at its position.
    decoder, line, end, counted = json.JSONDecoder(), 1, text.index("[") + 1, 0
    for row in rows:
        start = _BETWEEN_ROWS.match(text, end).end()  # type: ignore[union-attr]  # it always matches
        line, counted = line + text.count("\n", counted, start), start
        yield _json_pair(row, line)
        _, end = decoder.raw_decode(text, start)


def _json_lines(text: str, path: Path) -> Iterator[GivenPair]:
    for number, line in enumerate(text.split("\n"), start=1):  # strings may contain other line ends
        if not line.strip():
            continue
        try:
            yield _json_pair(json.loads(line), number)
        except json.JSONDecodeError as error:
            yield GivenPair(number, "", "", f"it is not JSON: {error.msg} at column {error.colno}")
        except RecursionError:
            yield GivenPair(number, "", "", "it is nested too deeply")


def _json_pair(row: Any, line: int) -> GivenPair:
    if not isinstance(row, Mapping):
        return GivenPair(line, "", "", f"it must be an object with question and sql, got {_shorten(json.dumps(row))}")
    texts = []
    for wanted in (QUESTION_NAMES, SQL_NAMES):
        value = next((row[name] for name in wanted if name in row), None)
        if not isinstance(value, str):
            fault = "is missing" if value is None else f"must be text, got {_shorten(json.dumps(value))}"
            return GivenPair(line, "", "", f"{wanted[0]} {fault}")
        texts.append(value)
    return GivenPair(line, *texts)


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_QUOTED else f"{text[: _MOST_QUOTED - 3]}..."
