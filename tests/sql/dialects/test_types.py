"""Values of every type give the same rows on servers as in SQLite."""

from collections.abc import Iterator

import pytest

from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.dialects.translate import Translator
from dtfixup.sql.execution.guarded import GuardedConnection, open_guarded
from tests.sql.reflected import run_script
from tests.sql.sample_servers import Both, alike_rows
from tests.sql.servers import fresh_database


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (age / 2) / 2 FROM pets",
        "SELECT age / 2 / 2 FROM pets",
        "SELECT age / (age / 3) FROM pets",
        "SELECT (age / 2) * (age / 4) - age FROM pets",
        "SELECT (age / 2.0) / 2 FROM pets",
        "SELECT id FROM pets WHERE (age / 2) / 2 = 1",
        "SELECT (sum(age) / 2) / 2 FROM pets",
        "SELECT sum(age) / (sum(id) / 2) FROM pets",
        "SELECT kind, (max(age) - min(age)) / 3 / 2 FROM pets GROUP BY kind",
        "SELECT avg((age / 2) / 2), sum(age / 2) / 2 FROM pets",
    ],
)
def test_quotients_within_quotients(sql: str, farm: Both) -> None:
    """Ages are 7, 9, 3, -9 and unknown: whole quotients differ from others at every level."""
    farm.compare(sql)


def test_sums_of_text_take_numbers_with_exponents(farm: Both) -> None:
    farm.compare("SELECT id, sum(said) FROM pets WHERE id < 5 GROUP BY id")
    [row] = farm.server.run(farm.translator.translate("SELECT sum(said) FROM pets WHERE id = 5")).rows
    assert row[0] > 100, "an exponent too large for any number is no error"


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("tame IN ('yes', 'other')", [1, 3]),
        ("tame NOT IN ('yes', 'other')", [2, 5]),
        ("tame IN ('other', 'word')", []),
        ("tame NOT IN ('other', 'word')", [1, 2, 3, 5]),
        ("tame = 'other'", []),
        ("tame != 'other'", [1, 2, 3, 5]),
        ("age IN ('7', 'old')", [1]),
        ("age NOT IN (7, 'old')", [2, 3, 5]),
    ],
)
def test_words_that_no_value_equals(condition: str, ids: list[int], farm: Both) -> None:
    sql = farm.translator.translate(f"SELECT id FROM pets WHERE {condition}")
    assert sorted(row[0] for row in farm.server.run(sql).rows) == ids


ODD_TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE TYPE weather AS ENUM ('happy', 'wet')",
    "CREATE DOMAIN temper AS mood",
    "CREATE TABLE pets (id INTEGER PRIMARY KEY, name TEXT, m mood, t temper, w weather, u UUID, a INET, price MONEY, "
    'mac MACADDR, code "char", whole NUMERIC(5, 2))',
    """INSERT INTO pets VALUES
    (1, 'happy', 'happy', 'sad', 'happy', '00000000-0000-0000-0000-000000000001', '10.0.0.1', 4, NULL, 'a', 7),
    (2, 'x', 'sad', 'sad', 'wet', '00000000-0000-0000-0000-000000000002', '10.0.0.2', 10.5, '08:00:2b:01:02:03', 'b',
    NULL), (3, NULL, NULL, NULL, NULL, NULL, '10.0.0.0/8', NULL, NULL, NULL, NULL)""",
)


@pytest.fixture(scope="module")
def odd_types(postgresql_url: str) -> Iterator[tuple[Translator, GuardedConnection]]:
    with fresh_database(postgresql_url) as url:
        run_script(url, ODD_TYPES)
        with open_guarded(url) as server:
            yield OpenedDatabase(url).read().translator, server


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT id FROM pets WHERE m LIKE '%A%'", [1, 2]),
        ("SELECT id FROM pets WHERE m = 'happy'", [1]),
        ("SELECT id FROM pets WHERE m != 'furious'", [1, 2]),
        ("SELECT id FROM pets WHERE m IN ('sad', 'furious') OR t = 'furious'", [2]),
        ("SELECT id FROM pets WHERE m = name", [1]),
        ("SELECT id FROM pets WHERE m = w", [1]),
        ("SELECT id FROM pets WHERE m = t", [2]),
        ("SELECT id FROM pets WHERE u = 'abc'", []),
        ("SELECT id FROM pets WHERE u LIKE '%1'", [1]),
        ("SELECT T1.id FROM pets AS T1 JOIN pets AS T2 ON T1.u = T2.u", [1, 2]),
        ("SELECT id FROM pets WHERE u IN (SELECT max(u) FROM pets)", [2]),
        ("SELECT id FROM pets WHERE a LIKE '10.0.0._'", [1, 2]),
        ("SELECT id FROM pets WHERE a = '10.0.0.2' OR a = 'nowhere'", [2]),
        ("SELECT id FROM pets WHERE mac LIKE '08:%' OR code = 'abc'", [2]),
        ("SELECT id FROM pets WHERE price > 5", [2]),
        ("SELECT id FROM pets WHERE price BETWEEN 4 AND 5 OR price = '10.5'", [1, 2]),
        ("SELECT id FROM pets WHERE price < whole OR price > id * 3", [1, 2]),
        ("SELECT id FROM pets GROUP BY id HAVING max(a) = '10.0.0.2'", [2]),
        ("SELECT max(u) FROM pets", ["00000000-0000-0000-0000-000000000002"]),
        ("SELECT min(m) FROM pets", ["happy"]),
        ("SELECT max(a) FROM pets WHERE id < 3", ["10.0.0.2"]),
        ("SELECT a, max(id) FROM pets WHERE id < 3", ["10.0.0.2"]),
        ("SELECT avg(price) FROM pets", [7.25]),
        ("SELECT sum(price + 1) / 2 FROM pets", [8.25]),
        ("SELECT price, max(id) FROM pets WHERE id < 3 GROUP BY m ORDER BY max(price) ASC", [4.0, 10.5]),
        ("SELECT DISTINCT m FROM pets WHERE id < 3 ORDER BY u DESC", ["sad", "happy"]),
        ("SELECT m FROM pets WHERE id < 3 UNION SELECT name FROM pets WHERE id < 3", ["happy", "sad", "x"]),
        ("SELECT m FROM pets WHERE id = 1 UNION SELECT w FROM pets WHERE id = 2", ["happy", "wet"]),
        ("SELECT price FROM pets WHERE id = 1 UNION SELECT id FROM pets WHERE id = 1", [1.0, 4.0]),
    ],
)
def test_types_that_only_postgresql_has(
    sql: str, rows: list[object], odd_types: tuple[Translator, GuardedConnection]
) -> None:
    translator, server = odd_types
    found = server.run(translator.translate(sql)).rows
    values = [alike_rows([row], is_ordered=True)[0][0] for row in found]
    assert (values if "ORDER" in sql else sorted(values, key=repr)) == rows
