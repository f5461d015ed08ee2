"""Numbers in figures and in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.sql.language.quantities import numbers_in, plain_number
from dtfixup.sql.language.words import split_words

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()  # noqa: SIM905
_ONES += ["seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def _spoken(number: int) -> str:
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _TENS[number // 10 - 2] + (f"-{_ONES[number % 10]}" if number % 10 else "")
    for scale, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= scale:
            rest = number % scale
            joint = " and " if 0 < rest < 100 else " "
            return f"{_spoken(number // scale)} {name}" + (f"{joint}{_spoken(rest)}" if rest else "")
    raise AssertionError


@given(st.integers(0, 10**9 - 1))
def test_numbers_in_words(number: int) -> None:
    assert [found.text for found in numbers_in(split_words(f"exactly {_spoken(number)} singers"))] == [str(number)]


@given(st.integers(0, 10**30))
def test_numbers_in_figures(number: int) -> None:
    assert [found.text for found in numbers_in(split_words(f"over {number:,} of"))] == [str(number)]
    assert [found.text for found in numbers_in(split_words(f"over {number} of"))] == [str(number)]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("1.5 million or 2 thousand", ["1500000", "2000"]),
        ("between two and three", ["2", "3"]),
        ("between 5 and 10 million", ["5", "10000000"]),
        ("the first and the 3rd", ["1", "3"]),
        ("twice, once or a dozen", ["2", "1", "12"]),
        ("half a hundred", ["0.5", "100"]),
        ("the 1980s, 20kg and 5k", ["1980", "20", "5000"]),
        ("below -4 but 10-5", ["-4", "10", "5"]),
        ("A340-300", ["300"]),
        ("$1,000.50 is 5%", ["1000.5", "5"]),
        ("007 and 12:30", []),
        ("twenty thirty five", ["20", "35"]),
        ("nobody", []),
    ],
)
def test_ways_to_say_a_number(question: str, expected: list[str]) -> None:
    assert [number.text for number in numbers_in(split_words(question))] == expected


def test_spans_and_ordinals() -> None:
    (number,) = numbers_in(split_words("over two hundred and five songs"))
    assert (number.start, number.end, number.is_ordinal) == (1, 5, False)
    assert [(number.start, number.end) for number in numbers_in(split_words("two and three"))] == [(0, 1), (2, 3)]
    assert [number.is_ordinal for number in numbers_in(split_words("third 4th five"))] == [True, True, False]


@given(st.text())
def test_any_text_has_numbers_within_it(question: str) -> None:
    words = split_words(question)
    end = 0
    for number in numbers_in(words):
        assert end <= number.start < number.end <= len(words)
        assert plain_number(number.text) == number.text
        end = number.end


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("84.0", "84"),
        ("-0", "0"),
        ("0.50", "0.5"),
        ("1,000", "1000"),
        ("10,00", None),
        ("007", None),
        ("1e5", None),
        ("", None),
        ("\u0663", None),
        ("5\n", None),
    ],
)
def test_plain_numbers(text: str, expected: str | None) -> None:
    assert plain_number(text) == expected
