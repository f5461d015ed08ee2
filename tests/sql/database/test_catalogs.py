"""Types: what each database calls them, and what they are here."""

import pytest

from dtfixup.sql.database.catalogs import mysql_type, postgresql_type, sqlite_type
from dtfixup.sql.database.schema import ColumnType

_, TEXT, NUMBER, TIME, BOOLEAN, OTHERS = ColumnType

SQLITE = {
    NUMBER: "INTEGER int BIGINT UNSIGNED-BIG-INT REAL FLOAT DOUBLE NUMERIC(8,2) DECIMAL NUMBER MONEY SERIAL INT2 NUM",
    TEXT: "TEXT VARCHAR(20) NCHAR CLOB varchar2(5) STRING UUID ENUM('a') CHARACTER-VARYING(9) NATIVE-CHARACTER(70)",
    TIME: "DATE DATETIME TIMESTAMP TIME YEAR TIMESTAMP-WITH-TIME-ZONE INTERVAL smalldatetime",
    BOOLEAN: "BOOLEAN bool BIT",
    OTHERS: "BLOB JSON JSONB VARBINARY(4) POINT GEOMETRY XML INTEGER-ARRAY",
    None: "ANY foo BIT(8)",
}


@pytest.mark.parametrize(("kind", "names"), SQLITE.items())
def test_sqlite_types_by_their_declared_words(kind: ColumnType | None, names: str) -> None:
    for name in names.split():
        assert sqlite_type(name.replace("-", " ")) is kind, name


MYSQL = {
    NUMBER: [
        "int int(11)",
        "bigint bigint(20) unsigned",
        "tinyint tinyint(4)",
        "decimal decimal(8,2)",
        "double double",
    ],
    TEXT: ["varchar varchar(9)", "longtext longtext", "enum enum('tinyint(1)')", "set set('a','b')", "uuid uuid"],
    TIME: ["date date", "datetime datetime(6)", "timestamp timestamp", "time time", "year year(4)"],
    BOOLEAN: ["tinyint tinyint(1)", "bit bit(1)"],
    OTHERS: ["blob blob", "json json", "geometry geometry", "bit bit(8)", "varbinary varbinary(4)", "vector vector(3)"],
}


@pytest.mark.parametrize(("kind", "names"), MYSQL.items())
def test_mysql_types(kind: ColumnType, names: list[str]) -> None:
    for name in names:
        short, full = name.split(" ", 1)
        assert mysql_type(short, full) is kind, name


def test_postgresql_types_by_category() -> None:
    assert [postgresql_type(category, "") for category in "BNDTSEIZ"] == [BOOLEAN, NUMBER, TIME, TIME, *[TEXT] * 4]
    assert {postgresql_type(category, "") for category in "AGRUVX"} == {OTHERS}
    assert postgresql_type("U", "uuid") is TEXT
