"""FROM clauses from the tables that columns need: paths over keys, self joins, hints, and what always holds."""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfixup.errors import SqlError
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble, read_tables_json
from dtfixup.sql.grammar.joins import Join, Joiner, reference_of
from dtfixup.sql.grammar.tree import Node, Occurrence, refer

_SCHEMAS = read_tables_json(Path(__file__).parents[1] / "fixtures" / "tables.json")


def _schema(tables: Mapping[str, str], foreign: Sequence[tuple[str, str]] = ()) -> Schema:
    """Tables with their columns, of which those marked * are the key; `name:text` is a column that is no number.

    A foreign key is `("table.column", "table.column")`, or has several columns with + between them.
    """
    names = list(tables)
    columns = [[word.strip("*").partition(":") for word in spec.split()] for spec in tables.values()]
    keys = [[word.strip("*") for word in spec.split() if word.endswith("*")] for spec in tables.values()]
    sides = [[(names.index(side.split(".")[0]), side.split(".")[1].split("+")) for side in key] for key in foreign]
    return assemble(
        "test",
        [Table(name, name) for name in names],
        [[(name, name, ColumnType(kind or "number")) for name, _, kind in own] for own in columns],
        keys,
        [(source, target) for source, target in sides],
    )


def _hints(schema: Schema, text: str) -> Node | None:
    """`Through a; On a.x b2.y` as a node, where b2 is the second occurrence of b."""
    source: Node | None = None
    for hint in reversed([hint for hint in text.split(";") if hint.strip()]):
        rule, *arguments = hint.split()
        if rule in ("Through", "Beside"):
            source = Node(rule, (schema.stars[schema.table_index[arguments[0]]], source))
        else:
            source = Node(rule, (*(_reference(schema, argument) for argument in arguments), source))
    return source


def _reference(schema: Schema, text: str) -> Node:
    table, _, column = text.partition(".")
    which = int(table[-1]) if table[-1].isdigit() else 1
    index = schema.find_column(schema.table_index[table.rstrip("23")], column)
    assert index is not None
    return refer((index, which))


def _build(schema: Schema, needed: str, hints: str = "") -> str:
    """The FROM clause as text: `a JOIN b ON a.id = b.a_id JOIN b2`; `needed` is like `a b b2`."""
    occurrences = [
        (schema.table_index[name.rstrip("23")], int(name[-1]) if name[-1].isdigit() else 1) for name in needed.split()
    ]
    return _text(schema, Joiner(schema).build(occurrences, _hints(schema, hints)))


def _text(schema: Schema, joins: Sequence[Join]) -> str:
    def called(table: int, which: int) -> str:
        return schema.tables[table].name + (str(which) if which > 1 else "")

    def side(column: int, which: int) -> str:
        return f"{called(schema.columns[column].table, which)}.{schema.columns[column].name}"

    parts = []
    for join in joins:
        conditions = [" OR ".join(f"{side(*a)} = {side(*b)}" for a, b in condition) for condition in join.conditions]
        on = f" ON {' AND '.join(conditions)}" if conditions else ""
        parts.append(called(join.table, join.occurrence) + on)
    return " JOIN ".join(parts)


CHAIN = _schema(
    {"a": "id* x", "b": "id* a_id c_id", "c": "id* y", "d": "id* c_id"},
    [("b.a_id", "a.id"), ("b.c_id", "c.id"), ("d.c_id", "c.id")],
)
APART = _schema({"a": "id* x", "b": "id* a_id", "z": "id* q"}, [("b.a_id", "a.id")])
LEGS = _schema({"leg": "trip* no*", "stop": "id* trip no"}, [("stop.trip+no", "leg.trip+no")])
STAFF = _schema({"staff": "id* boss"}, [("staff.boss", "staff.id")])
TRIPS = _schema(
    {"place": "id* name", "trip": "id* start finish"}, [("trip.start", "place.id"), ("trip.finish", "place.id")]
)
YEARS = _schema({"a": "k* year", "b": "n* year"})


@pytest.mark.parametrize(
    ("schema", "needed", "clause"),
    [
        (CHAIN, "c", "c"),
        (CHAIN, "a2", "a2"),
        # Over keys in either direction, with the tables between, nearest first; of two as near, the first named.
        (CHAIN, "a b", "a JOIN b ON a.id = b.a_id"),
        (CHAIN, "b a", "b JOIN a ON b.a_id = a.id"),
        (CHAIN, "a c", "a JOIN b ON a.id = b.a_id JOIN c ON b.c_id = c.id"),
        (CHAIN, "d a", "d JOIN c ON d.c_id = c.id JOIN b ON c.id = b.c_id JOIN a ON b.a_id = a.id"),
        (CHAIN, "a d b", "a JOIN b ON a.id = b.a_id JOIN c ON b.c_id = c.id JOIN d ON c.id = d.c_id"),
        (CHAIN, "c d b a", "c JOIN d ON c.id = d.c_id JOIN b ON c.id = b.c_id JOIN a ON b.a_id = a.id"),
        (CHAIN, "c b d", "c JOIN b ON c.id = b.c_id JOIN d ON c.id = d.c_id"),
        # A composite key gives a condition for each column.
        (LEGS, "stop leg", "stop JOIN leg ON stop.trip = leg.trip AND stop.no = leg.no"),
        (LEGS, "leg stop", "leg JOIN stop ON leg.trip = stop.trip AND leg.no = stop.no"),
        # Of two keys, the second occurrence takes the second, and the third the last.
        (TRIPS, "trip place", "trip JOIN place ON trip.start = place.id"),
        (TRIPS, "trip place place2", "trip JOIN place ON trip.start = place.id JOIN place2 ON trip.finish = place2.id"),
        (TRIPS, "place trip place2", "place JOIN trip ON place.id = trip.start JOIN place2 ON trip.finish = place2.id"),
        (TRIPS, "place place2", "place JOIN trip ON place.id = trip.start JOIN place2 ON trip.finish = place2.id"),
        (TRIPS, "trip place place2 place3", "trip JOIN place ON trip.start = place.id JOIN place2 "
         "ON trip.finish = place2.id JOIN place3 ON trip.finish = place3.id"),
        (STAFF, "staff staff2", "staff JOIN staff2 ON staff.boss = staff2.id"),
        (STAFF, "staff staff2 staff3", "staff JOIN staff2 ON staff.boss = staff2.id JOIN staff3 "
         "ON staff.boss = staff3.id"),
        # Undeclared keys have a name in common, in any case, but not "id" and not another type.
        (_schema({"ship": "ship_id* size", "cargo": "no* Ship_ID size"}), "ship cargo",
         "ship JOIN cargo ON ship.ship_id = cargo.Ship_ID"),
        (_schema({"a": "id* x", "b": "id* y"}), "a b", "a JOIN b"),
        (_schema({"a": "code* x", "b": "k* code:text"}), "a b", "a JOIN b"),
        (YEARS, "a b", "a JOIN b ON a.year = b.year"),
        (_schema({"leg": "trip* no*", "stop": "id* trip no"}), "leg stop", "leg JOIN stop ON leg.trip = stop.trip"),
        # A declared key is better than a name in common; a key's name is better than two declared keys.
        (_schema({"a": "code* x", "b": "k* code a_code"}, [("b.a_code", "a.code")]), "a b",
         "a JOIN b ON a.code = b.a_code"),
        (_schema({"a": "k*", "m": "m* a_k", "b": "p* m_m k"}, [("m.a_k", "a.k"), ("b.m_m", "m.m")]), "a b",
         "a JOIN b ON a.k = b.k"),
        # Without a connection, tables are side by side, after those that can be joined.
        (APART, "a z", "a JOIN z"),
        (APART, "z a b", "z JOIN a JOIN b ON a.id = b.a_id"),
        (APART, "a z b", "a JOIN b ON a.id = b.a_id JOIN z"),
        (APART, "z z2", "z JOIN z2"),
    ],
)  # fmt: skip
def test_inferred_clauses(schema: Schema, needed: str, clause: str) -> None:
    assert _build(schema, needed) == clause


def test_many_declared_keys_are_better_than_a_name_that_is_no_key() -> None:
    names = "abcdefg"
    chain = _schema(
        {name: f"{name}_key* before year" for name in names},
        [(f"{name}.before", f"{before}.{before}_key") for before, name in pairwise(names)],
    )
    assert _build(chain, "a g").count("JOIN") == 6


@pytest.mark.parametrize(
    ("schema", "needed", "hints", "clause"),
    [
        # Through: over a key; a table that is there comes again.
        (CHAIN, "a", "Through b", "b JOIN a ON b.a_id = a.id"),
        (CHAIN, "a c", "Through d", "d JOIN c ON d.c_id = c.id JOIN b ON c.id = b.c_id JOIN a ON b.a_id = a.id"),
        (CHAIN, "a", "Through a; Through b", "a JOIN b ON a.id = b.a_id"),
        (CHAIN, "", "Through a; Through c", "a JOIN b ON a.id = b.a_id JOIN c ON b.c_id = c.id"),
        (TRIPS, "trip", "Through trip; Through place; Through place",
         "trip JOIN place ON trip.start = place.id JOIN place2 ON trip.finish = place2.id"),
        # Beside: without a condition; the rest is joined as usual.
        (CHAIN, "a b", "Beside a; Beside b", "a JOIN b"),
        (CHAIN, "a b", "Beside b", "b JOIN a ON b.a_id = a.id"),
        (CHAIN, "a", "Beside a; Beside a", "a JOIN a2"),
        # On: over any columns; a condition goes to the later of its tables.
        (CHAIN, "a c", "On a.x c.y", "a JOIN c ON a.x = c.y"),
        (CHAIN, "a c", "On c.y a.x", "c JOIN a ON c.y = a.x"),
        (CHAIN, "a c", "On a.x c.y; On a.id c.id", "a JOIN c ON a.x = c.y AND a.id = c.id"),
        (CHAIN, "a d", "On a.x c.y", "a JOIN c ON a.x = c.y JOIN d ON c.id = d.c_id"),
        (CHAIN, "a a2", "On a.x a2.id", "a JOIN a2 ON a.x = a2.id"),
        (CHAIN, "a", "On a.x a2.id; On a2.x a3.id", "a JOIN a2 ON a.x = a2.id JOIN a3 ON a2.x = a3.id"),
        (CHAIN, "", "Beside a; Beside c; Beside d; On a.x c.y", "a JOIN c ON a.x = c.y JOIN d"),
        (CHAIN, "", "Beside a; Beside c; Beside d; On d.id a.x", "a JOIN c JOIN d ON d.id = a.x"),
        # A condition on one table: the writer puts it into WHERE, or it moves to the first ON.
        (CHAIN, "a", "On a.x a.id", "a ON a.x = a.id"),
        (CHAIN, "a b", "On a.x a.id", "a JOIN b ON a.x = a.id AND a.id = b.a_id"),
        # OrOn: widens the last condition; with none before it, it is On.
        (CHAIN, "a c", "On a.x c.y; OrOn a.id c.id", "a JOIN c ON a.x = c.y OR a.id = c.id"),
        (CHAIN, "a c", "On a.id c.id; On a.x c.y; OrOn a.x c.id",
         "a JOIN c ON a.id = c.id AND a.x = c.y OR a.x = c.id"),
        (CHAIN, "a c d", "On a.x c.y; OrOn a.x d.id", "a JOIN c JOIN d ON a.x = c.y OR a.x = d.id"),
        (CHAIN, "a c", "OrOn a.x c.y", "a JOIN c ON a.x = c.y"),
    ],
)  # fmt: skip
def test_clauses_with_hints(schema: Schema, needed: str, hints: str, clause: str) -> None:
    assert _build(schema, needed, hints) == clause


def test_what_is_no_hint_is_refused() -> None:
    with pytest.raises(SqlError, match=r"Count\(0\) is not a rule of a FROM clause"):
        Joiner(CHAIN).build([], Node("Count", (0,)))
    with pytest.raises(SqlError, match=r"Max\(1\) does not refer to a column"):
        reference_of(Node("Max", (1,)))
    with pytest.raises(SqlError, match="does not refer to a column"):
        reference_of(Node("Column", (Node("Max", (1,)),)))
    assert reference_of(Node("Third", (1,))) == (1, 3)


def _distances(schema: Schema) -> dict[tuple[int, int], float]:
    """The cheapest way between any two tables, by trying every detour again and again."""
    tables = range(len(schema.tables))
    distance = {(a, b): 0.0 if a == b else float("inf") for a, b in product(tables, tables)}
    keys = {key[0] for key in schema.primary_keys if len(key) == 1}
    declared = set(schema.foreign_pairs)
    for (a, first), (b, second) in product(enumerate(schema.columns), repeat=2):
        same = first.name.lower() == second.name.lower() != "id" and first.name != "*" and first.type == second.type
        if (a, b) in declared or (b, a) in declared:
            cost = 1.0
        elif same:
            cost = 1.5 if a in keys or b in keys else 40.0
        else:
            continue
        distance[first.table, second.table] = min(distance[first.table, second.table], cost)
    for between, a, b in product(tables, tables, tables):
        distance[a, b] = min(distance[a, b], distance[a, between] + distance[between, b])
    return distance


def _check_paths(schema: Schema) -> None:
    joiner = Joiner(schema)
    for (start, goal), distance in _distances(schema).items():
        if start != goal:
            path = joiner.path([(start, 1)], goal)
            assert (path.cost if path else float("inf")) == distance
            assert path is None or (path.start, path.edges[-1].target) == ((start, 1), goal)


@pytest.mark.parametrize("schema", [CHAIN, TRIPS, YEARS, *_SCHEMAS.values()], ids=lambda schema: schema.database)
def test_paths_are_the_cheapest(schema: Schema) -> None:
    _check_paths(schema)


def test_paths_are_the_cheapest_in_spider(spider_folder: Path) -> None:
    schemas = open_dataset(spider_folder).schemas
    small = [schema for schema in schemas.values() if len(schema.columns) <= 40]
    assert len(small) > 50
    for schema in small[::4]:
        _check_paths(schema)


HARBOUR = _SCHEMAS["harbour"]
_tables = st.integers(0, len(HARBOUR.tables) - 1)
_cells = st.sampled_from([column for column in range(len(HARBOUR.columns)) if not HARBOUR.is_star(column)])
_references = st.tuples(_cells, st.integers(1, 3)).map(refer)
_any_hints = st.lists(
    st.tuples(st.sampled_from(["Through", "Beside"]), st.sampled_from(HARBOUR.stars))
    | st.tuples(st.sampled_from(["On", "OrOn"]), _references, _references),
    max_size=4,
)


@settings(max_examples=200, deadline=None)
@given(needed=st.lists(st.tuples(_tables, st.integers(1, 3)), min_size=1, max_size=5, unique=True), hints=_any_hints)
def test_every_clause_is_sound(needed: list[Occurrence], hints: list[tuple[Any, ...]]) -> None:
    source: Node | None = None
    for rule, *children in reversed(hints):
        source = Node(rule, (*children, source))
    joins = Joiner(HARBOUR).build(needed, source)
    placed = [(join.table, join.occurrence) for join in joins]
    assert len(set(placed)) == len(placed)
    assert set(needed) <= set(placed)
    for position, join in enumerate(joins):
        for pair in (pair for condition in join.conditions for pair in condition):
            for column, which in pair:
                assert (HARBOUR.columns[column].table, which) in placed[: position + 1]
    kept = [pair for join in joins for condition in join.conditions for pair in condition]
    for rule, *pair in hints:
        if rule in ("On", "OrOn"):
            assert tuple(map(reference_of, pair)) in kept
    assert Joiner(HARBOUR).build(needed, source) == joins
    if len(joins) > 1:
        assert not joins[0].conditions
