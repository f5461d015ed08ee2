"""Questions with computed values: counts and aggregates of groups, and arithmetic with two columns.

In: a `Scene`. Out: `Draft`s.
"""

from dataclasses import dataclass

from dtfixup.sql.synthesis.phrases.descriptions import Description, QueryBuilder, Restriction, describe
from dtfixup.sql.synthesis.phrases.entities import Attribute, Entity, Kind, is_place
from dtfixup.sql.synthesis.phrases.row_questions import pick_function
from dtfixup.sql.synthesis.phrases.scene import Draft, NoDraftError, Scene
from dtfixup.sql.synthesis.phrases.wording import (
    attribute_slots,
    choose_bound,
    comparable_pairs,
    count_text,
    number_text,
    pair_slots,
    sql_number,
)

AVERAGES = {
    "avg": ("average", "mean", "average"),
    "sum": ("total", "total", "overall"),
    "max": ("maximum", "highest", "largest"),
    "min": ("minimum", "lowest", "smallest"),
}
"""Adjectives for aggregate functions."""


@dataclass(frozen=True)
class _Groups:
    """Described rows in groups, with the query over them and its grouping column."""

    description: Description
    key: Attribute
    query: QueryBuilder
    column: str

    @property
    def entity(self) -> Entity:
        return self.description.entity

    def slots(self, scene: Scene) -> dict[str, str]:
        return scene.description_slots(self.description) | key_slots(self.key)


def _grouped(scene: Scene, needs_measure: bool = False) -> _Groups:
    entity = scene.pick_entity(
        lambda entity: bool(scene.group_keys(entity)) and (not needs_measure or bool(entity.measures))
    )
    description = scene.describe(entity, most=1 if scene.rng.random() < 0.3 else 0)
    key = scene.rng.choice(scene.group_keys(entity))
    if key.column in description.columns:
        raise NoDraftError
    query = scene.query(description)
    return _Groups(description, key, query, query.column(key.column))


def key_slots(key: Attribute) -> dict[str, str]:
    """Words for groups: rows are in a city, but of a type."""
    slots = {"key": key.noun.one, "key_n": key.noun.many, "each_key": f"each {key.noun.one}"}
    if is_place(key):
        return slots | {"in_each": "in each", "in_which": "in which", "in_it": "there"}
    return slots | {"in_which": "for which", "in_it": "with it"}


def ask_group_count(scene: Scene) -> Draft:
    """How many rows each group has, by one or two attributes."""
    groups = _grouped(scene)
    description, query, column = groups.description, groups.query, groups.column
    slots = groups.slots(scene)
    others = [other for other in scene.group_keys(groups.entity) if other is not groups.key]
    if others and scene.rng.random() < 0.35:
        second = scene.rng.choice(others)
        columns = [column, query.column(second.column)]
        slots["second"] = second.noun.one
        return scene.draft(
            "group two", slots, query.sql([*columns, "count(*)"], group=columns), "two keys", description
        )
    if scene.rng.random() < 0.2:
        sql = query.sql([column, "count(*)"], group=[column], order=["count(*) DESC"])
        return scene.draft("group count sorted", slots, sql, "group count", description)
    return scene.draft(
        "group count", slots, query.sql([column, "count(*)"], group=[column]), "group count", description
    )


def ask_group_aggregate(scene: Scene) -> Draft:
    """An aggregate of each group, or the group where it is highest."""
    groups = _grouped(scene, needs_measure=True)
    query, column = groups.query, groups.column
    attribute = scene.rng.choice(groups.entity.measures)
    function = pick_function(scene, attribute, ("avg", "avg", "sum", "max", "min"))
    value = f"{function}({query.column(attribute.column)})"
    slots = groups.slots(scene) | attribute_slots(attribute, groups.entity)
    slots["average"] = scene.rng.choice(AVERAGES[function])
    rule, sql = "group aggregate", query.sql([column, value], group=[column])
    if scene.rng.random() < 0.2:
        slots["highest"] = scene.rng.choice(("highest", "largest"))
        if function not in ("avg", "sum"):
            raise NoDraftError
        rule, sql = "group most aggregate", query.sql([column], group=[column], order=[f"{value} DESC"], limit=1)
    return scene.draft(rule, slots, sql, "group aggregate", groups.description)


def ask_having(scene: Scene) -> Draft:
    """Groups with a bound on their number of rows or on an average."""
    groups = _grouped(scene)
    slots = groups.slots(scene)
    measures = groups.entity.measures
    if measures and scene.rng.random() < 0.2:
        attribute = scene.rng.choice(measures)
        if len(attribute.numbers) < 4:
            raise NoDraftError
        bound = sql_number(round(_median(attribute)))
        slots |= attribute_slots(attribute, groups.entity) | {"v": number_text(bound, scene.rng)}
        rule, having = "having average more", f"avg({groups.query.column(attribute.column)}) > {bound}"
    else:
        rule, having, number = _count_bound(scene)
        slots |= {"n": number, "n_things": f"{number} {slots['thing' if number in ('1', 'one') else 'things']}"}
    sql = groups.query.sql([groups.column], group=[groups.column], having=having)
    return scene.draft(rule, slots, sql, "having", groups.description)


def _count_bound(scene: Scene) -> tuple[str, str, str]:
    """A bound on the number of rows in a group: the rule, the condition, and the number as text."""
    count = scene.rng.choice((1, 2, 2, 3, 4, 5))
    rule, operator = scene.rng.choice(
        (
            ("having more", ">"),
            ("having more", ">"),
            ("having at least", ">="),
            ("having at least", ">="),
            ("having fewer", "<"),
            ("having one", "="),
        )
    )
    if rule == "having one":
        count = 1
    elif rule in ("having at least", "having fewer"):
        count += 1
    return rule, f"count(*) {operator} {count}", count_text(count, scene.rng)


def ask_most_common(scene: Scene) -> Draft:
    """The groups with the most or the fewest rows."""
    groups = _grouped(scene)
    column, slots = groups.column, groups.slots(scene)
    draw = scene.rng.random()
    rule, order, limit = "most common", "count(*) DESC", 1
    if draw < 0.2:
        rule, order = "least common", "count(*) ASC"
    elif draw < 0.4:
        rule, limit = "top groups", scene.rng.choice((2, 3, 3, 5))
        slots["k"] = count_text(limit, scene.rng)
        if len(groups.key.content.values) <= limit:
            raise NoDraftError
    sql = groups.query.sql([column], group=[column], order=[order], limit=limit)
    return scene.draft(rule, slots, sql, "most common", groups.description)


def ask_group_sets(scene: Scene) -> Draft:
    """Groups that have rows of two kinds, or of one and not the other."""
    entity = scene.pick_entity(lambda entity: bool(scene.group_keys(entity)))
    pair = scene.restrictor.exclusive_pair(entity)
    if pair is None:
        raise NoDraftError
    key = scene.rng.choice(scene.group_keys(entity))
    if key.column == pair[0].column:
        raise NoDraftError
    one, other = (describe(entity, [restriction], scene.rng) for restriction in pair)
    slots = key_slots(key) | {"one": one.phrase.many(), "other": other.phrase.many()}
    rule, operation = scene.rng.choice((("both", "INTERSECT"), ("both", "INTERSECT"), ("but not", "EXCEPT")))
    queries = [scene.query(description) for description in (one, other)]
    sql = f" {operation} ".join(query.sql([query.column(key.column)]) for query in queries)
    return scene.draft(rule, slots, sql, operation.lower(), entity)


_NAMED = {"named difference": "-", "named sum": "+"}
_SINGLE = {
    "difference": ("{}", "-"),
    "average difference": ("avg({})", "-"),
    "biggest difference": ("max({})", "-"),
    "total difference": ("sum({})", "-"),
    "total sum": ("sum({})", "+"),
}
_ORDERED = {"most difference": ("-", "DESC"), "least difference": ("-", "ASC"), "most sum": ("+", "DESC")}
_DIVISORS = frozenset(["population", "area", "capacity", "enrollment", "duration", "distance", "quantity"])


def _number_pairs(entity: Entity) -> list[tuple[Attribute, Attribute]]:
    """Comparable numbers, the one with the higher median first."""
    pairs = [pair for pair in comparable_pairs(entity) if pair[0].kind in (Kind.NUMBER, Kind.COUNTED)]
    return [(one, other) if _median(one) >= _median(other) else (other, one) for one, other in pairs]


def _median(attribute: Attribute) -> float:
    numbers = attribute.numbers
    return numbers[len(numbers) // 2] if numbers else 0.0


def _factor_pairs(entity: Entity) -> list[tuple[Attribute, Attribute]]:
    """A price and a number of pieces, whose product is an amount."""
    prices = [price for price in entity.of_kind(Kind.NUMBER) if _measures(price, "price")]
    counts = [count for count in entity.attributes if count.kind is Kind.COUNTED or _measures(count, "quantity")]
    return [(price, count) for price in prices for count in counts]


def _ratio_pairs(entity: Entity) -> list[tuple[Attribute, Attribute]]:
    """What can be counted per head, per place or per piece."""
    numbers = entity.of_kind(Kind.NUMBER, Kind.COUNTED)
    above = [number for number in numbers if not _is_judged(number)]
    below = [number for number in numbers if _is_divisor(number) and 0.0 not in number.numbers]
    return [(one, other) for one in above for other in below if one is not other and _median(one) > _median(other)]


def _measures(attribute: Attribute, *names: str) -> bool:
    """Whether an attribute measures one of these quantities."""
    return attribute.quantity is not None and attribute.quantity.name in names


def _is_judged(attribute: Attribute) -> bool:
    """Whether a number is a judgement, an order or a property, which are not divided."""
    quantity = attribute.quantity
    if quantity is None:
        return attribute.kind is not Kind.COUNTED
    return quantity.is_judged or quantity.is_order or quantity.name in ("age", "height", "speed")


def _is_divisor(attribute: Attribute) -> bool:
    return attribute.kind is Kind.COUNTED or _measures(attribute, *_DIVISORS)


def ask_computed(scene: Scene) -> Draft:
    """The difference, sum, product or ratio of two columns: shown, aggregated, ordered by or restricted."""
    draw = scene.rng.random()
    if draw < 0.2:
        return _ratio_or_product(scene)
    entity = scene.pick_entity(lambda entity: bool(_number_pairs(entity)))
    one, other = scene.rng.choice(_number_pairs(entity))
    if draw < 0.35:
        return _restricted(scene, entity, one, other)
    rules = [rule for rule in (*_NAMED, *_SINGLE, *_ORDERED, "order difference") if entity.titles or rule in _SINGLE]
    rule = scene.rng.choice(rules)
    description = scene.describe(entity, most=1 if scene.rng.random() < 0.4 else 0)
    query = scene.query(description)
    slots = pair_slots(one, other) | scene.description_slots(description)
    first, second = query.column(one.column), query.column(other.column)
    titles = scene.titles(query, entity)
    if rule in _NAMED:
        sql = query.sql([*titles, f"{first} {_NAMED[rule]} {second}"])
    elif rule in _SINGLE:
        form, sign = _SINGLE[rule]
        sql = query.sql([form.format(f"{first} {sign} {second}")])
    elif rule in _ORDERED:
        sign, direction = _ORDERED[rule]
        sql = query.sql(titles, order=[f"{first} {sign} {second} {direction}"], limit=1)
    else:
        sql = query.sql(titles, order=[f"{first} - {second} DESC"])
    return scene.draft(rule, slots, sql, "computed", description)


def _ratio_or_product(scene: Scene) -> Draft:
    is_product = scene.rng.random() < 0.4
    pairs = _factor_pairs if is_product else _ratio_pairs
    description = scene.pick_described(lambda entity: bool(pairs(entity)), most=0)
    entity = description.entity
    one, other = scene.rng.choice(pairs(entity))
    slots = pair_slots(one, other) | scene.description_slots(description)
    slots["other_1"] = other.counted_one or other.noun.one
    query = scene.query(entity)
    value = f"{query.column(one.column)} {'*' if is_product else '/'} {query.column(other.column)}"
    titles = scene.titles(query, entity)
    if is_product and (not titles or scene.rng.random() < 0.5):
        rule, sql = "total product", query.sql([f"sum({value})"])
    elif is_product:
        rule, sql = "named product", query.sql([*titles, value])
    elif not titles:
        raise NoDraftError
    elif (draw := scene.rng.random()) < 0.2:
        rule, sql = "average ratio", query.sql([f"avg({value})"])
    elif draw < 0.6:
        rule, sql = "named ratio", query.sql([*titles, value])
    else:
        rule, sql = "most ratio", query.sql(titles, order=[f"{value} DESC"], limit=1)
    return scene.draft(rule, slots, sql, "computed", description)


def _restricted(scene: Scene, entity: Entity, one: Attribute, other: Attribute) -> Draft:
    """Rows whose difference or sum is above a bound."""
    sign, rule = scene.rng.choice((("-", "difference more"), ("-", "difference more"), ("+", "sum more")))
    if sign == "-":
        gap = _median(one) - _median(other)
        bound = sql_number(float(f"{gap:.1g}")) if gap > 0 else None
    else:
        bound = choose_bound(one, scene.rng)
    if bound is None:
        raise NoDraftError
    phrase = scene.word(rule, pair_slots(one, other) | {"v": number_text(bound, scene.rng)})
    if not entity.titles:
        raise NoDraftError

    def condition(query: QueryBuilder, at: int) -> str:
        return f"{query.column(one.column, at)} {sign} {query.column(other.column, at)} > {bound}"

    description = describe(entity, [Restriction(phrase, condition, "computed", one.column)], scene.rng)
    query = scene.query(description)
    rule, shown = "names", scene.titles(query, entity)
    if scene.rng.random() < 0.3:
        rule, shown = "count", ["count(*)"]
    return scene.draft(rule, scene.description_slots(description), query.sql(shown), "computed", description)
