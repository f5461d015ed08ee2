"""What all questions about a database share: random choices, common slots, and drafts.

In: a `Domain`. Out: a `Scene`, from which the modules `*_questions` make `Draft`s.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from dtfixup.sql.synthesis.phrases.book import Phrase, book, full_question
from dtfixup.sql.synthesis.phrases.descriptions import Description, QueryBuilder, Restriction, describe, literal
from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.entities import Attribute, Entity, Kind
from dtfixup.sql.synthesis.phrases.lexicon import lexicon
from dtfixup.sql.synthesis.phrases.restrictions import Restrictor
from dtfixup.sql.synthesis.phrases.values import is_quotable
from dtfixup.sql.synthesis.phrases.wording import attribute_slots, comma_list

Option = TypeVar("Option")

USUAL_RESTRICTIONS = {
    "compare": 5.0,
    "value": 5.0,
    "time": 3.0,
    "flag": 1.0,
    "pattern": 1.0,
    "range": 1.0,
    "blank": 0.5,
}
"""Weights of the restrictions that any question may have."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A question with its query, not yet checked."""

    question: str
    sql: str
    construct: str
    may_be_empty: bool = False
    """Whether an empty result is a proper answer."""


class NoDraftError(Exception):
    """The random choices made no question; other choices may."""


@dataclass(frozen=True)
class NamedRow:
    """One row: its name, and the condition that finds it."""

    name: str
    condition: Callable[[QueryBuilder, int], str]


class Scene:
    """A database to ask about, with the phrase book and a random stream."""

    def __init__(self, domain: Domain, rng: random.Random) -> None:
        self.domain, self.rng, self.book = domain, rng, book()
        self.restrictor = Restrictor(domain, self.book, rng)

    @property
    def entities(self) -> tuple[Entity, ...]:
        return self.domain.entities

    def query(self, about: Entity | Description) -> QueryBuilder:
        """A query over an entity, under the conditions of a description."""
        if isinstance(about, Entity):
            return QueryBuilder(self.domain.schema, about.table)
        query = QueryBuilder(self.domain.schema, about.entity.table)
        query.where = about.where(query)
        return query

    def pick(self, options: Sequence[Option], weights: Sequence[float] | None = None) -> Option:
        """A random option; `NoDraftError` if there is none."""
        if not options:
            raise NoDraftError
        return self.rng.choices(options, weights)[0] if weights is not None else self.rng.choice(options)

    def word(self, rule: str, slots: Mapping[str, str]) -> Phrase:
        """A random wording of a rule; `NoDraftError` if there is none."""
        phrase = self.book.choose(rule, slots, self.rng)
        if phrase is None:
            raise NoDraftError
        return phrase

    def pick_entity(self, fits: Callable[[Entity], bool] = lambda entity: True) -> Entity:
        """A random entity, weighted by its number of attributes."""
        able = [entity for entity in self.entities if fits(entity)]
        return self.pick(able, [1.0 + min(len(entity.attributes), 8) for entity in able])

    def describe(
        self, entity: Entity, kinds: Mapping[str, float] = USUAL_RESTRICTIONS, most: int = 2, fewest: int = 0
    ) -> Description:
        """An entity under `fewest` to `most` restrictions, the first of one of `kinds`, further ones of usual kinds."""
        count = self.rng.choice([number for number in (0, 1, 1, 2) if fewest <= number <= most] or [fewest])
        restrictions: list[Restriction] = []
        for number in range(count):
            restriction = self.restrictor.any(entity, kinds if number == 0 else USUAL_RESTRICTIONS)
            if restriction is not None and restriction.column not in [other.column for other in restrictions]:
                restrictions.append(restriction)
            elif number < fewest:
                raise NoDraftError
        return describe(entity, restrictions, self.rng)

    def pick_described(self, fits: Callable[[Entity], bool] = lambda entity: True, most: int = 1) -> Description:
        """A random entity, with or without restrictions."""
        return self.describe(self.pick_entity(fits), most=most)

    def draft(
        self,
        rule: str,
        slots: Mapping[str, str],
        sql: str,
        construct: str,
        about: Entity | Description,
        other: Description | None = None,
        *,
        may_be_empty: bool = False,
    ) -> Draft:
        """A question in the words of a rule; `NoDraftError` where the words leave out a restriction of the query.

        `about` is what is asked for, `other` is what else the query restricts.
        """
        phrase = self.word(rule, slots)
        described = [description for description in (about, other) if isinstance(description, Description)]
        if not all(description.is_expressed_in(phrase.many()) for description in described):
            raise NoDraftError
        entity = about.entity if isinstance(about, Description) else about
        question = full_question(phrase, self.book, self.rng, is_person=entity.is_person, is_number=rule in _NUMBERS)
        return Draft(question, sql, construct, may_be_empty)

    def description_slots(self, description: Description) -> dict[str, str]:
        """A description in both numbers, and as a subject with its predicate."""
        entity, predicate = description.entity, description.predicate
        slots = {
            "things": description.phrase.many(),
            "thing": description.phrase.one(),
            "subject": description.subject.many(),
            "bare": entity.noun.many,
            "all": self.all_word(entity),
            "its": "their" if entity.is_person else "its",
            "our_or_the": "our" if entity.is_owned and self.rng.random() < 0.6 else "the",
            **self.title_slots(entity),
        }
        if not description.restrictions:
            slots["bare1"] = entity.noun.one
        kinds = [restriction.phrase.kind for restriction in description.restrictions]
        if len(kinds) < 2 and set(kinds) <= {"adj", "post", "with"}:
            slots["short"] = slots["things"]
        if kinds:
            slots["told"] = slots["things"]
        if entity.is_person:
            slots |= {"things_person": slots["things"], "thing_person": slots["thing"]}
        if predicate is not None:
            slots["pred"] = predicate.many()
            if entity.is_person and len(description.restrictions) == 1 and self.is_only_person(entity):
                slots["pred1"] = predicate.one()
        return slots

    def all_word(self, entity: Entity) -> str:
        """The words before all rows of an entity: `the`, `all`, `our`."""
        return self.word("all", {"our": "our"} if entity.is_owned else {}).text

    def title_slots(self, entity: Entity) -> dict[str, str]:
        """What the names of an entity's rows are called: names, titles, first and last names."""
        if len(entity.titles) == 2:
            one = self.rng.choice(("name", "full name", "first and last name", "first name and last name"))
            return {"name": one, "names": one + "s" if " name and " not in one else "first names and last names"}
        if entity.titles:
            one = "title" if entity.titles[0].noun.head == "title" else "name"
            return {"name": one, "names": f"{one}s"}
        return {}

    def is_only_person(self, entity: Entity, attribute: Attribute | None = None) -> bool:
        """Whether `who` can only mean this entity, among all people or among those with an attribute of that name."""
        others = [other for other in self.entities if other.is_person and other is not entity]
        if attribute is None:
            return not others
        return all(found.noun.one != attribute.noun.one for other in others for found in other.attributes)

    def titles(self, query: QueryBuilder, entity: Entity, at: int = 0) -> list[str]:
        """The columns that name an entity's rows, as SQL."""
        return [query.column(title.column, at) for title in entity.titles]

    def pick_attributes(self, entity: Entity, most: int = 2) -> list[Attribute]:
        """One to `most` random attributes other than names."""
        able = [
            attribute
            for attribute in entity.attributes
            if attribute not in entity.titles and attribute.kind is not Kind.FLAG and attribute is not entity.key
        ]
        plain = [attribute for attribute in able if attribute.kind is not Kind.LABEL or self.rng.random() < 0.3]
        count = min(self.rng.randint(1, most), len(plain))
        chosen = self.rng.sample(plain, count)
        return chosen if len({attribute.noun.one for attribute in chosen}) == len(chosen) else chosen[:1]

    def pick_attribute(self, entity: Entity) -> Attribute:
        """A random attribute other than names; `NoDraftError` if there is none."""
        attributes = self.pick_attributes(entity, 1)
        if not attributes:
            raise NoDraftError
        return attributes[0]

    def attribute_list_slots(self, entity: Entity, attributes: Sequence[Attribute]) -> dict[str, str]:
        """Lists of attribute names, with and without the names of rows."""
        slots = [attribute_slots(attribute, entity) for attribute in attributes]
        many, one = [names["attr_n"] for names in slots], [names["attr"] for names in slots]
        titles = self.title_slots(entity)
        lists = {"attrs": comma_list(many)}
        if titles:
            lists |= {
                "names_attrs": comma_list([titles["names"], *many]),
                "name_attrs1": comma_list([titles["name"], *one]),
            }
        return lists

    def group_keys(self, entity: Entity) -> list[Attribute]:
        """Attributes to group an entity's rows by."""
        return [
            attribute
            for attribute in entity.of_kind(Kind.TEXT, Kind.YEAR)
            if attribute.has_repeats
            and attribute not in entity.titles
            and attribute.noun.head not in _no_keys()
            and not attribute.noun.is_plural
        ]

    def pick_row(self, entity: Entity) -> NamedRow:
        """A random row of an entity by its name: `the film Avatar`, `Anna Smith`."""
        if not entity.titles:
            raise NoDraftError
        if len(entity.titles) == 2:
            return self._person_by_names(entity)
        title = entity.titles[0]
        values = [value for value in title.content.values if is_quotable(value) and any(map(str.isalpha, value))]
        return self._named_row(entity, {title.column: self.pick(values)})

    def _named_row(self, entity: Entity, values: Mapping[int, str]) -> NamedRow:
        return NamedRow(
            self._row_name(entity, " ".join(values.values())),
            lambda query, at: " AND ".join(
                f"{query.column(column, at)} = {literal(value)}" for column, value in values.items()
            ),
        )

    def _row_name(self, entity: Entity, value: str) -> str:
        """The name of a row, mostly with its noun, unless it is a person."""
        noun = entity.noun.one
        if entity.is_person:
            return self.rng.choice((value, value, f"{noun} {value}", f"the {noun} {value}"))
        mark = self.rng.choice(("", "", '"', "'"))
        return self.rng.choice(
            (
                value,
                f"the {noun} {mark}{value}{mark}",
                f"the {noun} {mark}{value}{mark}",
                f"the {noun} {self.rng.choice(('called', 'named'))} {mark}{value}{mark}",
            )
        )

    def _person_by_names(self, entity: Entity) -> NamedRow:
        """A person by first and last name, both of one row, or by one of them."""
        pairs = [pair for pair in self.domain.name_pairs[entity.table] if all(map(is_quotable, pair))]
        names = self.pick(pairs)
        columns = [title.column for title in entity.titles]
        if self.rng.random() >= 0.3:
            return self._named_row(entity, dict(zip(columns, names, strict=True)))
        part = self.rng.randrange(2)
        name, column = names[part], columns[part]
        return NamedRow(
            name if part == 0 else f"the {entity.noun.one} {name}",
            lambda query, at: f"{query.column(column, at)} = {literal(name)}",
        )

    def possessive(self, name: str) -> dict[str, str]:
        """The genitive of a name, such as `Anna's`; empty for names in quotes."""
        if name.endswith(('"', "'")):
            return {}
        return {"x_possessive": f"{name}'" if name.endswith("s") else f"{name}'s"}


_NUMBERS = frozenset(
    ["count", "avg", "sum", "max", "min", "count distinct", "group count", "group aggregate", "total sum"]
)
_NO_KEYS = frozenset(["description", "note", "text", "address", "email", "comment", "name", "title", "summary"])


@lru_cache(maxsize=1)
def _no_keys() -> frozenset[str]:
    """Heads of columns that nobody groups by: free text and measures."""
    measured = (word for quantity in lexicon().quantities if not quantity.is_order for word in quantity.words)
    return _NO_KEYS | (frozenset(measured) - {"rating", "grade"})
