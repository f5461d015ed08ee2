"""Restrictions say what their conditions mean."""

import random

import pytest

from dtfixup.sql.synthesis.phrases.descriptions import QueryBuilder
from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.scene import Scene
from tests.sql.shop import SCHEMA, entity_of


@pytest.mark.parametrize(
    ("kind", "noun", "phrase", "condition"),
    [
        ("compare", "product", "whose list price is smaller than 180", 't0."list_price" < 180'),
        ("range", "product", "a list price between 70 and 200", 't0."list_price" BETWEEN 70 AND 200'),
        ("time", "customer", "were born from 1978 on", "t0.\"date_of_birth\" >= '1978-01-01'"),
        ("value", "customer", "Oslo as their city", "t0.\"city\" = 'Oslo'"),
        (
            "other values",
            "customer",
            "whose city is neither Oslo nor Turin",
            "t0.\"city\" != 'Oslo' AND t0.\"city\" != 'Turin'",
        ),
        ("pattern", "product", "a name beginning with 'G'", "t0.\"product_name\" LIKE 'G%'"),
        ("blank", "employee", "whose manager ID is recorded", 't0."manager_id" IS NOT NULL'),
        ("flag", "customer", "are not active", "t0.\"active\" = 'N'"),
        ("two columns", "product", "whose price is smaller than their list price", 't0."price" < t0."list_price"'),
        (
            "average",
            "product",
            "the largest list price of all",
            't0."list_price" = (SELECT max(t0."list_price") FROM "product" AS t0)',
        ),
    ],
)
def test_a_seed_makes_a_restriction(kind: str, noun: str, phrase: str, condition: str, domain: Domain) -> None:
    entity = entity_of(domain, noun)
    restriction = Scene(domain, random.Random(0)).restrictor.make(kind, entity)
    assert restriction is not None
    assert restriction.phrase.many() == phrase
    assert restriction.condition(QueryBuilder(SCHEMA, entity.table), 0) == condition


def test_either_joins_two_predicates(domain: Domain) -> None:
    product = entity_of(domain, "product")
    restriction = Scene(domain, random.Random(5)).restrictor.make("either", product)
    assert restriction is not None
    assert restriction.phrase.many() == "are blue or have a price of no more than $62"
    assert restriction.condition(QueryBuilder(SCHEMA, product.table), 0) == 't0."color" = \'blue\' OR t0."price" <= 62'


def test_only_columns_that_an_entity_has_are_restricted(domain: Domain) -> None:
    restrictor = Scene(domain, random.Random(0)).restrictor
    product, customer = entity_of(domain, "product"), entity_of(domain, "customer")
    assert [restrictor.can(kind, product) for kind in ("flag", "two columns", "time")] == [False, True, False]
    assert [restrictor.can(kind, customer) for kind in ("flag", "two columns", "time")] == [True, False, True]
