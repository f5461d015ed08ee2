"""The book's own form: ways are chosen by what fills their slots, and mistakes in it are named."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import ConfigError
from dtfixup.sql.language.quantities import numbers_in, plain_number
from dtfixup.sql.language.words import split_words
from dtfixup.sql.synthesis.phrases import book as book_module
from dtfixup.sql.synthesis.phrases.book import Book, book, in_number, read_book, slots_in, tidy
from dtfixup.sql.synthesis.phrases.lexicon import lexicon, read_lexicon
from dtfixup.sql.synthesis.phrases.nouns import attribute_noun, thing_noun
from dtfixup.sql.synthesis.phrases.numbers_said import say_numbers

TINY = """
# a comment
[ask]
? how many {things} are there
?3 how {old} are {things}
! count (the|all) {things}
"""


def texts(tiny: Book, slots: dict[str, str]) -> set[str]:
    chance = random.Random(1)
    said = (tiny.say("ask", slots, chance) for _ in range(100))
    return {found.text for found in said if found is not None}


def test_ways_are_taken_that_the_slots_fill() -> None:
    tiny = read_book(TINY)
    assert texts(tiny, {"things": "cats"}) == {"how many cats are there", "count the cats", "count all cats"}
    assert "how old are cats" in texts(tiny, {"things": "cats", "old": "old"})
    assert tiny.say("ask", {}, random.Random(1)) is None
    said = tiny.say("ask", {"things": "cats"}, random.Random(1), kinds="!")
    assert said is not None
    assert said.kind == "!"


def test_weights_say_how_often() -> None:
    tiny = read_book("[ask]\nx9 often\nx seldom")
    chance = random.Random(2)
    said = [tiny.say("ask", {}, chance) for _ in range(1000)]
    often = sum(each is not None and each.text == "often" for each in said)
    assert 850 < often < 950


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("? how many", "line 1: expected a kind"),
        ("[a]\n? one\n[a]\n? two", "line 3: rule 'a' is there twice"),
        ("[a]\n? (one|two", "line 2: a parenthesis is not closed"),
        ("[a]\n? one) two", "line 2: .* parenthesis or a bar too many"),
        ("[a]\n? {one two}", "line 2: .* a brace or an angle too many"),
    ],
)
def test_mistakes_are_named(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_book(text)


def test_the_code_knows_every_slot_and_rule_of_the_book() -> None:
    """A slot that nothing fills is a way that is never taken."""
    folder = Path(book_module.__file__).parent
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    for rule, ways in book().rules.items():
        is_built = rule.startswith("wrap ") or rule.endswith(" counted")
        assert is_built or f'"{rule}"' in code, rule
        unfilled = {name for way in ways for name in slots_in(way.text) if f'"{name}"' not in code}
        assert unfilled <= {"x_possessive_person"}, (rule, unfilled)


def test_numbers_and_articles() -> None:
    assert in_number("<dogs|dog> that <cost|costs>", is_plural=True) == "dogs that cost"
    assert tidy("a hour , an year with a 'A' and a S") == "an hour, a year with an 'A' and an S"
    assert tidy("from A to Z, a UFO, a MRI, an unit") == "from A to Z, a UFO, an MRI, a unit"


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=2), st.integers(0, 1000))
def test_numbers_are_read_back_as_they_were_meant(numbers: list[int], seed: int) -> None:
    said = say_numbers([str(number) for number in numbers], random.Random(seed))
    for number, text in zip(numbers, said, strict=True):
        read = numbers_in(split_words(f"more than {text} of them"))
        assert [plain_number(found.text) for found in read] == [str(number)]


@pytest.mark.parametrize(
    ("natural", "expected"),
    [
        ("ref product categories", "product categories"),
        ("staff", "staff members"),
        ("customers cards", "customer cards"),
        ("participates in", None),
        ("has allergy", None),
        ("fault log", None),
        ("xyz qq", None),
    ],
)
def test_tables_as_people_call_them(natural: str, expected: str | None) -> None:
    noun = thing_noun(natural)
    assert (noun.many if noun is not None else None) == expected


@pytest.mark.parametrize(
    ("natural", "table", "expected"),
    [
        ("date order placed", "orders", "dates placed"),
        ("state province county", "addresses", "states"),
        ("sales in billion", "company", "sales in billions"),
        ("amount payment", "payments", "payment amounts"),
        ("how to get there", "attraction", None),
        ("good or bad customer", "customer", None),
        ("opened", "shop", None),
    ],
)
def test_columns_as_people_call_them(natural: str, table: str, expected: str | None) -> None:
    measured = attribute_noun(natural, table)
    assert (measured.noun.many if measured is not None else None) == expected


def test_word_lists_hang_together() -> None:
    known = lexicon()
    assert all(deed.base and deed.done for deed in known.deeds.values())
    assert not known.people & known.no_things, "nobody asks for what is no thing"
    with pytest.raises(ConfigError, match="word lists of the phrase book: KeyError"):
        read_lexicon("people: [customer]")
