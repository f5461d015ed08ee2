"""Restrictions on what the columns of an entity hold: numbers, times, texts, flags, missing values, pairs of columns.

In: an entity and a kind of restriction. Out: a `Restriction`, which pairs words with an SQL condition.
"""

import random
from collections.abc import Callable, Mapping, Sequence

from dtfixup.sql.language.words import lemma
from dtfixup.sql.synthesis.phrases.book import Book, Phrase
from dtfixup.sql.synthesis.phrases.descriptions import QueryBuilder, Restriction, literal, predicate_of, quoted_text
from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.entities import Attribute, Entity, Kind
from dtfixup.sql.synthesis.phrases.lexicon import lexicon
from dtfixup.sql.synthesis.phrases.values import (
    descriptive_texts,
    is_quotable,
    pick_part,
    pick_value,
    restrict_time,
    value_slots,
)
from dtfixup.sql.synthesis.phrases.wording import (
    QUOTE_MARKS,
    attribute_slots,
    choose_bound,
    choose_bounds,
    comparable_pairs,
    flag_slots,
    number_text,
    number_texts,
    pair_slots,
    sql_number,
    with_unit,
)

_OPERATORS = {"more": ">", "less": "<", "at least": ">=", "at most": "<=", "exactly": "="}
_OPERATOR_WEIGHTS = (5, 5, 3, 3, 1)
_NESTED = {
    "above average": (">", "avg", "average"),
    "below average": ("<", "avg", "average"),
    "at maximum": ("=", "max", "extreme"),
    "at minimum": ("=", "min", "extreme"),
}
_PATTERNS = (
    ("starts", "{}%"),
    ("ends", "%{}"),
    ("contains", "%{}%"),
    ("not contains", "%{}%"),
    ("not starts", "{}%"),
)
_ALWAYS_PAST = frozenset(["born", "built", "founded", "placed", "made"])
"""Verbs whose time is unknown rather than still to come when it is missing."""


class Restrictor:
    """Makes random restrictions over one database."""

    def __init__(self, domain: Domain, book: Book, rng: random.Random) -> None:
        self.domain, self.book, self.rng = domain, book, rng
        self._makers: Mapping[str, Callable[[Entity], Restriction | None]] = {
            "compare": self._compare,
            "range": self._range,
            "time": self._time,
            "value": self._value,
            "other values": self._other_values,
            "pattern": self._pattern,
            "blank": self._blank,
            "flag": self._flag,
            "two columns": self._two_columns,
            "average": self._average,
            "either": self._either,
        }

    def can(self, kind: str, entity: Entity) -> bool:
        """Whether an entity has columns for a kind of restriction; only rare kinds are checked."""
        if kind == "flag":
            return any(flag_slots(attribute) for attribute in entity.of_kind(Kind.FLAG))
        if kind == "two columns":
            return bool(comparable_pairs(entity))
        return bool(entity.of_kind(Kind.YEAR, Kind.DATE)) if kind == "time" else True

    def make(self, kind: str, entity: Entity) -> Restriction | None:
        """A restriction of this kind, or None where the random choice does not fit the entity."""
        return self._makers[kind](entity)

    def any(self, entity: Entity, weights: Mapping[str, float]) -> Restriction | None:
        """A restriction of one of these kinds."""
        return self.make(self.rng.choices(list(weights), list(weights.values()))[0], entity)

    def compare_with(self, attribute: Attribute, entity: Entity, rule: str, bound: str) -> Restriction | None:
        """A number compared with a bound."""
        slots = self._number_slots(attribute, entity)
        text = number_text(bound, self.rng)
        slots["v"] = slots["u"] = with_unit(text, attribute, self.rng)
        if attribute.unit is not None:
            slots["uu"] = f"{text} {attribute.unit}"
        counted = self._counted(attribute, slots)
        if bound == "1" and attribute.counted_one is not None:
            slots["counted"] = attribute.counted_one
        return self._restriction(rule + counted, slots, attribute, f"{{}} {_OPERATORS[rule]} {bound}", "compare")

    def exclusive_pair(self, entity: Entity) -> tuple[Restriction, Restriction] | None:
        """Two restrictions that no row meets at once: above one number and below another, or two values."""
        one = other = None
        if self.rng.random() < 0.35:
            attribute = self._pick(entity.measures)
            bounds = choose_bounds(attribute, self.rng) if attribute is not None else None
            if attribute is not None and bounds is not None:
                low, high = bounds
                one = self.compare_with(attribute, entity, "more", high)
                other = self.compare_with(attribute, entity, "less", low)
        else:
            attribute = self._pick(descriptive_texts(entity))
            values = list(filter(is_quotable, attribute.content.values)) if attribute is not None else []
            if attribute is not None and len(values) > 1:
                first, second = self.rng.sample(values, 2)
                one, other = self._equal(attribute, entity, first), self._equal(attribute, entity, second)
        return (one, other) if one is not None and other is not None else None

    def _pick(self, attributes: Sequence[Attribute]) -> Attribute | None:
        return self.rng.choice(attributes) if attributes else None

    def _restriction(
        self, rule: str, slots: Mapping[str, str], attribute: Attribute, condition: str, construct: str
    ) -> Restriction | None:
        """A restriction in the words of a rule; `{}` in the condition is the column."""
        phrase = self.book.choose(rule, slots, self.rng)
        if phrase is None:
            return None
        return Restriction(
            phrase,
            lambda query, at: condition.replace("{}", query.column(attribute.column, at)),
            construct,
            attribute.column,
        )

    def _compare(self, entity: Entity) -> Restriction | None:
        attribute = self._pick(entity.of_kind(Kind.NUMBER, Kind.COUNTED))
        bound = choose_bound(attribute, self.rng) if attribute is not None else None
        if attribute is None or bound is None:
            return None
        rule = self.rng.choices(list(_OPERATORS), _OPERATOR_WEIGHTS)[0]
        if rule == "exactly" or attribute.is_rank:
            rule, bound = "exactly", sql_number(self.rng.choice(attribute.numbers))
        return self.compare_with(attribute, entity, rule, bound)

    def _range(self, entity: Entity) -> Restriction | None:
        attribute = self._pick(entity.measures)
        bounds = choose_bounds(attribute, self.rng) if attribute is not None else None
        if attribute is None or bounds is None:
            return None
        low, high = bounds
        first, second = number_texts(bounds, self.rng)
        slots = self._number_slots(attribute, entity) | {"v": first, "w": with_unit(second, attribute, self.rng)}
        if "$" in slots["w"]:
            slots["v"] = f"${first}"
        if attribute.unit is not None:
            slots["ww"] = f"{second} {attribute.unit}"
        counted = self._counted(attribute, slots)
        if self.rng.random() < 0.3:
            return self._restriction("outside" + counted, slots, attribute, f"{{}} < {low} OR {{}} > {high}", "range")
        return self._restriction("between" + counted, slots, attribute, f"{{}} BETWEEN {low} AND {high}", "range")

    def _average(self, entity: Entity) -> Restriction | None:
        """Above or below the average, or equal to an extreme."""
        attribute = self._pick(entity.measures)
        if attribute is None or len(set(attribute.numbers)) < 3:
            return None
        slots = self._number_slots(attribute, entity)
        rule = self.rng.choices(list(_NESTED), (3, 3, 1, 1))[0]
        operator, function, construct = _NESTED[rule]
        inner = QueryBuilder(self.domain.schema, entity.table)
        nested = inner.sql([f"{function}({inner.column(attribute.column)})"])
        return self._restriction(rule, slots, attribute, f"{{}} {operator} ({nested})", construct)

    def _counted(self, attribute: Attribute, slots: Mapping[str, str]) -> str:
        """The ending of a rule's name: ` counted` where a number is worded as how many of something there are."""
        is_counted = "counted" in slots and (attribute.kind is Kind.COUNTED or self.rng.random() < 0.4)
        return " counted" if is_counted else ""

    def _number_slots(self, attribute: Attribute, entity: Entity) -> dict[str, str]:
        slots = attribute_slots(attribute, entity)
        if attribute.counted is not None:
            slots["counted"] = slots["counted_n"] = attribute.counted
        quantity = attribute.worded_quantity
        if quantity is not None:
            if quantity.more:
                slots["older"], slots["younger"] = self.rng.choice(quantity.more), self.rng.choice(quantity.less)
            if quantity.how is not None:
                slots["old"] = quantity.how
            if quantity.verb is not None:
                slots["cost_costs"] = "<{}|{}>".format(*quantity.verb)
        return slots

    def _time(self, entity: Entity) -> Restriction | None:
        attribute = self._pick(entity.of_kind(Kind.YEAR, Kind.DATE))
        if attribute is None:
            return None
        restriction = restrict_time(attribute, entity, self.rng)
        if restriction is None:
            return None
        rule, slots, condition = restriction
        return self._restriction(rule, slots, attribute, condition, "time")

    def _value(self, entity: Entity) -> Restriction | None:
        attribute = self._pick(descriptive_texts(entity))
        value = pick_value(attribute, self.rng) if attribute is not None else None
        return self._equal(attribute, entity, value) if attribute is not None and value is not None else None

    def _equal(self, attribute: Attribute, entity: Entity, value: str) -> Restriction | None:
        slots = value_slots(attribute, entity, value, self.rng.choice(QUOTE_MARKS))
        return self._restriction("is", slots, attribute, f"{{}} = {literal(value)}", "value")

    def _other_values(self, entity: Entity) -> Restriction | None:
        """Not one value, one of two or three, or neither of two."""
        attribute = self._pick(descriptive_texts(entity))
        value = pick_value(attribute, self.rng) if attribute is not None else None
        if attribute is None or value is None:
            return None
        mark = self.rng.choice(QUOTE_MARKS)
        slots = value_slots(attribute, entity, value, mark)
        rule = self.rng.choice(("is not", "is one of", "is neither", "is one of"))
        one = literal(value)
        if rule == "is not":
            return self._restriction(rule, slots, attribute, f"{{}} != {one}", "other values")
        second = pick_value(attribute, self.rng)
        if second is None or second == value or len(attribute.content.values) < 3:
            return None
        more = value_slots(attribute, entity, second, mark)
        slots["w"] = more["v"]
        third = pick_value(attribute, self.rng)
        if rule == "is one of" and third not in (None, value, second) and len(attribute.content.values) > 4:
            assert third is not None
            slots["z"] = value_slots(attribute, entity, third, mark)["v"]
            texts = ", ".join(map(literal, (value, second, third)))
            return self._restriction("is one of three", slots, attribute, f"{{}} IN ({texts})", "other values")
        slots |= {"w_pred": more["v_pred"]} if "v_pred" in more else {}
        two = literal(second)
        if "in" in slots:
            slots |= {"neither_in": f"neither {slots['in']}", "w_in": f"{slots['in']} {slots['w']}"}
        condition = f"{{}} = {one} OR {{}} = {two}" if rule == "is one of" else f"{{}} != {one} AND {{}} != {two}"
        return self._restriction(rule, slots, attribute, condition, "other values")

    def _pattern(self, entity: Entity) -> Restriction | None:
        """Part of a text, mostly of the entity's name."""
        texts = [*entity.titles, *entity.titles, *descriptive_texts(entity)]
        attribute = self._pick([text for text in texts if text.kind is Kind.TEXT and len(text.content.values) > 3])
        value = pick_value(attribute, self.rng) if attribute is not None else None
        if attribute is None or value is None:
            return None
        rule, pattern = self.rng.choice(_PATTERNS)
        part = pick_part(value, rule, self.rng)
        if part is None:
            return None
        is_title = len(entity.titles) == 1 and attribute in entity.titles
        name = attribute.noun.one
        if is_title:
            name = "title" if attribute.noun.head == "title" else "name"
        mark = self.rng.choice(QUOTE_MARKS if len(part) > 1 else ("", '"', "'"))
        marked = f"{mark}{part}{mark}"
        slots = {"v": marked, "name": name, "a_name": f"a {name}"}
        if len(part) == 1:
            slots["v_letter"] = marked
            slots["v"] = marked if rule == "starts" else self.rng.choice(("the letter ", "an ", "")) + marked
        else:
            slots["v_text"] = marked
        if is_title:
            slots["v_title"] = slots["v"]
        like = "NOT LIKE" if rule.startswith("not") else "LIKE"
        return self._restriction(rule, slots, attribute, f"{{}} {like} {quoted_text(pattern.format(part))}", "pattern")

    def _blank(self, entity: Entity) -> Restriction | None:
        """A missing value, or its opposite; also in complete columns that are usually optional."""
        attribute = self._pick(
            [
                attribute
                for attribute in entity.attributes
                if attribute.kind not in (Kind.FLAG, Kind.COUNTED)
                and attribute is not entity.key
                and (attribute.has_null or _is_optional(attribute, entity))
            ]
        )
        if attribute is None:
            return None
        slots = attribute_slots(attribute, entity)
        verb = attribute.time_verb
        if verb is not None:
            if verb.passive is not None and verb.passive not in _ALWAYS_PAST:
                slots["built"] = verb.passive
            if verb.active is not None and verb.base is not None:
                slots["opened"] = verb.active
            if verb.pending is not None:
                slots["pending"] = verb.pending
                if " " not in verb.pending:
                    slots["pending_adj"] = verb.pending
        if self.rng.random() < 0.65:
            return self._restriction("null", slots, attribute, "{} IS NULL", "blank")
        return self._restriction("not null", slots, attribute, "{} IS NOT NULL", "blank")

    def _flag(self, entity: Entity) -> Restriction | None:
        attribute = self._pick(entity.of_kind(Kind.FLAG))
        slots = flag_slots(attribute) if attribute is not None else None
        if attribute is None or attribute.flag is None or slots is None:
            return None
        is_on = self.rng.random() < 0.6
        value = attribute.flag[0] if is_on else attribute.flag[1]
        return self._restriction("flag" if is_on else "flag off", slots, attribute, f"{{}} = {literal(value)}", "flag")

    def _two_columns(self, entity: Entity) -> Restriction | None:
        pairs = comparable_pairs(entity)
        if not pairs:
            return None
        one, other = self.rng.choice(pairs)
        if self.rng.random() < 0.5:
            one, other = other, one
        rules: tuple[tuple[str, str], ...] = (("column later", ">"), ("column earlier", "<"))
        if one.kind is Kind.COUNTED:
            rules = (("counted more", ">"), ("counted less", "<"))
        elif one.kind is Kind.NUMBER:
            rules = (("column more", ">"), ("column less", "<"))
        elif one.kind is Kind.TEXT:
            rules = (("column equal", "="),)
        rule, operator = self.rng.choice(rules)
        phrase = self.book.choose(rule, pair_slots(one, other), self.rng)
        if phrase is None:
            return None
        return Restriction(
            phrase,
            lambda query, at: f"{query.column(one.column, at)} {operator} {query.column(other.column, at)}",
            "two columns",
            one.column,
        )

    def _either(self, entity: Entity) -> Restriction | None:
        """One restriction or another, each as a predicate."""
        weights = {"compare": 3.0, "value": 3.0, "time": 2.0}
        one, other = self.any(entity, weights), self.any(entity, weights)
        if one is None or other is None or one.column == other.column:
            return None
        first, second = predicate_of(one.phrase), predicate_of(other.phrase)
        if first is None or second is None:
            return None
        lead = self.rng.choice(("", "", "either "))
        return Restriction(
            Phrase("pred", f"{lead}{first.text} or {second.text}"),
            lambda query, at: f"{one.condition(query, at)} OR {other.condition(query, at)}",
            "either",
            one.column,
        )


def _is_optional(attribute: Attribute, entity: Entity) -> bool:
    """Whether people often leave a column empty."""
    words = {lemma(word) for word in attribute.noun.one.split()}
    is_pending = attribute.time_verb is not None and attribute.time_verb.pending is not None
    return attribute not in entity.titles and (is_pending or not words.isdisjoint(lexicon().optional))
