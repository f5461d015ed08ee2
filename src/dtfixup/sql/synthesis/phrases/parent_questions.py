"""Questions about parents by their children: how many each has, who has at least two, the most, or none at all.

In: a `Scene` with relationships. Out: `Draft`s.
"""

from dtfixup.sql.synthesis.phrases.child_questions import parent_query, pick_relationship, relationship_slots
from dtfixup.sql.synthesis.phrases.computed_questions import AVERAGES
from dtfixup.sql.synthesis.phrases.descriptions import Description, Restriction, describe
from dtfixup.sql.synthesis.phrases.domain import Relationship
from dtfixup.sql.synthesis.phrases.order_questions import degree_slots, order_key, ordered_by
from dtfixup.sql.synthesis.phrases.row_questions import pick_function, summable
from dtfixup.sql.synthesis.phrases.scene import USUAL_RESTRICTIONS, Draft, NoDraftError, Scene
from dtfixup.sql.synthesis.phrases.wording import attribute_slots, choose_bound, count_text, number_text, with_unit

_BOUNDS = {
    "parents with more": (">", (1, 1, 2, 3, 4)),
    "parents with at least": (">=", (2, 2, 3, 4, 5)),
    "parents with fewer": ("<", (2, 3, 4)),
    "parents with one": ("=", (1,)),
}


def _children(relation: Relationship, scene: Scene, share: float) -> Description:
    """Children, with a restriction in a share of the cases."""
    return scene.describe(relation.child, most=1 if scene.rng.random() < share else 0)


def ask_per_parent(scene: Scene) -> Draft:
    """How many children each parent has, or an aggregate over them."""
    relation = pick_relationship(scene, most_steps=2)
    children = _children(relation, scene, 0.25)
    child, parent = relation.child, relation.parent
    query, at, group = parent_query(relation, scene)
    slots = relationship_slots(relation, scene, children)
    query.where = children.where(query, at)
    titles = scene.titles(query, parent)
    rule, value = "count per parent", "count(*)"
    if child.measures and relation.has_one_parent and scene.rng.random() < 0.4:
        attribute = scene.rng.choice(child.measures)
        function = pick_function(scene, attribute, ("avg", "sum", "max", "min"))
        slots |= attribute_slots(attribute, child) | {"average": scene.rng.choice(AVERAGES[function])}
        rule, value = "aggregate per parent", f"{function}({query.column(attribute.column, at)})"
    return scene.draft(rule, slots, query.sql([*titles, value], group=[group]), "join and group", parent, children)


def ask_parents_by_count(scene: Scene) -> Draft:
    """Parents with at least two children, with the most, the three with the most."""
    relation = pick_relationship(scene, most_steps=2)
    children = _children(relation, scene, 0.2)
    query, at, group = parent_query(relation, scene)
    slots = relationship_slots(relation, scene, children)
    query.where = children.where(query, at)
    titles = scene.titles(query, relation.parent)
    if scene.rng.random() < 0.5:
        rule = scene.rng.choice((*_BOUNDS, "parents with at least"))
        operator, counts = _BOUNDS[rule]
        count = scene.rng.choice(counts)
        number = count_text(count, scene.rng)
        slots |= {"n": number, "n_children": f"{number} {slots['child' if count == 1 else 'children']}"}
        sql = query.sql(titles, group=[group], having=f"count(*) {operator} {count}")
        return scene.draft(rule, slots, sql, "join and having", relation.parent, children)
    rule, direction, limit = scene.rng.choice(
        (
            ("parent with most", "DESC", 1),
            ("parent with most", "DESC", 1),
            ("parent with fewest", "ASC", 1),
            ("top parents", "DESC", scene.rng.choice((2, 3, 3, 5))),
        )
    )
    slots["k"] = count_text(limit, scene.rng)
    sql = query.sql(titles, group=[group], order=[f"count(*) {direction}"], limit=limit)
    return scene.draft(rule, slots, sql, "join and most", relation.parent, children)


def ask_parents_by_total(scene: Scene) -> Draft:
    """Parents with a total over their children above a bound."""
    relation = pick_relationship(scene, has_one_parent=True)
    attribute = scene.pick(summable(relation.child.measures))
    bound = choose_bound(attribute, scene.rng)
    if bound is None:
        raise NoDraftError
    query, at, group = parent_query(relation, scene)
    slots = relationship_slots(relation, scene) | attribute_slots(attribute, relation.child)
    slots["v"] = with_unit(number_text(bound, scene.rng), attribute, scene.rng)
    having = f"sum({query.column(attribute.column, at)}) > {bound}"
    sql = query.sql(scene.titles(query, relation.parent), group=[group], having=having)
    return scene.draft("parents with total", slots, sql, "join and having", relation.parent)


def ask_sorted_parents(scene: Scene) -> Draft:
    """Parents in the order of their number of children."""
    relation = pick_relationship(scene, most_steps=2)
    is_descending = scene.rng.random() < 0.6
    query, _, group = parent_query(relation, scene)
    order = [f"count(*) {'DESC' if is_descending else 'ASC'}"]
    sql = query.sql(scene.titles(query, relation.parent), group=[group], order=order)
    rule = "sorted parents" if is_descending else "sorted parents up"
    return scene.draft(rule, relationship_slots(relation, scene), sql, "join and sorted", relation.parent)


def ask_distinct_parents(scene: Scene) -> Draft:
    """How many parents have children at all."""
    relation = pick_relationship(scene, has_one_parent=True, has_parent_titles=False, most_steps=1)
    children = _children(relation, scene, 0.7)
    query = scene.query(children)
    sql = query.sql([f"count(DISTINCT {query.column(relation.steps[0][0])})"])
    slots = relationship_slots(relation, scene, children)
    return scene.draft("distinct parents", slots, sql, "count distinct", relation.parent, children)


def ask_parent_of_extreme(scene: Scene) -> Draft:
    """The parent of the child with the most or the least of something."""
    relation = pick_relationship(scene, has_one_parent=True)
    attribute = scene.pick([attribute for attribute in ordered_by(relation.child) if not attribute.is_rank])
    is_most = scene.rng.random() < 0.6
    slots = relationship_slots(relation, scene) | degree_slots(attribute, relation.child, is_most, scene)
    query, at, _ = parent_query(relation, scene)
    order = [order_key(query, attribute, is_most, at)]
    sql = query.sql(scene.titles(query, relation.parent), order=order, limit=1)
    return scene.draft("parent of extreme", slots, sql, "join and superlative", relation.parent)


def ask_without_children(scene: Scene) -> Draft:
    """Parents that have no children."""
    relation = pick_relationship(scene, has_one_parent=True, most_steps=1)
    phrase = scene.word("without child", relationship_slots(relation, scene))
    parent, (source, target) = relation.parent, relation.steps[0]
    inner = scene.query(relation.child)
    nested = inner.sql([inner.column(source)])
    restriction = Restriction(phrase, lambda query, at: f"{query.column(target, at)} NOT IN ({nested})", "no children")
    more = scene.restrictor.any(parent, USUAL_RESTRICTIONS) if scene.rng.random() < 0.2 else None
    description = describe(parent, [restriction] if more is None else [restriction, more], scene.rng)
    query = scene.query(description)
    slots = scene.description_slots(description)
    rule, shown = "names", scene.titles(query, parent)
    if scene.rng.random() < 0.3:
        rule, shown = "count", ["count(*)"]
    return scene.draft(rule, slots, query.sql(shown), "no children", description, may_be_empty=True)


def ask_with_children(scene: Scene) -> Draft:
    """Parents that have children of a kind."""
    relation = pick_relationship(scene, has_one_parent=True, most_steps=1)
    kind = scene.describe(relation.child, most=1, fewest=1)
    phrase = scene.word("with child like", relationship_slots(relation, scene, kind))
    if not kind.is_expressed_in(phrase.many()):
        raise NoDraftError
    back = relation.back
    restriction = Restriction(phrase, lambda query, at: kind.where(query, query.walk(back, at)) or "", "with children")
    description = describe(relation.parent, [restriction], scene.rng)
    query = scene.query(description)
    sql = query.sql(scene.titles(query, relation.parent), is_distinct=True)
    return scene.draft("names", scene.description_slots(description), sql, "with children", description)


def ask_child_sets(scene: Scene) -> Draft:
    """Parents that have two children by name, one of them, or one and not the other."""
    able = [relation for relation in scene.domain.relationships if _can_have_two(relation)]
    relation = scene.pick(able, [4.0 if relation.verb is not None else 1.0 for relation in able])
    one, other = scene.pick_row(relation.child), scene.pick_row(relation.child)
    slots = relationship_slots(relation, scene) | {"one": one.name, "other": other.name}
    if relation.verb is None:
        slots |= {"have": "have", "that_have": "that have"}
    rule, operation = scene.rng.choice(
        (("both children", "INTERSECT"), ("children but not", "EXCEPT"), ("either children", "UNION"))
    )
    sides = []
    for row in (one, other):
        query, at, _ = parent_query(relation, scene)
        query.where = row.condition(query, at)
        sides.append(query.sql(scene.titles(query, relation.parent)))
    if sides[0] == sides[1]:
        raise NoDraftError
    return scene.draft(rule, slots, f" {operation} ".join(sides), operation.lower(), relation.parent)


def _can_have_two(relation: Relationship) -> bool:
    """Whether two named children can identify parents: by a verb, or as things that several parents have."""
    has_things = not relation.has_one_parent and not relation.child.is_person
    return bool(relation.parent.titles and relation.child.titles) and (relation.verb is not None or has_things)
