"""Schemas from `tables.json`: what is read, what is refused and with which words, and the way back."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import DataError, SchemaError
from dtfixup.sql.database.schema import (
    Column,
    ColumnType,
    ForeignKey,
    Schema,
    Table,
    assemble,
    read_tables_json,
    tables_row,
    write_tables_json,
)


def _row() -> dict[str, Any]:
    """Two tables; the columns of the second come first in the file."""
    return {
        "db_id": "concerts",
        "table_names": ["singer", "concert"],
        "table_names_original": ["Singer", "Concert"],
        "column_names": [[-1, "*"], [1, "singer id"], [0, "singer id"], [0, "name"], [1, "year"]],
        "column_names_original": [[-1, "*"], [1, "Singer_ID"], [0, "ID"], [0, "Name"], [1, "Year"]],
        "column_types": ["text", "number", "number", "text", "time"],
        "primary_keys": [2],
        "foreign_keys": [[1, 2]],
    }


def _write(folder: Path, rows: Any) -> Path:
    path = folder / "tables.json"
    path.write_text(json.dumps(rows))
    return path


def test_columns_stand_table_by_table_behind_their_star(tmp_path: Path) -> None:
    schema = read_tables_json(_write(tmp_path, [_row()]))["concerts"]
    assert [schema.qualified(index) for index in range(len(schema.columns))] == [
        *("Singer.*", "Singer.ID", "Singer.Name"),
        *("Concert.*", "Concert.Singer_ID", "Concert.Year"),
    ]
    assert schema.columns_of == ((0, 1, 2), (3, 4, 5))
    assert schema.stars == (0, 3)
    assert [schema.is_star(index) for index in range(6)] == [True, False, False, True, False, False]
    assert schema.columns[5] == Column(1, "Year", "year", ColumnType.TIME)
    assert schema.columns[1].natural == "singer id"
    assert schema.primary_keys == ((1,), ())
    assert schema.foreign_keys == (ForeignKey((4,), (1,)),)
    assert schema.table_index == {"singer": 0, "concert": 1}
    assert schema.column_index[1, "singer_id"] == 4


def _set(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda row: row.update({key: value})


def _put(key: str, index: int, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda row: row[key].__setitem__(index, value)


def _drop(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda row: row.pop(key)


def _both(*changes: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    return lambda row: [change(row) for change in changes] and None


def _without_columns(row: dict[str, Any]) -> None:
    row.update(column_names=[[-1, "*"], [0, "id"]], column_names_original=[[-1, "*"], [0, "ID"]])
    row.update(column_types=["text", "number"], primary_keys=[], foreign_keys=[])


MALFORMED = {
    "key missing": (_drop("column_types"), "key 'column_types' is missing"),
    "db_id not text": (_set("db_id", 7), "key 'db_id': expected a name, got 7"),
    "db_id blank": (_set("db_id", " "), "key 'db_id': expected a name"),
    "not a list": (_set("table_names", "singer"), "key 'table_names': expected a list, got str"),
    "no tables": (_both(_set("table_names", []), _set("table_names_original", [])), "there are no tables"),
    "table not text": (_put("table_names_original", 1, 5), "key 'table_names_original' 1: expected a name, got 5"),
    "natural table blank": (_put("table_names", 0, ""), "key 'table_names' 0: expected a name, got ''"),
    "table twice": (_put("table_names_original", 1, "Singer"), "'table_names_original': 'Singer' occurs twice"),
    "tables of two lengths": (_set("table_names", ["singer"]), "table_names and table_names_original differ in length"),
    "columns of two lengths": (_set("column_types", ["text"]), "column_types differ in length"),
    "column not a pair": (_put("column_names_original", 3, "Name"), "'column_names_original' 3: expected a pair"),
    "column a triple": (_put("column_names_original", 3, [0, "a", "b"]), "'column_names_original' 3: expected a pair"),
    "column the wrong way round": (_put("column_names", 3, ["name", 0]), "key 'column_names' 3: expected a pair"),
    "table index a boolean": (_put("column_names_original", 4, [True, "Year"]), "4: expected a pair"),
    "natural column blank": (_put("column_names", 3, [0, " "]), "key 'column_names' 3: expected a name"),
    "table does not exist": (
        _both(_put("column_names_original", 4, [2, "Year"]), _put("column_names", 4, [2, "year"])),
        "key 'column_names_original' 4: table 2 does not exist",
    ),
    "column of no table": (
        _both(_put("column_names_original", 4, [-1, "Year"]), _put("column_names", 4, [-1, "year"])),
        "key 'column_names_original' 4: table -1 does not exist",
    ),
    "tables disagree": (_put("column_names", 4, [0, "year"]), "4: table 1, but column_names says 0"),
    "star in a table": (_put("column_names_original", 4, [1, "*"]), "4: only the entry [-1, '*'] may be named '*'"),
    "column twice": (_put("column_names_original", 3, [0, "ID"]), "3: column 'ID' occurs twice in table 'Singer'"),
    "table without columns": (_without_columns, "table 'Concert' has no columns"),
    "unknown type": (_put("column_types", 3, "varchar"), "key 'column_types' 3: unknown type 'varchar'"),
    "star as a type": (_put("column_types", 3, "star"), "key 'column_types' 3: unknown type 'star'"),
    "type not text": (_put("column_types", 3, ["text"]), "key 'column_types' 3: unknown type ['text']"),
    "primary key nowhere": (_set("primary_keys", [9]), "key 'primary_keys' 0: column 9 does not exist"),
    "primary key of the star": (_set("primary_keys", [0]), "key 'primary_keys' 0: column 0 does not exist"),
    "primary key not a number": (_set("primary_keys", ["2"]), "key 'primary_keys' 0: column '2' does not exist"),
    "primary key over two tables": (_set("primary_keys", [[1, 2]]), "expected one or more columns of one table"),
    "empty primary key": (_set("primary_keys", [[]]), "expected one or more columns of one table, got []"),
    "primary key twice": (_set("primary_keys", [2, 2]), "key 'primary_keys' 1: column 'ID' occurs twice"),
    "foreign key not a pair": (_set("foreign_keys", [[1, 2], [1, 2, 3]]), "key 'foreign_keys' 1: expected a pair"),
    "foreign key a number": (_set("foreign_keys", [1]), "key 'foreign_keys' 0: expected a pair"),
    "foreign key nowhere": (_set("foreign_keys", [[1, 77]]), "key 'foreign_keys' 0: column 77 does not exist"),
    "foreign key a boolean": (_set("foreign_keys", [[True, 2]]), "key 'foreign_keys' 0: column True does not exist"),
    "foreign key of a nested list": (_set("foreign_keys", [[[[1]], [2]]]), "0: column [1] does not exist"),
    "foreign key of two sizes": (_set("foreign_keys", [[[1, 4], [2]]]), "0: 2 columns point at 1"),
    "view nowhere": (_set("views", [2]), "key 'views': table 2 does not exist"),
    "views not a list": (_set("views", 1), "key 'views': expected a list, got int"),
    "namespaces too few": (_set("namespaces", [None]), "namespaces and table_names_original differ in length"),
    "namespace a number": (_set("namespaces", [None, 3]), "key 'namespaces' 1: expected a name or null, got 3"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_entries_give_file_index_and_key(tmp_path: Path, case: str) -> None:
    change, words = MALFORMED[case]
    good, bad = _row(), _row()
    good["db_id"] = "good"
    change(bad)
    path = _write(tmp_path, [good, bad])
    with pytest.raises(SchemaError) as caught:
        read_tables_json(path)
    assert str(caught.value).startswith(f"{path}: schema 1")
    assert words in str(caught.value)


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="expected a list of schemas, got dict"):
        read_tables_json(_write(tmp_path, _row()))
    with pytest.raises(SchemaError, match="schema 0: expected an object, got list"):
        read_tables_json(_write(tmp_path, [[]]))
    with pytest.raises(SchemaError, match="schema 1: key 'db_id': 'concerts' occurs twice"):
        read_tables_json(_write(tmp_path, [_row(), _row()]))
    with pytest.raises(DataError, match="does not exist"):
        read_tables_json(tmp_path / "missing.json")


def test_composite_keys_may_be_lists_or_numbers_one_by_one(tmp_path: Path) -> None:
    row = _row()
    row.update(primary_keys=[[4, 1]], foreign_keys=[[1, 2], [1, 2], [[1, 4], [2, 3]]])
    schema = read_tables_json(_write(tmp_path, [row]))["concerts"]
    assert schema.primary_keys == ((), (5, 4))
    assert schema.foreign_keys == (ForeignKey((4,), (1,)), ForeignKey((4, 5), (1, 2)))
    assert schema.foreign_pairs == ((4, 1), (5, 2))
    row.update(primary_keys=[1, 4])
    assert read_tables_json(_write(tmp_path, [row]))["concerts"].primary_keys == ((), (4, 5))


def test_names_that_differ_in_case_only_are_not_taken_for_each_other() -> None:
    number = ColumnType.NUMBER
    columns = [[("Id", "id", number), ("id", "id", number), ("Age", "age", number)], [("id", "id", number)]]
    schema = assemble("d", [Table("Users", "users"), Table("users", "users")], columns, [["Id"], ["id"]], [])
    assert schema.table_index == {}
    assert [schema.find_table(name) for name in ("Users", "users", "singer")] == [0, 1, None]
    with pytest.raises(SchemaError, match="table 'USERS' could be 'Users' and 'users'"):
        schema.find_table("USERS")
    assert (0, "id") not in schema.column_index
    assert schema.column_index[1, "id"] == 5
    assert [schema.find_column(0, name) for name in ("Id", "id", "AGE", "*", "name")] == [1, 2, 3, 0, None]
    with pytest.raises(SchemaError, match="column of Users 'ID' could be 'Id' and 'id'"):
        schema.find_column(0, "ID")
    assert schema.primary_keys == ((1,), (5,))


def test_a_column_named_like_the_star_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"table 't' has a column named '\*'"):
        assemble("d", [Table("t", "t")], [[("*", "all", ColumnType.TEXT)]], [[]], [])


def test_the_row_of_a_plain_schema_is_spiders_own_form(tmp_path: Path) -> None:
    row = tables_row(read_tables_json(_write(tmp_path, [_row()]))["concerts"])
    assert list(row) == list(_row())  # no keys that Spider's own reader does not know
    assert row["column_names_original"] == [[-1, "*"], [0, "ID"], [0, "Name"], [1, "Singer_ID"], [1, "Year"]]
    assert row["primary_keys"] == [1]
    assert row["foreign_keys"] == [[3, 1]]


_identifiers = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name != "*"
)
_naturals = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(str.strip)
_types = st.sampled_from([kind for kind in ColumnType if kind is not ColumnType.STAR])


@st.composite
def _schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(_identifiers, min_size=1, max_size=4, unique=True))
    tables = [
        Table(name, draw(_naturals), draw(st.booleans()), draw(st.none() | st.sampled_from(["sales", "hr"])))
        for name in names
    ]
    columns = [
        [(name, draw(_naturals), draw(_types)) for name in draw(st.lists(_identifiers, min_size=1, unique=True))]
        for _ in names
    ]

    def some(table: int, size: int) -> list[str]:
        own = [name for name, _, _ in columns[table]]
        return draw(st.permutations(own))[:size]

    keys = [some(table, draw(st.integers(0, 3))) for table in range(len(names))]
    foreign = []
    for _ in range(draw(st.integers(0, 3))):
        source, target = draw(st.integers(0, len(names) - 1)), draw(st.integers(0, len(names) - 1))
        size = draw(st.integers(1, min(len(columns[source]), len(columns[target]))))
        foreign.append(((source, tuple(some(source, size))), (target, tuple(some(target, size)))))
    return assemble(draw(_naturals), tables, columns, keys, list(dict.fromkeys(foreign)))


@given(schema=_schemas())
def test_every_schema_survives_the_way_to_a_file_and_back(
    tmp_path_factory: pytest.TempPathFactory, schema: Schema
) -> None:
    path = write_tables_json([schema], tmp_path_factory.getbasetemp() / "tables.json")
    assert read_tables_json(path) == {schema.database: schema}


def test_spider(spider_folder: Path, tmp_path: Path) -> None:
    schemas = read_tables_json(spider_folder / "tables.json")
    assert len(schemas) == 166
    assert sum(len(schema.tables) for schema in schemas.values()) == 876
    assert sum(len(schema.columns) - len(schema.tables) for schema in schemas.values()) == 4503
    assert sum(len(schema.foreign_keys) for schema in schemas.values()) == 793
    assert len(schemas["baseball_1"].columns) - len(schemas["baseball_1"].tables) == 352
    for schema in schemas.values():
        assert len(schema.table_index) == len(schema.tables)
        assert len(schema.column_index) == len(schema.columns)
        assert [schema.columns[star].type for star in schema.stars] == [ColumnType.STAR] * len(schema.tables)
    assert read_tables_json(write_tables_json(schemas.values(), tmp_path / "tables.json")) == schemas
