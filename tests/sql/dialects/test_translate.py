"""Queries in the dialects of servers: what is written, and that the same data gives the same rows."""

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
import sqlglot

from dtfixup.errors import DeadlineError, GuardError, RefusedError, SqlError, TooMuchDataError
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.location import Dialect
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


CASES = [
    ("SELECT name FROM pets", 'SELECT "name" FROM "pets"', "SELECT `name` FROM `pets`"),
    (
        "SELECT T1.name FROM pets AS T1 JOIN keepers AS T2 ON T1.keeper = T2.id",
        'SELECT T1."name" FROM "pets" AS T1 JOIN "keepers" AS T2 ON T1."keeper" = T2."id"',
        "SELECT T1.`name` FROM `pets` AS T1 JOIN `keepers` AS T2 ON T1.`keeper` = T2.`id`",
    ),
    (
        "SELECT T1.name FROM pets AS T1 JOIN keepers AS T2",
        'SELECT T1."name" FROM "pets" AS T1 CROSS JOIN "keepers" AS T2',
        "SELECT T1.`name` FROM `pets` AS T1 CROSS JOIN `keepers` AS T2",
    ),
    (
        "SELECT count(*) FROM (SELECT kind FROM pets GROUP BY kind)",
        'SELECT COUNT(*) FROM (SELECT "kind" FROM "pets" GROUP BY "kind") AS counted',
        "SELECT COUNT(*) FROM (SELECT `kind` FROM `pets` GROUP BY `kind`) AS counted",
    ),
    (
        "SELECT count(*) FROM (SELECT T1.id, T2.id FROM pets AS T1 JOIN keepers AS T2 ON T1.keeper = T2.id)",
        'SELECT COUNT(*) FROM (SELECT T1."id", T2."id" FROM "pets" AS T1 JOIN "keepers" AS T2 ON T1."keeper" = T2."id"'
        ") AS counted",
        "SELECT COUNT(*) FROM (SELECT T1.`id` AS `item_1`, T2.`id` AS `item_2` FROM `pets` AS T1 JOIN `keepers` AS T2 "
        "ON T1.`keeper` = T2.`id`) AS counted",
    ),
    (
        "SELECT name FROM pets WHERE kind LIKE '%at' AND name NOT LIKE 'R\\%'",
        """SELECT "name" FROM "pets" WHERE "kind" ILIKE '%at' AND "name" NOT ILIKE 'R\\\\%'""",
        "SELECT `name` FROM `pets` WHERE `kind` LIKE '%at' AND `name` NOT LIKE 'R\\\\\\\\%'",
    ),
    (
        "SELECT name FROM pets WHERE born LIKE '2023%' AND age LIKE '1%'",
        """SELECT "name" FROM "pets" WHERE CAST("born" AS TEXT) ILIKE '2023%' AND CAST("age" AS TEXT) ILIKE '1%'""",
        "SELECT `name` FROM `pets` WHERE CAST(`born` AS CHAR) LIKE '2023%' AND CAST(`age` AS CHAR) LIKE '1%'",
    ),
    (
        "SELECT age / 2, sum(age) / count(*), age / 2.5 FROM pets GROUP BY age",
        'SELECT "age" / NULLIF(2, 0), TRUNC(SUM("age") / NULLIF(COUNT(*), 0)), "age" / NULLIF(2.5, 0) FROM "pets" '
        'GROUP BY "age"',
        "SELECT (`age` DIV 2), (SUM(`age`) DIV COUNT(*)), CAST(`age` AS DOUBLE) / 2.5 FROM `pets` GROUP BY `age`",
    ),
    (
        "SELECT avg(age), sum(tame), avg(born) FROM pets",
        'SELECT AVG("age"), SUM(CAST("tame" AS INT)), AVG(COALESCE(CAST(SUBSTRING(CAST("born" AS TEXT) FROM '
        "'^\\s*[-+]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][-+]?[0-9]{1,2}(?![0-9]))?') AS DOUBLE PRECISION), CASE WHEN "
        'CAST("born" AS TEXT) IS NOT NULL THEN 0 END)) FROM "pets"',
        "SELECT AVG(CAST(`age` AS DOUBLE)), SUM(`tame`), AVG(CAST(CAST(`born` AS CHAR) AS DOUBLE)) FROM `pets`",
    ),
    (
        "SELECT name FROM pets WHERE tame = 1 OR tame = 'no'",
        'SELECT "name" FROM "pets" WHERE "tame" = TRUE OR "tame" = FALSE',
        "SELECT `name` FROM `pets` WHERE `tame` = 1 OR `tame` = 0",
    ),
    (
        "SELECT name FROM pets WHERE age = 'old' OR age IN ('7', '8.5') OR born < '2023'",
        """SELECT "name" FROM "pets" WHERE CAST("age" AS TEXT) = 'old' OR "age" IN (7, 8.5) OR """
        """CAST("born" AS TEXT) < '2023'""",
        "SELECT `name` FROM `pets` WHERE CAST(`age` AS CHAR) = 'old' OR `age` IN (7, 8.5) OR CAST(`born` AS CHAR) < "
        "'2023'",
    ),
    (
        "SELECT name FROM pets WHERE name IN (SELECT id FROM keepers)",
        'SELECT "name" FROM "pets" WHERE "name" IN (SELECT CAST("id" AS TEXT) FROM "keepers")',
        "SELECT `name` FROM `pets` WHERE `name` IN (SELECT CAST(`id` AS CHAR) FROM `keepers`)",
    ),
    (
        "SELECT name FROM pets ORDER BY age ASC, name DESC LIMIT 3",
        'SELECT "name" FROM "pets" ORDER BY "age" ASC NULLS FIRST, "name" DESC NULLS LAST LIMIT 3',
        "SELECT `name` FROM `pets` ORDER BY `age` ASC, `name` DESC LIMIT 3",
    ),
    (
        "SELECT DISTINCT kind FROM pets ORDER BY age DESC LIMIT 1",
        'SELECT found."kind" FROM (SELECT "kind" AS "kind", "age" AS "key_1" FROM "pets") AS found GROUP BY '
        'found."kind" ORDER BY MAX(found."key_1") DESC NULLS LAST LIMIT 1',
        "SELECT found.`kind` FROM (SELECT `kind` AS `kind`, `age` AS `key_1` FROM `pets`) AS found GROUP BY "
        "found.`kind` ORDER BY MAX(found.`key_1`) DESC LIMIT 1",
    ),
    (
        "SELECT DISTINCT kind FROM pets ORDER BY kind ASC",
        'SELECT DISTINCT "kind" FROM "pets" ORDER BY "kind" ASC NULLS FIRST',
        "SELECT DISTINCT `kind` FROM `pets` ORDER BY `kind` ASC",
    ),
    (
        "SELECT T2.fullName, count(*) FROM pets AS T1 JOIN keepers AS T2 ON T1.keeper = T2.id GROUP BY T2.id "
        "ORDER BY count(*) DESC",
        'SELECT T2."fullName", COUNT(*) FROM "pets" AS T1 JOIN "keepers" AS T2 ON T1."keeper" = T2."id" '
        'GROUP BY T2."id" ORDER BY COUNT(*) DESC',
        "SELECT T2.`fullName`, COUNT(*) FROM `pets` AS T1 JOIN `keepers` AS T2 ON T1.`keeper` = T2.`id` "
        "GROUP BY T2.`id` ORDER BY COUNT(*) DESC",
    ),
    (
        "SELECT name, count(*) FROM pets GROUP BY kind HAVING age > 3 ORDER BY tame ASC",
        'SELECT MIN("name") AS "name", COUNT(*) FROM "pets" GROUP BY "kind" HAVING MIN("age") > 3 '
        'ORDER BY MIN(CAST("tame" AS INT)) ASC NULLS FIRST',
        "SELECT MIN(`name`) AS `name`, COUNT(*) FROM `pets` GROUP BY `kind` HAVING MIN(`age`) > 3 "
        "ORDER BY MIN(`tame`) ASC",
    ),
    (
        "SELECT name, max(age) FROM pets GROUP BY kind",
        'SELECT MAX(CASE WHEN ranked."place" = 1 THEN ranked."name" END) AS "name", MAX(ranked."age") FROM (SELECT '
        '"name" AS "name", "age" AS "age", "kind" AS "kind", ROW_NUMBER() OVER (PARTITION BY "kind" ORDER BY "age" IS '
        'NULL ASC, "age" DESC) AS "place" FROM "pets") AS ranked GROUP BY ranked."kind"',
        "SELECT MAX(CASE WHEN ranked.`place` = 1 THEN ranked.`name` END) AS `name`, MAX(ranked.`age`) FROM (SELECT "
        "`name` AS `name`, `age` AS `age`, `kind` AS `kind`, ROW_NUMBER() OVER (PARTITION BY `kind` ORDER BY `age` IS "
        "NULL ASC, `age` DESC) AS `place` FROM `pets`) AS ranked GROUP BY ranked.`kind`",
    ),
    (
        "SELECT name FROM pets WHERE age > (SELECT age FROM pets) AND keeper IN (SELECT id FROM keepers LIMIT 2)",
        'SELECT "name" FROM "pets" WHERE "age" > (SELECT "age" FROM "pets" LIMIT 1) AND "keeper" IN (SELECT "id" FROM '
        '"keepers" LIMIT 2)',
        "SELECT `name` FROM `pets` WHERE `age` > (SELECT `age` FROM `pets` LIMIT 1) AND `keeper` IN (SELECT * FROM "
        "(SELECT `id` FROM `keepers` LIMIT 2) AS first_ones)",
    ),
    (
        "SELECT name FROM pets WHERE age > (SELECT avg(age) FROM pets)",
        'SELECT "name" FROM "pets" WHERE "age" > (SELECT AVG("age") FROM "pets")',
        "SELECT `name` FROM `pets` WHERE `age` > (SELECT AVG(CAST(`age` AS DOUBLE)) FROM `pets`)",
    ),
    (
        "SELECT name FROM pets UNION SELECT id FROM keepers INTERSECT SELECT kind FROM pets",
        '(SELECT "name" FROM "pets" UNION SELECT CAST("id" AS TEXT) FROM "keepers") INTERSECT SELECT "kind" '
        'FROM "pets"',
        "SELECT `item_1` AS `name` FROM (SELECT `name` AS `item_1` FROM `pets` UNION SELECT `id` FROM `keepers`) AS "
        "sides INTERSECT SELECT `kind` FROM `pets`",
    ),
    (
        "SELECT name FROM pets WHERE tame IN ('yes', 'other', 2) OR age IN (7, 'old')",
        'SELECT "name" FROM "pets" WHERE "tame" IN (TRUE) OR "age" IN (7)',
        "SELECT `name` FROM `pets` WHERE `tame` IN (1, 2) OR `age` IN (7)",
    ),
    ("SELECT name, * FROM keepers AS T1", None, None),
    (
        "SELECT name, * FROM pets",
        'SELECT "name", * FROM "pets"',
        "SELECT `name`, `id`, `name`, `kind`, `age`, `born`, `tame`, `keeper` FROM `pets`",
    ),
]


@pytest.mark.parametrize(("sql", "postgresql", "mariadb"), CASES)
def test_what_is_written(sql: str, postgresql: str | None, mariadb: str | None) -> None:
    for dialect, expected in ((Dialect.POSTGRESQL, postgresql), (Dialect.MARIADB, mariadb)):
        if expected is None:
            with pytest.raises(SqlError, match="is not a column of 'zoo'"):
                translated(sql, dialect)
        else:
            assert translated(sql, dialect) == expected
            assert len(sqlglot.parse(expected, read=dialect.value)) == 1


def test_sqlite_keeps_what_was_written() -> None:
    sql = "SELECT name , age FROM pets"
    assert translated(sql, Dialect.SQLITE) is sql


def test_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(SqlError, match="'dogs' is not a table of 'zoo'"):
        translated("SELECT name FROM dogs", Dialect.POSTGRESQL)
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
