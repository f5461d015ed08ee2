"""Number texts are read back as the numbers they mean."""

import random

from hypothesis import given
from hypothesis import strategies as st

from dtfixup.sql.language.quantities import numbers_in, plain_number
from dtfixup.sql.language.words import split_words
from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.wording import comparable_pairs, flag_slots, number_texts
from tests.sql.shop import attribute_of, entity_of


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=2), st.integers(0, 1000))
def test_numbers_are_read_back_as_they_were_meant(numbers: list[int], seed: int) -> None:
    texts = number_texts([str(number) for number in numbers], random.Random(seed))
    for number, text in zip(numbers, texts, strict=True):
        read = numbers_in(split_words(f"more than {text} of them"))
        assert [plain_number(found.text) for found in read] == [str(number)]


def test_attributes_have_words_for_yes_and_for_comparison(domain: Domain) -> None:
    assert flag_slots(attribute_of(entity_of(domain, "customer"), "active")) == {
        "flag_adj": "active",
        "flag_un": "inactive",
    }
    pairs = [(one.noun.one, other.noun.one) for one, other in comparable_pairs(entity_of(domain, "product"))]
    assert ("price", "list price") in pairs
    assert ("price", "weight") not in pairs
