"""Files of question/SQL pairs: their rows and lines, and the errors of broken ones."""

import csv
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import DataError
from dtfixup.sql.finetune.pair_files import GivenPair, read_pair_file

PAIRS = [
    GivenPair(2, "How many, all in all?", "SELECT count(*) FROM pier"),
    GivenPair(3, 'Names with "Old"?', "SELECT name\nFROM pier"),
    GivenPair(5, "Where?", "SELECT city FROM pier"),
]


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def as_csv(separator: str = ",", heading: tuple[str, ...] = ("question", "sql"), end: str = "\n") -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator=end)
    writer.writerow(heading)
    writer.writerows([pair.question, pair.sql] for pair in PAIRS)
    return text.getvalue()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_csv_as_spreadsheets_write_it(separator: str, end: str, mark: str, tmp_path: Path) -> None:
    path = write(tmp_path, "pairs.csv", mark + as_csv(separator, end=end))
    assert read_pair_file(path) == PAIRS


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    text = "id,Query, Question \n7,SELECT 1,What?\n"
    assert read_pair_file(write(tmp_path, "pairs.csv", text)) == [GivenPair(2, "What?", "SELECT 1")]
    both = "question,query,sql\nWhat?,SELECT 1,SELECT 2\n"
    assert read_pair_file(write(tmp_path, "both.CSV", both)) == [GivenPair(2, "What?", "SELECT 2")]


def test_json_lines_and_lists_have_their_lines(tmp_path: Path) -> None:
    rows = [{"question": pair.question, "sql": pair.sql} for pair in PAIRS]
    lines = "\n\n".join(json.dumps(row) for row in rows)
    for name, text, places in (
        ("pairs.jsonl", lines, (1, 3, 5)),
        ("pairs.json", json.dumps(rows, indent=1), (2, 6, 10)),
    ):
        expected = [GivenPair(line, pair.question, pair.sql) for line, pair in zip(places, PAIRS, strict=True)]
        assert read_pair_file(write(tmp_path, name, text)) == expected


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1), st.integers(0, 2))
def test_any_text_comes_back_from_json(texts: list[tuple[str, str]], indent: int) -> None:
    rows = [{"question": question, "query": sql} for question, sql in texts]
    with TemporaryDirectory() as folder:
        found = read_pair_file(write(Path(folder), "pairs.json", json.dumps(rows, indent=indent)))
    assert [(pair.question, pair.sql) for pair in found] == texts
    assert [pair.line for pair in found] == sorted({pair.line for pair in found}), "each object has a line of its own"


def test_a_broken_row_is_told_of_in_its_place(tmp_path: Path) -> None:
    text = "question,sql\nBoth?,SELECT a, b FROM t\nOnly this?\n\nFine?,SELECT 1\n"
    broken, short, fine = read_pair_file(write(tmp_path, "pairs.csv", text))
    assert (broken.line, broken.problem) == (2, "it has 3 cells for 2 columns: put cells that contain commas in quotes")
    assert (short.line, short.question, short.sql, short.problem) == (3, "Only this?", "", None)
    assert fine == GivenPair(5, "Fine?", "SELECT 1")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"question": "What?"}', "sql is missing"),
        ('{"sql": "SELECT 1"}', "question is missing"),
        ('{"question": 3, "sql": "SELECT 1"}', "question must be text, got 3"),
        ("[1, 2]", "it must be an object with question and sql, got [1, 2]"),
        ('{"question": "What?", ', "it is not JSON: "),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_a_broken_line_of_json(line: str, problem: str, tmp_path: Path) -> None:
    path = write(tmp_path, "pairs.jsonl", f'{{"question": "What?", "sql": "SELECT 1"}}\n{line}\n')
    first, second = read_pair_file(path)
    assert first.problem is None
    assert (second.line, second.question, second.sql) == (2, "", "")
    assert str(second.problem).startswith(problem)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pairs.txt", "question,sql\n", "unknown kind of file; use one of *.csv"),
        ("pairs.csv", "", "has no columns question and sql"),
        ("pairs.csv", "frage;sql\nWas?;SELECT 1\n", "such as question,sql; it is 'frage;sql'"),
        ("pairs.csv", "question,sql\n", "has no pair"),
        ("pairs.csv", 'question,sql\nWhat?,"SELECT 1\n', "is not CSV: unexpected end of data, at line 2"),
        ("pairs.csv", "question,sql\nWo?,SELECT 1\nÖl?,SELECT 2\n".encode("latin-1"), "line 3 has the byte 0xd6: save"),
        ("pairs.csv", "question,sql\n".encode("utf-16"), "is UTF-16 text: save it as UTF-8"),
        ("pairs.json", "{}", "must be a JSON list of objects"),
        ("pairs.json", '[\n{"question": "What?" "sql": 1}]', "is not JSON: Expecting ',' delimiter at line 2"),
        ("pairs.json", "[]\n[]", "is not JSON: Extra data at line 2, column 1"),
        ("pairs.json", "[" * 100_000, "is nested too deeply: expected objects with question and sql"),
    ],
)
def test_a_broken_file_is_refused(name: str, content: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_pair_file(write(tmp_path, name, content))
    assert message in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_pair_file(tmp_path / "pairs.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_pair_file(tmp_path / "folder.csv")
