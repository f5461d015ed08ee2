"""Questions about rows of one table."""

from collections.abc import Callable

import pytest

from dtfixup.sql.synthesis.phrases.row_questions import (
    ask_aggregate,
    ask_all,
    ask_count,
    ask_except,
    ask_lookup,
    ask_same,
    ask_several_aggregates,
    ask_some,
)
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene
from tests.sql.synthesis.phrases.conftest import Drafted


@pytest.mark.parametrize(
    ("ask", "seed", "question", "sql"),
    [
        (ask_aggregate, 2, "Find the average salary of employees", "SELECT avg(salary) FROM employee"),
        (ask_all, 5, "List all orders", "SELECT * FROM orders"),
        (ask_count, 3, "How many customers", "SELECT count(*) FROM customer"),
        (
            ask_except,
            2,
            "Show me employees but not Anna Petit.",
            "SELECT name FROM employee WHERE name != 'Anna Petit'",
        ),
        (
            ask_lookup,
            5,
            "the color of the product Felt Rug",
            "SELECT color FROM product WHERE product_name = 'Felt Rug'",
        ),
        (
            ask_same,
            1,
            "Which customers are in the same city as the customer Holm?",
            (
                "SELECT first_name, last_name FROM customer WHERE city = (SELECT city FROM customer WHERE "
                "last_name = 'Holm')"
            ),
        ),
        (
            ask_several_aggregates,
            5,
            "the average and the highest salary for employees",
            "SELECT avg(salary), max(salary) FROM employee",
        ),
        (ask_some, 2, "Let me see 5 random employees", "SELECT name FROM employee LIMIT 5"),
    ],
)
def test_a_seed_makes_a_question(
    ask: Callable[[Scene], Draft], seed: int, question: str, sql: str, drafted: Drafted
) -> None:
    assert drafted(ask, seed) == (question, sql)
