"""The answer to a question.

Out of `parser.py`: `Answer`, with SQL in the database's dialect, what else the question may mean, what its words link
to, and how sure the model is. `ask/view.py` shows it in a terminal, a notebook by itself; `to_json` is for programs.
"""

import html
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
MIN_ABBREVIATION = 3
"""Letters of a word of a name from which a question's word may begin with it: `pat` and `patients`."""
MIN_STEM = 4
"""Letters of a name from which it is found inside other words, and not by chance."""


class Verdict(StrEnum):
    """How sure an answer is."""

    SURE = "sure"
    UNSURE = "unsure"
    """The likeliest query is not likely enough, or there is none: look at the alternatives."""
    NO_LINK = "no_link"
    """No word of the question names a table, a column or a stored value: every query would be a guess."""


@dataclass(frozen=True)
class Alternative:
    """A query that the question may mean."""

    sql: str
    """In the database's dialect."""
    probability: float
    """The model's probability of this query among the alternatives: they sum to 1."""
    score: float
    """The model's log-probability of this query among all queries."""
    tree: Node
    """The query in the grammar's terms; columns are indices of the schema."""


@dataclass(frozen=True)
class Timing:
    """Seconds."""

    read: float
    """To read the database; next to nothing once it is read."""
    link: float
    """To link the words of the question."""
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
    """The likeliest first; guesses where no word of the question links to the schema."""
    words: tuple[Word, ...]
    links: Links
    schema: Schema
    dialect: Dialect
    timing: Timing
    doubts: tuple[str, ...] = ()
    """What speaks against the likeliest query, in sentences; with any, the answer is not sure."""

    @property
    def sql(self) -> str | None:
        """The likeliest query; None where no word of the question links to the schema, or no query can be written."""
        is_guess = self.verdict is Verdict.NO_LINK
        return None if is_guess or not self.alternatives else self.alternatives[0].sql

    def _repr_html_(self) -> str:
        """The answer in a notebook: question, SQL, doubts, alternatives."""
        parts = [f"<p><b>{html.escape(self.question)}</b></p>"]
        if self.sql is not None:
            parts.append(f"<pre><code>{html.escape(self.sql)}</code></pre>")
        remarks = [self.verdict.value.replace("_", " "), *self.doubts]
        parts.append(f"<p>{html.escape('; '.join(remarks))}</p>")
        rows = [
            f"<tr><td>{100 * query.probability:.0f} %</td><td><code>{html.escape(query.sql)}</code></td></tr>"
            for query in self.alternatives[0 if self.sql is None else 1 :]
        ]
        if rows:
            parts.append(f"<table>{''.join(rows)}</table>")
        return "\n".join(parts)

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
                    "sql": query.sql,
                    "probability": round(query.probability, 6),
                    "log_probability": round(query.score, 4),
                    "tree": tree_content(query.tree, self.schema),
                }
                for query in self.alternatives
            ],
            "links": links,
            "seconds": {
                name: round(getattr(self.timing, name), 4) for name in ("read", "link", "search", "write", "total")
            },
        }


def verdict_of(alternatives: Sequence[Alternative], sure_above: float, doubts: Sequence[str] = ()) -> Verdict:
    """Sure where the likeliest query has at least the probability `sure_above`, and nothing speaks against it."""
    is_sure = bool(alternatives) and alternatives[0].probability >= sure_above and not doubts
    return Verdict.SURE if is_sure else Verdict.UNSURE


def probabilities(queries: Sequence[Prediction]) -> list[float]:
    """The probability of each query among all of them."""
    if not queries:
        return []
    best = max(query.score for query in queries)
    weights = [math.exp(query.score - best) for query in queries]
    return [weight / sum(weights) for weight in weights]


def has_link(words: Sequence[Word], links: Links, schema: Schema) -> bool:
    """Whether any word names a table, a column or a stored value, or at least begins as a name does.

    Names are cut short and dictionaries have gaps: `patients` and `pat`, `mechanics` and `Mechanic`, `high schoolers`
    and `Highschooler`.
    """
    if links.names or any(link.strength >= STRONG for link in links.values):
        return True
    spelt = [word.text.lower() for word in words if not word.is_mark]
    together = "".join(spelt)
    items: list[Table | Column] = [*schema.tables, *schema.columns]
    for item in items:
        name = compact(item.name)
        if len(name) >= MIN_STEM and name in together:
            return True
        begins = tuple(part for part in name_lemmas(item.natural) if len(part) >= MIN_ABBREVIATION)
        if any(word.startswith(begins) for word in spelt if len(word) > MIN_STEM):
            return True
    return False


def is_linked(words: Sequence[Word], links: Links, schema: Schema) -> bool:
    """Whether a question has a link, or a word that at least resembles a stored value."""
    return bool(links.values) or has_link(words, links, schema)


def tree_content(child: Child, schema: Schema) -> Any:
    """A tree as nested lists, rule first; columns by their names, literals by their text."""
    match child:
        case Node(rule, children):
            return [rule, *(tree_content(grandchild, schema) for grandchild in children)]
        case Literal(text, kind):
            return {"value": text, "kind": kind.value}
        case int():
            return {"column": schema.qualified(child)}
    return None
