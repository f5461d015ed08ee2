"""Which results are equal, and which queries order their results."""

import itertools
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.sql.evaluation.same_rows import equal_results, is_ordered


@pytest.mark.parametrize(
    ("sql", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("select a from t\norder\tby a limit 3", True),
        ("SELECT a FROM t WHERE b IN (SELECT b FROM u ORDER BY b LIMIT 1)", False),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a) ORDER BY a", True),
        ("SELECT 'order by (' FROM t", False),
        ("SELECT a FROM t WHERE b = 'it''s)' ORDER BY a", True),
        ('SELECT "order" FROM t -- order by a', False),
        ("SELECT a FROM t /* order by ( */ ORDER BY a", True),
        ("SELECT orders FROM t", False),
    ],
)
def test_order_of_the_whole_query(sql: str, ordered: bool) -> None:
    assert is_ordered(sql) is ordered


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ([], []),
        ([(1,), (2,)], [(2,), (1,)]),
        ([(1, "a"), (2, "b")], [("a", 1), ("b", 2)]),
        ([(1,)], [(1.0,)]),
        ([(1,)], [(True,)]),
        ([(Decimal("1.50"),)], [(1.5,)]),
        ([(0.1 + 0.2,)], [(0.3,)]),
        ([(100_000_000_000,)], [(100_000_000_000.00002,)]),
        ([(0,)], [(1e-15,)]),
        ([(1e300,)], [(Decimal(10) ** 300,)]),
        ([(None,), (None,)], [(None,), (None,)]),
        ([(b"x",)], [(b"x",)]),
        ([(float("nan"),)], [(float("nan"),)]),
        ([([1, 2],)], [([1, 2],)]),
        ([(0.3, "b"), (0.1 + 0.2, "a")], [(0.3, "a"), (0.3, "b")]),
        ([(1, 1, 2)], [(2, 1, 1)]),
    ],
)
def test_equal_results(gold: list[Any], predicted: list[Any]) -> None:
    assert equal_results(gold, predicted, ordered=False)
    assert equal_results(predicted, gold, ordered=False)


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ([(1,)], []),
        ([(1,)], [(1,), (1,)]),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)]),
        ([(1,)], [(1, 1)]),
        ([(1,)], [("1",)]),
        ([(None,)], [(0,)]),
        ([(None,)], [("None",)]),
        ([("x",)], [(b"x",)]),
        ([("x",)], [("X",)]),
        ([(1.0001,)], [(1.0002,)]),
        ([(0.0,)], [(float("nan"),)]),
        ([([1, 2],)], [("[1, 2]",)]),
        ([([1, 2],)], [([2, 1],)]),
        ([(10_000_000_001,)], [(10_000_000_002,)]),
        # Every column has the right values, in no order of columns are the rows right.
        ([(1, 1), (2, 2)], [(1, 2), (2, 1)]),
        ([(1, 1, 2)], [(2, 2, 1)]),
    ],
)
def test_unequal_results(gold: list[Any], predicted: list[Any]) -> None:
    assert not equal_results(gold, predicted, ordered=False)
    assert not equal_results(predicted, gold, ordered=False)


def test_order_counts_where_the_gold_query_orders() -> None:
    assert equal_results([(1, "a"), (2, "b")], [("a", 1), ("b", 2)], ordered=True)
    assert not equal_results([(1, "a"), (2, "b")], [("b", 2), ("a", 1)], ordered=True)
    assert not equal_results([(1, 1), (2, 3)], [(1, 1), (2, 2)], ordered=True)


_ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.tuples(*[st.integers(0, 2)] * width), min_size=1, max_size=5)
)


@given(_ROWS, st.randoms(use_true_random=False))
def test_any_order_of_rows_and_columns_is_the_same(rows: list[tuple[int, ...]], rng: random.Random) -> None:
    order = rng.sample(range(len(rows[0])), len(rows[0]))
    other = [tuple(row[place] for place in order) for row in rng.sample(rows, len(rows))]
    assert equal_results(rows, other, ordered=False)


@given(_ROWS, st.data())
def test_agrees_with_trying_every_order(rows: list[tuple[int, ...]], data: st.DataObject) -> None:
    cells = st.tuples(*[st.integers(0, 2)] * len(rows[0]))
    other = data.draw(st.permutations(rows) | st.lists(cells, min_size=len(rows), max_size=len(rows)))
    columns = list(data.draw(st.permutations([list(column) for column in zip(*other, strict=True)])))
    for column in columns:  # each column keeps its values, so that counting them does not decide
        column[:] = data.draw(st.permutations(column)) if data.draw(st.booleans()) else column
    other = list(zip(*columns, strict=True))
    orders = itertools.permutations(range(len(rows[0])))
    expected = any(Counter(tuple(row[p] for p in order) for row in other) == Counter(rows) for order in orders)
    assert equal_results(rows, other, ordered=False) == expected


def test_twenty_columns_alike_are_matched_without_trying_every_order() -> None:
    """Every column has the same values; 20! orders would never end."""
    rng = random.Random(0)
    columns = [rng.sample([0, 1] * 15, 30) for _ in range(20)]
    rows = list(zip(*columns, strict=True))
    shuffled = list(zip(*rng.sample(columns, 20), strict=True))
    assert equal_results(rows, shuffled, ordered=False)
    first, second = (next(place for place, row in enumerate(shuffled) if row[0] == value) for value in (0, 1))
    broken = [list(row) for row in shuffled]
    broken[first][0], broken[second][0] = 1, 0
    assert not equal_results(rows, [tuple(row) for row in broken], ordered=False)
    same = [(1,) * 20] * 50
    assert not equal_results(same, [*same[:-1], (1,) * 19 + (2,)], ordered=False)


def _cycles(*lengths: int) -> list[tuple[int, ...]]:
    """A row for every edge of a graph of cycles, with a 1 in the columns of its two ends."""
    edges: list[set[int]] = []
    for length in lengths:
        first = len(edges)
        edges += [{first + place, first + (place + 1) % length} for place in range(length)]
    return [tuple(int(column in edge) for column in range(len(edges))) for edge in edges]


def test_columns_that_look_alike_everywhere() -> None:
    """In graphs of cycles every column has the same place among its neighbours; only a choice tells them apart."""
    assert not equal_results(_cycles(6), _cycles(3, 3), ordered=False)
    for wanted, found in itertools.permutations([(6, 3, 3), (3, 6, 3), (3, 3, 6)], 2):
        assert equal_results(_cycles(*wanted), _cycles(*found), ordered=False)
    assert not equal_results(_cycles(6, 3, 3), _cycles(4, 4, 4), ordered=False)
