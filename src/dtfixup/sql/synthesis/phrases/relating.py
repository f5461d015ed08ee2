"""What questions over foreign keys share: which relation, its verb, and children that are told by their parents.

In: a `Scene` with relations. Out: slots, restrictions and queries for the modules that ask about children and parents.
"""

from dtfixup.sql.synthesis.phrases.descriptions import Description, Restriction
from dtfixup.sql.synthesis.phrases.domain import Relation
from dtfixup.sql.synthesis.phrases.queries import Query
from dtfixup.sql.synthesis.phrases.scene import USUAL, Scene

_INSIDE = frozenset(
    ["city", "country", "county", "state", "region", "building", "department", "hotel", "location", "district"]
)


def pick_relation(
    scene: Scene, *, has_one_parent: bool | None = None, has_parent_titles: bool = True, most_steps: int = 3
) -> Relation | None:
    """A relation; those with a verb of their own more often, long ones less."""
    able = [
        relation
        for relation in scene.domain.relations
        if (has_one_parent is None or relation.has_one_parent is has_one_parent)
        and (relation.parent.titles or not has_parent_titles)
        and len(relation.steps) <= most_steps
    ]
    weights = [(5.0 if relation.deed or relation.reverse else 1.0) / len(relation.steps) for relation in able]
    return scene.chance.choices(able, weights)[0] if able else None


def deed_slots(relation: Relation, scene: Scene) -> dict[str, str]:
    """The verbs between two things, `plain` where there are none, and whether one is inside the other."""
    deed, reverse, child, parent = relation.deed, relation.reverse, relation.child, relation.parent
    slots: dict[str, str] = {} if deed or reverse else {"plain": ""}
    if parent.noun.one in _INSIDE and relation.has_one_parent:
        slots["in_parent"] = "in"
    if reverse is not None:
        slots |= {"did": reverse.did, "taken_by": reverse.by, "who_did": "who" if child.is_person else "that"}
        if child.is_person and scene.is_only_person(child):
            slots["did_person"] = reverse.did
    if deed is not None:
        slots |= {"placed_by": deed.by, "placed": deed.did, "place": deed.base, "placed_participle": deed.done}
        slots["who"] = scene.chance.choice(("who", "that")) if parent.is_person else "that"
        if parent.is_person and scene.is_only_person(parent):
            slots["placed_person"] = deed.did
    return slots


def pair_slots_of(relation: Relation, scene: Scene, children: Description | None = None) -> dict[str, str]:
    """Both things by name; children may be restricted."""
    child, parent = relation.child, relation.parent
    slots = {
        "children": children.phrase.many() if children is not None else child.noun.many,
        "child": children.phrase.one() if children is not None else child.noun.one,
        "parents": parent.noun.many,
        "parent": parent.noun.one,
        "all": scene.say_all(parent),
        **scene.title_slots(parent),
        **deed_slots(relation, scene),
    }
    if parent.is_person and scene.is_only_person(parent):
        slots["children_person"] = slots["children"]
    return slots


def parent_query(relation: Relation, scene: Scene) -> tuple[Query, int, str]:
    """A query from parent to child, where the child is, and the parent's column to group by."""
    query = scene.query(relation.parent)
    at = query.walk(relation.back)
    key = relation.parent.key
    column = key.column if key is not None else relation.steps[-1][1]
    return query, at, query.column(column)


def restrict_by_parent(relation: Relation, scene: Scene) -> Restriction | None:
    """Children by their parent: `orders of the customer Anna`, `orders of customers from Oslo`."""
    parent = relation.parent
    example = scene.example(parent) if scene.chance.random() < 0.6 else None
    described = None if example is not None else scene.describe(parent, USUAL, most=1, fewest=1)
    if example is None and described is None:
        return None
    said_of = example.said if example is not None else described.phrase.many() if described is not None else ""
    slots = {"x": said_of, **deed_slots(relation, scene)}
    if example is not None and not parent.is_person:
        slots["x_named"] = said_of if said_of.startswith("the ") else f"the {parent.noun.one} {said_of}"
    said = scene.book.say("of parent" if relation.has_one_parent else "linked", slots, scene.chance)
    if said is None:
        return None

    def condition(query: Query, at: int) -> str:
        there = query.walk(relation.steps, at)
        if example is not None:
            return example.condition(query, there)
        return (described.where(query, there) if described is not None else None) or ""

    return Restriction(said, condition, ONE_PARENT if example is not None else PARENTS)


ONE_PARENT, PARENTS = "of one parent", "of parents"
"""The constructs of `restrict_by_parent`: whether children are told by one row or by rows of a kind."""
