"""Questions about children and about superiors in the same table."""

from collections.abc import Callable

import pytest

from dtfixup.sql.synthesis.phrases.child_questions import ask_children, ask_one_parent, ask_self_reference
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene
from tests.sql.synthesis.phrases.conftest import Drafted


@pytest.mark.parametrize(
    ("ask", "seed", "question", "sql"),
    [
        (
            ask_children,
            5,
            "How many of our orders are placed by customers that are not active",
            (
                "SELECT count(*) FROM orders AS T1 JOIN customer AS T2 ON T1.customer_id = T2.customer_id WHERE "
                "T2.active = 'N'"
            ),
        ),
        (
            ask_one_parent,
            3,
            "The number of orders of the customer Larsen please",
            (
                "SELECT count(*) FROM orders AS T1 JOIN customer AS T2 ON T1.customer_id = T2.customer_id WHERE "
                "T2.last_name = 'Larsen'"
            ),
        ),
        (
            ask_self_reference,
            3,
            "we need each employee and the manager.",
            ("SELECT T1.name, T2.name FROM employee AS T1 JOIN employee AS T2 ON T1.manager_id = T2.employee_id"),
        ),
    ],
)
def test_a_seed_makes_a_question(
    ask: Callable[[Scene], Draft], seed: int, question: str, sql: str, drafted: Drafted
) -> None:
    assert drafted(ask, seed) == (question, sql)
