"""Restrictions by numbers: more, less, at least, between, outside, above average, equal to the highest.

In: a thing. Out: a `Restriction` on one of its numbers, in the words of what it measures: `older than 30`.
"""

from collections.abc import Mapping

from dtfixup.sql.database.schema import quoted
from dtfixup.sql.synthesis.phrases.attribute_words import attribute_slots, is_rank
from dtfixup.sql.synthesis.phrases.descriptions import Restriction
from dtfixup.sql.synthesis.phrases.numbers_said import (
    choose_bound,
    choose_bounds,
    figure,
    say_number,
    say_numbers,
    with_unit,
)
from dtfixup.sql.synthesis.phrases.restricting import Restricting
from dtfixup.sql.synthesis.phrases.things import Attribute, Kind, Thing

_OPERATORS = {"more": ">", "less": "<", "at least": ">=", "at most": "<=", "exactly": "="}
_OPERATOR_WEIGHTS = (5, 5, 3, 3, 1)
_NESTED = {
    "above average": (">", "avg", "average"),
    "below average": ("<", "avg", "average"),
    "at maximum": ("=", "max", "extreme"),
    "at minimum": ("=", "min", "extreme"),
}


class NumberRestrictions(Restricting):
    """Restrictions by what is measured or counted."""

    def compare(self, thing: Thing) -> Restriction | None:
        attribute = self.pick(thing.of_kind(Kind.NUMBER, Kind.COUNTED))
        bound = choose_bound(attribute, self.chance) if attribute is not None else None
        if attribute is None or bound is None:
            return None
        rule = self.chance.choices(list(_OPERATORS), _OPERATOR_WEIGHTS)[0]
        if rule == "exactly" or is_rank(attribute):
            rule, bound = "exactly", figure(self.chance.choice(attribute.numbers))
        return self.compare_with(attribute, thing, rule, bound)

    def compare_with(self, attribute: Attribute, thing: Thing, rule: str, bound: str) -> Restriction | None:
        """A number compared with a bound."""
        slots = self.number_slots(attribute, thing) | self.bound_slots(attribute, bound)
        counted = " counted" if self.counts(attribute, slots) else ""
        if bound == "1" and attribute.counted_one is not None:
            slots["counted"] = attribute.counted_one
        return self.said(rule + counted, slots, attribute, f"{{}} {_OPERATORS[rule]} {bound}", "compare")

    def between(self, thing: Thing) -> Restriction | None:
        attribute = self.pick([found for found in thing.of_kind(Kind.NUMBER, Kind.COUNTED) if not is_rank(found)])
        bounds = choose_bounds(attribute, self.chance) if attribute is not None else None
        if attribute is None or bounds is None:
            return None
        low, high = bounds
        first, second = say_numbers(bounds, self.chance)
        slots = self.number_slots(attribute, thing) | {"v": first, "w": with_unit(second, attribute, self.chance)}
        if "$" in slots["w"]:
            slots["v"] = f"${first}"
        if attribute.unit is not None:
            slots["ww"] = f"{second} {attribute.unit}"
        counted = " counted" if self.counts(attribute, slots) else ""
        if self.chance.random() < 0.3:
            return self.said("outside" + counted, slots, attribute, f"{{}} < {low} OR {{}} > {high}", "range")
        return self.said("between" + counted, slots, attribute, f"{{}} BETWEEN {low} AND {high}", "range")

    def average(self, thing: Thing) -> Restriction | None:
        attribute = self.pick([found for found in thing.of_kind(Kind.NUMBER, Kind.COUNTED) if not is_rank(found)])
        if attribute is None or len(set(attribute.numbers)) < 3:
            return None
        slots = self.number_slots(attribute, thing)
        rule = self.chance.choices(list(_NESTED), (3, 3, 1, 1))[0]
        operator, what, construct = _NESTED[rule]
        schema = self.domain.schema
        name, table = (quoted(schema.columns[attribute.column].name), quoted(schema.tables[thing.table].name))
        nested = f"(SELECT {what}({name}) FROM {table})"
        return self.said(rule, slots, attribute, f"{{}} {operator} {nested}", construct)

    def counts(self, attribute: Attribute, slots: Mapping[str, str]) -> bool:
        """Whether a number is said as how many of something there are."""
        return "counted" in slots and (attribute.kind is Kind.COUNTED or self.chance.random() < 0.4)

    def number_slots(self, attribute: Attribute, thing: Thing) -> dict[str, str]:
        slots = attribute_slots(attribute, thing)
        quantity = attribute.quantity
        if attribute.counted is not None:
            slots["counted"] = slots["counted_n"] = attribute.counted
        if quantity is not None and attribute.has_adjective:
            if quantity.more:
                slots["older"], slots["younger"] = self.chance.choice(quantity.more), self.chance.choice(quantity.less)
            if quantity.how is not None:
                slots["old"] = quantity.how
            if quantity.verb is not None:
                slots["cost_costs"] = "<{}|{}>".format(*quantity.verb)
        return slots

    def bound_slots(self, attribute: Attribute, bound: str) -> dict[str, str]:
        text = say_number(bound, self.chance)
        said = with_unit(text, attribute, self.chance)
        return {"v": said, "u": said} | ({"uu": f"{text} {attribute.unit}"} if attribute.unit is not None else {})
