"""What gold queries say, and the figures made of it."""

import pytest

from dtfixup.errors import SqlError
from dtfixup.sql.evaluation.link_figures import GoldLiteral, LinkFigures, read_gold
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.linking.candidates import Candidate, Source
from dtfixup.sql.linking.links import Item, Links, MatchKind, NameLink, ValueLink, ValueMatch
from tests.sql.record_shop import SCHEMA

AGE, NAME, COUNTRY = (SCHEMA.column_index[0, name] for name in ("age", "name", "country"))
TITLE, PRICE = (SCHEMA.column_index[1, name] for name in ("title", "list_price"))


def _candidate(text: str, kind: ValueKind = ValueKind.TEXT) -> Candidate:
    return Candidate(text, kind, None, None, None, Source.QUOTED)


@pytest.mark.parametrize(
    ("query", "tables", "columns", "literals"),
    [
        (
            "SELECT T2.title FROM artist AS T1 JOIN album AS T2 ON T1.artist_id = T2.artist_id WHERE T1.age > 30",
            {0, 1},
            {TITLE, AGE},
            [GoldLiteral("30", False, AGE)],
        ),
        (
            'SELECT name FROM artist WHERE country = "France"',
            {0},
            {NAME, COUNTRY},
            [GoldLiteral("France", True, COUNTRY)],
        ),
        ('SELECT "name" FROM artist LIMIT 3', {0}, {NAME}, [GoldLiteral("3", False, None)]),
        ("SELECT * FROM album WHERE title LIKE '%Hey%'", {1}, {TITLE}, [GoldLiteral("Hey", True, TITLE)]),
        (
            "SELECT count(*) FROM album WHERE list_price BETWEEN -1 AND 2.5",
            {1},
            {PRICE},
            [GoldLiteral("-1", False, PRICE), GoldLiteral("2.5", False, PRICE)],
        ),
        (
            "SELECT name FROM artist WHERE age = (SELECT max(age) FROM artist) OR 5 < age",
            {0},
            {NAME, AGE},
            [GoldLiteral("5", False, AGE)],
        ),
        (
            "SELECT country FROM artist GROUP BY country HAVING count(*) > 2",
            {0},
            {COUNTRY},
            [GoldLiteral("2", False, None)],
        ),
    ],
)
def test_what_a_query_says(query: str, tables: set[int], columns: set[int], literals: list[GoldLiteral]) -> None:
    gold = read_gold(query, SCHEMA)
    assert (gold.tables, gold.columns) == (tables, columns)
    assert sorted(gold.literals, key=lambda literal: literal.text) == literals


def test_a_query_that_cannot_be_read() -> None:
    with pytest.raises(SqlError, match="cannot be read"):
        read_gold("SELECT FROM WHERE (", SCHEMA)


def test_recall_and_precision() -> None:
    figures = LinkFigures()
    gold = read_gold("SELECT name FROM artist WHERE age > 30", SCHEMA)
    links = Links(
        (
            NameLink(0, 1, Item.COLUMN, NAME, MatchKind.EXACT),
            NameLink(0, 1, Item.COLUMN, TITLE, MatchKind.PARTIAL),
            NameLink(1, 2, Item.TABLE, 1, MatchKind.EXACT),
        ),
        (ValueLink(2, 3, AGE, "30", ValueMatch.NUMBER, 0.6), ValueLink(2, 3, PRICE, "30", ValueMatch.NUMBER, 0.2)),
    )
    figures.add(gold, links, [])
    rates = figures.summary()["links"]
    assert rates["columns, exact name"] == {"recall": 0.5, "precision": 1.0, "gold": 2, "linked": 1}
    assert rates["columns, exact or partial name"] == {"recall": 0.5, "precision": 0.5, "gold": 2, "linked": 2}
    assert rates["columns, name or value"] == {"recall": 1.0, "precision": 0.6667, "gold": 2, "linked": 3}
    assert rates["tables, exact name"] == {"recall": 0.0, "precision": 0.0, "gold": 1, "linked": 1}
    assert rates["compared columns, value"] == {"recall": 1.0, "precision": 1.0, "gold": 1, "linked": 1}


def test_coverage_counts_whole_literals() -> None:
    figures = LinkFigures()
    query = "SELECT name FROM artist WHERE country = 'France' LIMIT 3"
    gold, nothing = read_gold(query, SCHEMA), Links((), ())
    number = _candidate("3", ValueKind.NUMBER)
    assert figures.add(gold, nothing, [_candidate("France"), number]) == []
    (missed,) = figures.add(gold, nothing, [_candidate("france"), number])
    assert missed.text == "France"
    (missed,) = figures.add(gold, nothing, [_candidate("France"), _candidate("3")])  # LIMIT takes a number
    assert missed.text == "3"
    assert len(figures.add(gold, nothing, [])) == 2
    summary = figures.summary()
    assert summary["queries with every literal a candidate"] == 0.25
    assert summary["the same but for case"] == 0.75
    assert summary["candidates"] == {"median": 2, "mean": 1.5, "most": 2}
    assert summary["sources"]["quoted"] == {"per question": 1.5, "literals found": 4}


def test_no_questions_no_figures() -> None:
    assert LinkFigures().summary() == {"questions": 0}
