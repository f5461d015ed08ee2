"""Drafts say what their queries restrict."""

import random
import re

import pytest

from dtfixup.sql.synthesis.phrases.descriptions import describe
from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.order_questions import ask_superlative
from dtfixup.sql.synthesis.phrases.scene import NoDraftError, Scene
from tests.sql.shop import attribute_of, entity_of


def test_restrictions_of_the_query_are_said(domain: Domain) -> None:
    """`Who is the oldest?` must not be asked of customers of one city."""
    scene = Scene(domain, random.Random(4))
    kept = 0
    for _ in range(300):
        try:
            draft = ask_superlative(scene)
        except NoDraftError:
            continue
        if "WHERE" in draft.sql:
            kept += 1
            for value in re.findall(r"= '(\w\w+)'", draft.sql):
                assert re.search(rf"(?i)\b{value}\b", draft.question), draft
            assert ("active" in draft.sql) == ("active" in draft.question), draft
    assert kept > 20


def test_a_question_that_leaves_a_restriction_out_is_given_up(domain: Domain) -> None:
    scene = Scene(domain, random.Random(4))
    product = entity_of(domain, "product")
    restriction = scene.restrictor.compare_with(attribute_of(product, "weight"), product, "more", "5")
    assert restriction is not None
    description = describe(product, [restriction], scene.rng)
    slots = scene.description_slots(description)
    bare = {name: product.noun.many if name in ("things", "short") else text for name, text in slots.items()}
    bare.pop("pred")
    for _ in range(20):
        with pytest.raises(NoDraftError):
            scene.draft("count", bare, "", "count", description)
        scene.draft("count", slots, "", "count", description)
