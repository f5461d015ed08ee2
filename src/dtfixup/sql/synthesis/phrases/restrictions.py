"""All ways of restricting things by what their own columns hold.

In: a thing and a way. Out: a `Restriction`. Here are times, blanks, yes and no, and columns beside each other; numbers
and texts are in files of their own.
"""

import random
from collections.abc import Callable, Mapping

from dtfixup.sql.language.words import lemma
from dtfixup.sql.synthesis.phrases.attribute_words import (
    attribute_slots,
    comparable_pairs,
    flag_slots,
    is_rank,
    pair_slots,
)
from dtfixup.sql.synthesis.phrases.book import Book, Said
from dtfixup.sql.synthesis.phrases.descriptions import Restriction, predicate_of
from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.lexicon import lexicon
from dtfixup.sql.synthesis.phrases.number_restrictions import NumberRestrictions
from dtfixup.sql.synthesis.phrases.numbers_said import choose_bounds
from dtfixup.sql.synthesis.phrases.queries import literal
from dtfixup.sql.synthesis.phrases.text_restrictions import TextRestrictions, is_sayable
from dtfixup.sql.synthesis.phrases.things import Attribute, Kind, Thing
from dtfixup.sql.synthesis.phrases.times import restrict_time


class Restrictor(NumberRestrictions, TextRestrictions):
    """Makes restrictions over one database, by the name of a way."""

    def __init__(self, domain: Domain, book: Book, chance: random.Random) -> None:
        super().__init__(domain, book, chance)
        self.ways: Mapping[str, Callable[[Thing], Restriction | None]] = {
            "compare": self.compare,
            "range": self.between,
            "time": self.time,
            "value": self.value,
            "other values": self.other_values,
            "pattern": self.pattern,
            "blank": self.blank,
            "flag": self.flag,
            "two columns": self.two_columns,
            "average": self.average,
            "either": self.either,
        }

    def can(self, way: str, thing: Thing) -> bool:
        """Whether a thing has columns for a way; told only of ways that few things have columns for."""
        if way == "flag":
            return any(flag_slots(found) for found in thing.of_kind(Kind.FLAG))
        if way == "two columns":
            return bool(comparable_pairs(thing))
        return bool(thing.of_kind(Kind.YEAR, Kind.DATE)) if way == "time" else True

    def make(self, way: str, thing: Thing) -> Restriction | None:
        return self.ways[way](thing)

    def any(self, thing: Thing, weights: Mapping[str, float]) -> Restriction | None:
        """A restriction by any of these ways."""
        return self.make(self.chance.choices(list(weights), list(weights.values()))[0], thing)

    def time(self, thing: Thing) -> Restriction | None:
        attribute = self.pick(thing.of_kind(Kind.YEAR, Kind.DATE))
        if attribute is None:
            return None
        found = restrict_time(attribute, thing, attribute_slots(attribute, thing), self.chance)
        if found is None:
            return None
        rule, slots, condition = found
        return self.said(rule, slots, attribute, condition, "time")

    def opposites(self, thing: Thing) -> tuple[Restriction, Restriction] | None:
        """Two restrictions that no row meets at once: more than one number and less than another, or two values."""
        pair: tuple[Restriction | None, Restriction | None] = (None, None)
        if self.chance.random() < 0.35:
            attribute = self.pick([found for found in thing.of_kind(Kind.NUMBER, Kind.COUNTED) if not is_rank(found)])
            bounds = choose_bounds(attribute, self.chance) if attribute is not None else None
            if attribute is not None and bounds is not None:
                low, high = bounds
                pair = (
                    self.compare_with(attribute, thing, "more", high),
                    self.compare_with(attribute, thing, "less", low),
                )
        else:
            attribute = self.pick(self.described_by(thing))
            values = [value for value in attribute.held.values if is_sayable(value)] if attribute is not None else []
            if attribute is not None and len(values) > 1:
                first, second = self.chance.sample(values, 2)
                pair = self.value_of(attribute, thing, first), self.value_of(attribute, thing, second)
        return (pair[0], pair[1]) if pair[0] is not None and pair[1] is not None else None

    def blank(self, thing: Thing) -> Restriction | None:
        """What is missing or not; columns that often are, also where these rows have them all."""
        able = [
            attribute
            for attribute in thing.attributes
            if attribute.kind not in (Kind.FLAG, Kind.COUNTED)
            and attribute is not thing.key
            and (attribute.has_null or self.is_optional(attribute, thing))
        ]
        attribute = self.pick(able)
        if attribute is None:
            return None
        slots = attribute_slots(attribute, thing)
        if attribute.happening is not None:
            happening = attribute.happening
            if happening.passive is not None and happening.passive not in (
                "born",
                "built",
                "founded",
                "placed",
                "made",
            ):
                slots["built"] = happening.passive
            if happening.active is not None and happening.base is not None:
                slots["opened"] = happening.active
            if happening.pending is not None:
                slots["pending"] = happening.pending
                if " " not in happening.pending:
                    slots["pending_adj"] = happening.pending
        if self.chance.random() < 0.65:
            return self.said("null", slots, attribute, "{} IS NULL", "blank")
        return self.said("not null", slots, attribute, "{} IS NOT NULL", "blank")

    def is_optional(self, attribute: Attribute, thing: Thing) -> bool:
        words = {lemma(word) for word in attribute.noun.one.split()}
        is_pending = attribute.happening is not None and attribute.happening.pending is not None
        return attribute not in thing.titles and (is_pending or not words.isdisjoint(lexicon().optional))

    def flag(self, thing: Thing) -> Restriction | None:
        attribute = self.pick(thing.of_kind(Kind.FLAG))
        slots = flag_slots(attribute) if attribute is not None else None
        if attribute is None or attribute.flag is None or slots is None:
            return None
        is_on = self.chance.random() < 0.6
        value = attribute.flag[0] if is_on else attribute.flag[1]
        return self.said("flag" if is_on else "flag off", slots, attribute, f"{{}} = {literal(value)}", "flag")

    def two_columns(self, thing: Thing) -> Restriction | None:
        pairs = comparable_pairs(thing)
        if not pairs:
            return None
        one, other = self.chance.choice(pairs)
        if self.chance.random() < 0.5:
            one, other = other, one
        rules: tuple[tuple[str, str], ...] = (("column later", ">"), ("column earlier", "<"))
        if one.kind is Kind.COUNTED and other.kind is Kind.COUNTED:
            rules = (("counted more", ">"), ("counted less", "<"))
        elif one.kind in (Kind.NUMBER, Kind.COUNTED):
            rules = (("column more", ">"), ("column less", "<"))
        elif one.kind is Kind.TEXT:
            rules = (("column equal", "="),)
        rule, operator = self.chance.choice(rules)
        slots = pair_slots(one, other)
        said = self.book.say(rule, slots, self.chance)
        if said is None:
            return None
        return Restriction(
            said,
            lambda query, at: f"{query.column(one.column, at)} {operator} {query.column(other.column, at)}",
            "two columns",
            one.column,
        )

    def either(self, thing: Thing) -> Restriction | None:
        """One thing or another, each said as a verb would."""
        weights = {"compare": 3.0, "value": 3.0, "time": 2.0}
        one, other = self.any(thing, weights), self.any(thing, weights)
        if one is None or other is None or one.column == other.column:
            return None
        first, second = predicate_of(one.said), predicate_of(other.said)
        if first is None or second is None:
            return None
        lead = self.chance.choice(("", "", "either "))
        return Restriction(
            Said("pred", f"{lead}{first.text} or {second.text}"),
            lambda query, at: f"{one.condition(query, at)} OR {other.condition(query, at)}",
            "either",
            one.column,
        )
