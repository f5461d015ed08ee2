"""Things and what is said of them, as noun phrases: `French films longer than 100 minutes that have no director`.

In: a thing and `Restriction`s, each a phrase with the condition that it means. Out: `Description`, in the plural, in
the singular, or as a subject with its predicate, and the condition of all of it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from dtfixup.sql.synthesis.phrases.book import Said, tidy
from dtfixup.sql.synthesis.phrases.queries import Query
from dtfixup.sql.synthesis.phrases.things import Thing

Condition: TypeAlias = Callable[[Query, int], str]
"""The SQL of a condition on the table at a place of a query."""


@dataclass(frozen=True)
class Restriction:
    """What is said of things, and what it means."""

    said: Said
    condition: Condition
    construct: str
    column: int | None = None
    """The column that it is about; no two restrictions of a description share one."""


_PLACES = ("adj", "of", "post", "with", "pred", "rel")
"""The order in which phrases stand in a description."""


@dataclass(frozen=True)
class Description:
    """Things under restrictions; the texts still have both numbers in them."""

    thing: Thing
    restrictions: tuple[Restriction, ...]
    phrase: Said
    subject: Said
    predicate: Said | None
    """`which {subject} {predicate}`; None where nothing said can be a predicate."""

    @property
    def columns(self) -> set[int | None]:
        """Those that restrictions are about."""
        return {restriction.column for restriction in self.restrictions}

    def is_said_in(self, text: str) -> bool:
        """Whether a text says all that the query is restricted by."""
        return all(said.many() in text or said.one() in text for said in (found.said for found in self.restrictions))

    def where(self, query: Query, at: int = 0) -> str | None:
        """All conditions."""
        parts = [restriction.condition(query, at) for restriction in self.restrictions]
        if len(parts) > 1:
            parts = [f"({part})" if " OR " in part else part for part in parts]
        return " AND ".join(parts) or None


def describe(thing: Thing, restrictions: Sequence[Restriction], chance: random.Random) -> Description:
    """Put restrictions into a noun phrase."""
    ordered = sorted(restrictions, key=lambda restriction: _PLACES.index(restriction.said.kind))
    spoken = [restriction.said for restriction in ordered]
    phrase = _phrase(thing, spoken, chance)
    able = [said for said in spoken if predicate_of(said) is not None]
    chosen = chance.choice(able) if able else None
    others = [said for said in spoken if said is not chosen]
    predicate = predicate_of(chosen) if chosen is not None else None
    return Description(thing, tuple(ordered), phrase, _phrase(thing, others, chance), predicate)


def predicate_of(said: Said) -> Said | None:
    """A phrase as what a verb says of its subject.

    >>> predicate_of(Said("with", "a price of 3")).one(), predicate_of(Said("adj", "red")).many()
    ('has a price of 3', 'are red')
    """
    match said.kind:
        case "with":
            return replace(said, kind="pred", text=f"<have|has> {said.text}")
        case "post" | "adj":
            return replace(said, kind="pred", text=f"<are|is> {said.text}")
        case "pred":
            return said
    return None


def _phrase(thing: Thing, spoken: Sequence[Said], chance: random.Random) -> Said:
    adjectives = [said.text for said in spoken if said.kind == "adj"]
    text = " ".join([*adjectives, f"<{thing.noun.many}|{thing.noun.one}>"])
    who = chance.choice(("who", "who", "that") if thing.is_person else ("that", "that", "which"))
    before: Said | None = None
    for said in spoken:
        if said.kind == "adj":
            continue
        text += _joined(before, said, who)
        before = said
    return Said("things", tidy(text))


def _joined(before: Said | None, said: Said, who: str) -> str:
    """A phrase after the one before it."""
    match said.kind, before.kind if before is not None else None:
        case "with", "with":
            return f" and {said.text}"
        case "with", _:
            return f" with {said.text}"
        case "pred", "pred":
            return f" and {said.text}"
        case "pred", _:
            return f" {who} {said.text}"
        case "post", "post":
            return f" {who} <are|is> {said.text}"
        case "rel", "rel":
            return f" and {said.text}"
        case "rel", "pred" | "with" if said.text.startswith(("whose", "where")):
            return f" and {said.text}"
    return f" {said.text}"
