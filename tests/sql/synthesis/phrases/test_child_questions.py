"""Questions about children and about superiors in the same table."""

import random
from collections.abc import Callable

import pytest

from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.synthesis.phrases.child_questions import (
    ask_children,
    ask_identity,
    ask_one_parent,
    ask_self_reference,
    ask_with_parent,
)
from dtfixup.sql.synthesis.phrases.domain import Domain, read_domain
from dtfixup.sql.synthesis.phrases.scene import Draft, NoDraftError, Scene
from tests.sql.described import described
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


def test_children_are_asked_with_their_parents() -> None:
    sample = open_dataset(sample_folder())
    domain = read_domain(described(sample, "river_ferry"), sample.database_file("river_ferry"))
    draft = ask_with_parent(Scene(domain, random.Random(3)))
    assert draft.question == "Let me see all vessels along with their pier."
    assert draft.sql == (
        'SELECT t0."name", t1."name" FROM "vessel" AS t0 JOIN "pier" AS t1 ON t0."home_pier_id" = t1."pier_id"'
    )


def test_a_database_without_identities_has_nothing_to_ask(domain: Domain) -> None:
    with pytest.raises(NoDraftError):
        ask_identity(Scene(domain, random.Random(1)))
