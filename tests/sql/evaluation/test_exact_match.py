"""Exact match, components and hardness as the official Spider script counts them. The schema is our own."""

import pytest

from dtfixup.errors import SqlError
from dtfixup.sql.evaluation.exact_match import Component, Score, comparable, compare, hardness, matches
from dtfixup.sql.evaluation.spider_reader import read_query, schema_names
from tests.sql.evaluation.boats import boat_schema

_NAMES = schema_names(
    boat_schema(
        {
            "boat": ["boat_id", "name", "length", "harbour_id", "speed"],
            "harbour": ["harbour_id", "name", "depth"],
            "trip": ["trip_id", "boat_id", "length"],
        },
        ("boat.harbour_id", "harbour.harbour_id"),
        ("trip.boat_id", "boat.boat_id"),
    )
)
_BOATS = "SELECT name FROM boat"
_JOINED = "boat AS T1 JOIN harbour AS T2 ON T1.harbour_id = T2.harbour_id"
_JOINED_BY_DEPTH = "boat AS T1 JOIN harbour AS T2 ON T1.harbour_id = T2.depth"


def _scores(predicted: str, gold: str) -> tuple[bool, dict[Component, Score]]:
    one, other = (comparable(read_query(text, _NAMES), _NAMES) for text in (predicted, gold))
    scores = compare(one, other)
    return matches(scores, one, other), scores


def _wrong(predicted: str, gold: str) -> set[Component]:
    return {component for component, score in _scores(predicted, gold)[1].items() if score.f1 == 0}


@pytest.mark.parametrize(
    ("predicted", "gold"),
    [
        ("SELECT name , length FROM boat", "SELECT length , name FROM boat"),
        ("SELECT DISTINCT name FROM boat", _BOATS),
        ("SELECT count(DISTINCT name) FROM boat", "SELECT count(name) FROM boat"),
        (f"{_BOATS} WHERE length > 3", f"{_BOATS} WHERE length > 'x'"),
        (f"{_BOATS} WHERE length = speed", f"{_BOATS} WHERE length = boat_id"),
        (f"{_BOATS} WHERE length > 3 AND speed < 4", f"{_BOATS} WHERE speed < 9 AND length > 3"),
        (f"{_BOATS} LIMIT 3", f"{_BOATS} LIMIT 5"),
        (f"{_BOATS} JOIN trip", "SELECT boat.name FROM trip JOIN boat"),
        (f"SELECT T1.harbour_id FROM {_JOINED}", f"SELECT T2.harbour_id FROM {_JOINED}"),
        (
            "SELECT length FROM boat UNION SELECT length FROM trip",
            "SELECT length FROM boat UNION SELECT length FROM trip",
        ),
        (
            f"{_BOATS} UNION SELECT name FROM harbour WHERE depth > 3",
            f"{_BOATS} UNION SELECT name FROM harbour WHERE depth > 4",
        ),
        (f"{_BOATS} GROUP BY name HAVING count(DISTINCT speed) > 1", f"{_BOATS} GROUP BY name HAVING count(speed) > 2"),
        (
            f"SELECT count(*) FROM {_JOINED} GROUP BY T1.harbour_id",
            f"SELECT count(*) FROM {_JOINED} GROUP BY T2.harbour_id",
        ),
        # In a subquery joins count, except for the column on the right.
        (
            f"SELECT name FROM trip JOIN boat WHERE name IN (SELECT T1.name FROM {_JOINED})",
            f"SELECT name FROM trip JOIN boat WHERE name IN (SELECT T1.name FROM {_JOINED_BY_DEPTH})",
        ),
        # The joins themselves are not compared, only the tables.
        (f"SELECT T1.name FROM {_JOINED}", "SELECT T1.name FROM boat AS T1 JOIN harbour AS T2 ON T1.name = T2.name"),
        # ORDER BY takes the last direction for all of its columns.
        (f"{_BOATS} ORDER BY speed DESC , length ASC", f"{_BOATS} ORDER BY speed ASC , length ASC"),
        # The columns that are grouped by may stand under different aggregates.
        (f"{_BOATS} GROUP BY max(name)", f"{_BOATS} GROUP BY name"),
    ],
)
def test_what_matches(predicted: str, gold: str) -> None:
    assert _scores(predicted, gold)[0]


@pytest.mark.parametrize(
    ("predicted", "gold", "wrong"),
    [
        ("SELECT max(length) FROM boat", "SELECT min(length) FROM boat", {Component.SELECT}),
        (_BOATS, "SELECT name , length FROM boat", {Component.SELECT, Component.SELECT_COLUMNS}),
        (f"{_BOATS} WHERE length > 3", f"{_BOATS} WHERE length < 3", {Component.WHERE}),
        (f"{_BOATS} WHERE name LIKE 'a'", f"{_BOATS} WHERE name = 'a'", {Component.WHERE, Component.KEYWORDS}),
        (
            f"{_BOATS} WHERE name IN (SELECT name FROM harbour)",
            f"{_BOATS} WHERE name = (SELECT name FROM harbour)",
            {Component.WHERE, Component.KEYWORDS},
        ),
        (
            f"{_BOATS} WHERE length > 3 AND speed > 3",
            f"{_BOATS} WHERE length > 3 OR speed > 3",
            {Component.AND_OR, Component.KEYWORDS},
        ),
        (
            f"SELECT count(*) FROM {_JOINED} GROUP BY T1.name",
            f"SELECT count(*) FROM {_JOINED} GROUP BY T2.name",
            {Component.GROUP},
        ),
        (f"{_BOATS} GROUP BY name , speed", f"{_BOATS} GROUP BY speed , name", {Component.GROUP}),
        (
            f"{_BOATS} GROUP BY name HAVING count(*) > 1",
            f"{_BOATS} GROUP BY name HAVING count(*) < 1",
            {Component.GROUP},
        ),
        (
            f"{_BOATS} GROUP BY name HAVING count(*) > 1",
            f"{_BOATS} GROUP BY name",
            {Component.GROUP, Component.KEYWORDS},
        ),
        (f"{_BOATS} ORDER BY speed DESC", f"{_BOATS} ORDER BY speed", {Component.ORDER, Component.KEYWORDS}),
        (f"{_BOATS} ORDER BY speed , length", f"{_BOATS} ORDER BY length , speed", {Component.ORDER}),
        (f"{_BOATS} ORDER BY speed LIMIT 1", f"{_BOATS} ORDER BY speed", {Component.ORDER, Component.KEYWORDS}),
        (
            f"{_BOATS} UNION SELECT name FROM harbour",
            f"{_BOATS} INTERSECT SELECT name FROM harbour",
            {Component.SET_OPERATION, Component.KEYWORDS},
        ),
        (
            f"{_BOATS} UNION SELECT name FROM harbour",
            f"{_BOATS} UNION SELECT name FROM boat",
            {Component.SET_OPERATION},
        ),
        # DISTINCT, column order and keys count inside a subquery, literals do not.
        (
            f"{_BOATS} WHERE length > (SELECT DISTINCT length FROM trip)",
            f"{_BOATS} WHERE length > (SELECT length FROM trip)",
            {Component.WHERE},
        ),
        (
            f"{_BOATS} WHERE speed IN (SELECT length FROM trip WHERE length > 3)",
            f"{_BOATS} WHERE speed IN (SELECT length FROM trip WHERE length > 4)",
            set(),
        ),
        # NOT counts as a keyword wherever it stands, `!=` does not.
        (
            f"SELECT T1.name FROM {_JOINED} AND T1.name NOT LIKE 'a'",
            f"SELECT T1.name FROM {_JOINED} AND T1.name LIKE 'a'",
            {Component.KEYWORDS},
        ),
    ],
)
def test_which_components_are_wrong(predicted: str, gold: str, wrong: set[Component]) -> None:
    assert _wrong(predicted, gold) == wrong
    assert _scores(predicted, gold)[0] == (not wrong)


def test_comparable_queries_are_equal_where_only_ignored_things_differ() -> None:
    one = read_query(f"SELECT DISTINCT T1.harbour_id FROM {_JOINED} WHERE T1.speed > 3", _NAMES)
    other = read_query(f"SELECT T2.harbour_id FROM {_JOINED} WHERE T1.speed > 4", _NAMES)
    assert one != other
    assert comparable(one, _NAMES) == comparable(other, _NAMES)


def test_tables_decide_where_all_components_agree() -> None:
    predicted, gold = "SELECT count(*) FROM boat", "SELECT count(*) FROM trip"
    assert _wrong(predicted, gold) == set()
    assert not _scores(predicted, gold)[0]
    assert _scores("SELECT count(*) FROM boat", "SELECT count(*) FROM")[0]


def test_literals_count_in_a_subquery_of_from() -> None:
    text = "SELECT count(*) FROM (SELECT name FROM boat WHERE length > {})"
    assert _scores(text.format(3), text.format("3.0"))[0]
    assert not _scores(text.format(3), text.format(4))[0]
    assert _wrong(text.format(3), text.format(4)) == set()


def test_a_key_column_is_replaced_only_if_the_outermost_from_names_its_table() -> None:
    # Without boat in FROM, harbour.harbour_id still becomes boat.harbour_id; boat's columns need boat in FROM.
    assert _wrong("SELECT harbour_id FROM harbour", "SELECT harbour_id FROM boat") == set()
    union = "SELECT length FROM trip UNION SELECT {} FROM boat"
    assert Component.SET_OPERATION in _wrong(union.format("boat_id"), union.format("speed"))
    inner = f"{_BOATS} WHERE boat_id IN (SELECT {{}} FROM trip JOIN boat)"
    assert _wrong(inner.format("trip.boat_id"), inner.format("boat.boat_id")) == {Component.WHERE}
    other = "SELECT {} FROM trip UNION SELECT {} FROM boat JOIN trip"
    assert _wrong(other.format("length", "trip.boat_id"), other.format("length", "boat.boat_id")) == set()
    outer = "SELECT name FROM harbour UNION SELECT {} FROM boat JOIN trip"
    assert _wrong(outer.format("trip.boat_id"), outer.format("boat.boat_id")) == {Component.SET_OPERATION}


def test_counts_of_a_score() -> None:
    scores = _scores("SELECT name , length FROM boat WHERE length > 3 AND speed > 4", _BOATS)[1]
    assert scores[Component.SELECT] == Score(0, predicted=2, gold=1)
    assert scores[Component.WHERE] == Score(0, predicted=2, gold=0)
    assert scores[Component.KEYWORDS] == Score(0, predicted=1, gold=0)
    assert scores[Component.ORDER] == Score(1, predicted=0, gold=0)
    # The script confuses the two counts of and/or, and counts agreement about nothing.
    assert scores[Component.AND_OR] == Score(0, predicted=0, gold=1)
    assert _scores(_BOATS, _BOATS)[1][Component.AND_OR] == Score(1, 1, 1)


def test_a_missing_connective_breaks_the_comparison() -> None:
    """The script stops with an error here, for the whole file; we call the query unreadable."""
    query = read_query(f"{_BOATS} WHERE length > 3 speed > 4 AND length < 9", _NAMES)
    with pytest.raises(SqlError, match="AND stands where a condition should"):
        comparable(query, _NAMES)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        (_BOATS, "easy"),
        ("SELECT count(*) FROM boat WHERE length > 3", "easy"),
        (f"{_BOATS} ORDER BY speed LIMIT 1", "medium"),
        ("SELECT name , length FROM boat", "medium"),
        ("SELECT max(speed) , min(speed) FROM boat", "medium"),
        (f"{_BOATS} WHERE name LIKE 'a'", "medium"),
        (f"{_BOATS} WHERE speed > 1 AND length > 1", "medium"),
        (f"{_BOATS} WHERE speed > 1 OR length > 1", "medium"),
        ("SELECT name , length FROM boat WHERE speed > 1 OR length > 1", "extra"),
        (f"SELECT T1.name FROM {_JOINED} WHERE T1.speed > 1", "medium"),
        (f"SELECT T1.name FROM {_JOINED} WHERE T1.speed > 1 ORDER BY T1.speed", "hard"),
        (f"SELECT T1.name FROM {_JOINED} AND T1.speed = 3 OR T1.name = T2.name WHERE T1.speed > 1", "hard"),
        (f"SELECT T1.name , depth FROM {_JOINED} WHERE T1.speed > 1 AND depth > 2 ORDER BY depth", "hard"),
        (f"SELECT T1.name FROM {_JOINED} WHERE T1.speed > 1 ORDER BY T1.speed LIMIT 1", "extra"),
        ("SELECT max(speed) , min(speed) FROM boat WHERE speed > 1 AND length > 1", "hard"),
        # NOT, and AND in HAVING, count as aggregates.
        ("SELECT count(*) FROM boat WHERE name NOT IN (SELECT name FROM harbour)", "extra"),
        (f"{_BOATS} WHERE name NOT IN (SELECT name FROM harbour)", "hard"),
        (f"{_BOATS} GROUP BY name HAVING count(*) > 1", "easy"),
        (f"{_BOATS} GROUP BY name HAVING count(*) > 1 AND max(speed) > 1", "easy"),
        ("SELECT count(*) FROM boat GROUP BY name HAVING count(*) > 1 AND max(speed) > 1", "medium"),
        ("SELECT count(*) FROM boat GROUP BY max(name)", "medium"),
        (f"{_BOATS} ORDER BY max(speed) - min(speed)", "medium"),
        (f"{_BOATS} UNION SELECT name FROM harbour", "hard"),
        ("SELECT name , length FROM boat UNION SELECT name , depth FROM harbour", "extra"),
        (f"{_BOATS} WHERE speed > (SELECT avg(speed) FROM boat) UNION SELECT name FROM boat", "extra"),
        # A subquery of FROM is a table like any other.
        ("SELECT count(*) FROM (SELECT name FROM boat)", "easy"),
    ],
)
def test_hardness(text: str, level: str) -> None:
    assert hardness(read_query(text, _NAMES)) == level
