"""Every wrong query is of some kind, a right one of none."""

import pytest

from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.evaluate import judge
from dtfixup.sql.evaluation.failures import Failure, count_failures, failures_of


@pytest.fixture(scope="module")
def ferry() -> Schema:
    return open_dataset(sample_folder()).schemas["river_ferry"]


GOLD = "SELECT name, city FROM pier WHERE city = 'Linz' ORDER BY name"


@pytest.mark.parametrize(
    ("gold", "predicted", "kinds"),
    [
        (GOLD, "SELECT city, name FROM pier WHERE city = 'Graz' ORDER BY name", ()),
        (GOLD, "SELECT name FROM pier WHERE city = 'Linz' ORDER BY name", (Failure.SHOWN_COLUMNS,)),
        (GOLD, "SELECT name, max(city) FROM pier WHERE city = 'Linz' ORDER BY name", (Failure.AGGREGATE,)),
        (GOLD, "SELECT name, city FROM pier WHERE name = 'Linz' ORDER BY name", (Failure.CONDITION_COLUMNS,)),
        (GOLD, "SELECT name, city FROM pier WHERE city != 'Linz' ORDER BY name", (Failure.CONDITION,)),
        (GOLD, "SELECT name, city FROM pier WHERE city = 'Linz'", (Failure.ORDER,)),
        (GOLD, "SELECT name, city FROM pier WHERE city = 'Linz' ORDER BY name DESC", (Failure.ORDER,)),
        (GOLD, "SELECT name FROM pier WHERE city = 'Linz'", (Failure.SHOWN_COLUMNS, Failure.ORDER)),
        (
            "SELECT city, count(*) FROM pier GROUP BY city",
            "SELECT city, count(*) FROM pier GROUP BY name",
            (Failure.GROUP,),
        ),
        (
            "SELECT city, count(*) FROM pier GROUP BY city HAVING count(*) > 1",
            "SELECT city, count(*) FROM pier GROUP BY city HAVING count(*) < 1",
            (Failure.GROUP,),
        ),
        (
            "SELECT city FROM pier EXCEPT SELECT city FROM pier WHERE name = 'x'",
            "SELECT city FROM pier INTERSECT SELECT city FROM pier WHERE name = 'x'",
            (Failure.SET_OPERATION,),
        ),
        (
            "SELECT name FROM pier WHERE city = 'a' OR name = 'b'",
            "SELECT name FROM pier WHERE city = 'a' AND name = 'b'",
            (Failure.OTHER_WORDS,),
        ),
        ("SELECT count(*) FROM pier", "SELECT count(*) FROM captain", (Failure.TABLES,)),
        (GOLD, "nothing", (Failure.SHOWN_COLUMNS, Failure.CONDITION_COLUMNS, Failure.ORDER)),
    ],
)
def test_kinds(gold: str, predicted: str, kinds: tuple[Failure, ...], ferry: Schema) -> None:
    verdict = judge(gold, predicted, ferry)
    assert failures_of(verdict) == kinds
    assert verdict.exact == (not kinds)


def test_the_commonest_kind_comes_first() -> None:
    found = [(Failure.ORDER,), (Failure.TABLES, Failure.ORDER), (), (Failure.GROUP,)]
    counted = count_failures(found)
    assert list(counted.items()) == [(Failure.ORDER.value, 2), (Failure.GROUP.value, 1), (Failure.TABLES.value, 1)]
