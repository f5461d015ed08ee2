"""Stored values as words."""

import random

import pytest

from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.values import day_text, is_quotable, pick_part, restrict_time, value_slots
from tests.sql.shop import attribute_of, entity_of


@pytest.mark.parametrize(
    ("value", "expected"),
    [("New York", True), ("O'Hara", True), ("two  blanks", False), ("one two three four five six", False), ("", False)],
)
def test_values_that_can_stand_in_a_question(value: str, expected: bool) -> None:
    assert is_quotable(value) is expected


def test_a_value_is_tied_to_its_entity(domain: Domain) -> None:
    customer, product = entity_of(domain, "customer"), entity_of(domain, "product")
    assert value_slots(attribute_of(customer, "city"), customer, "Oslo", '"')["living_in"] == "<live|lives> in"
    assert value_slots(attribute_of(customer, "city"), customer, "Oslo", '"')["v"] == '"Oslo"'
    assert value_slots(attribute_of(product, "color"), product, "Red", "")["v_adj"] == "red"


@pytest.mark.parametrize("rule", ["starts", "ends", "contains"])
def test_a_part_is_where_its_rule_says(rule: str) -> None:
    parts = {pick_part("Amber Lamp", rule, random.Random(seed)) for seed in range(40)} - {None}
    test = {"starts": "Amber Lamp".startswith, "ends": "Amber Lamp".endswith}.get(rule, "amber lamp Amber Lamp".count)
    assert len(parts) > 2
    assert all(test(part) for part in parts if part is not None)


def test_times_restrict_dates_as_they_are_stored(domain: Domain) -> None:
    order = entity_of(domain, "order")
    made = [restrict_time(attribute_of(order, "date"), order, random.Random(seed)) for seed in range(60)]
    restrictions = {rule: condition for rule, _, condition in filter(None, made)}
    assert {"in", "on", "before", "after", "between times"} <= set(restrictions)
    assert all("'20" in condition for condition in restrictions.values())


def test_a_day_has_several_notations() -> None:
    days = {day_text(2015, 3, 2, random.Random(seed)) for seed in range(60)}
    assert {"March 2, 2015", "the 2nd of March 2015", "2015-03-02"} <= days
