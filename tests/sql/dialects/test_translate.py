"""Queries in the dialects of servers: what is written, and that the same data gives the same rows."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import sqlglot

from dtfixup.errors import DeadlineError, GuardError, RefusedError, SqlError, TooMuchDataError
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble
from dtfixup.sql.dialects.translate import Translator
from dtfixup.sql.execution.guarded import GuardedConnection, open_guarded
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.grammar.transitions import Masks
from dtfixup.sql.grammar.tree import Literal
from dtfixup.sql.grammar.walks import legal_walk
from dtfixup.sql.grammar.writer import SqlWriter
from tests.sql.asked import tiny_parser
from tests.sql.reflected import run_script
from tests.sql.sample_servers import same_rows, samples_on, sorted_places


def schema() -> Schema:
    """Pets and their keepers."""
    text, number, time, truth = ColumnType.TEXT, ColumnType.NUMBER, ColumnType.TIME, ColumnType.BOOLEAN
    pets = [("id", number), ("name", text), ("kind", text), ("age", number), ("born", time), ("tame", truth)]
    keepers = [("id", number), ("fullName", text), ("since", time)]
    columns = [[(name, name, kind) for name, kind in own] for own in ([*pets, ("keeper", number)], keepers)]
    tables = [Table("pets", "pets"), Table("keepers", "keepers")]
    return assemble("zoo", tables, columns, [("id",), ("id",)], [((0, ("keeper",)), (1, ("id",)))])


def translated(sql: str, dialect: Dialect) -> str:
    pets = schema()
    whole = {index: "int" for index, column in enumerate(pets.columns) if column.name in ("id", "age", "keeper")}
    return Translator(pets, dialect, declared=whole).translate(sql)


_FIXTURE = (Path(__file__).parents[1] / "fixtures" / "translated.txt").read_text(encoding="utf-8")
CASES = [block.splitlines() for block in _FIXTURE.strip().split("\n\n")[1:]]


@pytest.mark.parametrize(("sql", "postgresql", "mariadb"), CASES)
def test_what_is_written(sql: str, postgresql: str, mariadb: str) -> None:
    for dialect, expected in ((Dialect.POSTGRESQL, postgresql), (Dialect.MARIADB, mariadb)):
        assert translated(sql, dialect) == expected
        assert len(sqlglot.parse(expected, read=dialect.value)) == 1


def test_sqlite_keeps_what_was_written() -> None:
    sql = "SELECT name , age FROM pets"
    assert translated(sql, Dialect.SQLITE) is sql


def test_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(SqlError, match="'dogs' is not a table of 'zoo'"):
        translated("SELECT name FROM dogs", Dialect.POSTGRESQL)
    with pytest.raises(SqlError, match="is not a column of 'zoo'"):
        translated("SELECT name, * FROM keepers AS T1", Dialect.POSTGRESQL)
    with pytest.raises(RefusedError, match="nested more than 40 levels"):
        translated(f"SELECT {'(' * 50}name{')' * 50} FROM pets", Dialect.POSTGRESQL)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return open_dataset(sample_folder())


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def databases(dataset: Dataset, request: pytest.FixtureRequest) -> Iterator[dict[str, OpenedDatabase]]:
    with samples_on(request.getfixturevalue(f"{request.param}_url"), dataset) as opened:
        yield opened


def test_every_gold_query_gives_the_same_rows(dataset: Dataset, databases: dict[str, OpenedDatabase]) -> None:
    examples = [*dataset.split("train"), *dataset.split("dev")]
    different, ordered = [], 0
    for name, database in databases.items():
        reading = database.read()
        reader, writer = SqlReader(reading.schema), SqlWriter(reading.schema)
        with open_guarded(database.location) as server, open_guarded(dataset.database_file(name)) as file:
            for example in [example for example in examples if example.database == name]:
                sql = reading.translator.translate(writer.write(reader.read(example.query)))
                expected, found = file.run(example.query), server.run(sql)
                ordered += bool(sorted_places(example.query))
                if not same_rows(example.query, expected, found):
                    different.append((example.query, sql))
    assert different == []
    assert len(examples) == 240
    assert ordered > 15


def test_answers_are_in_the_servers_dialect_and_run(dataset: Dataset, databases: dict[str, OpenedDatabase]) -> None:
    asked = 0
    for name, database in databases.items():
        questions = [example.question for example in dataset.split("train") if example.database == name][:2]
        with open_guarded(database.location, deadline=10) as server:
            for question in questions:
                answer = tiny_parser().ask(question, database, beam=3)
                assert answer.dialect is not Dialect.SQLITE
                for each in answer.alternatives:
                    assert ("`" if answer.dialect is Dialect.MARIADB else '"') in each.sql
                    asked += runs(server, each.sql)
    assert asked


LITERALS = [
    Literal("1", ValueKind.NUMBER),
    Literal("-2.5", ValueKind.NUMBER),
    Literal('O\'Br\\ien "x"', ValueKind.TEXT),
    Literal("yes", ValueKind.TEXT),
    Literal("100%", ValueKind.TEXT),
    Literal("2010-01-31", ValueKind.TIME),
    Literal("2023-02-31", ValueKind.TIME),
    Literal("2023", ValueKind.TIME),
    Literal("007", ValueKind.TEXT),
]
KNOWN = ("integer out of range", "time without time zone")
"""What PostgreSQL stops at, and SQLite does not: docs/reference/dialects.md."""


def runs(connection: GuardedConnection, sql: str) -> bool:
    try:
        connection.run(sql)
    except (DeadlineError, TooMuchDataError):
        return False
    return True


def failure(database: OpenedDatabase, server: GuardedConnection, sql: str) -> str:
    """What a server says to a query that SQLite runs; nothing where it runs, or takes too long."""
    try:
        runs(server, database.read().translator.translate(sql))
    except GuardError as error:
        return str(error)
    return ""


def queries(database: OpenedDatabase, seed: int, count: int) -> Iterator[str]:
    random = np.random.default_rng(seed)
    masks, writer = Masks(database.read().inputs.kinds), SqlWriter(database.read().schema)
    for _ in range(count):
        limit = int(random.integers(8, 28))
        yield writer.write(legal_walk(masks, lambda options: int(random.choice(options)), LITERALS, limit).tree())


def test_whatever_the_grammar_says_runs(dataset: Dataset, databases: dict[str, OpenedDatabase]) -> None:
    said = []
    for place, (name, database) in enumerate(databases.items()):
        with ExitStack() as stack:
            server = stack.enter_context(open_guarded(database.location, deadline=1))
            file = stack.enter_context(open_guarded(dataset.database_file(name), deadline=1))
            said += [(failure(database, server, sql), sql) for sql in queries(database, place, 40) if runs(file, sql)]
    assert len(said) > 200
    assert [(message, sql) for message, sql in said if message and not any(known in message for known in KNOWN)] == []


ODD = (
    'CREATE TABLE "order" ("select" INTEGER PRIMARY KEY, "Two Words" VARCHAR(20), "größe" INTEGER, "b`t" INTEGER)',
    """INSERT INTO "order" VALUES (1, 'it''s', 3, 1), (2, 'IT''S', NULL, 2), (3, 'back\\slash', 5, 3)""",
)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_odd_names_and_literals(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"fresh_{kind}")
    run_script(url, [each.replace("\\", "\\\\") if kind == "mariadb" else each for each in ODD])
    reading = OpenedDatabase(url).read()
    with open_guarded(url) as server:
        for sql, expected in (
            ("""SELECT "select" FROM "order" WHERE "Two Words" LIKE 'it''s' ORDER BY "größe" ASC""", [2, 1]),
            ("""SELECT "select" FROM "order" WHERE "Two Words" = 'back\\slash'""", [3]),
            ("""SELECT "select" FROM "order" WHERE "Two Words" LIKE '%k\\s%'""", [3]),
            ("""SELECT "größe" / 2 FROM "order" WHERE "b`t" IN ('3')""", [2]),
            ("""SELECT "select" FROM "order" ORDER BY "größe" DESC LIMIT 1""", [3]),
        ):
            assert [row[0] for row in server.run(reading.translator.translate(sql)).rows] == expected
