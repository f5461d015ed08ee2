"""Questions with an order: the most and the least, the first few, sorted lists; and distinct values.

In: a `Scene`. Out: `Draft`s.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from dtfixup.sql.synthesis.phrases.descriptions import Description, QueryBuilder
from dtfixup.sql.synthesis.phrases.entities import Attribute, Entity, Kind
from dtfixup.sql.synthesis.phrases.scene import Draft, NoDraftError, Scene
from dtfixup.sql.synthesis.phrases.wording import attribute_slots, count_text

_MAKING = frozenset(["built", "founded", "released", "published", "created", "installed", "launched"])
"""Verbs whose time makes an entity new or old."""
_HIGHEST, _LOWEST = ("highest", "highest", "highest", "maximum"), ("lowest", "lowest", "minimum")
_LARGEST, _SMALLEST = ("highest", "largest", "greatest", "biggest", "maximum"), ("lowest", "smallest", "minimum")
_SIZES = frozenset(
    ["population", "area", "capacity", "enrollment", "money", "attendance", "tonnage", "quantity", "distance"]
)


def ordered_by(entity: Entity) -> list[Attribute]:
    """The attributes to order an entity's rows by."""
    return [
        attribute
        for attribute in entity.of_kind(Kind.NUMBER, Kind.COUNTED, Kind.YEAR, Kind.DATE)
        if (attribute.kind is not Kind.DATE or attribute.has_sortable_dates)
        and len(attribute.content.values) > 2
        and not attribute.has_null
    ]


def degree_slots(attribute: Attribute, entity: Entity, is_most: bool, scene: Scene) -> dict[str, str]:
    """Words for the most or the least of an attribute."""
    slots = attribute_slots(attribute, entity)
    rng, quantity = scene.rng, attribute.quantity
    if attribute.kind in (Kind.YEAR, Kind.DATE):
        return _time_degree_slots(attribute, entity, is_most, scene)
    if not attribute.is_rank:
        is_size = quantity is not None and quantity.name in _SIZES
        highest, lowest = (_LARGEST, _SMALLEST) if is_size else (_HIGHEST, _LOWEST)
        slots["highest"] = rng.choice(highest if is_most else lowest)
        slots["most"] = rng.choice(("most", "most", "highest number of") if is_most else ("fewest", "least"))
    if attribute.counted is not None:
        slots["counted"] = attribute.counted
        if attribute.kind is Kind.COUNTED:
            slots.pop("highest")
            slots.pop("attr", None)
            return slots
    is_who = entity.is_person and scene.is_only_person(entity, attribute)
    if is_who:
        slots["attr_person"] = slots["attr"]
    if quantity is None or not attribute.has_adjective:
        return slots
    best = quantity.most if is_most else quantity.least
    if best is not None and not (quantity.name == "height" and not entity.is_person and rng.random() < 0.3):
        slots["oldest"] = best
        slots["youngest"] = (quantity.least if is_most else quantity.most) or ""
        if is_who:
            slots["oldest_person"] = best
    if quantity.verb is not None and quantity.name != "capacity":
        slots |= {"cost": quantity.verb[0], "costs": quantity.verb[1]}
        slots["most"] = "most" if is_most else "least"
        if is_who:
            slots["costs_person"] = quantity.verb[1]
    return slots


def _time_degree_slots(attribute: Attribute, entity: Entity, is_most: bool, scene: Scene) -> dict[str, str]:
    """Words for the latest or the earliest; the latest born are the youngest."""
    rng, verb = scene.rng, attribute.time_verb
    if verb is not None and verb.passive == "born":
        if not entity.is_person:
            return {}
        oldest, youngest = ("youngest", "oldest") if is_most else ("oldest", "youngest")
        slots = {"oldest": oldest, "youngest": youngest}
        return slots | ({"oldest_person": oldest} if scene.is_only_person(entity) else {})
    slots = {"last": rng.choice(("last", "most recently", "latest") if is_most else ("first", "earliest"))}
    if verb is not None:
        slots |= {"built": verb.passive} if verb.passive else {}
        slots |= {"opened": verb.active} if verb.active else {}
        if verb.passive in _MAKING:
            newest = ("newest", "most recent", "latest") if is_most else ("oldest", "earliest")
            slots["latest"] = rng.choice(newest)
    elif attribute.noun.one in ("date", "year"):
        slots["latest"] = rng.choice(
            ("latest", "most recent", "newest") if is_most else ("earliest", "oldest", "first")
        )
    slots["highest"] = rng.choice(("latest", "most recent") if is_most else ("earliest",))
    slots["attr"] = attribute.noun.one
    return slots


def order_key(query: QueryBuilder, attribute: Attribute, is_descending: bool, at: int = 0) -> str:
    """A key of ORDER BY."""
    return f"{query.column(attribute.column, at)} {'DESC' if is_descending else 'ASC'}"


def _pick_extreme(
    scene: Scene, share: float, fits: Callable[[Entity], bool] = lambda entity: True
) -> tuple[Description, Attribute, bool]:
    """Described rows, an attribute to order by, and whether the most is asked, in a share of the cases."""
    description = scene.pick_described(lambda entity: bool(ordered_by(entity)) and fits(entity))
    attribute = scene.rng.choice(ordered_by(description.entity))
    if attribute.column in description.columns or attribute.is_rank:
        raise NoDraftError
    return description, attribute, scene.rng.random() < share


def ask_superlative(scene: Scene) -> Draft:
    """The one row with the most or the least of something."""
    description, attribute, is_most = _pick_extreme(scene, 0.6)
    entity = description.entity
    slots = scene.description_slots(description) | degree_slots(attribute, entity, is_most, scene)
    query = scene.query(description)
    titles = scene.titles(query, entity)
    columns = {attribute.column, *description.columns}
    asked = [other for other in scene.pick_attributes(entity, 1) if other.column not in columns]
    draw = scene.rng.random()
    rule, shown = "superlative", titles
    if draw < 0.1:
        rule, shown = "superlative everything", ["*"]
    elif asked and draw < 0.4:
        slots["asked"] = asked[0].noun.one
        rule, shown = "superlative attribute", [query.column(asked[0].column)]
        if titles and draw < 0.25:
            rule, shown = "superlative both", [*titles, *shown]
    elif not titles:
        raise NoDraftError
    sql = query.sql(shown, order=[order_key(query, attribute, is_most)], limit=1)
    return scene.draft(rule, slots, sql, "superlative", description)


def ask_top(scene: Scene) -> Draft:
    """The few rows with the most or the least of something."""
    description, attribute, is_most = _pick_extreme(scene, 0.65, lambda entity: bool(entity.titles) and entity.rows > 4)
    entity = description.entity
    count = scene.rng.choice((2, 3, 3, 3, 4, 5, 5, 10))
    slots = scene.description_slots(description) | degree_slots(attribute, entity, is_most, scene)
    slots["k"] = count_text(count, scene.rng)
    if attribute.kind in (Kind.NUMBER, Kind.COUNTED):
        slots["attr_top" if is_most else "attr_bottom"] = attribute.noun.one
    if "highest" in slots:
        slots["attr_n_or_1"] = scene.rng.choice((attribute.noun.one, attribute.noun.many))
    query = scene.query(description)
    sql = query.sql(scene.titles(query, entity), order=[order_key(query, attribute, is_most)], limit=count)
    return scene.draft("top", slots, sql, "top", description)


@dataclass(frozen=True)
class _Order:
    """An order in words and as ORDER BY keys; `attribute` names it where one word does."""

    text: str
    keys: tuple[str, ...]
    attribute: str | None = None


def ask_sorted(scene: Scene) -> Draft:
    """A list sorted by one or two attributes, or by name."""
    description = scene.pick_described(lambda entity: bool(entity.titles))
    entity = description.entity
    query, slots = scene.query(description), scene.description_slots(description)
    is_by_name = not ordered_by(entity) or scene.rng.random() < 0.3
    order = _by_name(scene, entity, query) if is_by_name else _by_attribute(scene, entity, query)
    slots["sorted"] = order.text
    titles = scene.titles(query, entity)
    asked = [attribute for attribute in scene.pick_attributes(entity, 2) if attribute.column not in description.columns]
    draw = scene.rng.random()
    rule, shown = "order", titles
    if draw < 0.2:
        rule, shown = "order everything", ["*"]
    elif asked and draw < 0.5:
        slots |= scene.attribute_list_slots(entity, asked)
        rule, shown = "order attributes", [*titles, *(query.column(attribute.column) for attribute in asked)]
    elif order.attribute is not None:
        slots["attr_sorted"] = order.attribute
    return scene.draft(rule, slots, query.sql(shown, order=order.keys), "sorted", description)


def _by_name(scene: Scene, entity: Entity, query: QueryBuilder) -> _Order:
    """From A to Z or back, by the last name where there are two."""
    is_descending = scene.rng.random() < 0.5
    name = "last name" if len(entity.titles) == 2 else scene.title_slots(entity)["name"]
    phrase = scene.word("reverse alphabetical" if is_descending else "alphabetical", {"name": name})
    return _Order(phrase.text, (order_key(query, entity.titles[-1], is_descending),))


def _by_attribute(scene: Scene, entity: Entity, query: QueryBuilder) -> _Order:
    """By a number or a time, and sometimes by a second key where values repeat."""
    attribute = scene.rng.choice(ordered_by(entity))
    is_descending = scene.rng.random() < 0.5
    slots = _order_slots(attribute, entity, scene)
    text = scene.word("descending" if is_descending else "ascending", slots).text
    keys = (order_key(query, attribute, is_descending),)
    if attribute.has_repeats and scene.rng.random() < 0.3:
        with suppress(NoDraftError):
            second = _second_key(scene, entity, attribute, query)
            gap = "" if second.text.startswith(",") else " "
            return _Order(f"{text}{gap}{second.text}", (*keys, *second.keys))
    return _Order(text, keys, attribute.noun.one + (" in descending order" if is_descending else ""))


def _order_slots(attribute: Attribute, entity: Entity, scene: Scene) -> dict[str, str]:
    noun = attribute.noun.one
    if attribute.kind not in (Kind.YEAR, Kind.DATE):
        return {"attr": noun, **degree_slots(attribute, entity, True, scene)}
    is_bare = noun in ("date", "year")
    is_age = attribute.time_verb is not None and attribute.time_verb.passive in _MAKING
    named = "" if is_bare or is_age else f" {noun}"
    latest = scene.rng.choice(("latest", "most recent") if named else ("latest", "most recent", "newest"))
    slots = {"attr_time": noun, "latest": f"{latest}{named}", "earliest": f"earliest{named}"}
    return slots | {"of_attr": "" if is_bare else f"of {noun}"}


def _second_key(scene: Scene, entity: Entity, first: Attribute, query: QueryBuilder) -> _Order:
    others = [other for other in ordered_by(entity) if other is not first and other.kind is not Kind.DATE]
    if len(entity.titles) == 1 and (not others or scene.rng.random() < 0.5):
        name = scene.title_slots(entity)["name"]
        return _Order(scene.word("then ascending", {"attr": name}).text, (order_key(query, entity.titles[0], False),))
    second = scene.pick(others)
    is_descending = scene.rng.random() < 0.4
    phrase = scene.word("then descending" if is_descending else "then ascending", {"attr": second.noun.one})
    return _Order(phrase.text, (order_key(query, second, is_descending),))


def ask_distinct(scene: Scene) -> Draft:
    """The distinct values of an attribute, or their number."""
    description = scene.pick_described(lambda entity: bool(scene.group_keys(entity)))
    entity = description.entity
    attribute = scene.rng.choice(scene.group_keys(entity))
    if attribute.column in description.columns:
        raise NoDraftError
    slots = scene.description_slots(description) | attribute_slots(attribute, entity)
    if attribute.noun.one in ("country", "city", "state", "nationality", "hometown", "region") and entity.is_person:
        slots |= {"from_which": "from which", "from_how_many": "from how many"}
    elif attribute.noun.one in ("country", "city", "state", "region", "county", "building", "location"):
        slots |= {"from_which": "in which", "from_how_many": "in how many"}
    query = scene.query(description)
    column = query.column(attribute.column)
    if scene.rng.random() < 0.5:
        sql = query.sql([f"count(DISTINCT {column})"])
        return scene.draft("count distinct", slots, sql, "count distinct", description)
    return scene.draft("distinct", slots, query.sql([column], is_distinct=True), "distinct", description)
