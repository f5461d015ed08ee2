"""What a tree says about its own query: the columns, tables and literals in it."""

from pathlib import Path

from dtfixup.sql.database.schema import read_tables_json
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.grammar.tree import (
    Literal,
    Node,
    literals,
    nodes,
    occurrences,
    references,
    source_rules,
    statement_rules,
)

_SCHEMA = read_tables_json(Path(__file__).parents[1] / "fixtures" / "tables.json")["harbour"]


def _read(sql: str) -> Node:
    return SqlReader(_SCHEMA).read(sql)


def _named(tree: Node) -> list[tuple[str, int]]:
    return [(_SCHEMA.qualified(column), which) for column, which in references(tree)]


def test_references_in_reading_order() -> None:
    tree = _read(
        "SELECT b.name, max(a.age), count(*) FROM crew AS a JOIN crew AS b ON a.boss = b.crew_id "
        "WHERE a.age > 20 AND a.boss < b.ship_id GROUP BY b.name HAVING sum(a.age) > 1 ORDER BY min(b.age)"
    )
    assert _named(tree) == [
        ("crew.name", 2), ("crew.age", 1), ("crew.*", 1), ("crew.age", 1), ("crew.boss", 1), ("crew.ship_id", 2),
        ("crew.name", 2), ("crew.age", 1), ("crew.age", 2),
    ]  # fmt: skip


def test_references_leave_out_nested_queries_and_the_from_clause() -> None:
    tree = _read(
        "SELECT ship.name FROM ship JOIN port ON ship.flag = port.country "
        "WHERE ship.length > (SELECT avg(age) FROM crew) AND port.name IN (SELECT name FROM company)"
    )
    assert tree.children[-1] is not None, "the join is one that must be said"
    assert _named(tree) == [("ship.name", 1), ("ship.length", 1), ("port.name", 1)]


def test_occurrences_once_each_in_order() -> None:
    tree = _read(
        "SELECT T3.name, T1.voyage_id, T2.name, T1.departed FROM voyage AS T1 "
        "JOIN port AS T2 ON T1.from_port = T2.port_id JOIN port AS T3 ON T1.to_port = T3.port_id"
    )
    port, voyage = _SCHEMA.table_index["port"], _SCHEMA.table_index["voyage"]
    assert occurrences(tree, _SCHEMA) == ((port, 2), (voyage, 1), (port, 1))


def test_literals_of_nested_queries_too() -> None:
    tree = _read(
        "SELECT name FROM ship WHERE length > 5 AND flag IN ('a', 'b') AND ship_id IN "
        "(SELECT ship_id FROM crew WHERE name LIKE '%c%' ORDER BY age LIMIT 3) AND built BETWEEN '1' AND '2'"
    )
    kinds = {"5": ValueKind.NUMBER, "3": ValueKind.NUMBER}
    assert list(literals(tree)) == [Literal(text, kinds.get(text, ValueKind.TEXT)) for text in "5abc312"]


def test_nodes_in_reading_order_with_and_without_from_clauses() -> None:
    tree = _read(
        "SELECT s.name FROM ship AS s JOIN port AS p ON s.flag = p.country WHERE s.length > "
        "(SELECT max(depth) FROM port JOIN weather)"
    )
    outside = ["Plain", "One", "Column", "Greater", "Column", "Scalar", "Plain", "One", "Max"]
    assert [node.rule for node in nodes(tree)] == [*outside, "Through", "Through", "On", "Column", "Column"]


def test_rules_that_open_a_query_or_a_from_clause() -> None:
    assert statement_rules() >= {"Plain", "Grouped", "Union", "Intersect", "Except", "CountRows", "UnionRows"}
    assert not statement_rules() & {"Reduce", "Member", "Pair1", "One", "Column"}
    assert source_rules() == {"Through", "Beside", "On", "OrOn"}


def test_a_node_as_text() -> None:
    tree = Node("Count", (3,))
    assert str(tree) == "Count(3)"
    assert str(Node("Distinct", (Node("One", (tree,)),))) == "Distinct(One(Count(3)))"
    assert str(Node("OfMax")) == "OfMax"
    assert str(Node("Through", (0, None))) == "Through(0, None)"
