"""Questions about groups and about computed columns."""

from collections.abc import Callable

import pytest

from dtfixup.sql.synthesis.phrases.computed_questions import (
    ask_computed,
    ask_group_aggregate,
    ask_group_count,
    ask_group_sets,
    ask_having,
    ask_most_common,
)
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene
from tests.sql.synthesis.phrases.conftest import Drafted


@pytest.mark.parametrize(
    ("ask", "seed", "question", "sql"),
    [
        (
            ask_computed,
            6,
            "Show the largest difference between the list price and the price among products",
            "SELECT max(list_price - price) FROM product",
        ),
        (
            ask_group_aggregate,
            5,
            "What is the mean weight per color among products?",
            "SELECT color, avg(weight) FROM product GROUP BY color",
        ),
        (ask_group_count, 1, "The number of customers per city", "SELECT city, count(*) FROM customer GROUP BY city"),
        (
            ask_group_sets,
            5,
            "Which colors have products with a weight above 16 but not products with a weight under 1",
            "SELECT color FROM product WHERE weight > 16 EXCEPT SELECT color FROM product WHERE weight < 1",
        ),
        (
            ask_having,
            4,
            "Which colors have at least three products?",
            "SELECT color FROM product GROUP BY color HAVING count(*) >= 3",
        ),
        (
            ask_most_common,
            3,
            "OK, which color has the most products?",
            "SELECT color FROM product GROUP BY color ORDER BY count(*) DESC LIMIT 1",
        ),
    ],
)
def test_a_seed_makes_a_question(
    ask: Callable[[Scene], Draft], seed: int, question: str, sql: str, drafted: Drafted
) -> None:
    assert drafted(ask, seed) == (question, sql)
