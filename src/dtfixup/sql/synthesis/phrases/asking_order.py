"""Asking by order: the most and the least, the first few, lists sorted one way or two; and each value once.

In: a `Scene`. Out: `Draft`s.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dtfixup.sql.synthesis.phrases.attribute_words import attribute_slots, is_rank
from dtfixup.sql.synthesis.phrases.descriptions import Description
from dtfixup.sql.synthesis.phrases.numbers_said import count_word
from dtfixup.sql.synthesis.phrases.queries import Query
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene
from dtfixup.sql.synthesis.phrases.things import Attribute, Kind, Thing

_SORTED_FORMS = ("YYYY-MM-DD", "YYYY/MM/DD", "YYYY.MM.DD")
_MAKING = frozenset(["built", "founded", "released", "published", "created", "installed", "launched"])
"""What makes a thing new or old."""
_HIGHEST, _LOWEST = ("highest", "highest", "highest", "maximum"), ("lowest", "lowest", "minimum")
_LARGEST, _SMALLEST = ("highest", "largest", "greatest", "biggest", "maximum"), ("lowest", "smallest", "minimum")
_SIZES = frozenset(
    ["population", "area", "capacity", "enrollment", "money", "attendance", "tonnage", "quantity", "distance"]
)


def ordered_by(thing: Thing) -> list[Attribute]:
    """What things can be put in order by."""
    return [
        attribute
        for attribute in thing.of_kind(Kind.NUMBER, Kind.COUNTED, Kind.YEAR, Kind.DATE)
        if (attribute.kind is not Kind.DATE or attribute.held.date_form in _SORTED_FORMS)
        and len(attribute.held.values) > 2
        and not attribute.has_null
    ]


def degree_slots(attribute: Attribute, thing: Thing, is_most: bool, scene: Scene) -> dict[str, str]:
    """The words for the most or the least of an attribute."""
    slots = attribute_slots(attribute, thing)
    chance, quantity = scene.chance, attribute.quantity
    if attribute.kind in (Kind.YEAR, Kind.DATE):
        return _time_degree_slots(attribute, thing, is_most, scene)
    if not is_rank(attribute):
        is_size = quantity is not None and quantity.name in _SIZES
        highest, lowest = (_LARGEST, _SMALLEST) if is_size else (_HIGHEST, _LOWEST)
        slots["highest"] = chance.choice(highest if is_most else lowest)
        slots["most"] = chance.choice(("most", "most", "highest number of") if is_most else ("fewest", "least"))
    if attribute.counted is not None:
        slots["counted"] = attribute.counted
        if attribute.kind is Kind.COUNTED:
            slots.pop("highest")
            slots.pop("attr", None)
            return slots
    is_who = thing.is_person and scene.is_only_person(thing, attribute)
    if is_who:
        slots["attr_person"] = slots["attr"]
    if quantity is None or not attribute.has_adjective:
        return slots
    best = quantity.most if is_most else quantity.least
    if best is not None and not (quantity.name == "height" and not thing.is_person and chance.random() < 0.3):
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


def _time_degree_slots(attribute: Attribute, thing: Thing, is_most: bool, scene: Scene) -> dict[str, str]:
    chance, happening = scene.chance, attribute.happening
    if happening is not None and happening.passive == "born":
        if not thing.is_person:
            return {}
        oldest = (
            {"oldest": "youngest", "youngest": "oldest"} if is_most else {"oldest": "oldest", "youngest": "youngest"}
        )
        return oldest | ({"oldest_person": oldest["oldest"]} if scene.is_only_person(thing) else {})
    slots: dict[str, str] = {
        "last": chance.choice(("last", "most recently", "latest") if is_most else ("first", "earliest"))
    }
    if happening is not None:
        slots |= {"built": happening.passive} if happening.passive else {}
        slots |= {"opened": happening.active} if happening.active else {}
        if happening.passive in _MAKING:
            newest = ("newest", "most recent", "latest") if is_most else ("oldest", "earliest")
            slots["latest"] = chance.choice(newest)
    elif attribute.noun.one in ("date", "year"):
        slots["latest"] = chance.choice(
            ("latest", "most recent", "newest") if is_most else ("earliest", "oldest", "first")
        )
    slots["highest"] = chance.choice(("latest", "most recent") if is_most else ("earliest",))
    slots["attr"] = attribute.noun.one
    return slots


def _extreme(
    scene: Scene, most: float, fits: Callable[[Thing], bool] = lambda thing: True
) -> tuple[Description, Attribute, bool] | None:
    """Things, what they have the most or the least of, and whether it is the most; `most` is how often."""
    description = scene.pick_described(lambda found: bool(ordered_by(found)) and fits(found))
    if description is None:
        return None
    attribute = scene.chance.choice(ordered_by(description.thing))
    if attribute.column in description.columns or is_rank(attribute):
        return None
    return description, attribute, scene.chance.random() < most


def ask_superlative(scene: Scene) -> Draft | None:
    """The one thing with the most or the least of something."""
    extreme = _extreme(scene, 0.6)
    if extreme is None:
        return None
    description, attribute, is_most = extreme
    thing = description.thing
    slots = scene.slots_of(description) | degree_slots(attribute, thing, is_most, scene)
    query = scene.query(thing)
    order = [f"{query.column(attribute.column)} {'DESC' if is_most else 'ASC'}"]
    where, titles = description.where(query), scene.titles(query, thing)
    told = {attribute.column, *description.columns}
    asked = [found for found in scene.shown(thing, 1) if found.column not in told]
    draw = scene.chance.random()
    if draw < 0.1:
        return scene.draft(
            "superlative everything", slots, query.sql(["*"], where, order=order, limit=1), "superlative", description
        )
    if asked and draw < 0.4:
        slots["asked"] = asked[0].noun.one
        column = query.column(asked[0].column)
        rule, shown = "superlative attribute", [column]
        if titles and draw < 0.25:
            rule, shown = "superlative both", [*titles, column]
        return scene.draft(rule, slots, query.sql(shown, where, order=order, limit=1), "superlative", description)
    if not titles:
        return None
    return scene.draft("superlative", slots, query.sql(titles, where, order=order, limit=1), "superlative", description)


def ask_top(scene: Scene) -> Draft | None:
    """The few things with the most or the least of something."""
    extreme = _extreme(scene, 0.65, lambda found: bool(found.titles) and found.rows > 4)
    if extreme is None:
        return None
    description, attribute, is_most = extreme
    thing = description.thing
    count = scene.chance.choice((2, 3, 3, 3, 4, 5, 5, 10))
    slots = scene.slots_of(description) | degree_slots(attribute, thing, is_most, scene)
    slots["k"] = count_word(count, scene.chance)
    if attribute.kind in (Kind.NUMBER, Kind.COUNTED):
        slots["attr_top" if is_most else "attr_bottom"] = attribute.noun.one
    if "highest" in slots:
        slots["attr_n_or_1"] = scene.chance.choice((attribute.noun.one, attribute.noun.many))
    query = scene.query(thing)
    order = [f"{query.column(attribute.column)} {'DESC' if is_most else 'ASC'}"]
    sql = query.sql(scene.titles(query, thing), description.where(query), order=order, limit=count)
    return scene.draft("top", slots, sql, "top", description)


@dataclass(frozen=True)
class _Order:
    """An order as said, and the keys of ORDER BY; `by` is what it is by, where one word says it."""

    said: str
    keys: tuple[str, ...]
    by: str | None = None


def ask_sorted(scene: Scene) -> Draft | None:
    """A list in order, by one attribute or two, or by name."""
    description = scene.pick_described(lambda found: bool(found.titles))
    if description is None:
        return None
    thing = description.thing
    query, slots = scene.query(thing), scene.slots_of(description)
    by_name = not ordered_by(thing) or scene.chance.random() < 0.3
    order = _by_name(scene, thing, query) if by_name else _by_attribute(scene, thing, query)
    if order is None:
        return None
    slots["sorted"] = order.said
    where, titles = description.where(query), scene.titles(query, thing)
    asked = [found for found in scene.shown(thing, 2) if found.column not in description.columns]
    draw = scene.chance.random()
    if draw < 0.2:
        sql = query.sql(["*"], where, order=order.keys)
        return scene.draft("order everything", slots, sql, "sorted", description)
    if asked and draw < 0.5:
        slots |= scene.attributes_said(thing, asked)
        shown = [*titles, *(query.column(found.column) for found in asked)]
        return scene.draft("order attributes", slots, query.sql(shown, where, order=order.keys), "sorted", description)
    if order.by is not None:
        slots["attr_sorted"] = order.by
    return scene.draft("order", slots, query.sql(titles, where, order=order.keys), "sorted", description)


def _by_name(scene: Scene, thing: Thing, query: Query) -> _Order | None:
    """From A to Z or back, by the last name where there are two."""
    falls = scene.chance.random() < 0.5
    name = "last name" if len(thing.titles) == 2 else scene.title_slots(thing)["name"]
    said = scene.book.say("reverse alphabetical" if falls else "alphabetical", {"name": name}, scene.chance)
    key = query.column(thing.titles[-1].column) + (" DESC" if falls else "")
    return _Order(said.text, (key,)) if said is not None else None


def _by_attribute(scene: Scene, thing: Thing, query: Query) -> _Order | None:
    """By a number or a time, and where many are alike by a second key."""
    attribute = scene.chance.choice(ordered_by(thing))
    falls = scene.chance.random() < 0.5
    said = scene.book.say("descending" if falls else "ascending", _order_slots(attribute, thing, scene), scene.chance)
    if said is None:
        return None
    keys = (query.column(attribute.column) + (" DESC" if falls else ""),)
    if attribute.comes_again and scene.chance.random() < 0.3:
        second = _second_key(scene, thing, attribute, query)
        if second is not None:
            gap = "" if second.said.startswith(",") else " "
            return _Order(f"{said.text}{gap}{second.said}", (*keys, *second.keys))
    return _Order(said.text, keys, attribute.noun.one + (" in descending order" if falls else ""))


def _order_slots(attribute: Attribute, thing: Thing, scene: Scene) -> dict[str, str]:
    noun = attribute.noun.one
    if attribute.kind not in (Kind.YEAR, Kind.DATE):
        return {"attr": noun, **degree_slots(attribute, thing, True, scene)}
    is_bare = noun in ("date", "year")
    is_age = attribute.happening is not None and attribute.happening.passive in _MAKING
    named = "" if is_bare or is_age else f" {noun}"
    latest = scene.chance.choice(("latest", "most recent") if named else ("latest", "most recent", "newest"))
    slots = {"attr_time": noun, "latest": f"{latest}{named}", "earliest": f"earliest{named}"}
    return slots | {"of_attr": "" if is_bare else f"of {noun}"}


def _second_key(scene: Scene, thing: Thing, first: Attribute, query: Query) -> _Order | None:
    others = [found for found in ordered_by(thing) if found is not first and found.kind is not Kind.DATE]
    if len(thing.titles) == 1 and (not others or scene.chance.random() < 0.5):
        said = scene.book.say("then ascending", {"attr": scene.title_slots(thing)["name"]}, scene.chance)
        return _Order(said.text, (query.column(thing.titles[0].column),)) if said is not None else None
    if not others:
        return None
    second, falls = scene.chance.choice(others), scene.chance.random() < 0.4
    said = scene.book.say("then descending" if falls else "then ascending", {"attr": second.noun.one}, scene.chance)
    key = query.column(second.column) + (" DESC" if falls else "")
    return _Order(said.text, (key,)) if said is not None else None


def ask_distinct(scene: Scene) -> Draft | None:
    """Every value once, or how many there are."""
    description = scene.pick_described(lambda found: bool(scene.keys(found)))
    if description is None:
        return None
    thing = description.thing
    attribute = scene.chance.choice(scene.keys(thing))
    if attribute.column in description.columns:
        return None
    slots = scene.slots_of(description) | attribute_slots(attribute, thing)
    if attribute.noun.one in ("country", "city", "state", "nationality", "hometown", "region") and thing.is_person:
        slots |= {"from_which": "from which", "from_how_many": "from how many"}
    elif attribute.noun.one in ("country", "city", "state", "region", "county", "building", "location"):
        slots |= {"from_which": "in which", "from_how_many": "in how many"}
    query = scene.query(thing)
    column = query.column(attribute.column)
    if scene.chance.random() < 0.5:
        sql = query.sql([f"count(DISTINCT {column})"], description.where(query))
        return scene.draft("count distinct", slots, sql, "count distinct", description)
    sql = query.sql([column], description.where(query), is_distinct=True)
    return scene.draft("distinct", slots, sql, "distinct", description)
