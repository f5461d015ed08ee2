"""Columns and literals in the tree of a template."""

import pytest

from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.tree import Literal, Node
from dtfixup.sql.linking.inputs import DatabaseInputs
from dtfixup.sql.synthesis.templates.template import (
    columns_in,
    grouping_columns,
    literal_uses,
    literals_in,
    replace_leaves,
    shown_columns,
)


@pytest.fixture
def reader(kennels: DatabaseInputs) -> SqlReader:
    return SqlReader(kennels.schema)


@pytest.mark.parametrize(
    ("query", "uses"),
    [
        ("SELECT color FROM dog WHERE weight BETWEEN 2 AND 30", [("2", "weight"), ("30", "weight")]),
        ("SELECT color FROM dog WHERE breed LIKE '%oo%' LIMIT 3", [("oo", "breed"), ("3", None)]),
        ("SELECT breed FROM dog GROUP BY breed HAVING count(*) > 2", [("2", None)]),
        ("SELECT name FROM owner WHERE owner_id IN (SELECT owner_id FROM dog WHERE weight < 5)", [("5", "weight")]),
    ],
)
def test_literals_with_their_columns(
    query: str, uses: list[tuple[str, str | None]], reader: SqlReader, kennels: DatabaseInputs
) -> None:
    names = [column.name for column in kennels.schema.columns]
    literals = literal_uses(reader.read(query))
    assert [(literal.text, None if column is None else names[column]) for literal, _, column in literals] == uses


def test_columns_that_are_shown_and_grouped(reader: SqlReader, kennels: DatabaseInputs) -> None:
    names = [column.name for column in kennels.schema.columns]
    tree = reader.read("SELECT breed, max(weight) FROM dog WHERE color = 'red' GROUP BY breed")
    assert {names[column] for column in shown_columns(tree)} == {"breed", "weight"}
    assert {names[column] for column in grouping_columns(tree)} == {"breed"}
    both = reader.read("SELECT color FROM dog WHERE weight > 2 INTERSECT SELECT color FROM dog WHERE weight < 9")
    assert {names[column] for column in grouping_columns(both)} == {"color"}


def test_leaves_are_replaced_in_reading_order(reader: SqlReader) -> None:
    tree = reader.read("SELECT color FROM dog WHERE weight > 2 AND breed = 'poodle'")
    same = {column: column for column in columns_in(tree)}
    assert replace_leaves(tree, same, literals_in(tree)) == tree
    changed = replace_leaves(tree, same, (Literal(f"{literal.text}0", literal.kind) for literal in literals_in(tree)))
    assert isinstance(changed, Node)
    assert [literal.text for literal in literals_in(changed)] == ["20", "poodle0"]
