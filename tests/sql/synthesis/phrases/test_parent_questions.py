"""Questions about parents by their children."""

from collections.abc import Callable

import pytest

from dtfixup.sql.synthesis.phrases.parent_questions import (
    ask_child_sets,
    ask_distinct_parents,
    ask_parent_of_extreme,
    ask_parents_by_count,
    ask_parents_by_total,
    ask_per_parent,
    ask_sorted_parents,
    ask_with_children,
    ask_without_children,
)
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene
from tests.sql.synthesis.phrases.conftest import Drafted


@pytest.mark.parametrize(
    ("ask", "seed", "question", "sql"),
    [
        (
            ask_child_sets,
            4,
            "Which customers have both Felt Rug and the product Elm Chair?",
            (
                "SELECT T1.first_name, T1.last_name FROM customer AS T1 JOIN has_read AS T2 ON T1.customer_id = "
                "T2.customer_id JOIN product AS T3 ON T2.product_id = T3.product_id WHERE T3.product_name = "
                "'Felt Rug' INTERSECT SELECT T4.first_name, T4.last_name FROM customer AS T4 JOIN has_read AS T5"
                " ON T4.customer_id = T5.customer_id JOIN product AS T6 ON T5.product_id = T6.product_id WHERE "
                "T6.product_name = 'Elm Chair'"
            ),
        ),
        (
            ask_distinct_parents,
            2,
            "How many products have order items",
            "SELECT count(DISTINCT product_id) FROM order_items",
        ),
        (
            ask_parent_of_extreme,
            2,
            "The product of the order item with the largest quantity",
            (
                "SELECT T1.product_name FROM product AS T1 JOIN order_items AS T2 ON T1.product_id = "
                "T2.product_id ORDER BY T2.quantity DESC LIMIT 1"
            ),
        ),
        (
            ask_parents_by_count,
            2,
            "All products with fewer than 3 order items please",
            (
                "SELECT T1.product_name FROM product AS T1 JOIN order_items AS T2 ON T1.product_id = "
                "T2.product_id GROUP BY T1.product_id HAVING count(*) < 3"
            ),
        ),
        (
            ask_parents_by_total,
            1,
            "which products have a total quantity of order items above 3?",
            (
                "SELECT T1.product_name FROM product AS T1 JOIN order_items AS T2 ON T1.product_id = "
                "T2.product_id GROUP BY T1.product_id HAVING sum(T2.quantity) > 3"
            ),
        ),
        (
            ask_per_parent,
            5,
            "How many orders did each customer place",
            (
                "SELECT T1.first_name, T1.last_name, count(*) FROM customer AS T1 JOIN orders AS T2 ON "
                "T1.customer_id = T2.customer_id GROUP BY T1.customer_id"
            ),
        ),
        (
            ask_sorted_parents,
            1,
            "Show customers, ordered by number of orders, lowest first",
            (
                "SELECT T1.first_name, T1.last_name FROM customer AS T1 JOIN orders AS T2 ON T1.customer_id = "
                "T2.customer_id GROUP BY T1.customer_id ORDER BY count(*) ASC"
            ),
        ),
        (
            ask_with_children,
            1,
            "Name the customers with a cancelled order.",
            (
                "SELECT DISTINCT T1.first_name, T1.last_name FROM customer AS T1 JOIN orders AS T2 ON "
                "T1.customer_id = T2.customer_id WHERE T2.status_code = 'Cancelled'"
            ),
        ),
        (
            ask_without_children,
            6,
            "All customers without any orders",
            ("SELECT first_name, last_name FROM customer WHERE customer_id NOT IN (SELECT customer_id FROM orders)"),
        ),
    ],
)
def test_a_seed_makes_a_question(
    ask: Callable[[Scene], Draft], seed: int, question: str, sql: str, drafted: Drafted
) -> None:
    assert drafted(ask, seed) == (question, sql)
