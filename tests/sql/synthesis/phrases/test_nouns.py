"""Nouns for tables and columns."""

import pytest

from dtfixup.sql.synthesis.phrases.nouns import attribute_noun, entity_noun


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
    noun = entity_noun(natural)
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
