"""Asking for those that have something: how many each has, who has at least two, the most or none at all.

In: a `Scene` with relations. Out: `Draft`s.
"""

from dtfixup.sql.synthesis.phrases.asking_groups import AVERAGES
from dtfixup.sql.synthesis.phrases.asking_order import degree_slots, ordered_by
from dtfixup.sql.synthesis.phrases.asking_rows import is_added_up
from dtfixup.sql.synthesis.phrases.attribute_words import attribute_slots, is_rank
from dtfixup.sql.synthesis.phrases.descriptions import Description, Restriction, describe
from dtfixup.sql.synthesis.phrases.domain import Relation
from dtfixup.sql.synthesis.phrases.numbers_said import choose_bound, count_word, say_number, with_unit
from dtfixup.sql.synthesis.phrases.relating import pair_slots_of, parent_query, pick_relation
from dtfixup.sql.synthesis.phrases.scene import USUAL, Draft, Scene

_BOUNDS = {
    "parents with more": (">", (1, 1, 2, 3, 4)),
    "parents with at least": (">=", (2, 2, 3, 4, 5)),
    "parents with fewer": ("<", (2, 3, 4)),
    "parents with one": ("=", (1,)),
}


def _children(relation: Relation, scene: Scene, share: float) -> Description | None:
    """Children, a part of the time under a restriction."""
    return scene.describe(relation.child, most=1 if scene.chance.random() < share else 0)


def ask_per_parent(scene: Scene) -> Draft | None:
    """How many children each parent has, or the average of theirs."""
    relation = pick_relation(scene, most_steps=2)
    children = _children(relation, scene, 0.25) if relation is not None else None
    if relation is None or children is None:
        return None
    child, parent = relation.child, relation.parent
    query, at, group = parent_query(relation, scene)
    slots = pair_slots_of(relation, scene, children)
    where = children.where(query, at)
    titles = scene.titles(query, parent)
    measures = scene.measures(child)
    if measures and relation.has_one_parent and scene.chance.random() < 0.4:
        attribute = scene.chance.choice(measures)
        function = scene.chance.choice(("avg", "sum", "max", "min"))
        if function == "sum" and not is_added_up(attribute):
            function = "avg"
        slots |= attribute_slots(attribute, child) | {"average": scene.chance.choice(AVERAGES[function])}
        sql = query.sql([*titles, f"{function}({query.column(attribute.column, at)})"], where, group=[group])
        return scene.draft("aggregate per parent", slots, sql, "join and group", parent, children)
    sql = query.sql([*titles, "count(*)"], where, group=[group])
    return scene.draft("count per parent", slots, sql, "join and group", parent, children)


def ask_parents_by_count(scene: Scene) -> Draft | None:
    """Parents with at least two children, with the most, the three with the most."""
    relation = pick_relation(scene, most_steps=2)
    children = _children(relation, scene, 0.2) if relation is not None else None
    if relation is None or children is None:
        return None
    query, at, group = parent_query(relation, scene)
    slots = pair_slots_of(relation, scene, children)
    where = children.where(query, at)
    titles = scene.titles(query, relation.parent)
    if scene.chance.random() < 0.5:
        rule = scene.chance.choice((*_BOUNDS, "parents with at least"))
        operator, counts = _BOUNDS[rule]
        count = scene.chance.choice(counts)
        said = count_word(count, scene.chance)
        slots |= {"n": said, "n_children": f"{said} {slots['child' if count == 1 else 'children']}"}
        sql = query.sql(titles, where, group=[group], having=f"count(*) {operator} {count}")
        return scene.draft(rule, slots, sql, "join and having", relation.parent, children)
    rule, direction, limit = scene.chance.choice(
        (
            ("parent with most", "DESC", 1),
            ("parent with most", "DESC", 1),
            ("parent with fewest", "ASC", 1),
            ("top parents", "DESC", scene.chance.choice((2, 3, 3, 5))),
        )
    )
    slots["k"] = count_word(limit, scene.chance)
    sql = query.sql(titles, where, group=[group], order=[f"count(*) {direction}"], limit=limit)
    return scene.draft(rule, slots, sql, "join and most", relation.parent, children)


def ask_parents_by_total(scene: Scene) -> Draft | None:
    """Parents whose children have more than so much together."""
    relation = pick_relation(scene, has_one_parent=True)
    measures = [found for found in scene.measures(relation.child) if is_added_up(found)] if relation is not None else []
    if relation is None or not measures:
        return None
    attribute = scene.chance.choice(measures)
    bound = choose_bound(attribute, scene.chance)
    if bound is None:
        return None
    query, at, group = parent_query(relation, scene)
    slots = pair_slots_of(relation, scene) | attribute_slots(attribute, relation.child)
    slots["v"] = with_unit(say_number(bound, scene.chance), attribute, scene.chance)
    having = f"sum({query.column(attribute.column, at)}) > {bound}"
    sql = query.sql(scene.titles(query, relation.parent), group=[group], having=having)
    return scene.draft("parents with total", slots, sql, "join and having", relation.parent)


def ask_sorted_parents(scene: Scene) -> Draft | None:
    """Parents in the order of how many children they have."""
    relation = pick_relation(scene, most_steps=2)
    if relation is None:
        return None
    falls = scene.chance.random() < 0.6
    query, _, group = parent_query(relation, scene)
    order = [f"count(*) {'DESC' if falls else 'ASC'}"]
    sql = query.sql(scene.titles(query, relation.parent), group=[group], order=order)
    rule = "sorted parents" if falls else "sorted parents up"
    return scene.draft(rule, pair_slots_of(relation, scene), sql, "join and sorted", relation.parent)


def ask_distinct_parents(scene: Scene) -> Draft | None:
    """How many parents have children at all."""
    relation = pick_relation(scene, has_one_parent=True, has_parent_titles=False, most_steps=1)
    children = _children(relation, scene, 0.7) if relation is not None else None
    if relation is None or children is None:
        return None
    query = scene.query(relation.child)
    sql = query.sql([f"count(DISTINCT {query.column(relation.steps[0][0])})"], children.where(query))
    slots = pair_slots_of(relation, scene, children)
    return scene.draft("distinct parents", slots, sql, "count distinct", relation.parent, children)


def ask_parent_of_extreme(scene: Scene) -> Draft | None:
    """The parent of the child with the most of something."""
    relation = pick_relation(scene, has_one_parent=True)
    by = [found for found in ordered_by(relation.child) if not is_rank(found)] if relation is not None else []
    if relation is None or not by:
        return None
    attribute, is_most = scene.chance.choice(by), scene.chance.random() < 0.6
    slots = pair_slots_of(relation, scene) | degree_slots(attribute, relation.child, is_most, scene)
    query, at, _ = parent_query(relation, scene)
    order = [f"{query.column(attribute.column, at)} {'DESC' if is_most else 'ASC'}"]
    sql = query.sql(scene.titles(query, relation.parent), order=order, limit=1)
    return scene.draft("parent of extreme", slots, sql, "join and superlative", relation.parent)


def ask_without_children(scene: Scene) -> Draft | None:
    """Parents that have none."""
    relation = pick_relation(scene, has_one_parent=True, most_steps=1)
    said = (
        scene.book.say("without child", pair_slots_of(relation, scene), scene.chance) if relation is not None else None
    )
    if relation is None or said is None:
        return None
    parent, (source, target) = relation.parent, relation.steps[0]
    inner = scene.query(relation.child)
    nested = inner.sql([inner.column(source)])
    restriction = Restriction(said, lambda query, at: f"{query.column(target, at)} NOT IN ({nested})", "no children")
    more = scene.restrictor.any(parent, USUAL) if scene.chance.random() < 0.2 else None
    description = describe(parent, [restriction] if more is None else [restriction, more], scene.chance)
    query = scene.query(parent)
    where, slots = description.where(query), scene.slots_of(description)
    rule, shown = "names", scene.titles(query, parent)
    if scene.chance.random() < 0.3:
        rule, shown = "count", ["count(*)"]
    return scene.draft(rule, slots, query.sql(shown, where), "no children", description, may_be_empty=True)


def ask_with_children(scene: Scene) -> Draft | None:
    """Parents by the kind of children they have."""
    relation = pick_relation(scene, has_one_parent=True, most_steps=1)
    kind = scene.describe(relation.child, USUAL, most=1, fewest=1) if relation is not None else None
    if relation is None or kind is None:
        return None
    said = scene.book.say("with child like", pair_slots_of(relation, scene, kind), scene.chance)
    if said is None or not kind.is_said_in(said.many()):
        return None
    back = relation.back
    restriction = Restriction(said, lambda query, at: kind.where(query, query.walk(back, at)) or "", "with children")
    description = describe(relation.parent, [restriction], scene.chance)
    query = scene.query(relation.parent)
    where = description.where(query)
    sql = query.sql(scene.titles(query, relation.parent), where, is_distinct=True)
    return scene.draft("names", scene.slots_of(description), sql, "with children", description)
