"""Sketch, columns and clauses of two queries: hand-made pairs over a bundled database, and what holds for all pairs."""

from itertools import product

import pytest

from dtfixup.errors import SqlError
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.error_kinds import Clause, Difference, difference
from dtfixup.sql.evaluation.evaluate import judge

SAME, COLUMN, SKETCH, BOTH = (False, False), (False, True), (True, False), (True, True)
LONGEST = "SELECT title FROM film ORDER BY runtime DESC LIMIT 1"
YOUNG = "SELECT title FROM film WHERE director_id IN (SELECT director_id FROM director WHERE birth_year > 1990)"
OF_DIRECTORS = "SELECT {} FROM director AS T1 JOIN film AS T2 ON T1.director_id = T2.director_id {}"
FRENCH = "SELECT name FROM director WHERE country = 'France'"


@pytest.fixture(scope="module")
def schema() -> Schema:
    return open_dataset(sample_folder()).schemas["film_festival"]


@pytest.mark.parametrize(
    ("gold", "predicted", "wrong", "clauses"),
    [
        # What exact match leaves out is no difference, in nested queries neither.
        (FRENCH, "SELECT DISTINCT name FROM director WHERE country = 'Peru'", SAME, ""),
        ("SELECT title, genre FROM film", "SELECT genre, title FROM film", SAME, ""),
        (YOUNG, YOUNG.replace("SELECT d", "SELECT DISTINCT d").replace("1990", "2000"), SAME, ""),
        (
            "SELECT title FROM film WHERE runtime > (SELECT max(runtime) FROM film WHERE genre = 'a' AND budget > 1)",
            "SELECT title FROM film WHERE runtime > (SELECT max(runtime) FROM film WHERE budget > 2 AND genre = 'b')",
            SAME,
            "",
        ),
        (
            OF_DIRECTORS.format("T1.name, count(*)", "GROUP BY T1.director_id"),
            OF_DIRECTORS.format("T1.name, count(*)", "GROUP BY T2.director_id"),  # a foreign key: the same values
            SAME,
            "",
        ),
        # The sketch is right, so some column is wrong.
        ("SELECT count(*) FROM film", "SELECT count(title) FROM film", COLUMN, "select"),
        ("SELECT count(*) FROM film", "SELECT count(*) FROM award", COLUMN, "tables"),
        (LONGEST, "SELECT title FROM film ORDER BY budget DESC LIMIT 1", COLUMN, "order by"),
        (FRENCH, OF_DIRECTORS.format("T1.name", "WHERE T2.genre = 'France'"), COLUMN, "where, tables"),
        ("SELECT title, genre FROM film", "SELECT title, title FROM film", COLUMN, "select"),
        (YOUNG, YOUNG.replace("birth_year", "country"), COLUMN, "where"),
        (
            "SELECT country FROM director EXCEPT SELECT country FROM juror",
            "SELECT country FROM director EXCEPT SELECT name FROM juror",
            COLUMN,
            "set operation",
        ),
        (
            "SELECT genre FROM film GROUP BY genre HAVING avg(runtime) > 90",
            "SELECT genre FROM film GROUP BY genre HAVING avg(budget) > 90",
            COLUMN,
            "having",
        ),
        # The sketch is wrong, and the columns that can be aligned are right.
        (LONGEST, "SELECT title FROM film ORDER BY runtime ASC LIMIT 1", SKETCH, "order by"),
        (LONGEST, "SELECT title FROM film ORDER BY runtime DESC", SKETCH, "limit"),
        (LONGEST, "SELECT title FROM film", SKETCH, "order by, limit"),
        (LONGEST, "SELECT title, runtime FROM film ORDER BY runtime DESC LIMIT 1", SKETCH, "select"),
        (FRENCH, FRENCH.replace("=", "!="), SKETCH, "where"),
        (YOUNG, YOUNG.replace("IN", "NOT IN"), SKETCH, "where"),
        (
            "SELECT country FROM director UNION SELECT country FROM juror",
            "SELECT country FROM director INTERSECT SELECT country FROM juror",
            SKETCH,
            "set operation",
        ),
        (FRENCH, f"{FRENCH} AND birth_year > 1990", SKETCH, "where"),
        (
            "SELECT title FROM film WHERE genre = 'a' AND budget > 1",
            "SELECT title FROM film WHERE genre = 'a' OR budget > 1",
            SKETCH,
            "where",
        ),
        (
            LONGEST,
            "SELECT title FROM film WHERE runtime = (SELECT max(runtime) FROM film)",
            SKETCH,
            "where, order by, limit",
        ),
        (  # a join in place of the nested query: the condition has moved, and its column is right
            "SELECT title FROM film WHERE director_id IN (SELECT director_id FROM director WHERE birth_year > 1990)",
            OF_DIRECTORS.format("T2.title", "WHERE T1.birth_year > 1990"),
            SKETCH,
            "where, tables",
        ),
        (
            "SELECT title FROM film WHERE genre = 'a' INTERSECT SELECT title FROM film WHERE budget > 1",
            "SELECT title FROM film WHERE genre = 'a' AND budget > 1",
            SKETCH,
            "where, set operation",
        ),
        (
            "SELECT title FROM film WHERE genre = 'a' INTERSECT SELECT title FROM film WHERE budget > 1",
            "SELECT title FROM film WHERE budget > 1",
            SKETCH,
            "where, set operation",
        ),
        ("SELECT count(*) FROM (SELECT genre FROM film GROUP BY genre)", "SELECT count(*) FROM film", SKETCH, "tables"),
        # Both: one column comes in place of another.
        (LONGEST, "SELECT title FROM film ORDER BY budget ASC LIMIT 1", BOTH, "order by"),
        (LONGEST, "SELECT count(*) FROM film ORDER BY runtime DESC LIMIT 1", BOTH, "select"),
        ("SELECT count(*) FROM film", "SELECT count(*), name FROM award", BOTH, "select, tables"),
        (  # in the same clause, though all columns are the same
            "SELECT title FROM film WHERE runtime > 90 ORDER BY budget DESC",
            "SELECT title FROM film WHERE budget > 90 ORDER BY runtime ASC",
            BOTH,
            "where, order by",
        ),
        (  # in a clause that only one of them has, so altogether
            LONGEST,
            "SELECT title FROM film WHERE budget = (SELECT max(budget) FROM film)",
            BOTH,
            "where, order by, limit",
        ),
        (  # as often as it stands there
            "SELECT min(runtime), avg(runtime) FROM film",
            "SELECT min(runtime), max(budget) FROM film",
            BOTH,
            "select",
        ),
        (  # tables alone, of nested queries in different places
            YOUNG,
            "SELECT title FROM film EXCEPT SELECT T1.title FROM film AS T1 JOIN award AS T2 ON T1.film_id = T2.film_id",
            BOTH,
            "where, set operation",
        ),
        ("SELECT title, box_office - budget FROM film", "SELECT title, box_office + runtime FROM film", BOTH, "select"),
        (
            "SELECT count(*) FROM film GROUP BY genre",
            "SELECT count(*) FROM film GROUP BY genre, language LIMIT 1",
            SKETCH,
            "group by, limit",
        ),
        (
            "SELECT count(*), genre FROM film GROUP BY genre",
            "SELECT count(*), genre FROM film GROUP BY language LIMIT 1",
            BOTH,
            "group by, limit",
        ),
        (  # gold has it in another clause, which is no move
            "SELECT title FROM film WHERE genre = 'a' ORDER BY budget",
            "SELECT genre FROM film ORDER BY budget",
            BOTH,
            "select, where",
        ),
        (YOUNG, YOUNG.replace("birth_year >", "country !="), BOTH, "where"),
        (FRENCH, "SELECT name FROM", BOTH, "select, where, tables"),
        (FRENCH, "", BOTH, "select, where, tables"),
    ],
)
def test_what_is_wrong_with_a_query(
    gold: str, predicted: str, wrong: tuple[bool, bool], clauses: str, schema: Schema
) -> None:
    found = difference(gold, predicted, schema)
    assert (found.sketch, found.columns) == wrong
    assert ", ".join(found.clauses) == clauses


def test_every_pair_of_queries(schema: Schema) -> None:
    """What exact match calls right has no difference, and which of the two is gold does not matter."""
    examples = open_dataset(sample_folder()).split("dev")
    queries = [example.query for example in examples if example.database == schema.database]
    for gold, predicted in product(queries[::2], queries):
        found = difference(gold, predicted, schema)
        assert bool(found.clauses) == (found.sketch or found.columns)
        assert not (judge(gold, predicted, schema).exact and found.clauses), (gold, predicted)
        assert (gold == predicted) == (found == Difference(False, False, ())), (gold, predicted)
        assert difference(predicted, gold, schema) == found, (gold, predicted)


def test_clauses_come_in_their_order(schema: Schema) -> None:
    found = difference(LONGEST, "SELECT count(*) FROM award GROUP BY name", schema)
    assert found.clauses == (Clause.SELECT, Clause.GROUP, Clause.ORDER, Clause.LIMIT, Clause.TABLES)


def test_a_gold_query_that_cannot_be_read_is_an_error(schema: Schema) -> None:
    with pytest.raises(SqlError):
        difference("SELECT nothing FROM nowhere", LONGEST, schema)
