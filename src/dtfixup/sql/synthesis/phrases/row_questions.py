"""Questions about rows of one table: names, attributes, counts and aggregates of many rows, or the attributes of one.

In: a `Scene`. Out: `Draft`s.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from dtfixup.sql.synthesis.phrases.descriptions import Description
from dtfixup.sql.synthesis.phrases.entities import Attribute, Entity, Kind
from dtfixup.sql.synthesis.phrases.lexicon import lexicon
from dtfixup.sql.synthesis.phrases.scene import Draft, NamedRow, NoDraftError, Scene
from dtfixup.sql.synthesis.phrases.values import time_verb_slots
from dtfixup.sql.synthesis.phrases.wording import attribute_slots, count_text

_NOT_SUMMED = frozenset(
    ["age", "height", "speed", "rating", "temperature", "altitude", "rank", "length", "depth", "width"]
)
_SUMMARIES = frozenset(["average", "rate", "percentage", "maximum", "minimum", "mean"])


def ask_restricted(scene: Scene, kind: str) -> Draft:
    """Rows under one kind of restriction: shown, described or counted."""
    entity = scene.pick_entity(
        lambda entity: scene.restrictor.can(kind, entity) and (bool(entity.titles) or scene.rng.random() < 0.5)
    )
    description = scene.describe(entity, {kind: 1.0}, fewest=1)
    constructs = [restriction.construct for restriction in description.restrictions]
    construct = next((construct for construct in constructs if construct in (kind, "extreme")), kind)
    draw = scene.rng.random()
    if draw < 0.25:
        return _count(scene, description, construct)
    if draw < 0.33:
        with suppress(NoDraftError):
            return _aggregate(scene, description, construct)
    elif draw < 0.43:
        return _everything(scene, description, construct)
    elif draw < 0.62:
        with suppress(NoDraftError):
            return _attributes(scene, description, construct)
    return _names(scene, description, construct)


def ask_count(scene: Scene) -> Draft:
    """How many rows there are."""
    return _count(scene, scene.pick_described(), "count")


def ask_all(scene: Scene) -> Draft:
    """All rows: names, attributes or everything."""
    description = scene.pick_described(most=0)
    draw = scene.rng.random()
    if draw < 0.4:
        return _attributes(scene, description, "all")
    return _everything(scene, description, "all") if draw < 0.6 else _names(scene, description, "all")


def ask_aggregate(scene: Scene) -> Draft:
    """The average, sum, maximum or minimum of an attribute."""
    return _aggregate(scene, scene.pick_described(lambda entity: bool(entity.measures)), "aggregate")


def ask_several_aggregates(scene: Scene) -> Draft:
    """Two or three aggregates of an attribute."""
    description = scene.pick_described(lambda entity: bool(entity.measures))
    entity = description.entity
    attribute = scene.pick([measure for measure in entity.measures if measure.column not in description.columns])
    rule = scene.rng.choice(("min max", "max min", "min avg max", "avg max", "sum avg", "count avg"))
    if "sum" in rule and not _is_summable(attribute):
        raise NoDraftError
    query = scene.query(description)
    column = query.column(attribute.column)
    shown = ["count(*)" if name == "count" else f"{name}({column})" for name in rule.split()]
    slots = scene.description_slots(description) | attribute_slots(attribute, entity)
    return scene.draft(rule, slots, query.sql(shown), "several aggregates", description)


def ask_some(scene: Scene) -> Draft:
    """A few rows, whichever they are."""
    entity = scene.pick_entity()
    if entity.rows <= 4:
        raise NoDraftError
    description = scene.describe(entity, most=1)
    count = scene.rng.choice((2, 3, 5, 5, 10))
    slots = scene.description_slots(description) | {"k": count_text(count, scene.rng)}
    query = scene.query(description)
    if entity.titles and scene.rng.random() < 0.6:
        return scene.draft("some", slots, query.sql(scene.titles(query, entity), limit=count), "some", description)
    return scene.draft("some rows", slots, query.sql(["*"], limit=count), "some", description)


def _names(scene: Scene, description: Description, construct: str) -> Draft:
    """Names, where rows have them; keys or whole rows otherwise."""
    entity, query = description.entity, scene.query(description)
    slots = scene.description_slots(description)
    if entity.titles:
        return scene.draft("names", slots, query.sql(scene.titles(query, entity)), construct, description)
    if entity.key is not None and entity.key.column not in description.columns and scene.rng.random() < 0.5:
        slots["key"] = entity.key.noun.many
        return scene.draft("key", slots, query.sql([query.column(entity.key.column)]), construct, description)
    return scene.draft("untitled", slots, query.sql(["*"]), construct, description)


def _everything(scene: Scene, description: Description, construct: str) -> Draft:
    sql = scene.query(description).sql(["*"])
    return scene.draft("everything", scene.description_slots(description), sql, construct, description)


def _count(scene: Scene, description: Description, construct: str) -> Draft:
    sql = scene.query(description).sql(["count(*)"])
    return scene.draft("count", scene.description_slots(description), sql, construct, description)


def _attributes(scene: Scene, description: Description, construct: str) -> Draft:
    entity = description.entity
    asked = [attribute for attribute in scene.pick_attributes(entity) if attribute.column not in description.columns]
    if not asked:
        raise NoDraftError
    query = scene.query(description)
    slots = scene.description_slots(description) | scene.attribute_list_slots(entity, asked)
    columns = [query.column(attribute.column) for attribute in asked]
    rule = "attributes"
    if entity.titles and scene.rng.random() < 0.55:
        rule, columns = "names and attributes", [*scene.titles(query, entity), *columns]
    elif len(asked) == 1:
        slots |= _asked_slots(scene, asked[0], entity, slots)
    return scene.draft(rule, slots, query.sql(columns), construct, description)


def _asked_slots(scene: Scene, attribute: Attribute, entity: Entity, slots: Mapping[str, str]) -> dict[str, str]:
    """Ways to ask for an attribute without its name: how old, when, where."""
    more = {"attr1s": attribute.noun.many}
    quantity, verb = attribute.worded_quantity, attribute.time_verb
    if quantity is not None:
        if quantity.how is not None and quantity.name != "price":
            more["old"] = quantity.how
        if quantity.verb is not None:
            more["cost"] = quantity.verb[0]
    if verb is not None:
        if "built" in time_verb_slots(attribute, entity, scene.rng):
            more["built"] = verb.passive or ""
        if verb.base is not None:
            more["open"] = verb.base
    if _is_whereabouts(attribute, entity):
        more["things_living" if entity.is_person else "things_placed"] = slots["things"]
    return more


def _is_whereabouts(attribute: Attribute, entity: Entity) -> bool:
    """Whether a column is the first that says where a row is."""
    words = {"city", "address", "town", "residence", "district"}
    if not entity.is_person:
        words |= {"location", "venue", "place"}
    return [text for text in entity.of_kind(Kind.TEXT) if text.noun.one in words][:1] == [attribute]


def _is_summable(attribute: Attribute) -> bool:
    """Whether the sum of an attribute means something."""
    if attribute.kind is Kind.COUNTED:
        return True
    quantity = attribute.quantity
    is_total = quantity is not None and quantity.name not in _NOT_SUMMED and not quantity.is_judged
    return is_total and _SUMMARIES.isdisjoint(attribute.noun.one.split())


def summable(attributes: Sequence[Attribute]) -> list[Attribute]:
    """The attributes whose sum means something."""
    return [attribute for attribute in attributes if _is_summable(attribute)]


def pick_function(scene: Scene, attribute: Attribute, functions: Sequence[str]) -> str:
    """A random aggregate function; the average in place of a sum that means nothing."""
    function = scene.rng.choice(functions)
    return "avg" if function == "sum" and not _is_summable(attribute) else function


def _aggregate(scene: Scene, description: Description, construct: str) -> Draft:
    entity = description.entity
    attribute = scene.pick([measure for measure in entity.measures if measure.column not in description.columns])
    rule = pick_function(scene, attribute, ("avg", "avg", "sum", "sum", "max", "min"))
    slots = scene.description_slots(description) | _aggregate_slots(attribute, entity)
    query = scene.query(description)
    sql = query.sql([f"{rule}({query.column(attribute.column)})"])
    return scene.draft(rule, slots, sql, construct, description)


def _aggregate_slots(attribute: Attribute, entity: Entity) -> dict[str, str]:
    slots = attribute_slots(attribute, entity)
    quantity = attribute.worded_quantity
    if attribute.kind is Kind.COUNTED and attribute.counted is not None:
        slots["counted"] = attribute.counted
    if quantity is not None:
        if quantity.how is not None and quantity.verb is None:
            slots["old"] = quantity.how
        if quantity.verb is not None:
            slots["cost"], slots["costs"] = quantity.verb[0], quantity.verb[0]
        if quantity.most is not None and quantity.least is not None and (quantity.how or quantity.verb):
            slots["oldest"], slots["youngest"] = quantity.most, quantity.least
    return slots


def ask_lookup(scene: Scene) -> Draft:
    """What one row holds: how old it is, when it was built, where it is, who made it, or all of it."""
    entity = scene.pick_entity(lambda entity: bool(entity.titles) and len(entity.attributes) > 2)
    row = scene.pick_row(entity)
    query = scene.query(entity)
    query.where = row.condition(query, 0)
    slots = {"x": row.name, **scene.possessive(row.name), "bare1": entity.noun.one}
    if scene.rng.random() < 0.12:
        return scene.draft("lookup everything", slots, query.sql(["*"]), "lookup", entity)
    attribute = scene.pick_attribute(entity)
    slots |= attribute_slots(attribute, entity)
    rule, construct = "lookup", "who where when"
    if attribute.kind in (Kind.DATE, Kind.YEAR):
        rule, more = "lookup when", _when_slots(scene, attribute, entity, row)
    elif _is_location(attribute, entity):
        rule, more = "lookup where", _where_slots(attribute, entity, row)
    elif attribute.noun.one in lexicon().doers:
        rule, more = "lookup who", {"directed": lexicon().doers[attribute.noun.one]}
    else:
        construct, more = "lookup", _how_slots(attribute)
    return scene.draft(rule, slots | more, query.sql([query.column(attribute.column)]), construct, entity)


def _how_slots(attribute: Attribute) -> dict[str, str]:
    """Words for `how old` and `how much does it cost`."""
    quantity = attribute.worded_quantity
    slots = {"counted": attribute.counted} if attribute.counted is not None else {}
    if quantity is not None:
        if quantity.how is not None and quantity.name != "price":
            slots["old"] = quantity.how
        if quantity.verb is not None:
            slots["cost_base"] = quantity.verb[0]
            if quantity.name in ("price", "salary"):
                slots["cost_base_price"] = quantity.verb[0]
    return slots


def _when_slots(scene: Scene, attribute: Attribute, entity: Entity, row: NamedRow) -> dict[str, str]:
    verb, verb_slots = attribute.time_verb, time_verb_slots(attribute, entity, scene.rng)
    if verb is None:
        return {"x_event": row.name} if attribute.noun.one == "date" and entity.is_event else {}
    slots = {"x_year" if attribute.kind is Kind.YEAR else "x_date": row.name}
    if "built" in verb_slots:
        slots["built"] = verb_slots["built"]
    if verb.base is not None:
        slots["open_base"] = verb.base
    return slots


def _is_location(attribute: Attribute, entity: Entity) -> bool:
    """Whether `where` asks for an attribute."""
    words = {"city", "address", "town", "residence", "hometown", "birth place", "home town"}
    if not entity.is_person:
        words |= {"location", "venue", "place"}
    return attribute.kind is Kind.TEXT and attribute.noun.one in words


def _where_slots(attribute: Attribute, entity: Entity, row: NamedRow) -> dict[str, str]:
    noun = attribute.noun.one
    if noun in ("hometown", "home town"):
        return {"x_hometown": row.name}
    if noun == "birth place":
        return {"x_born": row.name}
    if entity.is_person:
        return {"x_living": row.name}
    if noun == "venue" or entity.noun.head in lexicon().held:
        return {"x_event": row.name}
    return {"x_place": row.name, **({"attr_in": noun} if noun in ("city", "town") else {})}


def ask_same(scene: Scene) -> Draft:
    """Rows that share a value with one row."""
    entity = scene.pick_entity(lambda entity: bool(entity.titles))
    row = scene.pick_row(entity)
    repeating = [text for text in entity.of_kind(Kind.TEXT, Kind.YEAR, Kind.NUMBER) if text.has_repeats]
    attribute = scene.pick([attribute for attribute in repeating if attribute not in entity.titles])
    query, inner = scene.query(entity), scene.query(entity)
    inner.where = row.condition(inner, 0)
    query.where = f"{query.column(attribute.column)} = ({inner.sql([inner.column(attribute.column)])})"
    description = scene.describe(entity, most=0)
    slots = scene.description_slots(description) | attribute_slots(attribute, entity) | {"x": row.name}
    if entity.is_person and scene.is_only_person(entity):
        slots["x_person"] = row.name
    if attribute.noun.one in ("city", "country", "state", "county", "location", "region", "building", "town"):
        slots["in"] = "in"
    return scene.draft("same as", slots, query.sql(scene.titles(query, entity)), "same as", entity)


def ask_except(scene: Scene) -> Draft:
    """All rows but one."""
    entity = scene.pick_entity(lambda entity: len(entity.titles) == 1)
    row = scene.pick_row(entity)
    description = scene.describe(entity, most=1)
    query = scene.query(description)
    other = row.condition(query, 0).replace(" = ", " != ", 1)
    if query.where is not None:
        where = f"({query.where})" if " OR " in query.where else query.where
        other = f"{where} AND {other}"
    query.where = other
    slots = scene.description_slots(description) | {"x": row.name}
    return scene.draft("except x", slots, query.sql(scene.titles(query, entity)), "except one", description)
