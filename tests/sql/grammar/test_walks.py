"""Random legal walks: every one ends in time, in SQL that sqlglot parses and SQLite accepts, and can be read back."""

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfixup.errors import SqlError
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble, quoted, read_tables_json
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import ValueKind, sql_grammar
from dtfixup.sql.grammar.transitions import STEP_LIMIT, Masks, Walk, column_kinds, steps_of, tree_of
from dtfixup.sql.grammar.tree import Literal, Node, nodes
from dtfixup.sql.grammar.walks import legal_walk
from dtfixup.sql.grammar.writer import SqlWriter

_FIXTURES = Path(__file__).parents[1] / "fixtures"
_SCHEMAS = read_tables_json(_FIXTURES / "tables.json")
_LITERALS = [
    Literal("1", ValueKind.NUMBER),
    Literal("2.5", ValueKind.NUMBER),
    Literal("O'Brien", ValueKind.TEXT),
    Literal("100%", ValueKind.TEXT),
    Literal("2010-01-01", ValueKind.TIME),
]

Choose = Callable[[Sequence[int]], int]


def _walk(masks: Masks, choose: Choose, limit: int = STEP_LIMIT) -> Walk:
    """A walk whose every action is chosen among the legal ones."""
    walk = legal_walk(masks, choose, _LITERALS, limit)
    assert len(walk.actions) <= limit
    return walk


def _random(seed: int) -> Choose:
    rng = np.random.default_rng(seed)
    return lambda options: int(rng.choice(options))


@contextmanager
def _empty_database(schema: Schema) -> Iterator[sqlite3.Connection]:
    """A database with the tables of a schema and nothing in them."""
    types = {ColumnType.NUMBER: "REAL", ColumnType.TEXT: "TEXT"}
    with closing(sqlite3.connect(":memory:")) as connection:
        for table, columns in zip(schema.tables, schema.columns_of, strict=True):
            own = [schema.columns[column] for column in columns[1:]]
            lines = [f"{quoted(column.name)} {types.get(column.type, '')}" for column in own]
            connection.execute(f"CREATE TABLE {quoted(table.name)} ({', '.join(lines)})")
        yield connection


def _check_walks(schema: Schema, connection: sqlite3.Connection, count: int, seed: int) -> list[int]:
    """Walk, write, parse, explain; the lengths of the walks."""
    masks, writer = Masks(column_kinds(schema)), SqlWriter(schema)
    choose = _random(seed)
    lengths = []
    for _ in range(count):
        walk = _walk(masks, choose)
        lengths.append(len(walk.actions))
        tree = walk.tree()
        assert [step.action for step in steps_of(tree)] == walk.actions
        assert tree_of(walk.actions) == tree
        sql = writer.write(tree)
        assert isinstance(sqlglot.parse_one(sql, read="sqlite"), sqlglot.exp.Query)
        connection.execute(f"EXPLAIN {sql}")
        bound = writer.write_bound(tree)
        connection.execute(f"EXPLAIN {bound.sql}", bound.parameters)
    return lengths


@pytest.mark.parametrize("schema", _SCHEMAS.values(), ids=lambda schema: schema.database)
def test_walks_over_our_own_schemas(schema: Schema) -> None:
    with _empty_database(schema) as connection:
        lengths = _check_walks(schema, connection, 60, seed=1)
    assert min(lengths) < STEP_LIMIT // 2 < max(lengths) <= STEP_LIMIT


def test_walks_over_the_bundled_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTFIXUP_CACHE", str(tmp_path))
    dataset = open_dataset(sample_folder())
    for seed, (database, schema) in enumerate(sorted(dataset.schemas.items())):
        with closing(sqlite3.connect(f"file:{dataset.database_file(database)}?mode=ro", uri=True)) as connection:
            _check_walks(schema, connection, 25, seed)


def test_walks_over_fifty_spider_schemas(spider_folder: Path) -> None:
    dataset = open_dataset(spider_folder)
    names = [
        name
        for name, schema in sorted(dataset.schemas.items())
        if not any(table.name.startswith("sqlite_") for table in schema.tables)  # internal: there if SQLite made them
    ]
    for seed, database in enumerate(names[:: len(names) // 50][:50]):
        with closing(sqlite3.connect(f"file:{dataset.database_file(database)}?mode=ro", uri=True)) as connection:
            _check_walks(dataset.schemas[database], connection, 5, seed)


@pytest.mark.parametrize("limit", [5, 6, 12, 30])
def test_a_walk_keeps_within_any_limit_that_a_query_fits_in(limit: int) -> None:
    masks = Masks(column_kinds(_SCHEMAS["harbour"]))
    shortest = int(masks.cost_S[masks.grammar.start])
    assert shortest == 5, "UnionRows, a table, and nothing else three times"
    choose = _random(limit)
    lengths = {len(_walk(masks, choose, limit).actions) for _ in range(40)}
    assert max(lengths) <= limit
    assert (len(lengths) > 1) == (limit > shortest)


def test_no_walk_begins_where_there_is_no_room() -> None:
    masks = Masks(column_kinds(_SCHEMAS["harbour"]))
    start = np.array([masks.grammar.start])
    assert not masks.rules(start, np.array([masks.room(0, [masks.grammar.start], 4)])).any()


_HARBOUR = _SCHEMAS["harbour"]
_READER, _WRITER = SqlReader(_HARBOUR), SqlWriter(_HARBOUR)
_EXOTIC = frozenset({"Again", "Third", "ByAgain", "ByAgainThen", "Through", "Beside", "On", "OrOn"})
"""What refers to a table twice, or says how tables are joined."""


def _masks(schema: Schema, without: frozenset[str]) -> Masks:
    """Masks of a grammar without some of its rules."""
    grammar = sql_grammar()
    rules_SR = grammar.rules_SR.copy()
    rules_SR[:, [grammar.rule_index[rule] for rule in without]] = False
    return Masks(column_kinds(schema), replace(grammar, rules_SR=rules_SR))


def _draw(data: st.DataObject, masks: Masks, limit: int) -> Node:
    return _walk(masks, lambda options: data.draw(st.sampled_from(options)), limit).tree()


_PLAIN_MASKS = _masks(_HARBOUR, _EXOTIC)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_what_was_written_is_read_back_the_same_after_one_round(data: st.DataObject) -> None:
    """Without self joins and hints, reading changes the form of a query at most once."""
    first = _READER.read(_WRITER.write(_draw(data, _PLAIN_MASKS, 30)))
    sql = _WRITER.write(first)
    assert _READER.read(sql) == first
    assert _WRITER.write(_READER.read(sql)) == sql


_ALONE = assemble(
    "alone",
    [Table("weather", "weather")],
    [[("day", "day", ColumnType.TIME), ("wind", "wind", ColumnType.NUMBER), ("sky", "sky", ColumnType.TEXT)]],
    [["day"]],
    [],
)
_ALONE_MASKS = _masks(_ALONE, _EXOTIC | {"Not"})


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_over_one_table_only_not_is_written_another_way(data: st.DataObject) -> None:
    """`NOT (a IS NULL)` comes back as `a IS NOT NULL`; all else comes back as it went."""
    tree = _draw(data, _ALONE_MASKS, 40)
    sql = SqlWriter(_ALONE).write(tree)
    assert SqlWriter(_ALONE).write(SqlReader(_ALONE).read(sql)) == sql


@pytest.fixture(scope="module")
def harbour() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript((_FIXTURES / "harbour.sql").read_text(encoding="utf-8"))
        yield connection


_UNDETERMINED = frozenset({"Highest", "Lowest", "First", "Limit", "Grouped", "GroupedMember"})
"""Rules whose rows depend on the order in which SQLite finds them."""
_AGGREGATES = frozenset({"Count", "CountDistinct", "Max", "Min", "Sum", "Avg", "Apply"})
_WHOLE_ROWS = frozenset({"UnionRows", "IntersectRows", "ExceptRows"})
_DETERMINED_MASKS = _masks(_HARBOUR, _UNDETERMINED | _AGGREGATES | _WHOLE_ROWS)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_tree_keeps_its_rows_when_it_is_read_back(data: st.DataObject, harbour: sqlite3.Connection) -> None:
    """With self joins and hints: the text may change, the answer may not, and what is refused is said."""
    tree = _draw(data, _DETERMINED_MASKS, 24)
    stars = any(node.rule == "Column" and _HARBOUR.is_star(node.children[0]) for node in nodes(tree))
    sql = _WRITER.write(tree)
    try:
        again = _WRITER.write(_READER.read(sql))
    except SqlError as error:
        if not re.search("times in one FROM clause|third occurrence", str(error)):
            raise
        return
    wanted, found = (Counter(map(_row(stars), harbour.execute(text).fetchall())) for text in (sql, again))
    assert found == wanted


def _row(stars: bool) -> Callable[[tuple[object, ...]], tuple[object, ...]]:
    """Whole rows of a join list the columns of its tables in their order, which may change."""
    return (lambda row: tuple(sorted(map(repr, row)))) if stars else (lambda row: row)
