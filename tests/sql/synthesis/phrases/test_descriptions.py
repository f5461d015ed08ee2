"""Descriptions read as English, and queries as SQL."""

import random
import re
from itertools import pairwise

from dtfixup.sql.synthesis.phrases.descriptions import QueryBuilder, describe
from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.scene import Scene
from tests.sql.shop import SCHEMA, entity_of


def test_descriptions_read_as_english(domain: Domain) -> None:
    """Two restrictions stand in one noun phrase, adjectives first and what follows `that` last."""
    scene = Scene(domain, random.Random(2))
    product = entity_of(domain, "product")
    for _ in range(200):
        first, second = (scene.restrictor.make(way, product) for way in ("value", "compare"))
        if first is None or second is None:
            continue
        phrase = describe(product, [second, first], scene.rng).phrase
        for text in (phrase.many(), phrase.one()):
            assert not re.search(r"[<>|{}]|  ", text), text
            assert not any(one == two for one, two in pairwise(text.split())), text
        assert re.search(r"\bproducts?\b", phrase.many())


def test_a_query_joins_quotes_and_restricts() -> None:
    query = QueryBuilder(SCHEMA, 2)
    customer_of_order, customer = (SCHEMA.columns_of[2][2], SCHEMA.columns_of[0][1])
    at = query.join((customer_of_order, customer))
    query.where = f"{query.column(customer, at)} > 3"
    assert query.sql(["count(*)"], limit=2) == (
        'SELECT count(*) FROM "orders" AS t0 JOIN "customer" AS t1 ON t0."customer_id" = t1."customer_id"'
        ' WHERE t1."customer_id" > 3 LIMIT 2'
    )
