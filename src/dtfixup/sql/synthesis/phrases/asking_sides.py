"""Asking for two sides at once: both, either, one but not the other; and for the row above a row of the same table.

In: a `Scene`. Out: `Draft`s.
"""

from dtfixup.sql.synthesis.phrases.asking_groups import key_slots
from dtfixup.sql.synthesis.phrases.descriptions import describe
from dtfixup.sql.synthesis.phrases.domain import Relation, Superior
from dtfixup.sql.synthesis.phrases.relating import pair_slots_of, parent_query
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene


def ask_sides_of_children(scene: Scene) -> Draft | None:
    """Parents that have two children by name, one of them, or one and not the other."""
    able = [relation for relation in scene.domain.relations if _can_have_two(relation)]
    if not able:
        return None
    weights = [4.0 if relation.deed is not None else 1.0 for relation in able]
    relation = scene.chance.choices(able, weights)[0]
    one, other = scene.example(relation.child), scene.example(relation.child)
    if one is None or other is None:
        return None
    slots = pair_slots_of(relation, scene) | {"one": one.said, "other": other.said}
    if relation.deed is None:
        slots |= {"have": "have", "that_have": "that have"}
    rule, operation = scene.chance.choice(
        (("both children", "INTERSECT"), ("children but not", "EXCEPT"), ("either children", "UNION"))
    )
    sides = []
    for example in (one, other):
        query, at, _ = parent_query(relation, scene)
        sides.append(query.sql(scene.titles(query, relation.parent), example.condition(query, at)))
    if sides[0] == sides[1]:
        return None
    return scene.draft(rule, slots, f" {operation} ".join(sides), operation.lower(), relation.parent)


def _can_have_two(relation: Relation) -> bool:
    """Whether a parent can be told by two of its children: by what it did, or by what it has."""
    has_things = not relation.has_one_parent and not relation.child.is_person
    return bool(relation.parent.titles and relation.child.titles) and (relation.deed is not None or has_things)


def ask_sides_of_groups(scene: Scene) -> Draft | None:
    """Groups that have things of two kinds, or of one and not the other."""
    thing = scene.pick_thing(lambda found: bool(scene.keys(found)))
    pair = scene.restrictor.opposites(thing) if thing is not None else None
    if thing is None or pair is None:
        return None
    key = scene.chance.choice(scene.keys(thing))
    if key.column == pair[0].column:
        return None
    one, other = (describe(thing, [restriction], scene.chance) for restriction in pair)
    slots = key_slots(key) | {"one": one.phrase.many(), "other": other.phrase.many()}
    rule, operation = scene.chance.choice((("both", "INTERSECT"), ("both", "INTERSECT"), ("but not", "EXCEPT")))
    sides = []
    for description in (one, other):
        query = scene.query(thing)
        sides.append(query.sql([query.column(key.column)], description.where(query)))
    return scene.draft(rule, slots, f" {operation} ".join(sides), operation.lower(), thing)


def ask_superior(scene: Scene) -> Draft | None:
    """Rows beside the one above them, the one above a row, those below one, those with none above them."""
    if not scene.domain.superiors:
        return None
    superior = scene.chance.choice(scene.domain.superiors)
    thing, query = superior.thing, scene.query(superior.thing)
    slots = _superior_slots(superior, scene)
    draw = scene.chance.random()
    if draw < 0.12:
        sql = query.sql(scene.titles(query, thing), f"{query.column(superior.column)} IS NULL")
        return scene.draft("without superior", slots, sql, "self join", thing, may_be_empty=True)
    at = query.join((superior.column, superior.key))
    if draw < 0.4:
        shown = [*scene.titles(query, thing), *scene.titles(query, thing, at)]
        return scene.draft("superior", slots, query.sql(shown), "self join", thing)
    example = scene.example(thing)
    if example is None:
        return None
    slots["x"] = example.said
    if thing.is_person:
        slots["x_person"] = example.said
        slots |= {f"{name}_person": said for name, said in scene.possessive(example.said).items()}
    if draw < 0.7:
        sql = query.sql(scene.titles(query, thing, at), example.condition(query, 0))
        return scene.draft("superior of x", slots, sql, "self join", thing)
    if draw < 0.8:
        return scene.draft(
            "count under x", slots, query.sql(["count(*)"], example.condition(query, at)), "self join", thing
        )
    sql = query.sql(scene.titles(query, thing), example.condition(query, at))
    return scene.draft("under x", slots, sql, "self join", thing)


def _superior_slots(superior: Superior, scene: Scene) -> dict[str, str]:
    thing = superior.thing
    boss = f"{superior.called} {thing.noun.one}" if superior.called == "parent" else superior.called
    slots = {
        "things": thing.noun.many,
        "thing": thing.noun.one,
        "all": scene.say_all(thing),
        **scene.title_slots(thing),
    }
    slots |= {"boss": boss, "their_boss": f"their {boss}", "their_boss_1": f"the {boss}"}
    return slots | ({"thing_person": thing.noun.one} if thing.is_person else {})
