"""What the ways of asking share: one database, the book, a stream of chance; and the slots that most rules have.

In: a `Domain`. Out: `Draft`s, made by the functions of the modules `asking_*`.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dtfixup.sql.synthesis.phrases.attribute_words import attribute_slots
from dtfixup.sql.synthesis.phrases.book import book
from dtfixup.sql.synthesis.phrases.descriptions import Description, Restriction, describe
from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.lexicon import lexicon
from dtfixup.sql.synthesis.phrases.manner import put
from dtfixup.sql.synthesis.phrases.numbers_said import listed
from dtfixup.sql.synthesis.phrases.queries import Query, literal
from dtfixup.sql.synthesis.phrases.restrictions import Restrictor
from dtfixup.sql.synthesis.phrases.text_restrictions import is_sayable
from dtfixup.sql.synthesis.phrases.things import Attribute, Kind, Thing

USUAL = {"compare": 5.0, "value": 5.0, "time": 3.0, "flag": 1.0, "pattern": 1.0, "range": 1.0, "blank": 0.5}
"""Restrictions that any question may have besides what it is about."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A question with its query, before anything is checked."""

    question: str
    sql: str
    construct: str
    may_be_empty: bool = False
    """Whether no rows are an answer: nothing is missing."""


@dataclass(frozen=True)
class Example:
    """One row of a thing: how it is called, and the condition that finds it."""

    said: str
    condition: Callable[[Query, int], str]


class Scene:
    """A database that is asked about."""

    def __init__(self, domain: Domain, chance: random.Random) -> None:
        self.domain, self.chance, self.book = domain, chance, book()
        self.restrictor = Restrictor(domain, self.book, chance)

    @property
    def things(self) -> tuple[Thing, ...]:
        return self.domain.things

    def query(self, thing: Thing) -> Query:
        return Query(self.domain.schema, thing.table)

    def pick_thing(self, fits: Callable[[Thing], bool] = lambda thing: True) -> Thing | None:
        """A thing; those with more to ask about more often."""
        able = [thing for thing in self.things if fits(thing)]
        weights = [1.0 + min(len(thing.attributes), 8) for thing in able]
        return self.chance.choices(able, weights)[0] if able else None

    def describe(
        self, thing: Thing, ways: Mapping[str, float] | None = None, most: int = 2, fewest: int = 0
    ) -> Description | None:
        """A thing under restrictions: the first by one of `ways`, further ones by usual ones."""
        count = self.chance.choice([number for number in (0, 1, 1, 2) if fewest <= number <= most] or [fewest])
        found: list[Restriction] = []
        for number in range(count):
            restriction = self.restrictor.any(thing, ways if ways and number == 0 else USUAL)
            if restriction is not None and restriction.column not in [other.column for other in found]:
                found.append(restriction)
            elif number < fewest:
                return None
        return describe(thing, found, self.chance)

    def pick_described(self, fits: Callable[[Thing], bool] = lambda thing: True, most: int = 1) -> Description | None:
        """A thing, under restrictions or without."""
        thing = self.pick_thing(fits)
        return self.describe(thing, most=most) if thing is not None else None

    def draft(
        self,
        rule: str,
        slots: Mapping[str, str],
        sql: str,
        construct: str,
        about: Thing | Description,
        told: Description | None = None,
        *,
        may_be_empty: bool = False,
    ) -> Draft | None:
        """What a rule says, put into a question; None where it leaves a restriction unsaid.

        `about` is what is asked for, `told` what else the query restricts.
        """
        said = self.book.say(rule, slots, self.chance)
        described = [found for found in (about, told) if isinstance(found, Description)]
        if said is None or not all(found.is_said_in(said.many()) for found in described):
            return None
        thing = about.thing if isinstance(about, Description) else about
        question = put(said, self.book, self.chance, is_person=thing.is_person, is_number=rule in _NUMBERS)
        return Draft(question, sql, construct, may_be_empty)

    # Slots

    def slots_of(self, description: Description) -> dict[str, str]:
        """How things are named, in both numbers, as a subject and its predicate."""
        thing, predicate = description.thing, description.predicate
        slots = {
            "things": description.phrase.many(),
            "thing": description.phrase.one(),
            "subject": description.subject.many(),
            "bare": thing.noun.many,
            "all": self.say_all(thing),
            "its": "their" if thing.is_person else "its",
            "our_or_the": "our" if thing.is_owned and self.chance.random() < 0.6 else "the",
            **self.title_slots(thing),
        }
        if not description.restrictions:
            slots["bare1"] = thing.noun.one
        kinds = [restriction.said.kind for restriction in description.restrictions]
        if len(kinds) < 2 and set(kinds) <= {"adj", "post", "with"}:
            slots["short"] = slots["things"]
        if kinds:
            slots["told"] = slots["things"]
        if thing.is_person:
            slots |= {"things_person": slots["things"], "thing_person": slots["thing"]}
        if predicate is not None:
            slots["pred"] = predicate.many()
            if thing.is_person and len(description.restrictions) == 1 and self.is_only_person(thing):
                slots["pred1"] = predicate.one()
        return slots

    def say_all(self, thing: Thing) -> str:
        said = self.book.say("all", {"our": "our"} if thing.is_owned else {}, self.chance)
        return said.text if said is not None else "the"

    def title_slots(self, thing: Thing) -> dict[str, str]:
        """What things are called by: names, titles, first and last names."""
        if len(thing.titles) == 2:
            one = self.chance.choice(("name", "full name", "first and last name", "first name and last name"))
            return {"name": one, "names": one + "s" if " name and " not in one else "first names and last names"}
        if thing.titles:
            one = "title" if thing.titles[0].noun.head == "title" else "name"
            return {"name": one, "names": f"{one}s"}
        return {}

    def is_only_person(self, thing: Thing, attribute: Attribute | None = None) -> bool:
        """Whether `who` can mean nobody else, or nobody else who has an attribute of that name."""
        others = [other for other in self.things if other.is_person and other is not thing]
        if attribute is None:
            return not others
        return not any(found.noun.one == attribute.noun.one for other in others for found in other.attributes)

    # SQL

    def titles(self, query: Query, thing: Thing, at: int = 0) -> list[str]:
        return [query.column(title.column, at) for title in thing.titles]

    # Attributes

    def shown(self, thing: Thing, most: int = 2) -> list[Attribute]:
        """Attributes to ask for, other than names."""
        able = [
            attribute
            for attribute in thing.attributes
            if attribute not in thing.titles and attribute.kind is not Kind.FLAG and attribute is not thing.key
        ]
        plain = [attribute for attribute in able if attribute.kind is not Kind.LABEL or self.chance.random() < 0.3]
        count = min(self.chance.randint(1, most), len(plain))
        chosen = self.chance.sample(plain, count)
        return chosen if len({attribute.noun.one for attribute in chosen}) == len(chosen) else chosen[:1]

    def attributes_said(self, thing: Thing, attributes: Sequence[Attribute]) -> dict[str, str]:
        slots = [attribute_slots(attribute, thing) for attribute in attributes]
        many, one = [found["attr_n"] for found in slots], [found["attr"] for found in slots]
        titles = self.title_slots(thing)
        said = {"attrs": listed(many), "attrs1": listed(one)}
        if titles:
            said |= {"names_attrs": listed([titles["names"], *many]), "name_attrs1": listed([titles["name"], *one])}
        return said

    def measures(self, thing: Thing) -> list[Attribute]:
        """What can be added up and averaged."""
        return [
            attribute
            for attribute in thing.of_kind(Kind.NUMBER, Kind.COUNTED)
            if not (attribute.quantity is not None and attribute.quantity.is_order)
        ]

    def keys(self, thing: Thing) -> list[Attribute]:
        """What things fall into groups by."""
        return [
            attribute
            for attribute in thing.of_kind(Kind.TEXT, Kind.YEAR)
            if attribute.comes_again
            and attribute not in thing.titles
            and attribute.noun.head not in _no_keys()
            and not attribute.noun.is_plural
        ]

    # One row

    def example(self, thing: Thing) -> Example | None:
        """A row of a thing by its name: `the film Avatar`, `Anna Smith`."""
        if not thing.titles:
            return None
        if len(thing.titles) == 2:
            return self._person_by_names(thing)
        title = thing.titles[0]
        values = [value for value in title.held.values if is_sayable(value) and any(map(str.isalpha, value))]
        if not values:
            return None
        value = self.chance.choice(values)
        said = self.called(thing, value)
        return Example(said, lambda query, at: f"{query.column(title.column, at)} = {literal(value)}")

    def called(self, thing: Thing, value: str) -> str:
        """A row by its name, with what it is where the name may not tell."""
        noun = thing.noun.one
        if thing.is_person:
            return self.chance.choice((value, value, f"{noun} {value}", f"the {noun} {value}"))
        mark = self.chance.choice(("", "", '"', "'"))
        return self.chance.choice(
            (
                value,
                f"the {noun} {mark}{value}{mark}",
                f"the {noun} {mark}{value}{mark}",
                f"the {noun} (called|named) {mark}{value}{mark}".replace(
                    "(called|named)", self.chance.choice(("called", "named"))
                ),
            )
        )

    def _person_by_names(self, thing: Thing) -> Example | None:
        """A person by first and last name, which must be of one row, or by one of them."""
        pairs = self.domain.name_pairs(thing)
        fitting = [pair for pair in pairs if all(map(is_sayable, pair))]
        if not fitting:
            return None
        first, last = self.chance.choice(fitting)
        columns = [title.column for title in thing.titles]
        if self.chance.random() < 0.3:
            part = self.chance.randrange(2)
            name = (first, last)[part]
            noun = thing.noun.one
            said = name if part == 0 else f"the {noun} {name}"
            return Example(said, lambda query, at: f"{query.column(columns[part], at)} = {literal(name)}")
        return Example(
            self.called(thing, f"{first} {last}"),
            lambda query, at: " AND ".join(
                f"{query.column(column, at)} = {literal(name)}"
                for column, name in zip(columns, (first, last), strict=True)
            ),
        )

    def possessive(self, said: str) -> dict[str, str]:
        """`Anna's`; of nothing in quotes."""
        return {} if said.endswith(('"', "'")) else {"x_possessive": f"{said}'" if said.endswith("s") else f"{said}'s"}


_NUMBERS = frozenset(
    ["count", "avg", "sum", "max", "min", "count distinct", "group count", "group aggregate", "total sum"]
)
_NO_KEYS = frozenset(["description", "note", "text", "address", "email", "comment", "name", "title", "summary"])


@lru_cache(maxsize=1)
def _no_keys() -> frozenset[str]:
    """Last words of columns that nobody groups by: what is written out, and what is measured."""
    measured = (word for quantity in lexicon().quantities if not quantity.is_order for word in quantity.words)
    return _NO_KEYS | (frozenset(measured) - {"rating", "grade"})
