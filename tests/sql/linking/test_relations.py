"""The relations of a schema against two plain loops over every pair of items; the numbering of relations."""

from pathlib import Path

import numpy as np
import pytest

from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble, read_tables_json
from dtfixup.sql.linking.relations import Match, Relation, schema_relations

_SCHEMAS = read_tables_json(Path(__file__).parents[1] / "fixtures" / "tables.json")
_CIRCLE = assemble(
    "circle",
    [Table("land", "land"), Table("city", "city"), Table("lone", "lone")],
    [
        [("id", "id", ColumnType.NUMBER), ("capital", "capital", ColumnType.NUMBER)],
        [("id", "id", ColumnType.NUMBER), ("land", "land", ColumnType.NUMBER), ("twin", "twin", ColumnType.NUMBER)],
        [("x", "x", ColumnType.TEXT)],
    ],
    [["id"], ["id", "land"], []],
    [((0, ["capital"]), (1, ["id"])), ((1, ["land"]), (0, ["id"])), ((1, ["twin"]), (1, ["id"]))],
)
"""Tables that refer to each other and to themselves, a key of two columns, a table without any."""


def _oracle(schema: Schema) -> list[list[Relation]]:
    columns = list(range(len(schema.columns)))
    items = [("star" if schema.is_star(column) else "column", column) for column in columns]
    items += [("table", table) for table in range(len(schema.tables))]
    return [[_pair(schema, *one, *other) for other in items] for one in items]


def _pair(schema: Schema, kind: str, a: int, other: str, b: int) -> Relation:
    table_a = a if kind == "table" else schema.columns[a].table
    table_b = b if other == "table" else schema.columns[b].table
    name = f"{kind}_{other}_".upper()
    if kind == other and kind != "column":
        return Relation[name + _between(schema, table_a, table_b)]
    if kind == other:
        return Relation[name + _among(schema, a, b)]
    if "star" in (kind, other):
        own = "OWN" if "table" in (kind, other) else "SAME_TABLE"
        return Relation[name + (own if table_a == table_b else "NONE")]
    column, table = (a, b) if kind == "column" else (b, a)
    if column in schema.primary_keys[table]:
        return Relation[name + "PRIMARY"]
    if schema.columns[column].table == table:
        return Relation[name + "BELONGS"]
    refers = any(one == column and schema.columns[to].table == table for one, to in schema.foreign_pairs)
    return Relation[name + ("FOREIGN" if refers else "NONE")]


def _among(schema: Schema, a: int, b: int) -> str:
    if a == b:
        return "SAME"
    if (a, b) in schema.foreign_pairs:
        return "FOREIGN_FORWARD"
    if (b, a) in schema.foreign_pairs:
        return "FOREIGN_BACKWARD"
    return "SAME_TABLE" if schema.columns[a].table == schema.columns[b].table else "NONE"


def _between(schema: Schema, a: int, b: int) -> str:
    tables = {(schema.columns[one].table, schema.columns[to].table) for one, to in schema.foreign_pairs}
    if a == b:
        return "SAME"
    if {(a, b), (b, a)} <= tables:
        return "FOREIGN_BOTH"
    if (a, b) in tables:
        return "FOREIGN_FORWARD"
    return "FOREIGN_BACKWARD" if (b, a) in tables else "NONE"


def _check_schema(schema: Schema) -> None:
    found = schema_relations(schema)
    assert found.dtype == np.uint8
    assert found.tolist() == _oracle(schema)


@pytest.mark.parametrize("schema", [*_SCHEMAS.values(), _CIRCLE], ids=lambda schema: schema.database)
def test_a_schema_equals_two_plain_loops(schema: Schema) -> None:
    _check_schema(schema)


def test_some_relations_by_name() -> None:
    found = schema_relations(_CIRCLE)
    names = [_CIRCLE.qualified(column) for column in range(len(_CIRCLE.columns))]
    names += [table.name for table in _CIRCLE.tables]

    def relation(one: str, other: str) -> str:
        return Relation(found[names.index(one), names.index(other)]).name

    assert relation("land.capital", "city.id") == "COLUMN_COLUMN_FOREIGN_FORWARD"
    assert relation("city.id", "land.capital") == "COLUMN_COLUMN_FOREIGN_BACKWARD"
    assert relation("city.twin", "city.id") == "COLUMN_COLUMN_FOREIGN_FORWARD", "a key rather than the same table"
    assert relation("city.twin", "city.land") == "COLUMN_COLUMN_SAME_TABLE"
    assert relation("city.land", "city") == "COLUMN_TABLE_PRIMARY", "part of a key"
    assert relation("city.twin", "city") == "COLUMN_TABLE_BELONGS"
    assert relation("city.land", "land") == "COLUMN_TABLE_FOREIGN"
    assert relation("land", "city.land") == "TABLE_COLUMN_FOREIGN"
    assert relation("land.*", "land") == "STAR_TABLE_OWN"
    assert relation("land.*", "land.id") == "STAR_COLUMN_SAME_TABLE"
    assert relation("land.*", "city.*") == "STAR_STAR_FOREIGN_BOTH"
    assert relation("land", "city") == "TABLE_TABLE_FOREIGN_BOTH"
    assert relation("city", "city") == "TABLE_TABLE_SAME"
    assert relation("lone", "city") == "TABLE_TABLE_NONE"


def test_spider_schemas_equal_two_plain_loops(spider_folder: Path) -> None:
    schemas = [schema for schema in open_dataset(spider_folder).schemas.values() if len(schema.columns) <= 60]
    assert len(schemas) > 120
    for schema in schemas[::3]:
        _check_schema(schema)


@pytest.mark.parametrize("schema", [*_SCHEMAS.values(), _CIRCLE], ids=lambda schema: schema.database)
def test_every_relation_has_its_mirror_across_the_diagonal(schema: Schema) -> None:
    turned = {"FORWARD": "BACKWARD", "BACKWARD": "FORWARD"}
    found = schema_relations(schema)
    for (one, other), relation in np.ndenumerate(found):
        first, second, *rest = Relation(relation).name.split("_")
        mirror = "_".join([second, first, *(turned.get(word, word) for word in rest)])
        assert Relation(found[other, one]).name == mirror


def test_relations_are_numbered_from_zero_without_gaps() -> None:
    assert [int(relation) for relation in Relation] == list(range(len(Relation)))
    assert len(Relation) <= 256, "they are stored as bytes"


def test_matches_follow_each_other_in_every_block() -> None:
    for block in ("WORD_COLUMN", "COLUMN_WORD"):
        assert [Relation[f"{block}_{match.name}"] - Relation[f"{block}_NONE"] for match in Match] == list(Match)
    for block in ("WORD_TABLE", "TABLE_WORD", "WORD_STAR", "STAR_WORD"):
        matches = [match for match in Match if match is not Match.VALUE]
        assert [Relation[f"{block}_{match.name}"] - Relation[f"{block}_NONE"] for match in matches] == matches
