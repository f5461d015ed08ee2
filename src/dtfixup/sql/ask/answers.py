"""The answer to a question.

`parser.py` makes an `Answer`: the SQL in the database's dialect, the other queries that the question may mean, the
links of its words, and how sure the model is. `view.py` shows it in a terminal, `_repr_html_` in a notebook; `to_json`
is for programs.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.schema import Column, Schema, Table
from dtfixup.sql.grammar.tree import Child, Literal, Node
from dtfixup.sql.language.words import Word, compact, name_lemmas
from dtfixup.sql.linking.links import Links
from dtfixup.sql.linking.value_links import STRONG
from dtfixup.sql.linking.view import links_content

SURE_ABOVE = 0.5
"""The least probability of a sure query, unless the model's file has its own (`sure_above`)."""
MIN_ABBREVIATION = 3
"""Fewest letters of a word in a name that may be the beginning of a question's word: `pat` and `patients`."""
MIN_STEM = 4
"""Fewest letters of a name that may be inside other words; shorter ones are there by chance."""


class Verdict(StrEnum):
    """How sure an answer is."""

    SURE = "sure"
    UNSURE = "unsure"
    """There is a doubt, or no query is likely enough: look at the alternatives."""
    NO_LINK = "no_link"
    """No word of the question names a table, a column or a stored value, so every query would be a guess."""


@dataclass(frozen=True)
class Alternative:
    """A query that the question may mean."""

    sql: str
    """In the database's dialect."""
    probability: float
    """The model's probability of this query among the alternatives, which sum to 1."""
    score: float
    """The model's log-probability of this query among all queries."""
    tree: Node
    """The query in the grammar's terms; columns are indices of the schema."""


@dataclass(frozen=True)
class Timing:
    """The seconds of each step."""

    read: float
    """To read the database; almost 0 for one that was read before."""
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
    """The answer to a question."""

    question: str
    verdict: Verdict
    alternatives: tuple[Alternative, ...]
    """The likeliest first; guesses if no word of the question links to the schema."""
    words: tuple[Word, ...]
    links: Links
    schema: Schema
    dialect: Dialect
    timing: Timing
    doubts: tuple[str, ...] = ()
    """Reasons against the likeliest query; an answer with a doubt is not sure."""

    @property
    def sql(self) -> str | None:
        """The likeliest query; None if no word of the question links to the schema, or no query can be written."""
        is_guess = self.verdict is Verdict.NO_LINK
        return None if is_guess or not self.alternatives else self.alternatives[0].sql

    def _repr_html_(self) -> str:
        """Show the answer in a notebook: question, SQL, doubts, alternatives."""
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
    """Sure if the likeliest query has at least the probability `sure_above`, and there is no doubt."""
    is_sure = bool(alternatives) and alternatives[0].probability >= sure_above and not doubts
    return Verdict.SURE if is_sure else Verdict.UNSURE


def softmax(scores: Sequence[float]) -> list[float]:
    """Probabilities from log-probabilities, which sum to 1."""
    weights = [math.exp(score - max(scores)) for score in scores]
    return [weight / sum(weights) for weight in weights]


def has_any_link(words: Sequence[Word], links: Links, schema: Schema) -> bool:
    """Whether a question has a strong link, or a word that resembles a stored value."""
    return bool(links.values) or has_strong_link(words, links, schema)


def has_strong_link(words: Sequence[Word], links: Links, schema: Schema) -> bool:
    """Whether any word names a table, a column or a whole stored value, or begins like a name.

    Names are abbreviated and dictionaries have gaps: `patients` and `pat`, `mechanics` and `Mechanic`, `high schoolers`
    and `Highschooler`.
    """
    if links.names or any(link.strength >= STRONG for link in links.values):
        return True
    lower = [word.text.lower() for word in words if not word.is_mark]
    together = "".join(lower)
    items: list[Table | Column] = [*schema.tables, *schema.columns]
    for item in items:
        name = compact(item.name)
        if len(name) >= MIN_STEM and name in together:
            return True
        parts = tuple(part for part in name_lemmas(item.natural) if len(part) >= MIN_ABBREVIATION)
        if any(word.startswith(parts) for word in lower if len(word) > MIN_STEM):
            return True
    return False


def tree_content(child: Child, schema: Schema) -> Any:
    """A tree as nested lists, the rule first, with the names of columns and the texts of literals."""
    match child:
        case Node(rule, children):
            return [rule, *(tree_content(grandchild, schema) for grandchild in children)]
        case Literal(text, kind):
            return {"value": text, "kind": kind.value}
        case int():
            return {"column": schema.qualified(child)}
    return None
