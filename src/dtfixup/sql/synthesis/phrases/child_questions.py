"""Questions about children: rows that a foreign key ties to a parent, and rows above others in the same table.

In: a `Scene` with relationships. Out: `Draft`s, and what questions about parents share.
"""

from contextlib import suppress

from dtfixup.sql.synthesis.phrases.descriptions import Description, QueryBuilder, Restriction, describe
from dtfixup.sql.synthesis.phrases.domain import Relationship, SelfReference
from dtfixup.sql.synthesis.phrases.order_questions import degree_slots, order_key, ordered_by
from dtfixup.sql.synthesis.phrases.row_questions import pick_function
from dtfixup.sql.synthesis.phrases.scene import USUAL_RESTRICTIONS, Draft, NoDraftError, Scene
from dtfixup.sql.synthesis.phrases.wording import attribute_slots

_PARENTS = "of parents"
"""The construct of children that are restricted by a description of their parents."""
_INSIDE = frozenset(
    ["city", "country", "county", "state", "region", "building", "department", "hotel", "location", "district"]
)


def pick_relationship(
    scene: Scene, *, has_one_parent: bool | None = None, has_parent_titles: bool = True, most_steps: int = 3
) -> Relationship:
    """A random relationship; those with a verb are more likely, long ones less."""
    able = [
        relation
        for relation in scene.domain.relationships
        if (has_one_parent is None or relation.has_one_parent is has_one_parent)
        and (relation.parent.titles or not has_parent_titles)
        and len(relation.steps) <= most_steps
    ]
    weights = [(5.0 if relation.verb or relation.reverse_verb else 1.0) / len(relation.steps) for relation in able]
    return scene.pick(able, weights)


def verb_slots(relation: Relationship, scene: Scene) -> dict[str, str]:
    """The verbs between two entities, `plain` where there are none, and whether one is inside the other."""
    verb, reverse_verb, child, parent = relation.verb, relation.reverse_verb, relation.child, relation.parent
    slots: dict[str, str] = {} if verb or reverse_verb else {"plain": ""}
    if parent.noun.one in _INSIDE and relation.has_one_parent:
        slots["in_parent"] = "in"
    if reverse_verb is not None:
        slots |= {
            "did": reverse_verb.past,
            "taken_by": reverse_verb.passive,
            "who_did": "who" if child.is_person else "that",
        }
        if child.is_person and scene.is_only_person(child):
            slots["did_person"] = reverse_verb.past
    if verb is not None:
        slots |= {
            "placed_by": verb.passive,
            "placed": verb.past,
            "place": verb.base,
            "placed_participle": verb.participle,
        }
        slots["who"] = scene.rng.choice(("who", "that")) if parent.is_person else "that"
        if parent.is_person and scene.is_only_person(parent):
            slots["placed_person"] = verb.past
    return slots


def relationship_slots(relation: Relationship, scene: Scene, children: Description | None = None) -> dict[str, str]:
    """The nouns of both entities; children may be restricted."""
    child, parent = relation.child, relation.parent
    slots = {
        "children": children.phrase.many() if children is not None else child.noun.many,
        "child": children.phrase.one() if children is not None else child.noun.one,
        "parents": parent.noun.many,
        "parent": parent.noun.one,
        "all": scene.all_word(parent),
        **scene.title_slots(parent),
        **verb_slots(relation, scene),
    }
    if parent.is_person and scene.is_only_person(parent):
        slots["children_person"] = slots["children"]
    return slots


def parent_query(relation: Relationship, scene: Scene) -> tuple[QueryBuilder, int, str]:
    """A query from parent to child, the number of the child's table, and the parent's column to group by."""
    query = scene.query(relation.parent)
    at = query.walk(relation.back)
    key = relation.parent.key
    column = key.column if key is not None else relation.steps[-1][1]
    return query, at, query.column(column)


def _restrict_by_parent(relation: Relationship, scene: Scene) -> Restriction:
    """Children by their parent: `orders of the customer Anna`, `orders of customers from Oslo`."""
    parent = relation.parent
    row = described = None
    if scene.rng.random() < 0.6:
        with suppress(NoDraftError):
            row = scene.pick_row(parent)
    if row is None:
        described = scene.describe(parent, most=1, fewest=1)
    name = row.name if row is not None else described.phrase.many() if described is not None else ""
    slots = {"x": name, **verb_slots(relation, scene)}
    if row is not None and not parent.is_person:
        slots["x_named"] = name if name.startswith("the ") else f"the {parent.noun.one} {name}"
    phrase = scene.word("of parent" if relation.has_one_parent else "linked", slots)

    def condition(query: QueryBuilder, at: int) -> str:
        there = query.walk(relation.steps, at)
        if row is not None:
            return row.condition(query, there)
        return (described.where(query, there) if described is not None else None) or ""

    return Restriction(phrase, condition, "of one parent" if row is not None else _PARENTS)


def ask_children(scene: Scene) -> Draft:
    """The children of one parent or of parents of a kind: shown, counted or aggregated."""
    relation = pick_relationship(scene)
    restriction = _restrict_by_parent(relation, scene)
    more = scene.restrictor.any(relation.child, USUAL_RESTRICTIONS) if scene.rng.random() < 0.25 else None
    restrictions = [restriction] if more is None else [restriction, more]
    is_distinct = not relation.has_one_parent and (restriction.construct == _PARENTS or len(relation.steps) > 2)
    return _shown(relation, describe(relation.child, restrictions, scene.rng), is_distinct, scene)


def _shown(relation: Relationship, description: Description, is_distinct: bool, scene: Scene) -> Draft:
    """The number, an aggregate, attributes or names of children under restrictions.

    `is_distinct` drops the repetitions of a child that is joined with several parents.
    """
    child, query = relation.child, scene.query(description)
    slots = scene.description_slots(description)
    construct = f"join {len(relation.steps)}"
    columns = description.columns
    measures = [measure for measure in child.measures if measure.column not in columns]
    asked = [attribute for attribute in scene.pick_attributes(child) if attribute.column not in columns]
    key = query.column(child.key.column) if child.key is not None else None
    draw = scene.rng.random()
    if draw < 0.25 and (key is not None or not is_distinct):
        counted = f"count(DISTINCT {key})" if is_distinct else "count(*)"
        return scene.draft("count", slots, query.sql([counted]), construct, description)
    if measures and draw < 0.4 and not is_distinct:
        attribute = scene.rng.choice(measures)
        function = pick_function(scene, attribute, ("avg", "sum", "max", "min"))
        sql = query.sql([f"{function}({query.column(attribute.column)})"])
        return scene.draft(function, slots | attribute_slots(attribute, child), sql, construct, description)
    if asked and draw < 0.6:
        sql = query.sql([query.column(attribute.column) for attribute in asked], is_distinct=is_distinct)
        return scene.draft("attributes", slots | scene.attribute_list_slots(child, asked), sql, construct, description)
    if child.titles:
        sql = query.sql(scene.titles(query, child), is_distinct=is_distinct)
        return scene.draft("names", slots, sql, construct, description)
    if child.key is None or key is None:
        raise NoDraftError
    slots["key"] = child.key.noun.many
    return scene.draft("key", slots, query.sql([key], is_distinct=is_distinct), construct, description)


def ask_one_parent(scene: Scene) -> Draft:
    """The children of one parent: `what did Anna buy`, `how many orders did she place`."""
    relation = pick_relationship(scene)
    row = scene.pick_row(relation.parent)
    child = relation.child
    slots = relationship_slots(relation, scene) | scene.title_slots(child) | scene.possessive(row.name)
    slots |= {"x": row.name, "all": scene.all_word(child), **verb_slots(relation, scene)}
    if relation.verb is not None and child.titles:
        slots["x_what"] = row.name
    query = scene.query(child)
    query.where = row.condition(query, query.walk(relation.steps))
    construct = f"join {len(relation.steps)}"
    is_linked = relation.verb is None and (relation.reverse_verb is not None or not relation.has_one_parent)
    is_distinct = len(relation.steps) > 2
    if scene.rng.random() < 0.4 and (child.key is not None or not is_distinct):
        rule = "count linked to x" if is_linked else "count children of x"
        key = query.column(child.key.column) if child.key is not None else ""
        counted = f"count(DISTINCT {key})" if is_distinct else "count(*)"
        return scene.draft(rule, slots, query.sql([counted]), construct, child)
    if not child.titles:
        raise NoDraftError
    sql = query.sql(scene.titles(query, child), is_distinct=is_distinct)
    return scene.draft("linked to x" if is_linked else "children of x", slots, sql, construct, child)


def ask_with_parent(scene: Scene) -> Draft:
    """Children together with their parents, or the parent of one child."""
    able = [relation for relation in scene.domain.children if relation.child.titles and relation.parent.titles]
    relation = scene.pick(able)
    if scene.rng.random() < 0.4:
        return _parent_of_one(relation, scene)
    child, parent = relation.child, relation.parent
    description = scene.describe(child, most=1)
    slots = relationship_slots(relation, scene, description) | scene.title_slots(child) | {"all": scene.all_word(child)}
    query = scene.query(description)
    at = query.walk(relation.steps)
    sql = query.sql([*scene.titles(query, child), *scene.titles(query, parent, at)])
    return scene.draft("with parent", slots, sql, "join 1", description)


def _parent_of_one(relation: Relationship, scene: Scene) -> Draft:
    """The name or an attribute of one child's parent."""
    child, parent = relation.child, relation.parent
    row = scene.pick_row(child)
    query = scene.query(child)
    query.where = row.condition(query, 0)
    at = query.walk(relation.steps)
    slots = relationship_slots(relation, scene) | {"x_child": row.name} | scene.possessive(row.name)
    asked = scene.pick_attributes(parent, 1)
    if asked and scene.rng.random() < 0.6:
        slots["attr"] = asked[0].noun.one
        sql = query.sql([query.column(asked[0].column, at)])
        return scene.draft("attribute of parent", slots, sql, "join 1", child)
    slots["attr"] = scene.title_slots(parent)["name"]
    sql = query.sql(scene.titles(query, parent, at))
    return scene.draft("parent of x", slots, sql, "join 1", child)


def ask_identity(scene: Scene) -> Draft:
    """People whose names another table has, by their role: the names of the gymnasts with more than 9 points."""
    relation = scene.pick(scene.domain.identities)
    child, person = relation.child, relation.parent
    description = scene.describe(child, most=2)
    query = scene.query(description)
    at = query.walk(relation.steps)
    slots = scene.description_slots(description) | scene.title_slots(person)
    shown = scene.titles(query, person, at)
    by = [attribute for attribute in ordered_by(child) if not attribute.is_rank]
    draw = scene.rng.random()
    if by and draw < 0.3:
        attribute, is_most = scene.rng.choice(by), scene.rng.random() < 0.6
        sql = query.sql(shown, order=[order_key(query, attribute, is_most)], limit=1)
        slots |= degree_slots(attribute, child, is_most, scene)
        return scene.draft("superlative", slots, sql, "join 1", description)
    asked = scene.pick_attributes(person, 2)
    if asked and draw < 0.55:
        sql = query.sql([*shown, *(query.column(attribute.column, at) for attribute in asked)])
        slots |= scene.attribute_list_slots(person, asked)
        return scene.draft("names and attributes", slots, sql, "join 1", description)
    return scene.draft("names", slots, query.sql(shown), "join 1", description)


def ask_self_reference(scene: Scene) -> Draft:
    """Rows with their superior, the superior of one row, the rows under one, or rows without a superior."""
    reference = scene.pick(scene.domain.self_references)
    entity, query = reference.entity, scene.query(reference.entity)
    slots = _self_reference_slots(reference, scene)
    draw = scene.rng.random()
    if draw < 0.12:
        query.where = f"{query.column(reference.column)} IS NULL"
        sql = query.sql(scene.titles(query, entity))
        return scene.draft("without superior", slots, sql, "self join", entity, may_be_empty=True)
    at = query.join((reference.column, reference.key))
    if draw < 0.4:
        shown = [*scene.titles(query, entity), *scene.titles(query, entity, at)]
        return scene.draft("superior", slots, query.sql(shown), "self join", entity)
    row = scene.pick_row(entity)
    slots["x"] = row.name
    if entity.is_person:
        slots["x_person"] = row.name
        slots |= {f"{slot}_person": name for slot, name in scene.possessive(row.name).items()}
    if draw < 0.7:
        query.where = row.condition(query, 0)
        return scene.draft("superior of x", slots, query.sql(scene.titles(query, entity, at)), "self join", entity)
    query.where = row.condition(query, at)
    if draw < 0.8:
        return scene.draft("count under x", slots, query.sql(["count(*)"]), "self join", entity)
    return scene.draft("under x", slots, query.sql(scene.titles(query, entity)), "self join", entity)


def _self_reference_slots(reference: SelfReference, scene: Scene) -> dict[str, str]:
    entity = reference.entity
    boss = f"{reference.role} {entity.noun.one}" if reference.role == "parent" else reference.role
    slots = {
        "things": entity.noun.many,
        "thing": entity.noun.one,
        "all": scene.all_word(entity),
        **scene.title_slots(entity),
    }
    slots |= {"boss": boss, "their_boss": f"their {boss}", "their_boss_1": f"the {boss}"}
    return slots | ({"thing_person": entity.noun.one} if entity.is_person else {})
