"""Asking for what is computed of two columns: differences, sums, products, ratios, and what is ordered by them.

In: a `Scene`. Out: `Draft`s.
"""

from dtfixup.sql.synthesis.phrases.attribute_words import comparable_pairs, pair_slots
from dtfixup.sql.synthesis.phrases.descriptions import Restriction, describe
from dtfixup.sql.synthesis.phrases.numbers_said import choose_bound, figure, say_number
from dtfixup.sql.synthesis.phrases.queries import Query
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene
from dtfixup.sql.synthesis.phrases.things import Attribute, Kind, Thing

_NAMED = {"named difference": "-", "named sum": "+"}
_ONE = {
    "difference": ("{}", "-"),
    "average difference": ("avg({})", "-"),
    "biggest difference": ("max({})", "-"),
    "total difference": ("sum({})", "-"),
    "total sum": ("sum({})", "+"),
}
_ORDERED = {"most difference": ("-", "DESC"), "least difference": ("-", "ASC"), "most sum": ("+", "DESC")}


def number_pairs(thing: Thing) -> list[tuple[Attribute, Attribute]]:
    """Numbers of one kind, the one that is larger in most rows first."""
    pairs = [pair for pair in comparable_pairs(thing) if pair[0].kind in (Kind.NUMBER, Kind.COUNTED)]
    return [pair if _middle(pair[0]) >= _middle(pair[1]) else (pair[1], pair[0]) for pair in pairs]


def _middle(attribute: Attribute) -> float:
    numbers = attribute.numbers
    return numbers[len(numbers) // 2] if numbers else 0.0


def factor_pairs(thing: Thing) -> list[tuple[Attribute, Attribute]]:
    """A price and a number of pieces, whose product is an amount."""
    prices = [
        found for found in thing.of_kind(Kind.NUMBER) if found.quantity is not None and found.quantity.name == "price"
    ]
    counts = [found for found in thing.attributes if _is_amount(found)]
    return [(price, count) for price in prices for count in counts]


def _is_amount(attribute: Attribute) -> bool:
    is_quantity = attribute.quantity is not None and attribute.quantity.name == "quantity"
    return is_quantity or attribute.kind is Kind.COUNTED


def ratio_pairs(thing: Thing) -> list[tuple[Attribute, Attribute]]:
    """What comes per head, per place or per piece."""
    above = [found for found in thing.of_kind(Kind.NUMBER, Kind.COUNTED) if not _is_judged(found)]
    below = [
        found for found in thing.of_kind(Kind.NUMBER, Kind.COUNTED) if _divides(found) and 0.0 not in found.numbers
    ]
    return [(one, other) for one in above for other in below if one is not other and _middle(one) > _middle(other)]


def _is_judged(attribute: Attribute) -> bool:
    quantity = attribute.quantity
    if quantity is None:
        return attribute.kind is not Kind.COUNTED
    return quantity.is_judged or quantity.is_order or quantity.name in ("age", "height", "speed")


def _divides(attribute: Attribute) -> bool:
    names = ("population", "area", "capacity", "enrollment", "duration", "distance", "quantity")
    return attribute.kind is Kind.COUNTED or (attribute.quantity is not None and attribute.quantity.name in names)


def ask_computed(scene: Scene) -> Draft | None:
    """The difference, the sum, the product or the ratio of two columns, in one of the places it can have."""
    draw = scene.chance.random()
    if draw < 0.2:
        return _ratio_or_product(scene)
    thing = scene.pick_thing(lambda found: bool(number_pairs(found)))
    if thing is None:
        return None
    one, other = scene.chance.choice(number_pairs(thing))
    slots = pair_slots(one, other)
    if draw < 0.35:
        return _restricted(scene, thing, one, other, slots)
    rules = [rule for rule in (*_NAMED, *_ONE, *_ORDERED, "order difference") if thing.titles or rule in _ONE]
    rule = scene.chance.choice(rules)
    description = scene.describe(thing, most=1) if scene.chance.random() < 0.4 else scene.describe(thing, most=0)
    if description is None:
        return None
    query = scene.query(thing)
    where = description.where(query)
    slots |= scene.slots_of(description)
    first, second = query.column(one.column), query.column(other.column)
    titles = scene.titles(query, thing)
    if rule in _NAMED:
        sql = query.sql([*titles, f"{first} {_NAMED[rule]} {second}"], where)
    elif rule in _ONE:
        form, sign = _ONE[rule]
        sql = query.sql([form.format(f"{first} {sign} {second}")], where)
    elif rule in _ORDERED:
        sign, direction = _ORDERED[rule]
        sql = query.sql(titles, where, order=[f"{first} {sign} {second} {direction}"], limit=1)
    else:
        sql = query.sql(titles, where, order=[f"{first} - {second} DESC"])
    return scene.draft(rule, slots, sql, "computed", description)


def _ratio_or_product(scene: Scene) -> Draft | None:
    is_product = scene.chance.random() < 0.4
    pairs = factor_pairs if is_product else ratio_pairs
    description = scene.pick_described(lambda found: bool(pairs(found)), most=0)
    if description is None:
        return None
    thing = description.thing
    one, other = scene.chance.choice(pairs(thing))
    slots = pair_slots(one, other) | scene.slots_of(description)
    slots["other_1"] = other.counted_one or other.noun.one
    query = scene.query(thing)
    first, second = query.column(one.column), query.column(other.column)
    titles = scene.titles(query, thing)
    if is_product:
        if not titles or scene.chance.random() < 0.5:
            return scene.draft("total product", slots, query.sql([f"sum({first} * {second})"]), "computed", description)
        return scene.draft("named product", slots, query.sql([*titles, f"{first} * {second}"]), "computed", description)
    if not titles:
        return None
    draw = scene.chance.random()
    if draw < 0.2:
        return scene.draft("average ratio", slots, query.sql([f"avg({first} / {second})"]), "computed", description)
    if draw < 0.6:
        return scene.draft("named ratio", slots, query.sql([*titles, f"{first} / {second}"]), "computed", description)
    sql = query.sql(titles, order=[f"{first} / {second} DESC"], limit=1)
    return scene.draft("most ratio", slots, sql, "computed", description)


def _restricted(scene: Scene, thing: Thing, one: Attribute, other: Attribute, slots: dict[str, str]) -> Draft | None:
    """Things whose difference or sum is more than a number."""
    sign, rule = scene.chance.choice((("-", "difference more"), ("-", "difference more"), ("+", "sum more")))
    if sign == "-":
        gap = _middle(one) - _middle(other)
        bound = figure(float(f"{gap:.1g}")) if gap > 0 else None
    else:
        bound = choose_bound(one, scene.chance)
    if bound is None:
        return None
    said = scene.book.say(rule, slots | {"v": say_number(bound, scene.chance)}, scene.chance)
    if said is None or not thing.titles:
        return None

    def condition(query: Query, at: int) -> str:
        return f"{query.column(one.column, at)} {sign} {query.column(other.column, at)} > {bound}"

    description = describe(thing, [Restriction(said, condition, "computed", one.column)], scene.chance)
    query = scene.query(thing)
    where = description.where(query)
    if scene.chance.random() < 0.3:
        return scene.draft(
            "count", scene.slots_of(description), query.sql(["count(*)"], where), "computed", description
        )
    sql = query.sql(scene.titles(query, thing), where)
    return scene.draft("names", scene.slots_of(description), sql, "computed", description)
