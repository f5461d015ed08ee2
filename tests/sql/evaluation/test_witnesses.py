"""Which rows a query looks for."""

import pytest

from dtfixup.sql.evaluation.witnesses import CellCondition, GroupSize, Witness, WitnessCell, witness_of
from tests.sql.evaluation.boats import boat_schema

_TABLES = {"boat": ["boat_id", "name", "length", "harbour_id"], "harbour": ["harbour_id", "name", "depth"]}
_SCHEMA = boat_schema(_TABLES, ("boat.harbour_id", "harbour.harbour_id"))


def _cell(part: int, name: str) -> WitnessCell:
    table, column = name.split(".")
    return WitnessCell(part, _SCHEMA.column_index[_SCHEMA.table_index[table], column])


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        ("length > 3", [("boat.length", ">", (3,))]),
        ("length = 3.5 AND name = 'Ida May'", [("boat.length", "=", (3.5,)), ("boat.name", "=", ("Ida May",))]),
        ("length BETWEEN 3 AND 5", [("boat.length", "between", (3, 5))]),
        ("name LIKE '%a'", [("boat.name", "like", ("%a",))]),
        ("name NOT LIKE '%a'", []),
        ("length - boat_id > 3", []),
        ("length > boat_id", []),
    ],
)
def test_conditions_on_literals(where: str, conditions: list[tuple[str, str, tuple[object, ...]]]) -> None:
    witness = witness_of(f"SELECT count(*) FROM boat WHERE {where}", _SCHEMA)
    assert witness.slots == ((0, 0),)
    found = [(condition.cell, condition.operator, condition.literals) for condition in witness.conditions]
    assert found == [(_cell(0, name), operator, literals) for name, operator, literals in conditions]


def test_joins_are_pairs() -> None:
    witness = witness_of("SELECT T1.name FROM boat AS T1 JOIN harbour AS T2 ON T1.harbour_id = T2.harbour_id", _SCHEMA)
    assert witness == Witness(
        pairs=((_cell(0, "boat.harbour_id"), _cell(0, "harbour.harbour_id")),), slots=((0, 0), (0, 1))
    )


def test_subqueries_and_intersections_are_parts_of_their_own() -> None:
    inner = witness_of(
        "SELECT name FROM boat WHERE harbour_id IN (SELECT harbour_id FROM harbour WHERE depth > 3)", _SCHEMA
    )
    assert inner.slots == ((0, 0), (1, 1))
    assert inner.conditions == (CellCondition(_cell(1, "harbour.depth"), ">", (3,)),)
    assert inner.pairs == ((_cell(0, "boat.harbour_id"), _cell(1, "harbour.harbour_id")),)
    text = "SELECT name FROM boat WHERE length > 3 {} SELECT name FROM boat WHERE length < 3"
    assert witness_of(text.format("INTERSECT"), _SCHEMA).pairs == ((_cell(0, "boat.name"), _cell(1, "boat.name")),)
    assert witness_of(text.format("EXCEPT"), _SCHEMA).pairs == ()
    scalar = witness_of("SELECT name FROM boat WHERE length > (SELECT avg(length) FROM boat)", _SCHEMA)
    assert (scalar.slots, scalar.pairs) == (((0, 0), (1, 0)), ())
    negated = witness_of("SELECT name FROM boat WHERE name NOT IN (SELECT name FROM harbour WHERE depth = 1)", _SCHEMA)
    assert (len(negated.conditions), negated.pairs) == (1, ())
    source = witness_of("SELECT count(*) FROM (SELECT name FROM boat WHERE length = 3)", _SCHEMA)
    assert source.conditions == (CellCondition(_cell(1, "boat.length"), "=", (3,)),)


@pytest.mark.parametrize(("having", "size"), [("count(*) > 2", 3), ("count(*) >= 2", 2), ("count(*) = 2", 2)])
def test_sizes_of_groups(having: str, size: int) -> None:
    witness = witness_of(f"SELECT name FROM boat GROUP BY harbour_id HAVING {having}", _SCHEMA)
    assert witness.groups == (GroupSize(_cell(0, "boat.harbour_id"), size),)
    assert witness.conditions == ()


def test_an_unreadable_query_gives_no_hints() -> None:
    assert witness_of("SELECT name FROM boat LEFT JOIN harbour", _SCHEMA) == Witness()
