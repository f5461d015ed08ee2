"""Rows that satisfy a witness among random ones."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.sql.evaluation.planting import Planter, nearby_value
from dtfixup.sql.evaluation.witnesses import witness_of
from tests.sql.evaluation.boats import boat_schema

_TABLES = {"boat": ["boat_id", "name", "length", "harbour_id"], "harbour": ["harbour_id", "town", "depth"]}
_SCHEMA = boat_schema(_TABLES, ("boat.harbour_id", "harbour.harbour_id"))
_BOAT_ID, _NAME, _LENGTH, _BOAT_HARBOUR = 1, 2, 3, 4
_HARBOUR, _TOWN, _DEPTH = 6, 7, 8
_KEYS = frozenset({_BOAT_ID, _HARBOUR})
_ROWS = 12


def _cells() -> dict[int, list[Any]]:
    return {
        _BOAT_ID: list(range(_ROWS)),
        _NAME: ["x"] * _ROWS,
        _LENGTH: [0] * _ROWS,
        _BOAT_HARBOUR: [row % 3 for row in range(_ROWS)],
        _HARBOUR: list(range(_ROWS)),
        _TOWN: ["y"] * _ROWS,
        _DEPTH: [0] * _ROWS,
    }


def _planted(query: str, seed: int, times: int = 1) -> tuple[dict[int, list[Any]], set[tuple[int, int]]]:
    cells = _cells()
    planter = Planter(_SCHEMA, witness_of(query, _SCHEMA), cells, _KEYS, random.Random(seed))
    return cells, {row for _ in range(times) for row in planter.plant()}


@given(
    st.integers() | st.floats(-1e9, 1e9) | st.from_regex(r"[a-z]{2,5}[1-9][0-9]{0,3}", fullmatch=True), st.integers()
)
def test_near_values_lie_on_the_asked_side(value: Any, seed: int) -> None:
    above, below = (nearby_value(value, random.Random(seed), direction) for direction in (1, -1))
    assert type(above) is type(below) is type(value)
    if not isinstance(value, str) or len(above) == len(below) == len(value):
        assert below < value < above


@pytest.mark.parametrize("value", ["2009-12-31", "room 07", "Anna", "", None, b"x"])
def test_near_keeps_the_kind(value: Any) -> None:
    assert type(nearby_value(value, random.Random(0))) is type(value)
    assert nearby_value("room 07", random.Random(0), 1) == "room 08"


@given(st.integers())
def test_conditions_of_joined_rows_hold_together(seed: int) -> None:
    query = (
        "SELECT count(*) FROM boat AS T1 JOIN harbour AS T2 ON T1.harbour_id = T2.harbour_id "
        "WHERE T1.name = 'Ida' AND T2.town = 'Rye'"
    )
    cells, planted = _planted(query, seed)
    ((boat,), (harbour,)) = ([row for table, row in planted if table == wanted] for wanted in (0, 1))
    assert cells[_NAME][boat] == "Ida"
    assert cells[_TOWN][harbour] == "Rye"
    assert cells[_BOAT_HARBOUR][boat] == cells[_HARBOUR][harbour]


@given(st.integers())
def test_keys_choose_the_row_and_keep_their_values(seed: int) -> None:
    cells, planted = _planted("SELECT name FROM boat WHERE boat_id = 7 AND name = 'Ida'", seed)
    assert planted == {(0, 7)}
    assert cells[_BOAT_ID] == list(range(_ROWS))
    assert cells[_NAME][7] == "Ida"


@given(st.integers())
def test_a_condition_on_a_foreign_key_finds_its_parent(seed: int) -> None:
    query = (
        "SELECT count(*) FROM boat AS T1 JOIN harbour AS T2 ON T1.harbour_id = T2.harbour_id "
        "WHERE T1.harbour_id = 9 AND T2.town = 'Rye'"
    )
    cells, planted = _planted(query, seed)
    assert (1, 9) in planted
    assert cells[_TOWN][9] == "Rye"
    assert 9 in cells[_BOAT_HARBOUR]


def test_a_foreign_key_takes_no_value_that_its_parent_lacks() -> None:
    cells, _ = _planted("SELECT name FROM boat WHERE harbour_id = 99", seed=0, times=20)
    assert cells[_BOAT_HARBOUR] == _cells()[_BOAT_HARBOUR]


@pytest.mark.parametrize(
    ("where", "inside", "outside"),
    [
        ("length > 10", range(11, 100), {10}),
        ("length < 10", range(-100, 10), {10}),
        ("length >= 10", {10}, set()),
        ("length BETWEEN 10 AND 20", range(10, 21), set()),
    ],
)
def test_values_stand_inside_and_now_and_then_at_the_edge(where: str, inside: Any, outside: set[int]) -> None:
    cells, _ = _planted(f"SELECT name FROM boat WHERE {where}", seed=1, times=60)
    found = set(cells[_LENGTH]) - {0}
    assert any(value in inside for value in found)
    assert {value for value in found if value not in inside} <= outside
    assert outside <= found


def test_patterns_are_filled_in() -> None:
    cells, _ = _planted("SELECT name FROM boat WHERE name LIKE '%in_Z%'", seed=0, times=30)
    found = set(cells[_NAME]) - {"x"}
    assert all("inaZ" in name for name in found)
    assert len(found) > 1


def test_unequal_leaves_most_rows_as_they_are() -> None:
    cells, _ = _planted("SELECT name FROM boat WHERE name != 'Ida' AND length = 5", seed=0, times=40)
    chosen = [name for name, length in zip(cells[_NAME], cells[_LENGTH], strict=True) if length == 5]
    assert {"x", "Ida"} == set(chosen)


@pytest.mark.parametrize("column", ["T1.harbour_id", "T2.harbour_id"])
@given(st.integers())
def test_groups_are_large_enough(column: str, seed: int) -> None:
    cells, _ = _planted(
        "SELECT count(*) FROM boat AS T1 JOIN harbour AS T2 ON T1.harbour_id = T2.harbour_id "
        f"GROUP BY {column} HAVING count(*) > 6",
        seed,
    )
    assert max(cells[_BOAT_HARBOUR].count(harbour) for harbour in cells[_HARBOUR]) >= 7
    assert cells[_HARBOUR] == list(range(_ROWS))


def test_a_group_larger_than_the_table_is_left_out() -> None:
    cells, _ = _planted("SELECT count(*) FROM boat GROUP BY name HAVING count(*) > 50", seed=0)
    assert cells == _cells()


@given(st.integers())
def test_an_intersection_gets_two_rows_that_agree(seed: int) -> None:
    cells, planted = _planted(
        "SELECT town FROM harbour WHERE depth = 1 INTERSECT SELECT town FROM harbour WHERE depth = 2", seed
    )
    rows = [row for _, row in planted]
    if len(rows) == 2:
        assert {cells[_DEPTH][row] for row in rows} == {1, 2}
        assert len({cells[_TOWN][row] for row in rows}) == 1
