"""Schemas of live databases; the same logical schema is made on SQLite, PostgreSQL and MariaDB."""

import logging
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from dtfixup.errors import SchemaError
from dtfixup.sql import catalogs
from dtfixup.sql.names import Names
from dtfixup.sql.reflection import inspect_database, reflect
from dtfixup.sql.schema import ColumnType, Schema, read_tables_json, write_tables_json

NUMBER, TEXT, TIME, BOOLEAN, OTHERS = (
    ColumnType.NUMBER,
    ColumnType.TEXT,
    ColumnType.TIME,
    ColumnType.BOOLEAN,
    ColumnType.OTHERS,
)

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


def _run(url: str, script: str | Iterable[str]) -> None:
    """Statements in standard SQL, one after the other; MariaDB is told to read quotes as the standard does."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        if engine.dialect.name == "mysql":
            connection.exec_driver_sql("SET sql_mode = 'ANSI_QUOTES'")
        for statement in script.split(";") if isinstance(script, str) else script:
            if statement.strip():
                connection.execute(text(statement.replace(":", "\\:")))
    engine.dispose()


def _types(schema: Schema, table: str) -> dict[str, ColumnType]:
    index = schema.find_table(table)
    assert index is not None
    return {schema.columns[column].name: schema.columns[column].type for column in schema.columns_of[index][1:]}


def _names(schema: Schema) -> list[str]:
    return [table.name for table in schema.tables]


def _pairs(schema: Schema) -> list[tuple[str, str]]:
    return [(schema.qualified(source), schema.qualified(target)) for source, target in schema.foreign_pairs]


@pytest.fixture
def shop(tmp_path: Path) -> Schema:
    return reflect(_make(tmp_path / "shop.sqlite", SHOP))


def test_tables_views_columns_and_keys(shop: Schema) -> None:
    assert shop.database == "shop"
    assert _names(shop) == ["order", "order line", "Shipment", "big order"]
    assert [table.is_view for table in shop.tables] == [False, False, False, True]
    assert [table.namespace for table in shop.tables] == [None] * 4
    assert _types(shop, "order") == {
        **{"id": NUMBER, "customer name": TEXT, "placed": TIME, "select": BOOLEAN, "total": NUMBER, "twice": NUMBER},
    }
    assert list(_types(shop, "order line")) == ["line", "order", "Größe", "quo\"te, '`", "dot.ted"]
    assert _types(shop, "big order") == {"id": NUMBER, "customer name": TEXT, "total": NUMBER}
    keys = [[shop.columns[column].name for column in key] for key in shop.primary_keys]
    assert keys == [["id"], ["order", "line"], ["id"], []]
    assert _pairs(shop) == [
        ("order line.order", "order.id"),
        ("Shipment.parent", "Shipment.id"),
        ("Shipment.order", "order line.order"),
        ("Shipment.line, no", "order line.line"),
    ]
    assert [len(key.columns) for key in shop.foreign_keys] == [1, 1, 2]
    assert shop.columns[2].natural == "customer name"
    assert shop.tables[2].natural == "shipment"


def test_the_same_schema_on_postgresql(shop: Schema, fresh_postgresql: str) -> None:
    _run(fresh_postgresql, SHOP)
    schema = reflect(fresh_postgresql)
    assert schema.database == make_url(fresh_postgresql).database
    assert replace(schema, database="shop") == shop


def test_the_same_schema_on_mariadb(shop: Schema, fresh_mariadb: str) -> None:
    _run(fresh_mariadb, SHOP)
    schema = reflect(fresh_mariadb)
    assert schema.database == make_url(fresh_mariadb).database
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
    assert _pairs(reflection.schema) == [
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
    assert _names(schema) == ["singer", "song", "song_list"]
    assert _types(schema, "song") == {"title": TEXT, "lyrics": TEXT}  # without the hidden ones


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
    assert _types(reflection.schema, "t") == kinds
    assert _types(reflection.schema, "total") == {"how many": NUMBER, "letter": TEXT}
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
    assert _types(reflection.schema, "endless") == {"m": OTHERS}
    assert _types(reflection.schema, "huge") == {"text": OTHERS}
    assert _types(reflection.schema, "one") == {"n": NUMBER}
    assert reflection.left_out == (
        "the types of m in 'endless', as its rows cannot be read: interrupted",
        "the types of text in 'huge', as its rows cannot be read: string or blob too big",
    )


def test_a_broken_view_costs_itself_alone(tmp_path: Path) -> None:
    path = _make(
        tmp_path / "s.db", "CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM u; CREATE VIEW w AS SELECT a FROM t"
    )
    reflection = inspect_database(path)
    assert _names(reflection.schema) == ["t", "w"]
    assert reflection.left_out == ("view 'v' cannot be read: no such table: main.u",)


def test_a_column_named_like_the_star_is_told(tmp_path: Path) -> None:
    path = _make(tmp_path / "s.db", 'CREATE TABLE t ("*" INT, a INT, PRIMARY KEY ("*", a)); CREATE TABLE u ("*" INT)')
    reflection = inspect_database(path)
    assert list(_types(reflection.schema, "t")) == ["a"]
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
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

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
    assert _names(schema) == [table]
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

    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    tables = [
        f"CREATE TABLE {own} ({own} INTEGER PRIMARY KEY, parent INTEGER REFERENCES {own} ({own}))"
        for own in map(quoted, names)
    ]
    _run(url, [*tables, f"CREATE VIEW awkward AS SELECT {', '.join(f'1 AS {quoted(name)}' for name in names)}"])
    schema = reflect(url)
    assert sorted(_names(schema)) == sorted([*names, "awkward"])
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


def test_postgresql_types(fresh_postgresql: str) -> None:
    kinds = {
        NUMBER: "smallint integer bigint numeric(8,2) real double-precision money oid positive serial",
        TEXT: 'text varchar(9) char(3) uuid mood "char" name inet cidr macaddr colour badge',
        TIME: "date time timestamp timestamptz interval timetz day",
        BOOLEAN: "boolean",
        OTHERS: "json jsonb bytea integer[] mood[] point xml tsvector int4range bit(3) pair",
    }
    columns = {f"{kind}_{place}": (kind, name) for kind in kinds for place, name in enumerate(kinds[kind].split())}
    own = ", ".join(f"{column} {name.replace('-', ' ')}" for column, (_, name) in columns.items())
    _run(
        fresh_postgresql,
        f"""
        CREATE TYPE mood AS ENUM ('glad', 'sad');
        CREATE TYPE pair AS (a int, b int);
        CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
        CREATE DOMAIN colour AS text;
        CREATE DOMAIN badge AS uuid;
        CREATE DOMAIN day AS date;
        CREATE TABLE t ({own});
        CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n, 'a' AS letter FROM t
        """,
    )
    reflection = inspect_database(fresh_postgresql)
    assert _types(reflection.schema, "t") == {column: kind for column, (kind, _) in columns.items()}
    assert _types(reflection.schema, "m") == {"n": NUMBER, "letter": TEXT}
    assert [table.is_view for table in reflection.schema.tables] == [False, True]
    assert reflection.left_out == ()


def test_mariadb_types(fresh_mariadb: str) -> None:
    kinds = {
        NUMBER: "tinyint smallint int-unsigned bigint decimal(8,2) float double",
        TEXT: "varchar(9) char(3) text longtext enum('a','b') set('a','b') uuid inet6 json",
        TIME: "date time datetime(6) timestamp-null year",
        BOOLEAN: "boolean tinyint(1) bit(1)",
        OTHERS: "blob varbinary(9) point bit(8)",
    }
    columns = {f"{kind}_{place}": (kind, name) for kind in kinds for place, name in enumerate(kinds[kind].split())}
    own = ", ".join(f"{column} {name.replace('-', ' ')}" for column, (_, name) in columns.items())
    script = f"CREATE TABLE t ({own}); CREATE SEQUENCE s; CREATE VIEW v AS SELECT count(*) AS n, 'a' AS letter FROM t"
    _run(fresh_mariadb, script)
    reflection = inspect_database(fresh_mariadb)
    assert _types(reflection.schema, "t") == {column: kind for column, (kind, _) in columns.items()}
    assert _types(reflection.schema, "v") == {"n": NUMBER, "letter": TEXT}
    assert _names(reflection.schema) == ["t", "v"]  # and no sequence
    assert reflection.left_out == ()


def test_postgresql_namespaces_partitions_and_extensions(fresh_postgresql: str) -> None:
    _run(
        fresh_postgresql,
        """
        CREATE EXTENSION pg_stat_statements;
        CREATE TABLE customer (id int PRIMARY KEY);
        CREATE TABLE visit (day date PRIMARY KEY, gone int, customer int REFERENCES customer) PARTITION BY RANGE (day);
        CREATE TABLE visit_2024 PARTITION OF visit FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
        ALTER TABLE visit DROP COLUMN gone;
        CREATE TABLE meal (day date REFERENCES visit);
        CREATE TABLE no_columns ();
        CREATE SCHEMA sales;
        CREATE TABLE sales.customer (id int PRIMARY KEY, parent int REFERENCES sales.customer);
        CREATE TABLE sales.deal (mine int REFERENCES sales.customer, theirs int REFERENCES public.customer);
        CREATE TABLE deal_copy (id int REFERENCES sales.customer);
        CREATE TEMPORARY TABLE passing (a int)
        """,
    )
    public = inspect_database(fresh_postgresql)
    assert _names(public.schema) == ["customer", "deal_copy", "meal", "visit"]
    assert _types(public.schema, "visit") == {"day": TIME, "customer": NUMBER}
    assert _pairs(public.schema) == [("meal.day", "visit.day"), ("visit.customer", "customer.id")]
    assert public.left_out == (
        "'no_columns': it has no columns that can be read",
        "the foreign key (id) of 'deal_copy' points at sales.customer, which is not among the tables read",
    )
    sales = inspect_database(fresh_postgresql, namespace="sales")
    assert [(table.name, table.namespace) for table in sales.schema.tables] == [
        ("customer", "sales"),
        ("deal", "sales"),
    ]
    assert _pairs(sales.schema) == [("customer.parent", "customer.id"), ("deal.mine", "customer.id")]
    assert sales.left_out == (
        "the foreign key (theirs) of 'deal' points at customer, which is not among the tables read",
    )
    with pytest.raises(SchemaError, match=r"namespace 'hr' of .* or ask for another namespace: public, sales"):
        reflect(fresh_postgresql, namespace="hr")
    path = make_url(fresh_postgresql).update_query_dict({"options": "-c search_path=sales"})
    by_search_path = reflect(path.render_as_string(hide_password=False))
    assert _names(by_search_path) == ["customer", "deal"]
    assert by_search_path.tables[0].namespace is None


def test_tables_that_differ_in_case_only_on_servers(fresh_postgresql: str, fresh_mariadb: str) -> None:
    script = """
        CREATE TABLE "users" (id INTEGER PRIMARY KEY);
        CREATE TABLE "Users" (id INTEGER PRIMARY KEY, other INTEGER, FOREIGN KEY (other) REFERENCES "users" (id))
        """
    for url in (fresh_postgresql, fresh_mariadb):
        _run(url, script)
        schema = reflect(url)
        assert _names(schema) == ["Users", "users"]
        assert _pairs(schema) == [("Users.other", "users.id")]


def test_what_a_postgresql_user_may_not_read(fresh_postgresql: str) -> None:
    reader = f"reader_{make_url(fresh_postgresql).database}"
    _run(
        fresh_postgresql,
        f"""
        CREATE ROLE {reader} LOGIN PASSWORD 'reading';
        CREATE TABLE open (id int PRIMARY KEY, shown text, hidden text);
        CREATE TABLE closed (id int PRIMARY KEY, open int REFERENCES open);
        CREATE TABLE partly (id int PRIMARY KEY, shown int REFERENCES open, closed int REFERENCES closed);
        CREATE SCHEMA vault;
        CREATE TABLE vault.t (id int);
        GRANT SELECT ON open, vault.t TO {reader};
        GRANT SELECT (shown, closed) ON partly TO {reader}
        """,
    )
    url = make_url(fresh_postgresql).set(username=reader, password="reading").render_as_string(hide_password=False)
    try:
        reflection = inspect_database(url)
        assert _names(reflection.schema) == ["open", "partly"]
        assert list(_types(reflection.schema, "partly")) == ["shown", "closed"]
        assert _pairs(reflection.schema) == [("partly.shown", "open.id")]
        assert reflection.left_out == (
            "'closed': the user may not SELECT from it",
            "columns id of 'partly': the user may not SELECT them",
            "the foreign key (closed) of 'partly' points at closed, which is not among the tables read",
            "the primary key of 'partly': its column 'id' is left out",
        )
        with pytest.raises(SchemaError, match="'t': the user may not SELECT from it; create some, or grant SELECT"):
            reflect(url, namespace="vault")
    finally:
        _run(fresh_postgresql, f"DROP OWNED BY {reader}; DROP ROLE {reader}")


def test_what_a_mariadb_user_may_not_read(fresh_mariadb: str) -> None:
    database = make_url(fresh_mariadb).database
    reader = f"'reader_{database}'@'localhost'"
    _run(
        fresh_mariadb,
        f"""
        CREATE TABLE open (id int PRIMARY KEY);
        CREATE TABLE closed (id int PRIMARY KEY);
        CREATE TABLE only_insert (id int);
        CREATE TABLE partly (id int PRIMARY KEY, shown int, hidden int, FOREIGN KEY (shown) REFERENCES open (id));
        CREATE VIEW counted AS SELECT count(*) AS n FROM closed;
        CREATE TABLE dropped (a int);
        CREATE VIEW broken AS SELECT a FROM dropped;
        DROP TABLE dropped;
        CREATE USER {reader} IDENTIFIED BY 'reading';
        GRANT SELECT ON open TO {reader};
        GRANT SELECT ON counted TO {reader};
        GRANT SELECT ON broken TO {reader};
        GRANT INSERT ON only_insert TO {reader};
        GRANT SELECT (id, shown), INSERT (hidden) ON partly TO {reader}
        """,
    )
    url = make_url(fresh_mariadb).set(username=f"reader_{database}", password="reading")
    try:
        reflection = inspect_database(url.render_as_string(hide_password=False))
        assert _names(reflection.schema) == ["open", "partly", "counted"]  # a SELECT-only user may not SHOW VIEW
        assert list(_types(reflection.schema, "partly")) == ["id", "shown"]
        assert _pairs(reflection.schema) == []  # MariaDB tells foreign keys only to who may read the whole table
        assert sorted(reflection.left_out) == [
            "'broken': it has no columns that can be read",
            "'only_insert': the user may not SELECT from it",
            "columns hidden of 'partly': the user may not SELECT them",
        ]
    finally:
        _run(fresh_mariadb, f"DROP USER {reader}")


def test_mariadb_namespaces(fresh_mariadb: str) -> None:
    database = str(make_url(fresh_mariadb).database)
    other = database.upper()  # MariaDB itself finds both under either name in its catalogue
    _run(
        fresh_mariadb,
        f"""
        CREATE DATABASE "{other}";
        CREATE TABLE "{other}".stock (id int PRIMARY KEY, amount int) WITH SYSTEM VERSIONING;
        CREATE TABLE stock (id int PRIMARY KEY);
        CREATE TABLE sale (stock int, FOREIGN KEY (stock) REFERENCES "{other}".stock (id))
        """,
    )
    try:
        here, there = inspect_database(fresh_mariadb), reflect(fresh_mariadb, namespace=other)
        assert [table.namespace for table in here.schema.tables] == [None, None]
        assert list(_types(here.schema, "stock")) == ["id"]
        assert _pairs(here.schema) == []
        assert here.left_out == (
            f"the foreign key (stock) of 'sale' points at '{other}.stock', which is not among the tables read",
        )
        assert [(table.name, table.namespace) for table in there.tables] == [("stock", other)]
        assert list(_types(there, "stock")) == ["id", "amount"]
        with pytest.raises(SchemaError, match=f"namespace 'nowhere' of .*ask for another namespace: .*{other}"):
            reflect(fresh_mariadb, namespace="nowhere")
    finally:
        _run(fresh_mariadb, f'DROP TABLE sale; DROP DATABASE "{other}"')


def test_servers_without_tables_say_what_to_do(fresh_postgresql: str, fresh_mariadb: str) -> None:
    for url in (fresh_postgresql, fresh_mariadb):
        with pytest.raises(SchemaError, match="has no tables or views that can be read; create some"):
            reflect(url)


def test_spiders_databases_are_as_tables_json_says(spider_folder: Path) -> None:
    """Types and primary keys are left aside: the rebuilt files lack keys that their rows repeat."""
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
        ours = {(source.lower(), target.lower()) for source, target in _pairs(found)}
        assert ours == {(source.lower(), target.lower()) for source, target in _pairs(described)}
    assert sorted(internal) == [(name, "sqlite_sequence") for name in ("soccer_1", "store_1", "world_1")]
