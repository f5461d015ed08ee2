"""Asking about one thing: how old it is, when it was built, where it is, who made it; what is like it; all but it.

In: a `Scene`. Out: `Draft`s.
"""

from dtfixup.sql.synthesis.phrases.attribute_words import attribute_slots
from dtfixup.sql.synthesis.phrases.lexicon import lexicon
from dtfixup.sql.synthesis.phrases.scene import Draft, Example, Scene
from dtfixup.sql.synthesis.phrases.things import Attribute, Kind, Thing
from dtfixup.sql.synthesis.phrases.times import happening_slots


def ask_lookup(scene: Scene) -> Draft | None:
    """What one thing has: how old it is, when it was built, where it is, who made it, or all of it."""
    thing = scene.pick_thing(lambda found: bool(found.titles) and len(found.attributes) > 2)
    example = scene.example(thing) if thing is not None else None
    if thing is None or example is None:
        return None
    query = scene.query(thing)
    where = example.condition(query, 0)
    slots = {"x": example.said, **scene.possessive(example.said), "bare1": thing.noun.one}
    if scene.chance.random() < 0.12:
        return scene.draft("lookup everything", slots, query.sql(["*"], where), "lookup", thing)
    asked = scene.shown(thing, 1)
    if not asked:
        return None
    attribute = asked[0]
    slots |= attribute_slots(attribute, thing)
    rule = "lookup"
    if attribute.kind in (Kind.DATE, Kind.YEAR):
        rule, more = "lookup when", _when_slots(scene, attribute, thing, example)
    elif _is_where(attribute, thing):
        rule, more = "lookup where", _where_slots(attribute, thing, example)
    elif attribute.noun.one in lexicon().doers:
        rule, more = "lookup who", {"directed": lexicon().doers[attribute.noun.one]}
    else:
        more = _how_slots(attribute, example)
    sql = query.sql([query.column(attribute.column)], where)
    return scene.draft(rule, slots | more, sql, "lookup" if rule == "lookup" else "who where when", thing)


def _how_slots(attribute: Attribute, example: Example) -> dict[str, str]:
    quantity = attribute.quantity
    found: dict[str, str] = {}
    if attribute.counted is not None:
        found["counted"] = attribute.counted
    if quantity is not None and attribute.has_adjective:
        if quantity.how is not None and quantity.name != "price":
            found["old"] = quantity.how
        if quantity.verb is not None:
            found["cost_base"] = quantity.verb[0]
            if quantity.name in ("price", "salary"):
                found["cost_base_price"] = quantity.verb[0]
    return found


def _when_slots(scene: Scene, attribute: Attribute, thing: Thing, example: Example) -> dict[str, str]:
    happening, said = attribute.happening, happening_slots(attribute, thing, scene.chance)
    found: dict[str, str] = {}
    if happening is not None:
        found["x_year" if attribute.kind is Kind.YEAR else "x_date"] = example.said
        if "built" in said:
            found["built"] = said["built"]
        if happening.base is not None:
            found["open_base"] = happening.base
    elif attribute.noun.one == "date" and thing.is_event:
        found["x_event"] = example.said
    return found


def _is_where(attribute: Attribute, thing: Thing) -> bool:
    words = {"city", "address", "town", "residence", "hometown", "birth place", "home town"}
    if not thing.is_person:
        words |= {"location", "venue", "place"}
    return attribute.kind is Kind.TEXT and attribute.noun.one in words


def _where_slots(attribute: Attribute, thing: Thing, example: Example) -> dict[str, str]:
    noun = attribute.noun.one
    if noun in ("hometown", "home town"):
        return {"x_hometown": example.said}
    if noun == "birth place":
        return {"x_born": example.said}
    if thing.is_person:
        return {"x_living": example.said}
    if noun == "venue" or thing.noun.head in lexicon().held:
        return {"x_event": example.said}
    return {"x_place": example.said, **({"attr_in": noun} if noun in ("city", "town") else {})}


def ask_same(scene: Scene) -> Draft | None:
    """Things that have the same of something as one of them."""
    thing = scene.pick_thing(lambda found: bool(found.titles))
    example = scene.example(thing) if thing is not None else None
    if thing is None or example is None:
        return None
    able = [attribute for attribute in thing.of_kind(Kind.TEXT, Kind.YEAR, Kind.NUMBER) if attribute.comes_again]
    able = [attribute for attribute in able if attribute not in thing.titles]
    if not able:
        return None
    attribute = scene.chance.choice(able)
    query, inner = scene.query(thing), scene.query(thing)
    nested = inner.sql([inner.column(attribute.column)], example.condition(inner, 0))
    where = f"{query.column(attribute.column)} = ({nested})"
    description = scene.describe(thing, most=0)
    assert description is not None
    slots = scene.slots_of(description) | attribute_slots(attribute, thing) | {"x": example.said}
    if thing.is_person and scene.is_only_person(thing):
        slots["x_person"] = example.said
    if attribute.noun.one in ("city", "country", "state", "county", "location", "region", "building", "town"):
        slots["in"] = "in"
    return scene.draft("same as", slots, query.sql(scene.titles(query, thing), where), "same as", thing)


def ask_except(scene: Scene) -> Draft | None:
    """All things but one of them."""
    thing = scene.pick_thing(lambda found: len(found.titles) == 1)
    example = scene.example(thing) if thing is not None else None
    if thing is None or example is None:
        return None
    description = scene.describe(thing, most=1)
    if description is None:
        return None
    query = scene.query(thing)
    column = query.column(thing.titles[0].column)
    other = example.condition(query, 0).replace(" = ", " != ", 1)
    where = description.where(query)
    if where is not None and " OR " in where:
        where = f"({where})"
    sql = query.sql([column], f"{where} AND {other}" if where else other)
    return scene.draft("except x", scene.slots_of(description) | {"x": example.said}, sql, "except one", description)
