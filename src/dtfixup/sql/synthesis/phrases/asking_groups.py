"""Asking by groups: how many per city, the average of each, groups with at least two, the most common.

In: a `Scene`. Out: `Draft`s.
"""

from dataclasses import dataclass

from dtfixup.sql.synthesis.phrases.asking_rows import is_added_up
from dtfixup.sql.synthesis.phrases.attribute_words import attribute_slots
from dtfixup.sql.synthesis.phrases.descriptions import Description
from dtfixup.sql.synthesis.phrases.numbers_said import count_word, figure, say_number
from dtfixup.sql.synthesis.phrases.queries import Query
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene
from dtfixup.sql.synthesis.phrases.things import Attribute, Thing, is_place

AVERAGES = {
    "avg": ("average", "mean", "average"),
    "sum": ("total", "total", "overall"),
    "max": ("maximum", "highest", "largest"),
    "min": ("minimum", "lowest", "smallest"),
}
"""How aggregates are called."""


@dataclass(frozen=True)
class _Groups:
    """Things, what they fall into groups by, and the query about them with the key's column and its condition."""

    thing: Thing
    description: Description
    key: Attribute
    query: Query
    column: str
    where: str | None

    def slots(self, scene: Scene) -> dict[str, str]:
        return scene.slots_of(self.description) | key_slots(self.key)


def _grouped(scene: Scene, needs_measure: bool = False) -> _Groups | None:
    thing = scene.pick_thing(
        lambda found: bool(scene.keys(found)) and (not needs_measure or bool(scene.measures(found)))
    )
    if thing is None:
        return None
    description = scene.describe(thing, most=1 if scene.chance.random() < 0.3 else 0)
    key = scene.chance.choice(scene.keys(thing))
    if description is None or key.column in description.columns:
        return None
    query = scene.query(thing)
    return _Groups(thing, description, key, query, query.column(key.column), description.where(query))


def key_slots(key: Attribute) -> dict[str, str]:
    """How groups are named; there are things in a city, and things of a type."""
    slots = {"key": key.noun.one, "key_n": key.noun.many, "each_key": f"each {key.noun.one}"}
    if is_place(key):
        return slots | {"in_each": "in each", "in_which": "in which", "in_it": "there"}
    return slots | {"in_which": "for which", "in_it": "with it"}


def ask_group_count(scene: Scene) -> Draft | None:
    groups = _grouped(scene)
    if groups is None:
        return None
    description, query, column, where = groups.description, groups.query, groups.column, groups.where
    slots = groups.slots(scene)
    others = [other for other in scene.keys(groups.thing) if other is not groups.key]
    if others and scene.chance.random() < 0.35:
        second = scene.chance.choice(others)
        columns = [column, query.column(second.column)]
        slots["second"] = second.noun.one
        sql = query.sql([*columns, "count(*)"], where, group=columns)
        return scene.draft("group two", slots, sql, "two keys", description)
    if scene.chance.random() < 0.2:
        sql = query.sql([column, "count(*)"], where, group=[column], order=["count(*) DESC"])
        return scene.draft("group count sorted", slots, sql, "group count", description)
    sql = query.sql([column, "count(*)"], where, group=[column])
    return scene.draft("group count", slots, sql, "group count", description)


def ask_group_aggregate(scene: Scene) -> Draft | None:
    groups = _grouped(scene, needs_measure=True)
    if groups is None:
        return None
    thing, description, query, column = groups.thing, groups.description, groups.query, groups.column
    attribute = scene.chance.choice(scene.measures(thing))
    function = scene.chance.choice(("avg", "avg", "sum", "max", "min"))
    if function == "sum" and not is_added_up(attribute):
        function = "avg"
    value = f"{function}({query.column(attribute.column)})"
    slots = groups.slots(scene) | attribute_slots(attribute, thing)
    slots["average"] = scene.chance.choice(AVERAGES[function])
    if scene.chance.random() < 0.2:
        slots["highest"] = scene.chance.choice(("highest", "largest"))
        if function not in ("avg", "sum"):
            return None
        sql = query.sql([column], groups.where, group=[column], order=[f"{value} DESC"], limit=1)
        return scene.draft("group most aggregate", slots, sql, "group aggregate", description)
    sql = query.sql([column, value], groups.where, group=[column])
    return scene.draft("group aggregate", slots, sql, "group aggregate", description)


def ask_having(scene: Scene) -> Draft | None:
    groups = _grouped(scene)
    if groups is None:
        return None
    description, query, column, where = groups.description, groups.query, groups.column, groups.where
    slots = groups.slots(scene)
    measures = scene.measures(groups.thing)
    if measures and scene.chance.random() < 0.2:
        attribute = scene.chance.choice(measures)
        numbers = attribute.numbers
        if len(numbers) < 4:
            return None
        bound = figure(round(numbers[len(numbers) // 2]))
        slots |= attribute_slots(attribute, groups.thing) | {"v": say_number(bound, scene.chance)}
        having = f"avg({query.column(attribute.column)}) > {bound}"
        sql = query.sql([column], where, group=[column], having=having)
        return scene.draft("having average more", slots, sql, "having", description)
    rule, having, number = having_count(scene)
    slots |= {"n": number, "n_things": f"{number} {slots['thing' if number in ('1', 'one') else 'things']}"}
    return scene.draft(rule, slots, query.sql([column], where, group=[column], having=having), "having", description)


def having_count(scene: Scene) -> tuple[str, str, str]:
    """A bound on the number of rows in a group: the rule, the condition, and the number as said."""
    count = scene.chance.choice((1, 2, 2, 3, 4, 5))
    rule, operator = scene.chance.choice(
        (
            ("having more", ">"),
            ("having more", ">"),
            ("having at least", ">="),
            ("having at least", ">="),
            ("having fewer", "<"),
            ("having one", "="),
        )
    )
    if rule == "having one":
        count = 1
    elif rule in ("having at least", "having fewer"):
        count += 1
    return rule, f"count(*) {operator} {count}", count_word(count, scene.chance)


def ask_most_common(scene: Scene) -> Draft | None:
    groups = _grouped(scene)
    if groups is None:
        return None
    column, slots = groups.column, groups.slots(scene)
    draw = scene.chance.random()
    rule, order, limit = "most common", "count(*) DESC", 1
    if draw < 0.2:
        rule, order = "least common", "count(*) ASC"
    elif draw < 0.4:
        rule, limit = "top groups", scene.chance.choice((2, 3, 3, 5))
        slots["k"] = count_word(limit, scene.chance)
        if len(groups.key.held.values) <= limit:
            return None
    sql = groups.query.sql([column], groups.where, group=[column], order=[order], limit=limit)
    return scene.draft(rule, slots, sql, "most common", groups.description)
