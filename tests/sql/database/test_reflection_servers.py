"""Schemas of live servers: their types, namespaces and rights."""

import pytest
from sqlalchemy.engine import make_url

from dtfixup.errors import SchemaError
from dtfixup.sql.database.reflection import inspect_database, reflect
from dtfixup.sql.database.schema import ColumnType
from tests.sql.reflected import foreign_pairs, run_script, table_names, types_of

_, TEXT, NUMBER, TIME, BOOLEAN, OTHERS = ColumnType


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
    run_script(
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
    assert types_of(reflection.schema, "t") == {column: kind for column, (kind, _) in columns.items()}
    assert types_of(reflection.schema, "m") == {"n": NUMBER, "letter": TEXT}
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
    run_script(fresh_mariadb, script)
    reflection = inspect_database(fresh_mariadb)
    assert types_of(reflection.schema, "t") == {column: kind for column, (kind, _) in columns.items()}
    assert types_of(reflection.schema, "v") == {"n": NUMBER, "letter": TEXT}
    assert table_names(reflection.schema) == ["t", "v"]  # and no sequence
    assert reflection.left_out == ()


def test_postgresql_namespaces_partitions_and_extensions(fresh_postgresql: str) -> None:
    run_script(
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
    assert table_names(public.schema) == ["customer", "deal_copy", "meal", "visit"]
    assert types_of(public.schema, "visit") == {"day": TIME, "customer": NUMBER}
    assert foreign_pairs(public.schema) == [("meal.day", "visit.day"), ("visit.customer", "customer.id")]
    assert public.left_out == (
        "'no_columns': it has no columns that can be read",
        "the foreign key (id) of 'deal_copy' points at sales.customer, which is not among the tables read",
    )
    sales = inspect_database(fresh_postgresql, namespace="sales")
    assert [(table.name, table.namespace) for table in sales.schema.tables] == [
        ("customer", "sales"),
        ("deal", "sales"),
    ]
    assert foreign_pairs(sales.schema) == [("customer.parent", "customer.id"), ("deal.mine", "customer.id")]
    assert sales.left_out == (
        "the foreign key (theirs) of 'deal' points at customer, which is not among the tables read",
    )
    with pytest.raises(SchemaError, match=r"namespace 'hr' of .* or ask for another namespace: public, sales"):
        reflect(fresh_postgresql, namespace="hr")
    path = make_url(fresh_postgresql).update_query_dict({"options": "-c search_path=sales"})
    by_search_path = reflect(path.render_as_string(hide_password=False))
    assert table_names(by_search_path) == ["customer", "deal"]
    assert by_search_path.tables[0].namespace is None


def test_tables_that_differ_in_case_only_on_servers(fresh_postgresql: str, fresh_mariadb: str) -> None:
    script = """
        CREATE TABLE "users" (id INTEGER PRIMARY KEY);
        CREATE TABLE "Users" (id INTEGER PRIMARY KEY, other INTEGER, FOREIGN KEY (other) REFERENCES "users" (id))
        """
    for url in (fresh_postgresql, fresh_mariadb):
        run_script(url, script)
        schema = reflect(url)
        assert table_names(schema) == ["Users", "users"]
        assert foreign_pairs(schema) == [("Users.other", "users.id")]


def test_what_a_postgresql_user_may_not_read(fresh_postgresql: str) -> None:
    reader = f"reader_{make_url(fresh_postgresql).database}"
    run_script(
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
        assert table_names(reflection.schema) == ["open", "partly"]
        assert list(types_of(reflection.schema, "partly")) == ["shown", "closed"]
        assert foreign_pairs(reflection.schema) == [("partly.shown", "open.id")]
        assert reflection.left_out == (
            "'closed': the user may not SELECT from it",
            "columns id of 'partly': the user may not SELECT them",
            "the foreign key (closed) of 'partly' points at closed, which is not among the tables read",
            "the primary key of 'partly': its column 'id' is left out",
        )
        with pytest.raises(SchemaError, match="'t': the user may not SELECT from it; create some, or grant SELECT"):
            reflect(url, namespace="vault")
    finally:
        run_script(fresh_postgresql, f"DROP OWNED BY {reader}; DROP ROLE {reader}")


def test_what_a_mariadb_user_may_not_read(fresh_mariadb: str) -> None:
    database = make_url(fresh_mariadb).database
    reader = f"'reader_{database}'@'localhost'"
    run_script(
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
        assert table_names(reflection.schema) == ["open", "partly", "counted"]  # a SELECT-only user may not SHOW VIEW
        assert list(types_of(reflection.schema, "partly")) == ["id", "shown"]
        assert foreign_pairs(reflection.schema) == []  # MariaDB tells foreign keys only to who may read the whole table
        assert sorted(reflection.left_out) == [
            "'broken': it has no columns that can be read",
            "'only_insert': the user may not SELECT from it",
            "columns hidden of 'partly': the user may not SELECT them",
        ]
    finally:
        run_script(fresh_mariadb, f"DROP USER {reader}")


def test_mariadb_namespaces(fresh_mariadb: str) -> None:
    database = str(make_url(fresh_mariadb).database)
    other = database.upper()  # MariaDB itself finds both under either name in its catalogue
    run_script(
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
        assert list(types_of(here.schema, "stock")) == ["id"]
        assert foreign_pairs(here.schema) == []
        assert here.left_out == (
            f"the foreign key (stock) of 'sale' points at '{other}.stock', which is not among the tables read",
        )
        assert [(table.name, table.namespace) for table in there.tables] == [("stock", other)]
        assert list(types_of(there, "stock")) == ["id", "amount"]
        with pytest.raises(SchemaError, match=f"namespace 'nowhere' of .*ask for another namespace: .*{other}"):
            reflect(fresh_mariadb, namespace="nowhere")
    finally:
        run_script(fresh_mariadb, f'DROP TABLE sale; DROP DATABASE "{other}"')


def test_servers_without_tables_say_what_to_do(fresh_postgresql: str, fresh_mariadb: str) -> None:
    for url in (fresh_postgresql, fresh_mariadb):
        with pytest.raises(SchemaError, match="has no tables or views that can be read; create some"):
            reflect(url)
