"""What the parser says to a question.

Out of `parser.py`: `Answer`, with SQL in the database's dialect, what else the question may have meant, what its words
were linked to, and how sure the model is. `ask/view.py` shows it to people; `to_json` is for programs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dtfixup.sql.database.location import Dialect
from dtfixup.sql.database.schema import Column, Schema, Table
from dtfixup.sql.grammar.tree import Child, Literal, Node
from dtfixup.sql.language.words import Word, compact, name_lemmas
from dtfixup.sql.linking.links import Links
from dtfixup.sql.linking.value_links import STRONG
from dtfixup.sql.linking.view import links_content
from dtfixup.sql.model.predictions import Prediction

SURE_ABOVE = 0.5
"""A query is sure whose probability is at least this, unless the model's file says otherwise (`sure_above`)."""
_CUT = 3  # letters of a name that may be cut short
_TOLD = 4  # letters of a name that no text has by chance


class Verdict(StrEnum):
    """What an answer is worth."""

    SURE = "sure"
    UNSURE = "unsure"
    """The likeliest query is not likely enough, or none could be written: look at the alternatives."""
    NO_LINK = "no_link"
    """No word of the question names a table, a column or a stored value: every query would be a guess."""


@dataclass(frozen=True)
class Alternative:
    """A query that the question may mean."""

    sql: str
    """In the database's dialect."""
    probability: float
    """The model's probability of this query among those that the search found: they sum to 1."""
    score: float
    """The model's log-probability of this query among all queries."""
    tree: Node
    """The query in the grammar's terms; columns are indices of the schema."""


@dataclass(frozen=True)
class Timing:
    """Seconds."""

    read: float
    """To open the database; next to nothing where it is open."""
    link: float
    """To find what the words mean."""
    search: float
    """To encode and decode."""
    write: float
    """To write the queries in the database's dialect."""

    @property
    def total(self) -> float:
        return self.read + self.link + self.search + self.write


@dataclass(frozen=True)
class Answer:
    """A question answered."""

    question: str
    verdict: Verdict
    alternatives: tuple[Alternative, ...]
    """The likeliest first; guesses where nothing in the question links to the schema."""
    words: tuple[Word, ...]
    links: Links
    schema: Schema
    dialect: Dialect
    timing: Timing
    doubts: tuple[str, ...] = ()
    """What speaks against the likeliest query, as `plausibility.py` finds it; it is not sure then."""

    @property
    def sql(self) -> str | None:
        """The likeliest query; None where nothing in the question links to the schema, or no query can be written."""
        is_guess = self.verdict is Verdict.NO_LINK
        return None if is_guess or not self.alternatives else self.alternatives[0].sql

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain lists and dictionaries."""
        links = links_content(self.question, self.words, self.links, self.schema)
        del links["question"]
        return {
            "question": self.question,
            "verdict": self.verdict.value,
            "doubts": list(self.doubts),
            "sql": self.sql,
            "dialect": self.dialect.name.lower(),
            "alternatives": [
                {
                    "sql": each.sql,
                    "probability": round(each.probability, 6),
                    "log_probability": round(each.score, 4),
                    "tree": tree_content(each.tree, self.schema),
                }
                for each in self.alternatives
            ],
            "links": links,
            "seconds": {
                name: round(getattr(self.timing, name), 4) for name in ("read", "link", "search", "write", "total")
            },
        }


def verdict_of(alternatives: Sequence[Alternative], sure_above: float, doubts: Sequence[str] = ()) -> Verdict:
    """Sure where the likeliest query has at least that share of the probability, and nothing speaks against it."""
    is_sure = bool(alternatives) and alternatives[0].probability >= sure_above and not doubts
    return Verdict.SURE if is_sure else Verdict.UNSURE


def probabilities(queries: Sequence[Prediction]) -> list[float]:
    """Of each query among all of them."""
    if not queries:
        return []
    best = max(query.score for query in queries)
    weights = [math.exp(query.score - best) for query in queries]
    return [weight / sum(weights) for weight in weights]


def has_link(words: Sequence[Word], links: Links, schema: Schema) -> bool:
    """Whether any word names a table or a column, in whole or in part, or says a stored value; or at least begins as a
    name does, since names are cut short and dictionaries have gaps: `patients` and `pat`, `mechanics` and `Mechanic`,
    `high schoolers` and `Highschooler`."""
    if links.names or any(link.strength >= STRONG for link in links.values):
        return True
    spelt = [word.text.lower() for word in words if not word.is_mark]
    together = "".join(spelt)
    items: list[Table | Column] = [*schema.tables, *schema.columns]
    for item in items:
        name = compact(item.name)
        if len(name) >= _TOLD and name in together:
            return True
        begins = tuple(part for part in name_lemmas(item.natural) if len(part) >= _CUT)
        if any(word.startswith(begins) for word in spelt if len(word) > _TOLD):
            return True
    return False


def is_linked(words: Sequence[Word], links: Links, schema: Schema) -> bool:
    """Whether a question is answered: it has a link, or a word at least resembles a stored value."""
    return bool(links.values) or has_link(words, links, schema)


def tree_content(child: Child, schema: Schema) -> Any:
    """A tree as nested lists, rule first; columns by their names, literals by their text."""
    match child:
        case Node(rule, children):
            return [rule, *(tree_content(each, schema) for each in children)]
        case Literal(text, kind):
            return {"value": text, "kind": kind.value}
        case int():
            return {"column": schema.qualified(child)}
    return None
