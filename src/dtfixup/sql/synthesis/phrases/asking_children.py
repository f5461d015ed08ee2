"""Asking for what belongs to something: its children, shown or counted; who it is by name; what it belongs to.

In: a `Scene` with relations. Out: `Draft`s.
"""

from dtfixup.sql.synthesis.phrases.asking_order import degree_slots, ordered_by
from dtfixup.sql.synthesis.phrases.asking_rows import is_added_up
from dtfixup.sql.synthesis.phrases.attribute_words import attribute_slots, is_rank
from dtfixup.sql.synthesis.phrases.descriptions import Description, describe
from dtfixup.sql.synthesis.phrases.domain import Relation
from dtfixup.sql.synthesis.phrases.relating import PARENTS, deed_slots, pair_slots_of, pick_relation, restrict_by_parent
from dtfixup.sql.synthesis.phrases.scene import USUAL, Draft, Scene


def ask_children(scene: Scene) -> Draft | None:
    """What belongs to one parent, or to parents of a kind: shown, counted, or added up."""
    relation = pick_relation(scene)
    restriction = restrict_by_parent(relation, scene) if relation is not None else None
    if relation is None or restriction is None:
        return None
    more = scene.restrictor.any(relation.child, USUAL) if scene.chance.random() < 0.25 else None
    restrictions = [restriction] if more is None else [restriction, more]
    is_distinct = not relation.has_one_parent and (restriction.construct == PARENTS or len(relation.steps) > 2)
    return _shown(relation, describe(relation.child, restrictions, scene.chance), is_distinct, scene)


def _shown(relation: Relation, description: Description, is_distinct: bool, scene: Scene) -> Draft | None:
    """Children under restrictions: how many, how much, what they have, or their names.

    `is_distinct` tells that a child comes once for each of its parents, and must be counted once.
    """
    child, query = relation.child, scene.query(relation.child)
    where = description.where(query)
    slots = scene.slots_of(description)
    construct = f"join {len(relation.steps)}"
    told = description.columns
    measures = [found for found in scene.measures(child) if found.column not in told]
    asked = [found for found in scene.shown(child) if found.column not in told]
    key = query.column(child.key.column) if child.key is not None else None
    draw = scene.chance.random()
    if draw < 0.25 and (key is not None or not is_distinct):
        counted = f"count(DISTINCT {key})" if is_distinct else "count(*)"
        return scene.draft("count", slots, query.sql([counted], where), construct, description)
    if measures and draw < 0.4 and not is_distinct:
        attribute = scene.chance.choice(measures)
        function = scene.chance.choice(("avg", "sum", "max", "min"))
        if function == "sum" and not is_added_up(attribute):
            function = "avg"
        sql = query.sql([f"{function}({query.column(attribute.column)})"], where)
        return scene.draft(function, slots | attribute_slots(attribute, child), sql, construct, description)
    if asked and draw < 0.6:
        sql = query.sql([query.column(found.column) for found in asked], where, is_distinct=is_distinct)
        return scene.draft("attributes", slots | scene.attributes_said(child, asked), sql, construct, description)
    if child.titles:
        sql = query.sql(scene.titles(query, child), where, is_distinct=is_distinct)
        return scene.draft("names", slots, sql, construct, description)
    if child.key is None or key is None:
        return None
    slots["key"] = child.key.noun.many
    return scene.draft("key", slots, query.sql([key], where, is_distinct=is_distinct), construct, description)


def ask_did(scene: Scene) -> Draft | None:
    """What one did: `what did Anna buy`, `how many orders did she place`."""
    relation = pick_relation(scene)
    example = scene.example(relation.parent) if relation is not None else None
    if relation is None or example is None:
        return None
    child = relation.child
    slots = pair_slots_of(relation, scene) | scene.title_slots(child) | scene.possessive(example.said)
    slots |= {"x": example.said, "all": scene.say_all(child), **deed_slots(relation, scene)}
    if relation.deed is not None and child.titles:
        slots["x_what"] = example.said
    query = scene.query(child)
    where = example.condition(query, query.walk(relation.steps))
    construct = f"join {len(relation.steps)}"
    is_linked = relation.deed is None and (relation.reverse is not None or not relation.has_one_parent)
    is_distinct = len(relation.steps) > 2
    if scene.chance.random() < 0.4 and (child.key is not None or not is_distinct):
        rule = "count linked to x" if is_linked else "count children of x"
        key = query.column(child.key.column) if child.key is not None else ""
        counted = f"count(DISTINCT {key})" if is_distinct else "count(*)"
        return scene.draft(rule, slots, query.sql([counted], where), construct, child)
    if not child.titles:
        return None
    sql = query.sql(scene.titles(query, child), where, is_distinct=is_distinct)
    return scene.draft("linked to x" if is_linked else "children of x", slots, sql, construct, child)


def ask_with_parent(scene: Scene) -> Draft | None:
    """Children beside their parents, or what a child's parent has."""
    able = [relation for relation in scene.domain.children if relation.child.titles and relation.parent.titles]
    if not able:
        return None
    relation = scene.chance.choice(able)
    if scene.chance.random() < 0.4:
        return _parent_of_one(relation, scene)
    child, parent = relation.child, relation.parent
    description = scene.describe(child, most=1)
    if description is None:
        return None
    slots = pair_slots_of(relation, scene, description) | scene.title_slots(child) | {"all": scene.say_all(child)}
    query = scene.query(child)
    where = description.where(query)
    at = query.walk(relation.steps)
    sql = query.sql([*scene.titles(query, child), *scene.titles(query, parent, at)], where)
    return scene.draft("with parent", slots, sql, "join 1", description)


def _parent_of_one(relation: Relation, scene: Scene) -> Draft | None:
    """What the parent of one child is called, or has."""
    child, parent = relation.child, relation.parent
    example = scene.example(child)
    if example is None:
        return None
    query = scene.query(child)
    where = example.condition(query, 0)
    at = query.walk(relation.steps)
    slots = pair_slots_of(relation, scene) | {"x_child": example.said} | scene.possessive(example.said)
    asked = scene.shown(parent, 1)
    if asked and scene.chance.random() < 0.6:
        slots["attr"] = asked[0].noun.one
        sql = query.sql([query.column(asked[0].column, at)], where)
        return scene.draft("attribute of parent", slots, sql, "join 1", child)
    slots["attr"] = scene.title_slots(parent)["name"]
    sql = query.sql(scene.titles(query, parent, at), where)
    return scene.draft("parent of x", slots, sql, "join 1", child)


def ask_identity(scene: Scene) -> Draft | None:
    """People by what they are, whose names another table has: the names of the gymnasts with more than 9 points."""
    if not scene.domain.identities:
        return None
    relation = scene.chance.choice(scene.domain.identities)
    child, person = relation.child, relation.parent
    description = scene.describe(child, USUAL, most=2)
    if description is None:
        return None
    query = scene.query(child)
    where = description.where(query)
    at = query.walk(relation.steps)
    slots = scene.slots_of(description) | scene.title_slots(person)
    shown = scene.titles(query, person, at)
    by = [found for found in ordered_by(child) if not is_rank(found)]
    draw = scene.chance.random()
    if by and draw < 0.3:
        attribute, is_most = scene.chance.choice(by), scene.chance.random() < 0.6
        order = [f"{query.column(attribute.column)} {'DESC' if is_most else 'ASC'}"]
        sql = query.sql(shown, where, order=order, limit=1)
        slots |= degree_slots(attribute, child, is_most, scene)
        return scene.draft("superlative", slots, sql, "join 1", description)
    asked = scene.shown(person, 2)
    if asked and draw < 0.55:
        sql = query.sql([*shown, *(query.column(found.column, at) for found in asked)], where)
        slots |= scene.attributes_said(person, asked)
        return scene.draft("names and attributes", slots, sql, "join 1", description)
    return scene.draft("names", slots, query.sql(shown, where), "join 1", description)
