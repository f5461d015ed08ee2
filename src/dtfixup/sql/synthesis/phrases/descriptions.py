"""Entities under restrictions: noun phrases such as `French films longer than 100 minutes`, and their SQL.

In: an entity and `Restriction`s, each a phrase with the condition that it means. Out: a `Description` in the plural, in
the singular, and as subject and predicate; and a `QueryBuilder`, which writes SQL that `SqlReader` reads. Names are
always quoted and tables aliased; `SqlWriter` later writes the query in Spider's style.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from dtfixup.sql.database.schema import Schema, quoted
from dtfixup.sql.language.quantities import plain_number
from dtfixup.sql.synthesis.phrases.book import Phrase, tidy
from dtfixup.sql.synthesis.phrases.domain import Step
from dtfixup.sql.synthesis.phrases.entities import Entity


class QueryBuilder:
    """One SELECT; tables are numbered by their position in the FROM clause, from 0."""

    def __init__(self, schema: Schema, table: int) -> None:
        self.schema = schema
        self.where: str | None = None
        self._from = [f"{quoted(schema.tables[table].name)} AS t0"]

    def join(self, step: Step, at: int = 0) -> int:
        """Join the table that a step leads to and return its number."""
        source, target = step
        joined = len(self._from)
        table = self.schema.columns[target].table
        name = quoted(self.schema.tables[table].name)
        self._from.append(f"JOIN {name} AS t{joined} ON {self.column(source, at)} = {self.column(target, joined)}")
        return joined

    def walk(self, steps: Sequence[Step], at: int = 0) -> int:
        """Join all tables along a path and return the number of the last."""
        for step in steps:
            at = self.join(step, at)
        return at

    def column(self, column: int, at: int = 0) -> str:
        if self.schema.is_star(column):
            return "*"
        return f"t{at}.{quoted(self.schema.columns[column].name)}"

    def sql(
        self,
        shown: Sequence[str],
        *,
        group: Sequence[str] = (),
        having: str | None = None,
        order: Sequence[str] = (),
        limit: int | None = None,
        is_distinct: bool = False,
    ) -> str:
        """The query as text."""
        parts = [f"SELECT {'DISTINCT ' if is_distinct else ''}{', '.join(shown)} FROM {' '.join(self._from)}"]
        parts += [f"WHERE {self.where}"] if self.where else []
        parts += [f"GROUP BY {', '.join(group)}"] if group else []
        parts += [f"HAVING {having}"] if having else []
        parts += [f"ORDER BY {', '.join(order)}"] if order else []
        parts += [f"LIMIT {limit}"] if limit is not None else []
        return " ".join(parts)


def literal(text: str) -> str:
    """A value in SQL: numbers bare, texts quoted.

    >>> literal("12"), literal("O'Hara")
    ('12', "'O''Hara'")
    """
    return text if plain_number(text) == text else quoted_text(text)


def quoted_text(text: str) -> str:
    """A text in SQL quotes, even if it is a number."""
    return "'" + text.replace("'", "''") + "'"


Condition: TypeAlias = Callable[[QueryBuilder, int], str]
"""The SQL of a condition on a table of a query, given by its number."""


@dataclass(frozen=True)
class Restriction:
    """A phrase that restricts an entity, and the condition that it means."""

    phrase: Phrase
    condition: Condition
    construct: str
    column: int | None = None
    """The restricted column; no two restrictions of a description share one."""


_KIND_ORDER = ("adj", "of", "post", "with", "pred", "rel")
"""The order of phrases in a description."""


@dataclass(frozen=True)
class Description:
    """An entity under restrictions."""

    entity: Entity
    restrictions: tuple[Restriction, ...]
    phrase: Phrase
    subject: Phrase
    predicate: Phrase | None
    """For `which {subject} {predicate}`; None where no phrase can be a predicate."""

    @property
    def columns(self) -> set[int | None]:
        """The restricted columns."""
        return {restriction.column for restriction in self.restrictions}

    def is_expressed_in(self, text: str) -> bool:
        """Whether a text contains the phrases of all restrictions."""
        phrases = [restriction.phrase for restriction in self.restrictions]
        return all(phrase.many() in text or phrase.one() in text for phrase in phrases)

    def where(self, query: QueryBuilder, at: int = 0) -> str | None:
        """All conditions, joined by AND."""
        parts = [restriction.condition(query, at) for restriction in self.restrictions]
        if len(parts) > 1:
            parts = [f"({part})" if " OR " in part else part for part in parts]
        return " AND ".join(parts) or None


def describe(entity: Entity, restrictions: Sequence[Restriction], rng: random.Random) -> Description:
    """A noun phrase for an entity under restrictions."""
    ordered = sorted(restrictions, key=lambda restriction: _KIND_ORDER.index(restriction.phrase.kind))
    phrases = [restriction.phrase for restriction in ordered]
    phrase = _phrase(entity, phrases, rng)
    able = [phrase for phrase in phrases if predicate_of(phrase) is not None]
    chosen = rng.choice(able) if able else None
    others = [phrase for phrase in phrases if phrase is not chosen]
    predicate = predicate_of(chosen) if chosen is not None else None
    return Description(entity, tuple(ordered), phrase, _phrase(entity, others, rng), predicate)


def predicate_of(phrase: Phrase) -> Phrase | None:
    """A phrase as a predicate, or None where it cannot be one.

    >>> predicate_of(Phrase("with", "a price of 3")).one(), predicate_of(Phrase("adj", "red")).many()
    ('has a price of 3', 'are red')
    """
    match phrase.kind:
        case "with":
            return replace(phrase, kind="pred", text=f"<have|has> {phrase.text}")
        case "post" | "adj":
            return replace(phrase, kind="pred", text=f"<are|is> {phrase.text}")
        case "pred":
            return phrase
    return None


def _phrase(entity: Entity, phrases: Sequence[Phrase], rng: random.Random) -> Phrase:
    """A noun phrase: adjectives, the noun, and the other phrases."""
    adjectives = [phrase.text for phrase in phrases if phrase.kind == "adj"]
    text = " ".join([*adjectives, f"<{entity.noun.many}|{entity.noun.one}>"])
    who = rng.choice(("who", "who", "that") if entity.is_person else ("that", "that", "which"))
    following = [phrase for phrase in phrases if phrase.kind != "adj"]
    for before, phrase in zip([None, *following], following, strict=False):
        text += _joined(before, phrase, who)
    return Phrase("things", tidy(text))


def _joined(before: Phrase | None, phrase: Phrase, who: str) -> str:
    """A phrase with the words that join it to the phrase before it."""
    match phrase.kind, before.kind if before is not None else None:
        case ("with", "with") | ("pred", "pred") | ("rel", "rel"):
            return f" and {phrase.text}"
        case "rel", "pred" | "with" if phrase.text.startswith(("whose", "where")):
            return f" and {phrase.text}"
        case "with", _:
            return f" with {phrase.text}"
        case "pred", _:
            return f" {who} {phrase.text}"
        case "post", "post":
            return f" {who} <are|is> {phrase.text}"
    return f" {phrase.text}"
