"""Values for templates: stored ones that a question can contain."""

import random

import pytest

from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.grammar.tree import Literal
from dtfixup.sql.synthesis.templates.template import Form, ValueNeed
from dtfixup.sql.synthesis.templates.value_choice import choose_value


def choices(source: str, form: Form, stored: list[str], kind: ValueKind = ValueKind.TEXT) -> set[str | None]:
    need = ValueNeed(Literal(source, kind), form, 0)
    literals = [choose_value(need, stored, random.Random(seed)) for seed in range(40)]
    return {literal and literal.text for literal in literals}


@pytest.mark.parametrize(
    ("source", "form", "stored", "expected"),
    [
        ("F", Form.CONSTANT, ["M", "F"], {"F"}),
        ("F", Form.CONSTANT, ["m", "f"], {None}),
        ("Oslo", Form.WHOLE, ["Turin", "12", "Milan", "<b>", "one two three four five six"], {"Turin", "Milan"}),
        ("A", Form.BEGINS, ["Turin"], {"T"}),
        ("ing", Form.ENDS, ["Lake Como"], {"Como"}),
        ("x", Form.CONTAINS, ["MM"], {"m"}),
        ("Oslo", Form.WHOLE, [], {None}),
    ],
)
def test_texts(source: str, form: Form, stored: list[str], expected: set[str | None]) -> None:
    assert choices(source, form, stored) == expected


def test_counts_are_small() -> None:
    assert choices("3", Form.COUNT, [], ValueKind.NUMBER) <= {str(count) for count in range(2, 11)}


def test_bounds_are_round_and_values_are_not() -> None:
    stored = [str(number) for number in range(101, 1000, 7)]
    assert choices("20", Form.WHOLE, stored, ValueKind.NUMBER) <= set(stored)
    bounds = choices("20", Form.BOUND, stored, ValueKind.NUMBER)
    assert any(bound is not None and bound.endswith("0") and bound not in stored for bound in bounds)
    years = [str(year) for year in range(1950, 2000)]
    assert choices("1990", Form.BOUND, years, ValueKind.NUMBER) <= set(years)
