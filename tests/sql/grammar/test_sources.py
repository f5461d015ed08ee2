"""What a tree says of its FROM clause: enough to build it again, and no more."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import read_tables_json
from dtfixup.sql.grammar.joins import Condition, Join, Joiner
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.sources import find_source, infers
from dtfixup.sql.grammar.tree import Child, Node, Occurrence, occurrences

_SCHEMA = read_tables_json(Path(__file__).parents[1] / "fixtures" / "tables.json")["harbour"]
_JOINER = Joiner(_SCHEMA)


def _source(sql: str) -> str:
    """The hints in the tree of a query, with names for columns."""
    hints = _hints(SqlReader(_SCHEMA).read(sql).children[-1])
    return "; ".join(f"{hint.rule} {' '.join(map(_named, hint.children[:-1]))}" for hint in hints)


def _named(child: object) -> str:
    if isinstance(child, int):
        return _SCHEMA.tables[_SCHEMA.columns[child].table].name
    assert isinstance(child, Node)
    assert isinstance(child.children[0], int)
    return {"Column": "", "Again": "2:", "Third": "3:"}[child.rule] + _SCHEMA.qualified(child.children[0])


@pytest.mark.parametrize(
    ("sql", "source"),
    [
        ("SELECT name FROM ship", ""),
        ("SELECT s.name, v.departed FROM voyage v JOIN ship s ON s.ship_id = v.ship_id", ""),
        ("SELECT c.name, v.departed FROM voyage v JOIN ship s ON s.ship_id = v.ship_id "
         "JOIN company c ON c.company_id = s.company_id", ""),
        ("SELECT s.name, g.label FROM ship s JOIN cargo g ON s.ship_id = g.ship_id", ""),
        ("SELECT s.name FROM ship s JOIN voyage v ON s.ship_id = v.ship_id", "Through voyage"),
        ("SELECT s.name, w.sky FROM ship s JOIN weather w", ""),
        ("SELECT s.name FROM ship s JOIN weather w", "Through weather"),
        ("SELECT s.name, p.depth FROM ship s JOIN port p ON s.flag = p.country", "On ship.flag port.country"),
        ("SELECT s.name, p.depth FROM ship s JOIN port p ON s.flag = p.country OR s.name = p.name",
         "On ship.flag port.country; OrOn ship.name port.name"),
        ("SELECT s.name, c.name FROM ship s JOIN company c", "Beside ship; Beside company"),
        ("SELECT p.name FROM voyage v JOIN port p ON v.to_port = p.port_id", "On voyage.to_port port.port_id"),
        ("SELECT a.name FROM crew a JOIN crew b ON a.boss = b.crew_id WHERE b.age > 50", ""),
        ("SELECT b.name FROM crew a JOIN crew b ON a.boss = b.crew_id", "Through crew"),
        ("SELECT b.name, a.name FROM crew a JOIN crew b ON a.boss = b.crew_id", "Through crew"),
        ("SELECT a.name, b.name FROM crew a JOIN crew b ON a.ship_id = b.ship_id",
         "On crew.ship_id 2:crew.ship_id"),
    ],
)  # fmt: skip
def test_hints_are_given_where_they_are_needed(sql: str, source: str) -> None:
    assert _source(sql) == source


def test_only_nested_queries_keep_the_order() -> None:
    inner = "SELECT s.name FROM voyage v JOIN ship s ON v.ship_id = s.ship_id WHERE v.passengers > 9"
    assert _source(inner) == ""
    tree = SqlReader(_SCHEMA).read(f"SELECT name FROM ship WHERE name IN ({inner})")
    nested = tree.children[1].children[1]
    assert nested.children[-1] == Node("Through", (_SCHEMA.stars[_SCHEMA.table_index["voyage"]], None))


def test_an_inferred_clause_has_no_source() -> None:
    ship, voyage, port = (_SCHEMA.table_index[name] for name in ("ship", "voyage", "port"))
    joins = _JOINER.build([(ship, 1), (voyage, 1)])
    backwards = _JOINER.build([(voyage, 1), (ship, 1)])
    assert infers(_JOINER, joins, [(ship, 1), (voyage, 1)], ordered=True)
    assert infers(_JOINER, backwards, [(ship, 1), (voyage, 1)], ordered=False)
    assert not infers(_JOINER, backwards, [(ship, 1), (voyage, 1)], ordered=True)
    assert not infers(_JOINER, joins, [(ship, 1), (port, 1)], ordered=False)
    assert find_source(_JOINER, joins, [(ship, 1), (voyage, 1)], ordered=True) is None


def test_a_table_too_many_times() -> None:
    crew = _SCHEMA.table_index["crew"]
    boss = _SCHEMA.find_column(crew, "boss")
    assert boss is not None
    wanted = [Join(crew, which) for which in (1, 2, 3)]
    wanted.append(Join(crew, 4, ((((boss, 1), (boss, 4)),),)))
    with pytest.raises(SqlError, match="a table occurs 4 times in one FROM clause; the grammar knows 3"):
        find_source(_JOINER, wanted, [(crew, 1)], ordered=False)


_columns = st.sampled_from([column for column in range(len(_SCHEMA.columns)) if not _SCHEMA.is_star(column)])


@st.composite
def _clauses(draw: st.DrawFn) -> tuple[tuple[Join, ...], list[Occurrence]]:
    """Any FROM clause of up to four tables, as a query could have it, and tables that its columns could name."""
    tables = draw(st.lists(st.integers(0, len(_SCHEMA.tables) - 1), min_size=1, max_size=4))
    seen: Counter[int] = Counter()
    placed: list[Occurrence] = []
    joins: list[Join] = []
    for table in tables:
        seen[table] += 1
        assume(seen[table] <= 3)
        placed.append((table, seen[table]))
        conditions = ()
        if len(placed) > 1:
            choice = draw(st.sampled_from(["none", "any", "inferred"]))
            if choice == "any":
                conditions = tuple(draw(st.lists(_conditions(placed), min_size=1, max_size=2)))
            elif choice == "inferred":
                conditions = _JOINER.build([*placed])[-1].conditions if len(set(placed)) == len(placed) else ()
                conditions = tuple(one for one in conditions if _within(one, placed) and _names(one, placed[-1]))
        joins.append(Join(*placed[-1], conditions))
    needed = draw(st.lists(st.sampled_from(placed), unique=True, max_size=4))
    return tuple(joins), needed


def _within(condition: Condition, placed: Sequence[Occurrence]) -> bool:
    return all((_SCHEMA.columns[column].table, which) in placed for pair in condition for column, which in pair)


def _names(condition: Condition, occurrence: Occurrence) -> bool:
    """Whether a condition is about a table; in text, each stands with the last of its tables."""
    return any((_SCHEMA.columns[column].table, which) == occurrence for pair in condition for column, which in pair)


@st.composite
def _conditions(draw: st.DrawFn, placed: Sequence[Occurrence]) -> Condition:
    """One to two pairs of columns, the first of which is of the last table."""
    pairs = []
    for _ in range(draw(st.integers(1, 2))):
        sides = []
        for table, which in (placed[-1], draw(st.sampled_from(placed))):
            column = draw(st.sampled_from(_SCHEMA.columns_of[table][1:]))
            sides.append((column, which))
        pairs.append((sides[0], sides[1]))
    return tuple(pairs)


def _parts(joins: Sequence[Join]) -> tuple[list[Occurrence], list[Condition]]:
    return [(join.table, join.occurrence) for join in joins], [one for join in joins for one in join.conditions]


def _as_sets(joins: Sequence[Join]) -> tuple[list[Occurrence], set[frozenset[frozenset[tuple[int, int]]]]]:
    """All that matters to an inner join: its tables, and its conditions in any order."""
    tables, conditions = _parts(joins)
    return sorted(tables), {frozenset(frozenset(pair) for pair in one) for one in conditions}


def _hints(source: Child) -> list[Node]:
    return [source, *_hints(source.children[-1])] if isinstance(source, Node) else []


def _chain(hints: Sequence[Node]) -> Node | None:
    source: Node | None = None
    for hint in reversed(hints):
        source = Node(hint.rule, (*hint.children[:-1], source))
    return source


@settings(max_examples=300, deadline=None)
@given(clause=_clauses())
def test_any_clause_has_a_source_of_which_nothing_can_be_left_out(
    clause: tuple[tuple[Join, ...], list[Occurrence]],
) -> None:
    wanted, needed = clause
    source = find_source(_JOINER, wanted, needed, ordered=False)
    assert _as_sets(_JOINER.build(needed, source)) == _as_sets(wanted)
    hints = _hints(source)
    for out in range(len(hints)):
        fewer = _chain(hints[:out] + hints[out + 1 :])
        assert _as_sets(_JOINER.build(needed, fewer)) != _as_sets(wanted), hints[out]
    ordered = find_source(_JOINER, wanted, needed, ordered=True)
    assert _parts(_JOINER.build(needed, ordered)) == _parts(wanted)


def test_a_query_needs_the_tables_of_its_columns() -> None:
    tree = SqlReader(_SCHEMA).read("SELECT count(*) FROM voyage v JOIN ship s ON v.ship_id = s.ship_id")
    assert occurrences(tree, _SCHEMA) == ((_SCHEMA.table_index["voyage"], 1),), "the rows of the join are voyages"
    assert _hints(tree.children[-1])[0].rule == "Through"
