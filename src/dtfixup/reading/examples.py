"""Files of multiple-choice questions → `ReadingExample`s.

In: ReClor's JSON, or other JSON, JSON lines or CSV with a context, a question, two to ten options and the number of
the right one. Out: examples in the order of the file. One bad row refuses the whole file: the error names file, row and
key.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtfixup.errors import DataError
from dtfixup.files import read_json

LEAST_OPTIONS, MOST_OPTIONS = 2, 10
SUFFIXES = (".json", ".jsonl", ".csv")
_OPTION_COLUMN = re.compile(r"(?:answer|option)_(\d)")
_NAMES = ("id_string", "id", "name")


@dataclass(frozen=True)
class ReadingExample:
    """A passage, a question about it, and the options to choose from."""

    context: str
    question: str
    answers: tuple[str, ...]
    label: int | None
    """Index of the right option, from 0; None if unknown."""
    name: str
    """Its name in the file, else the number of its row."""


@dataclass(frozen=True)
class ReadingData:
    """Examples to train on and to evaluate on, and the hash of their files."""

    train: tuple[ReadingExample, ...]
    val: tuple[ReadingExample, ...]
    """Empty if the files have none."""
    data_hash: str


def read_data(path: str | Path) -> ReadingData:
    """Read a folder with `train` and `val`, or one file of examples to train on."""
    path = Path(path)
    files = [path] if path.is_file() else [split_file(path, "train"), *_files_of(path, "val")]
    train, *val = (read_examples(file) for file in files)
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return ReadingData(train, val[0] if val else (), digest.hexdigest())


def split_file(folder: Path, split: str) -> Path:
    """The file of a split in a folder: `val.json`, `val.jsonl` or `val.csv`."""
    files = _files_of(folder, split)
    if not files:
        names = ", ".join(f"{split}{suffix}" for suffix in SUFFIXES)
        raise DataError(f"{folder} has no split {split!r}: put one of {names} there")
    return files[0]


def _files_of(folder: Path, split: str) -> list[Path]:
    """The file of a split, or none."""
    files = [file for suffix in SUFFIXES if (file := folder / f"{split}{suffix}").is_file()]
    if len(files) > 1:
        raise DataError(f"{folder} has {files[0].name} and {files[1].name}: keep only one")
    return files


def read_examples(path: str | Path, *, need_labels: bool = True) -> tuple[ReadingExample, ...]:
    """Read all examples of a file.

    Args:
        path: a JSON list of objects with `context`, `question`, `answers` (or `options`), `label` and perhaps
            `id_string`; JSON lines of the same; or CSV with columns `context`, `question`, `answer_0` to `answer_9`
            (or `option_0` and so on) and `label`.
        need_labels: whether a row without a label is an error.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path} cannot be read: it must end in {', '.join(SUFFIXES)}")
    rows = {".json": _json_rows, ".jsonl": _json_lines, ".csv": _csv_rows}[path.suffix](path)
    examples = tuple(
        example_from(row, f"{path}, row {number}", need_label=need_labels, name=f"{path.stem}_{number}")
        for number, row in enumerate(rows, start=1)
    )
    if not examples:
        raise DataError(f"{path} has no examples")
    return examples


def example_from(row: Any, where: str, *, need_label: bool = False, name: str = "") -> ReadingExample:
    """Make an example of JSON values; every error starts with `where`."""
    if not isinstance(row, Mapping):
        raise DataError(f"{where} must be an object with context, question and answers, got {_shortened(row)}")
    key = "options" if "options" in row and "answers" not in row else "answers"
    context, question = (_text(row.get(part), f"{where}, {part}", part) for part in ("context", "question"))
    answers = _answers(row.get(key), f"{where}, {key}")
    own_name = next((row[field] for field in _NAMES if row.get(field) not in (None, "")), name)
    label = _label(row.get("label"), len(answers), f"{where}, label", need_label)
    return ReadingExample(context, question, answers, label, str(own_name))


def _answers(value: Any, where: str) -> tuple[str, ...]:
    if value is None:
        raise DataError(f"{where} is missing: give {LEAST_OPTIONS} to {MOST_OPTIONS} options")
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise DataError(f"{where} must be a list of options, got {_shortened(value)}")
    if not LEAST_OPTIONS <= len(value) <= MOST_OPTIONS:
        raise DataError(f"{where} has {len(value)} options, but must have {LEAST_OPTIONS} to {MOST_OPTIONS}")
    answers = tuple(_text(option, f"{where}[{place}]", "option") for place, option in enumerate(value))
    for place, answer in enumerate(answers):
        if (first := answers.index(answer)) < place:
            raise DataError(f"{where}[{place}] repeats {where.rpartition(' ')[2]}[{first}]: remove or change one")
    return answers


def _text(value: Any, where: str, part: str) -> str:
    if value is None:
        raise DataError(f"{where} is missing")
    if not isinstance(value, str):
        raise DataError(f"{where} must be text, got {_shortened(value)}")
    if not value.strip():
        advice = {
            "context": "if the question has none, put its first sentence here, or leave the row out",
            "question": "if there is none, write what is asked, such as 'Which is right?'",
            "option": "leave it out, or leave the row out",
        }
        raise DataError(f"{where} is empty: {advice[part]}")
    return value.strip()


def _label(value: Any, options: int, where: str, needed: bool) -> int | None:
    if value is None:
        if needed:
            raise DataError(f"{where} is missing: give the number of the right option, from 0")
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"{where} must be the number of the right option, from 0, got {_shortened(value)}")
    if not 0 <= value < options:
        raise DataError(f"{where} is {value}, but the options are numbered 0 to {options - 1}")
    return value


def _json_rows(path: Path) -> Iterator[Any]:
    rows = read_json(path)
    if not isinstance(rows, list):
        raise DataError(f"{path} must be a JSON list of examples, got {_shortened(rows)}")
    yield from rows


def _json_lines(path: Path) -> Iterator[Any]:
    lines = (line for line in _read_text(path).split("\n") if line.strip())  # texts may hold other line ends
    for number, line in enumerate(lines, start=1):
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, row {number} is not JSON: {error.msg} at column {error.colno}") from None


def _csv_rows(path: Path) -> Iterator[Any]:
    names, rows = read_table(path)
    columns = _option_columns(names, path)
    yield from (_csv_row(row, columns) for row in rows)


def read_table(path: Path) -> tuple[Sequence[str], list[dict[str, str]]]:
    """The columns of a CSV file, which its first line names, and its rows; missing cells are empty."""
    reader = csv.DictReader(io.StringIO(_read_text(path), newline=""), strict=True, restval="")
    rows = []
    try:
        for number, row in enumerate(reader, start=1):
            if None in row:
                raise DataError(
                    f"{path}, row {number} has more cells than the first line has columns: quote cells that hold commas"
                )
            rows.append(row)
    except csv.Error as error:
        raise DataError(f"{path} is not CSV: {error}, at line {reader.line_num}") from None
    return reader.fieldnames or (), rows


def _option_columns(names: Sequence[str], path: Path) -> list[str]:
    """The columns of the options in order, after a check that all needed columns exist."""
    numbered = sorted((int(match[1]), name) for name in names if (match := _OPTION_COLUMN.fullmatch(name)))
    needed = [f"answer_{place}" for place in range(LEAST_OPTIONS)]
    missing = [name for name in ("context", "question") if name not in names] or needed[len(numbered) :]
    if missing:
        raise DataError(
            f"{path} has no column {missing[0]}: its first line must name the columns, such as "
            f"context,question,{','.join(needed)},label"
        )
    if [place for place, _ in numbered] != list(range(len(numbered))):
        listed = ", ".join(name for _, name in numbered)
        raise DataError(f"{path} must number its option columns from 0, each once: {listed}")
    return [name for _, name in numbered]


def _csv_row(row: Mapping[str, str], columns: Sequence[str]) -> dict[str, Any]:
    """A row in the form of JSON: empty cells after the last option are left out."""
    answers = [row[name] for name in columns]
    while answers and not answers[-1].strip():
        answers.pop()
    label = row.get("label", "").strip()
    number = int(label) if re.fullmatch(r"[+-]?\d+", label) else label or None
    return {**row, "answers": answers, "label": number}


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # spreadsheets write a byte order mark
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: byte {error.start}: {error.reason}") from None


def _shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
