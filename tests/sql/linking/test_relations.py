"""The relation matrix against two plain loops over every pair of items; links; wrong shapes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfixup.errors import RelationError
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble, read_tables_json
from dtfixup.sql.linking.relations import DISTANCE, Codes, Match, Relation, expand, link_codes, schema_relations

_SCHEMAS = read_tables_json(Path(__file__).parents[1] / "fixtures" / "tables.json")
_HARBOUR = _SCHEMAS["harbour"]
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


_MIRRORED = {
    Relation.WORD_TWO_OR_MORE_BEFORE: Relation.WORD_TWO_OR_MORE_AFTER,
    Relation.WORD_BEFORE: Relation.WORD_AFTER,
}


def _mirror(relation: Relation) -> Relation:
    """The relation seen from the other item, read off its name."""
    pairs = _MIRRORED | {after: before for before, after in _MIRRORED.items()}
    if relation in pairs:
        return pairs[relation]
    if relation is Relation.WORD_SAME:
        return relation
    one, other, *rest = relation.name.split("_")
    turned = {"FORWARD": "BACKWARD", "BACKWARD": "FORWARD"}
    return Relation["_".join([other, one, *(turned.get(word, word) for word in rest)])]


def _expanded(schema: Schema, words: int, rng: np.random.Generator, **options: bool) -> Codes:
    columns_WC = rng.integers(0, len(Match), (words, len(schema.columns))).astype(np.uint8)
    tables_WT = rng.integers(0, Match.VALUE, (words, len(schema.tables))).astype(np.uint8)
    links = link_codes(columns_WC, tables_WT, schema)
    return expand(schema_relations(schema), links, len(schema.columns), np.array(schema.stars), **options)


@pytest.mark.parametrize("schema", [*_SCHEMAS.values(), _CIRCLE], ids=lambda schema: schema.database)
def test_every_relation_has_its_mirror_across_the_diagonal(schema: Schema) -> None:
    found = _expanded(schema, 7, np.random.default_rng(0))
    for (one, other), relation in np.ndenumerate(found):
        assert Relation(found[other, one]) is _mirror(Relation(relation))


def test_mirroring_twice_gives_the_relation_back() -> None:
    for relation in Relation:
        assert _mirror(_mirror(relation)) is relation


def test_relations_are_numbered_from_zero_without_gaps() -> None:
    assert [int(relation) for relation in Relation] == list(range(len(Relation)))
    assert len(Relation) <= 256, "they are stored as bytes"


def test_matches_follow_each_other_in_every_block() -> None:
    for block in ("WORD_COLUMN", "COLUMN_WORD"):
        assert [Relation[f"{block}_{match.name}"] - Relation[f"{block}_NONE"] for match in Match] == list(Match)
    for block in ("WORD_TABLE", "TABLE_WORD", "WORD_STAR", "STAR_WORD"):
        matches = [match for match in Match if match is not Match.VALUE]
        assert [Relation[f"{block}_{match.name}"] - Relation[f"{block}_NONE"] for match in matches] == matches


@settings(max_examples=50, deadline=None)
@given(words=st.integers(0, 9), seed=st.integers(0, 1000), values_apart=st.booleans())
def test_expand_equals_two_plain_loops(words: int, seed: int, values_apart: bool) -> None:
    schema = _CIRCLE
    rng = np.random.default_rng(seed)
    columns, tables = len(schema.columns), len(schema.tables)
    columns_WC = rng.integers(0, len(Match), (words, columns)).astype(np.uint8)
    tables_WT = rng.integers(0, Match.VALUE, (words, tables)).astype(np.uint8)
    part = schema_relations(schema)
    links = link_codes(columns_WC, tables_WT, schema)
    before = links.copy()
    found = expand(part, links, columns, np.array(schema.stars), values_apart=values_apart)
    assert (links == before).all()
    if values_apart:
        assert (expand(part, links, columns, np.array(schema.stars)) == found).all(), "values are apart unless said"
    kinds = ["WORD"] * words + ["STAR" if schema.is_star(column) else "COLUMN" for column in range(columns)]
    kinds += ["TABLE"] * tables
    assert found.shape == (len(kinds), len(kinds))
    assert found.dtype == np.uint8

    def match(word: int, item: int) -> str:
        if kinds[item] == "COLUMN":
            code = Match(columns_WC[word, item - words])
        else:
            index = item - words
            code = Match(tables_WT[word, index - columns if index >= columns else schema.columns[index].table])
        return Match.EXACT.name if code is Match.VALUE and not values_apart else code.name

    for (one, other), relation in np.ndenumerate(found):
        if max(one, other) < words:
            expected = Relation(min(max(other - one, -DISTANCE), DISTANCE) + Relation.WORD_SAME)
        elif one < words:
            expected = Relation[f"WORD_{kinds[other]}_{match(one, other)}"]
        elif other < words:
            expected = Relation[f"{kinds[one]}_WORD_{match(other, one)}"]
        else:
            expected = Relation(part[one - words, other - words])
        assert Relation(relation) is expected


def test_words_before_and_after() -> None:
    found = expand(np.zeros((0, 0), np.uint8), np.zeros((4, 0), np.uint8), 0, np.array([], int))
    assert [Relation(code).name for code in found[1]] == [
        "WORD_BEFORE", "WORD_SAME", "WORD_AFTER", "WORD_TWO_OR_MORE_AFTER",
    ]  # fmt: skip
    assert Relation(found[3, 0]).name == "WORD_TWO_OR_MORE_BEFORE"


def _links(schema: Schema, words: int = 2) -> tuple[Codes, Codes]:
    return np.zeros((words, len(schema.columns)), np.uint8), np.zeros((words, len(schema.tables)), np.uint8)


def test_links_of_a_star_are_those_of_its_table() -> None:
    columns_WC, tables_WT = _links(_HARBOUR)
    columns_WC[0, 12] = Match.VALUE
    columns_WC[0, 10] = Match.EXACT
    tables_WT[1, 2] = Match.PARTIAL
    codes = link_codes(columns_WC, tables_WT, _HARBOUR)
    assert codes.shape == (2, len(_HARBOUR.columns) + len(_HARBOUR.tables))
    assert [(int(word), int(item), int(codes[word, item])) for word, item in np.argwhere(codes)] == [
        (0, 12, Match.VALUE),
        (1, 10, Match.PARTIAL),
        (1, len(_HARBOUR.columns) + 2, Match.PARTIAL),
    ]
    assert columns_WC[0, 10] == Match.EXACT, "what came in is left as it was"


def test_links_that_do_not_fit_are_refused() -> None:
    columns_WC, tables_WT = _links(_HARBOUR)
    for columns, tables in (
        (columns_WC[:, 1:], tables_WT),
        (columns_WC, tables_WT[:, 1:]),
        (columns_WC[1:], tables_WT),
        (columns_WC, np.full_like(tables_WT, Match.VALUE)),
        (np.full_like(columns_WC, len(Match)), tables_WT),
    ):
        with pytest.raises(RelationError, match="links"):
            link_codes(columns, tables, _HARBOUR)


def test_parts_that_do_not_fit_are_refused() -> None:
    part, stars = schema_relations(_HARBOUR), np.array(_HARBOUR.stars)
    links = link_codes(*_links(_HARBOUR), _HARBOUR)
    with pytest.raises(RelationError, match="links"):
        expand(part, links[:, 1:], len(_HARBOUR.columns), stars)
    with pytest.raises(RelationError, match="links"):
        expand(part[1:], links, len(_HARBOUR.columns), stars)
