"""Questions with an order, and distinct values."""

from collections.abc import Callable

import pytest

from dtfixup.sql.synthesis.phrases.order_questions import ask_distinct, ask_sorted, ask_superlative, ask_top
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene
from tests.sql.synthesis.phrases.conftest import Drafted


@pytest.mark.parametrize(
    ("ask", "seed", "question", "sql"),
    [
        (ask_distinct, 5, "List all different colors of products", "SELECT DISTINCT color FROM product"),
        (
            ask_sorted,
            2,
            "Names of employees latest hire date first",
            "SELECT name FROM employee ORDER BY hire_date DESC",
        ),
        (ask_superlative, 6, "Who has the highest salary?", "SELECT name FROM employee ORDER BY salary DESC LIMIT 1"),
        (ask_top, 6, "Which ten employees earn the most?", "SELECT name FROM employee ORDER BY salary DESC LIMIT 10"),
    ],
)
def test_a_seed_makes_a_question(
    ask: Callable[[Scene], Draft], seed: int, question: str, sql: str, drafted: Drafted
) -> None:
    assert drafted(ask, seed) == (question, sql)
