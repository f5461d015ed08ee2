"""An opened database is read once, and again when it has changed; databases that cannot be read are errors."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dtfixup.errors import SchemaError
from dtfixup.sql.ask import opened as opened_module
from dtfixup.sql.ask.opened import open_database
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from tests.sql.asked import tiny_parser


def execute(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def wide(path: Path, columns: int) -> Path:
    names = ", ".join(f"c{number} INTEGER" for number in range(columns))
    return execute(path, f"CREATE TABLE pier ({names}); CREATE TABLE boat (name TEXT)")


def test_a_database_is_read_once(ferry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = open_database(ferry)
    first = tiny_parser().ask("How many piers are in Vienna?", database)
    for name in ("inspect_database", "open_content", "describe_database"):
        monkeypatch.setattr(opened_module, name, lambda *_, **__: pytest.fail("the database was read again"))
    again = tiny_parser().ask("How many piers are in Vienna?", database)
    assert [query.sql for query in again.alternatives] == [query.sql for query in first.alternatives]


def test_a_changed_file_is_read_again_and_a_server_on_demand(ferry: Path) -> None:
    database = open_database(ferry)
    assert database.read().schema.find_table("lighthouse") is None
    execute(ferry, "CREATE TABLE lighthouse (name TEXT)")
    assert database.read().schema.find_table("lighthouse") is not None
    before = database.read()
    assert database.read() is before
    database.refresh()
    assert database.read() is not before


def test_a_schema_may_be_given() -> None:
    dataset = open_dataset(sample_folder())
    database = open_database(dataset.database_file("clinic"), schema=dataset.schemas["clinic"])
    assert tiny_parser().ask("How many patients are there?", database).schema is dataset.schemas["clinic"]


def test_a_wide_schema_is_read_and_a_wider_one_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = tiny_parser().ask("How many boats are there?", wide(tmp_path / "wide.sqlite", 1990), beam=1)
    assert len(answer.schema.columns) == 1993
    assert answer.sql is not None
    monkeypatch.setattr(opened_module, "MOST_COLUMNS", 20)
    with pytest.raises(SchemaError, match=r"has 35 columns and tables; the limit is 20: .* fewer tables"):
        open_database(wide(tmp_path / "wider.sqlite", 30)).read()


def test_a_locked_file_is_an_error(ferry: Path) -> None:
    with closing(sqlite3.connect(ferry, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SchemaError, match="is locked; another program is writing to it: wait"):
            open_database(ferry).read()


def test_files_that_are_not_databases_are_errors(ferry: Path, tmp_path: Path) -> None:
    corrupt, text, empty = tmp_path / "corrupt.sqlite", tmp_path / "notes.txt", tmp_path / "empty.sqlite"
    content = bytearray(ferry.read_bytes())
    content[100:400] = b"\xff" * 300
    corrupt.write_bytes(content)
    text.write_text("name,age\nRex,3\n" * 100)
    empty.write_bytes(b"")
    for path, message in (
        (tmp_path / "none.sqlite", r"none\.sqlite does not exist; expected a SQLite file, postgresql:"),
        (tmp_path, "is not a file; expected a SQLite file"),
        (corrupt, "malformed; it is damaged: use a copy that is whole"),
        (text, "file is not a database; it is encrypted, damaged or of another kind: expected"),
        (empty, "has no tables or views that can be read; create some"),
    ):
        with pytest.raises(SchemaError, match=message):
            open_database(path).read()


def test_a_file_that_goes_away_is_an_error(ferry: Path) -> None:
    database = open_database(ferry)
    database.read()
    ferry.unlink()
    with pytest.raises(SchemaError, match=r"can no longer be read .* put it back, or name another"):
        database.read()
