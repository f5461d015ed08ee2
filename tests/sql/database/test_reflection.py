"""Schemas of live databases; the same logical schema is made on SQLite, PostgreSQL and MariaDB."""

import logging
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import make_url

from dtfixup.errors import SchemaError
from dtfixup.sql.database import catalogs
from dtfixup.sql.database.names import Names
from dtfixup.sql.database.reflection import inspect_database, reflect
from dtfixup.sql.database.schema import ColumnType, Schema, quoted, read_tables_json, write_tables_json
from tests.sql.reflected import foreign_pairs, run_script, table_names, types_of

_, TEXT, NUMBER, TIME, BOOLEAN, OTHERS = ColumnType

SHOP = """
CREATE TABLE "order" (
    id INTEGER PRIMARY KEY, "customer name" VARCHAR(40), placed DATE, "select" BOOLEAN, total DECIMAL(8,2),
    twice DECIMAL(9,2) GENERATED ALWAYS AS (total * 2) STORED
);
CREATE TABLE "order line" (
    line INTEGER NOT NULL, "order" INTEGER NOT NULL, "Größe" VARCHAR(10), "quo""te, '`" TEXT, "dot.ted" REAL,
    PRIMARY KEY ("order", line), FOREIGN KEY ("order") REFERENCES "order" (id)
);
CREATE TABLE "Shipment" (
    id INTEGER PRIMARY KEY, parent INTEGER, "order" INTEGER, "line, no" INTEGER, sent TIMESTAMP NULL,
    FOREIGN KEY ("order", "line, no") REFERENCES "order line" ("order", line),
    FOREIGN KEY (parent) REFERENCES "Shipment" (id)
);
CREATE VIEW "big order" AS SELECT id, "customer name", total FROM "order" WHERE total > 100;
"""


def _make(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


@pytest.fixture
def shop(tmp_path: Path) -> Schema:
    return reflect(_make(tmp_path / "shop.sqlite", SHOP))


def test_tables_views_columns_and_keys(shop: Schema) -> None:
    assert shop.database == "shop"
    assert table_names(shop) == ["order", "order line", "Shipment", "big order"]
    assert [table.is_view for table in shop.tables] == [False, False, False, True]
    assert [table.namespace for table in shop.tables] == [None] * 4
    assert types_of(shop, "order") == {
        **{"id": NUMBER, "customer name": TEXT, "placed": TIME, "select": BOOLEAN, "total": NUMBER, "twice": NUMBER},
    }
    assert list(types_of(shop, "order line")) == ["line", "order", "Größe", "quo\"te, '`", "dot.ted"]
    assert types_of(shop, "big order") == {"id": NUMBER, "customer name": TEXT, "total": NUMBER}
    keys = [[shop.columns[column].name for column in key] for key in shop.primary_keys]
    assert keys == [["id"], ["order", "line"], ["id"], []]
    assert foreign_pairs(shop) == [
        ("order line.order", "order.id"),
        ("Shipment.parent", "Shipment.id"),
        ("Shipment.order", "order line.order"),
        ("Shipment.line, no", "order line.line"),
    ]
    assert [len(key.columns) for key in shop.foreign_keys] == [1, 1, 2]
    assert shop.columns[2].natural == "customer name"
    assert shop.tables[2].natural == "shipment"


@pytest.mark.parametrize("server", ["postgresql", "mariadb"])
def test_the_same_schema_on_a_server(shop: Schema, server: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"fresh_{server}")
    run_script(url, SHOP)
    schema = reflect(url)
    assert schema.database == make_url(url).database
    assert replace(schema, database="shop") == shop


def test_a_reflected_schema_survives_the_way_to_tables_json_and_back(shop: Schema, tmp_path: Path) -> None:
    assert read_tables_json(write_tables_json([shop], tmp_path / "tables.json")) == {"shop": shop}


def test_own_names(tmp_path: Path) -> None:
    path = _make(tmp_path / "s.db", "CREATE TABLE emp (no INT, sal INT)")
    schema = reflect(path, names=Names({"sal": "salary"}, {"emp": "person", "emp.no": "badge"}))
    assert [table.natural for table in schema.tables] == ["person"]
    assert [column.natural for column in schema.columns] == ["*", "badge", "salary"]
    with pytest.raises(SchemaError, match=r"'s' has no table or column 'emp\.age'"):
        reflect(path, names=Names(names={"emp.age": "age"}))


def test_foreign_keys_that_cannot_be_followed_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = _make(
        tmp_path / "s.db",
        """
        CREATE TABLE Parent (a INT, b INT, c INT UNIQUE, PRIMARY KEY (b, a));
        CREATE TABLE child (
            x INT REFERENCES missing (id), y INT REFERENCES parent (nowhere), z INT REFERENCES parent, c INT,
            d INT REFERENCES PARENT (C), FOREIGN KEY (x, y) REFERENCES parent, FOREIGN KEY (d) REFERENCES parent (c)
        );
        """,
    )
    reflection = inspect_database(path)
    assert foreign_pairs(reflection.schema) == [
        ("child.x", "Parent.b"),  # no columns named: the primary key, in its own order
        ("child.y", "Parent.a"),
        ("child.d", "Parent.c"),
    ]
    assert sorted(reflection.left_out) == [
        "the foreign key (x) of 'child' points at 'missing', which is not among the tables read",
        "the foreign key (y) of 'child' points at 'parent', where not all of its columns are",
        "the foreign key (z) of 'child' points at 'parent', whose key has another number of columns",
    ]
    with caplog.at_level(logging.WARNING):
        assert reflect(path) == reflection.schema
    assert [record.getMessage() for record in caplog.records] == [
        f"s: left out: {told}" for told in reflection.left_out
    ]


def test_sqlites_own_tables_are_left_out(tmp_path: Path) -> None:
    path = _make(
        tmp_path / "s.db",
        """
        CREATE TABLE singer (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);
        INSERT INTO singer (name) VALUES ('a');
        CREATE VIRTUAL TABLE song USING fts5 (title, lyrics);
        INSERT INTO song VALUES ('x', 'y');
        CREATE TABLE song_list (id INTEGER);
        ANALYZE;
        """,
    )
    schema = reflect(path)
    assert table_names(schema) == ["singer", "song", "song_list"]
    assert types_of(schema, "song") == {"title": TEXT, "lyrics": TEXT}  # without the hidden ones


def test_columns_without_a_type_have_that_of_their_rows(tmp_path: Path) -> None:
    path = _make(
        tmp_path / "s.db",
        """
        CREATE TABLE t (n, s, m, b, none, "odd ""name" WEIRD);
        INSERT INTO t VALUES (1, 'a', 1, x'00', NULL, 2.5), (NULL, NULL, 'N/A', 'a', NULL, 1);
        CREATE VIEW total AS SELECT count(*) AS "how many", s AS letter FROM t GROUP BY s;
        """,
    )
    reflection = inspect_database(path)
    kinds = {"n": NUMBER, "s": TEXT, "m": TEXT, "b": OTHERS, "none": OTHERS, 'odd "name': NUMBER}
    assert types_of(reflection.schema, "t") == kinds
    assert types_of(reflection.schema, "total") == {"how many": NUMBER, "letter": TEXT}
    assert reflection.left_out == ()


def test_a_view_too_slow_or_too_large_to_sample_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "_SQLITE_SAMPLE_STEPS", 100_000)
    path = _make(
        tmp_path / "s.db",
        """
        CREATE VIEW endless AS WITH RECURSIVE r AS (SELECT 1 i UNION ALL SELECT i + 1 FROM r) SELECT max(i) AS m FROM r;
        CREATE VIEW huge AS SELECT hex(zeroblob(400000000)) AS text;
        CREATE VIEW one AS SELECT 1 AS n;
        """,
    )
    reflection = inspect_database(path)
    assert types_of(reflection.schema, "endless") == {"m": OTHERS}
    assert types_of(reflection.schema, "huge") == {"text": OTHERS}
    assert types_of(reflection.schema, "one") == {"n": NUMBER}
    assert reflection.left_out == (
        "the types of m in 'endless', as its rows cannot be read: interrupted",
        "the types of text in 'huge', as its rows cannot be read: string or blob too big",
    )


def test_a_broken_view_costs_itself_alone(tmp_path: Path) -> None:
    path = _make(
        tmp_path / "s.db", "CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM u; CREATE VIEW w AS SELECT a FROM t"
    )
    reflection = inspect_database(path)
    assert table_names(reflection.schema) == ["t", "w"]
    assert reflection.left_out == ("view 'v' cannot be read: no such table: main.u",)


def test_a_column_named_like_the_star_is_told(tmp_path: Path) -> None:
    path = _make(tmp_path / "s.db", 'CREATE TABLE t ("*" INT, a INT, PRIMARY KEY ("*", a)); CREATE TABLE u ("*" INT)')
    reflection = inspect_database(path)
    assert list(types_of(reflection.schema, "t")) == ["a"]
    assert reflection.schema.primary_keys == ((),)
    assert reflection.left_out == (
        "column '*' of 't': no query can tell it from all columns",
        "column '*' of 'u': no query can tell it from all columns",
        "'u': it has no columns that can be read",
        "the primary key of 't': its column '*' is left out",
    )


def test_a_database_without_tables_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(SchemaError, match=r"empty\.db has no tables or views that can be read; create some"):
        reflect(path)
    with pytest.raises(SchemaError, match=r"the namespace 'sales' of .*; .*or ask for another namespace: main"):
        reflect(_make(path, "CREATE TABLE t (a INT)"), namespace="sales")
    assert reflect(path, namespace="main").tables[0].namespace is None


def test_a_schema_of_350_columns(tmp_path: Path) -> None:
    tables = [
        f"CREATE TABLE t{i} ({', '.join(f'c{j} INT' for j in range(50))}, PRIMARY KEY (c0, c1))" for i in range(7)
    ]
    schema = reflect(_make(tmp_path / "s.db", ";".join(tables)))
    assert len(schema.columns) == 357
    assert schema.primary_keys == tuple((1 + 51 * table, 2 + 51 * table) for table in range(7))


_identifiers = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_columns = _identifiers.filter(lambda name: name != "*")
_RESERVED = [
    "select",
    "order",
    "group",
    "table",
    "from",
    "index",
    "*/",
    "--",
    ";",
    '"',
    '""',
    "'",
    "`",
    "[a]",
    "a.b",
    " ",
]


def _ascii_lower(name: str) -> str:
    """How SQLite compares names."""
    return "".join(mark.lower() if mark.isascii() else mark for mark in name)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    table=(_identifiers | st.sampled_from([*_RESERVED, "*"])).filter(
        lambda name: not name.lower().startswith("sqlite_")
    ),
    columns=st.lists(_columns | st.sampled_from(_RESERVED), min_size=1, max_size=5, unique_by=_ascii_lower),
)
def test_any_identifier_survives_on_sqlite(
    tmp_path_factory: pytest.TempPathFactory, table: str, columns: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "names.sqlite"
    path.unlink(missing_ok=True)
    own = ", ".join(f"{quoted(name)} INTEGER" for name in columns)
    key = f"({', '.join(map(quoted, columns))})"
    _make(
        path,
        f"CREATE TABLE {quoted(table)} ({own}, PRIMARY KEY {key}, FOREIGN KEY {key} REFERENCES {quoted(table)} {key})",
    )
    reflection = inspect_database(path)
    schema = reflection.schema
    assert table_names(schema) == [table]
    assert [column.name for column in schema.columns[1:]] == columns
    everything = tuple(range(1, len(columns) + 1))
    assert schema.primary_keys == (everything,)
    assert [(key.columns, key.referred) for key in schema.foreign_keys] == [(everything, everything)]
    assert all(column.natural.strip() for column in schema.columns)
    assert reflection.left_out == ()


_AWKWARD = [
    *("select", "Order", "two words", " leading", "dot.ted", "comma, (paren)", 'dou"ble', "sin'gle", "back`tick"),
    *("semi;colon", "--comment", "/* c */", "100%", "%(x)s", ":colon", "back\\slash", "Größe", "学生", "new\nline"),
    *("\u0130stanbul", "e\u0301", "é", "É", "?", "$1", "{}", "#", "x" * 50),
]


def _check_awkward(url: str, names: list[str]) -> None:
    """Each as the name of a table, of its key, of what a foreign key points at, and of a column of a view."""

    tables = [
        f"CREATE TABLE {own} ({own} INTEGER PRIMARY KEY, parent INTEGER REFERENCES {own} ({own}))"
        for own in map(quoted, names)
    ]
    run_script(url, [*tables, f"CREATE VIEW awkward AS SELECT {', '.join(f'1 AS {quoted(name)}' for name in names)}"])
    schema = reflect(url)
    assert sorted(table_names(schema)) == sorted([*names, "awkward"])
    for index, table in enumerate(schema.tables[:-1]):
        star, key, parent = schema.columns_of[index]
        assert [schema.columns[column].name for column in (star, key, parent)] == ["*", table.name, "parent"]
        assert schema.primary_keys[index] == (key,)
        assert (parent, key) in schema.foreign_pairs
    assert [schema.columns[column].name for column in schema.columns_of[-1][1:]] == names


def test_awkward_identifiers_on_postgresql(fresh_postgresql: str) -> None:
    _check_awkward(fresh_postgresql, _AWKWARD)


def test_awkward_identifiers_on_mariadb(fresh_mariadb: str) -> None:
    refused = (" leading", "e\u0301", "É")  # a view's columns begin with no space, and accents do not tell them apart
    _check_awkward(fresh_mariadb, [name for name in _AWKWARD if name not in refused])


def test_spiders_databases_are_as_tables_json_says(spider_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types and primary keys are left aside: the rebuilt files lack keys that their rows repeat."""
    monkeypatch.setattr("dtfixup.sql.database.reflection.with_implied_keys", lambda schema: schema)
    internal = []
    for name, described in read_tables_json(spider_folder / "tables.json").items():
        reflection = inspect_database(spider_folder / "database" / name / f"{name}.sqlite")
        found = reflection.schema
        assert reflection.left_out == ()
        assert found.database == name
        extra = described.table_index.keys() - found.table_index.keys()
        internal += [(name, table) for table in extra]
        assert found.table_index.keys() <= described.table_index.keys()
        for table, index in found.table_index.items():
            theirs = described.columns_of[described.table_index[table]]
            assert [found.columns[column].name.lower() for column in found.columns_of[index]] == [
                described.columns[column].name.lower() for column in theirs
            ]
        ours = {(source.lower(), target.lower()) for source, target in foreign_pairs(found)}
        assert ours == {(source.lower(), target.lower()) for source, target in foreign_pairs(described)}
    assert sorted(internal) == [(name, "sqlite_sequence") for name in ("soccer_1", "store_1", "world_1")]
