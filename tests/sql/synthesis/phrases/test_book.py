"""The book's format: wordings are chosen by the slots that are given, and mistakes are named."""

import random
from pathlib import Path

import pytest

from dtfixup.errors import ConfigError
from dtfixup.sql.synthesis.phrases import book as book_module
from dtfixup.sql.synthesis.phrases.book import Book, book, in_number, read_book, slots_in, tidy

TINY = """
# a comment
[ask]
? how many {things} are there
?3 how {old} are {things}
! count (the|all) {things}
"""


def texts(tiny: Book, slots: dict[str, str]) -> set[str]:
    chance = random.Random(1)
    phrases = (tiny.choose("ask", slots, chance) for _ in range(100))
    return {phrase.text for phrase in phrases if phrase is not None}


def test_wordings_are_chosen_by_the_slots() -> None:
    tiny = read_book(TINY)
    assert texts(tiny, {"things": "cats"}) == {"how many cats are there", "count the cats", "count all cats"}
    assert "how old are cats" in texts(tiny, {"things": "cats", "old": "old"})
    assert tiny.choose("ask", {}, random.Random(1)) is None


def test_weights_say_how_often() -> None:
    tiny = read_book("[ask]\nx9 often\nx seldom")
    chance = random.Random(2)
    phrases = [tiny.choose("ask", {}, chance) for _ in range(1000)]
    often = sum(phrase is not None and phrase.text == "often" for phrase in phrases)
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
    """A wording whose slot nothing fills is never chosen."""
    folder = Path(book_module.__file__).parent
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    for rule, alternatives in book().rules.items():
        is_built = rule.startswith("wrap ") or rule.endswith(" counted")
        assert is_built or f'"{rule}"' in code, rule
        unfilled = {
            name for alternative in alternatives for name in slots_in(alternative.text) if f'"{name}"' not in code
        }
        assert unfilled <= {"x_possessive_person"}, (rule, unfilled)


def test_numbers_and_articles() -> None:
    assert in_number("<dogs|dog> that <cost|costs>", is_plural=True) == "dogs that cost"
    assert tidy("a hour , an year with a 'A' and a S") == "an hour, a year with an 'A' and an S"
    assert tidy("from A to Z, a UFO, a MRI, an unit") == "from A to Z, a UFO, an MRI, a unit"
