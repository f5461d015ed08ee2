"""A user's file of question/SQL pairs → rows with their line numbers.

In: CSV (separated by commas, semicolons or tabs), JSON or JSON lines. Out: `GivenPair`s in the order of the file. A
faulty row keeps its problem, for `pairs.py` to list; a faulty file is an error.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtfixup.errors import DataError

QUESTION_NAMES = ("question",)
SQL_NAMES = ("sql", "query")
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_MOST_QUOTED = 60
_BLANKS = re.compile(r"[ \t\n\r]*")
_OTHER_ENCODINGS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


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
    if encoding := _OTHER_ENCODINGS.get(content[:2]):
        raise DataError(f"{path} is {encoding} text: save it as UTF-8 (in a spreadsheet, 'CSV UTF-8')")
    try:
        return content.decode("utf-8-sig")  # spreadsheets write a byte order mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} is not UTF-8 text: line {line} has the byte {content[error.start]:#04x}: save it as UTF-8 (in a "
            "spreadsheet, 'CSV UTF-8')"
        ) from None


def _csv_rows(text: str, path: Path) -> Iterator[GivenPair]:
    separator, heading, places = _heading(text, path)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        next(reader)
        line = reader.line_num + 1
        for cells in reader:
            if cells:
                yield _csv_pair(cells, heading, places, line, _SEPARATORS[separator])
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path} is not CSV: {error}, at line {reader.line_num}: a cell in quotes ends with one, and quotes inside "
            "it are doubled"
        ) from None


def _csv_pair(
    cells: Sequence[str], heading: Sequence[str], places: tuple[int, int], line: int, separators: str
) -> GivenPair:
    if len(cells) > len(heading):
        problem = f"it has {len(cells)} cells for {len(heading)} columns: put cells that hold {separators} in quotes"
        return GivenPair(line, "", "", problem)
    question, sql = (cells[place] if place < len(cells) else "" for place in places)
    return GivenPair(line, question, sql)


def _heading(text: str, path: Path) -> tuple[str, list[str], tuple[int, int]]:
    """The separator with which the first line names both columns; all column names; the positions of the two."""
    first = text.partition("\n")[0].rstrip("\r")
    for separator in _SEPARATORS:
        heading = next(csv.reader([first], delimiter=separator), [])
        names = [name.strip().lower() for name in heading]
        question, sql = ([name for name in wanted if name in names] for wanted in (QUESTION_NAMES, SQL_NAMES))
        if question and sql:
            return separator, heading, (names.index(question[0]), names.index(sql[0]))
    raise DataError(
        f"{path} has no columns question and sql: its first line must name them, such as question,sql; it is "
        f"{_shortened(first.strip())!r}"
    )


def _json_rows(text: str, path: Path) -> Iterator[GivenPair]:
    """The objects of a list, one by one: the standard parser does not say on which line an object begins."""
    decoder, place = json.JSONDecoder(), _after_blanks(text, 0)
    if text[place : place + 1] != "[":
        raise DataError(f"{path} must be a JSON list of objects with question and sql, got {_shortened(text[place:])}")
    place = _after_blanks(text, place + 1)
    line, counted = 1, 0
    try:
        while text[place : place + 1] != "]":
            line, counted = line + text.count("\n", counted, place), place
            row, place = decoder.raw_decode(text, place)
            yield _json_pair(row, line)
            place = _after_blanks(text, place)
            if text[place : place + 1] == ",":
                place = _after_blanks(text, place + 1)
            elif text[place : place + 1] != "]":
                raise json.JSONDecodeError("expected a comma or the end of the list", text, place)
        if rest := text[_after_blanks(text, place + 1) :]:
            raise json.JSONDecodeError(f"after the end of the list comes {_shortened(rest)}", text, place)
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise DataError(
            f"{path} is nested too deeply, at line {line}: expected objects with question and sql"
        ) from None


def _after_blanks(text: str, place: int) -> int:
    blanks = _BLANKS.match(text, place)
    assert blanks is not None  # it matches the empty text
    return blanks.end()


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
        return GivenPair(line, "", "", f"it must be an object with question and sql, got {_shortened(json.dumps(row))}")
    texts = []
    for wanted in (QUESTION_NAMES, SQL_NAMES):
        value = next((row[name] for name in wanted if name in row), None)
        if not isinstance(value, str):
            fault = "is missing" if value is None else f"must be text, got {_shortened(json.dumps(value))}"
            return GivenPair(line, "", "", f"{wanted[0]} {fault}")
        texts.append(value)
    return GivenPair(line, *texts)


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_QUOTED else f"{text[: _MOST_QUOTED - 3]}..."
