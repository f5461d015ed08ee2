"""Asking for rows and numbers of one table: names, attributes, everything, how many, how much; and for one row.

In: a `Scene`. Out: `Draft`s.
"""

from collections.abc import Mapping

from dtfixup.sql.synthesis.phrases.attribute_words import attribute_slots
from dtfixup.sql.synthesis.phrases.descriptions import Description
from dtfixup.sql.synthesis.phrases.numbers_said import count_word
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene
from dtfixup.sql.synthesis.phrases.things import Attribute, Kind, Thing
from dtfixup.sql.synthesis.phrases.times import happening_slots


def ask_restricted(scene: Scene, way: str) -> Draft | None:
    """Things by one way of restricting them: shown, described or counted."""
    thing = scene.pick_thing(
        lambda found: scene.restrictor.can(way, found) and (bool(found.titles) or scene.chance.random() < 0.5)
    )
    if thing is None:
        return None
    description = scene.describe(thing, {way: 1.0}, fewest=1)
    if description is None:
        return None
    construct = next(
        (
            restriction.construct
            for restriction in description.restrictions
            if restriction.construct == way or restriction.construct == "extreme"
        ),
        way,
    )
    draw = scene.chance.random()
    if draw < 0.25:
        return _count(scene, description, construct)
    if draw < 0.33:
        return _aggregate(scene, description, construct) or _names(scene, description, construct)
    if draw < 0.43:
        return _everything(scene, description, construct)
    if draw < 0.62:
        return _attributes(scene, description, construct) or _names(scene, description, construct)
    return _names(scene, description, construct)


def ask_count(scene: Scene) -> Draft | None:
    description = scene.pick_described()
    return _count(scene, description, "count") if description is not None else None


def ask_all(scene: Scene) -> Draft | None:
    """All there are: names, attributes or everything."""
    description = scene.pick_described(most=0)
    if description is None:
        return None
    draw = scene.chance.random()
    if draw < 0.4:
        return _attributes(scene, description, "all")
    return _everything(scene, description, "all") if draw < 0.6 else _names(scene, description, "all")


def ask_aggregate(scene: Scene) -> Draft | None:
    description = scene.pick_described(lambda found: bool(scene.measures(found)))
    return _aggregate(scene, description, "aggregate") if description is not None else None


def ask_several_aggregates(scene: Scene) -> Draft | None:
    description = scene.pick_described(lambda found: bool(scene.measures(found)))
    if description is None:
        return None
    thing = description.thing
    able = [found for found in scene.measures(thing) if found.column not in description.columns]
    if not able:
        return None
    attribute = scene.chance.choice(able)
    rule = scene.chance.choice(("min max", "max min", "min avg max", "avg max", "sum avg", "count avg"))
    if "sum" in rule and not is_added_up(attribute):
        return None
    query = scene.query(thing)
    column = query.column(attribute.column)
    shown = ["count(*)" if name == "count" else f"{name}({column})" for name in rule.split()]
    slots = scene.slots_of(description) | attribute_slots(attribute, thing)
    return scene.draft(rule, slots, query.sql(shown, description.where(query)), "several aggregates", description)


def _names(scene: Scene, description: Description, construct: str) -> Draft | None:
    """Names, where things have them; whole rows or keys otherwise."""
    thing, query = description.thing, scene.query(description.thing)
    slots = scene.slots_of(description)
    where = description.where(query)
    if thing.titles:
        return scene.draft("names", slots, query.sql(scene.titles(query, thing), where), construct, description)
    if thing.key is not None and thing.key.column not in description.columns and scene.chance.random() < 0.5:
        slots["key"] = thing.key.noun.many
        return scene.draft("key", slots, query.sql([query.column(thing.key.column)], where), construct, description)
    return scene.draft("untitled", slots, query.sql(["*"], where), construct, description)


def _everything(scene: Scene, description: Description, construct: str) -> Draft | None:
    query = scene.query(description.thing)
    sql = query.sql(["*"], description.where(query))
    return scene.draft("everything", scene.slots_of(description), sql, construct, description)


def _count(scene: Scene, description: Description, construct: str) -> Draft | None:
    query = scene.query(description.thing)
    sql = query.sql(["count(*)"], description.where(query))
    return scene.draft("count", scene.slots_of(description), sql, construct, description)


def _attributes(scene: Scene, description: Description, construct: str) -> Draft | None:
    thing = description.thing
    asked = [attribute for attribute in scene.shown(thing) if attribute.column not in description.columns]
    if not asked:
        return None
    query = scene.query(thing)
    slots = scene.slots_of(description) | scene.attributes_said(thing, asked)
    columns = [query.column(attribute.column) for attribute in asked]
    rule = "attributes"
    if thing.titles and scene.chance.random() < 0.55:
        rule, columns = "names and attributes", [*scene.titles(query, thing), *columns]
    elif len(asked) == 1:
        slots |= _asked_slots(scene, asked[0], thing, slots)
    return scene.draft(rule, slots, query.sql(columns, description.where(query)), construct, description)


def _asked_slots(scene: Scene, attribute: Attribute, thing: Thing, slots: Mapping[str, str]) -> dict[str, str]:
    """Ways to ask for an attribute without its name: how old, when, where."""
    found = {"attr1s": attribute.noun.many}
    quantity, happening = attribute.quantity, attribute.happening
    if quantity is not None and attribute.has_adjective:
        if quantity.how is not None and quantity.name != "price":
            found["old"] = quantity.how
        if quantity.verb is not None:
            found["cost"] = quantity.verb[0]
    if happening is not None and "built" in happening_slots(attribute, thing, scene.chance):
        found["built"] = happening.passive or ""
    if happening is not None and happening.base is not None:
        found["open"] = happening.base
    if is_whereabouts(attribute, thing):
        found["things_living" if thing.is_person else "things_placed"] = slots["things"]
    return found


def is_whereabouts(attribute: Attribute, thing: Thing) -> bool:
    """Whether a column says where a thing is, and no other does."""
    words = {"city", "address", "town", "residence", "district"}
    if not thing.is_person:
        words |= {"location", "venue", "place"}
    places = [found for found in thing.of_kind(Kind.TEXT) if found.noun.one in words]
    return places[:1] == [attribute]


_ADDED_UP = frozenset(
    ["age", "height", "speed", "rating", "temperature", "altitude", "rank", "length", "depth", "width"]
)


def is_added_up(attribute: Attribute) -> bool:
    """Whether a sum of it means something."""
    if attribute.kind is Kind.COUNTED:
        return True
    quantity = attribute.quantity
    is_total = quantity is not None and quantity.name not in _ADDED_UP and not quantity.is_judged
    return is_total and not {"average", "rate", "percentage", "maximum", "minimum", "mean"} & set(
        attribute.noun.one.split()
    )


def _aggregate(scene: Scene, description: Description, construct: str) -> Draft | None:
    thing = description.thing
    able = [attribute for attribute in scene.measures(thing) if attribute.column not in description.columns]
    if not able:
        return None
    attribute = scene.chance.choice(able)
    rule = scene.chance.choice(("avg", "avg", "sum", "sum", "max", "min"))
    if rule == "sum" and not is_added_up(attribute):
        rule = "avg"
    slots = scene.slots_of(description) | aggregate_slots(attribute, thing)
    query = scene.query(thing)
    sql = query.sql([f"{rule}({query.column(attribute.column)})"], description.where(query))
    return scene.draft(rule, slots, sql, construct, description)


def aggregate_slots(attribute: Attribute, thing: Thing) -> dict[str, str]:
    slots = attribute_slots(attribute, thing)
    quantity = attribute.quantity
    if attribute.kind is Kind.COUNTED and attribute.counted is not None:
        slots["counted"] = attribute.counted
    if quantity is not None and attribute.has_adjective:
        if quantity.how is not None and quantity.verb is None:
            slots["old"] = quantity.how
        if quantity.verb is not None:
            slots["cost"], slots["costs"] = quantity.verb[0], quantity.verb[0]
        if quantity.most is not None and quantity.least is not None and (quantity.how or quantity.verb):
            slots["oldest"], slots["youngest"] = quantity.most, quantity.least
    return slots


def ask_some(scene: Scene) -> Draft | None:
    """A few things, whichever they are."""
    thing = scene.pick_thing()
    description = scene.describe(thing, most=1) if thing is not None and thing.rows > 4 else None
    if thing is None or description is None:
        return None
    count = scene.chance.choice((2, 3, 5, 5, 10))
    slots = scene.slots_of(description) | {"k": count_word(count, scene.chance)}
    query = scene.query(thing)
    where = description.where(query)
    if thing.titles and scene.chance.random() < 0.6:
        return scene.draft(
            "some", slots, query.sql(scene.titles(query, thing), where, limit=count), "some", description
        )
    return scene.draft("some rows", slots, query.sql(["*"], where, limit=count), "some", description)
