"""Links rendered for people and programs.

In: a question, its words and its links. Out: coloured text for a terminal, or JSON.
"""

import json
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from rich.text import Text

from dtfixup.sql.database.schema import Schema
from dtfixup.sql.language.words import Word
from dtfixup.sql.linking.links import Item, Links, MatchKind, NameLink, ValueLink
from dtfixup.sql.linking.value_links import STRONG


class Mark(StrEnum):
    """What a word of the question refers to, the most specific first."""

    VALUE = "value"
    COLUMN = "column"
    TABLE = "table"
    PART = "part of a name"


_STYLES = {Mark.VALUE: "bold magenta", Mark.COLUMN: "bold green", Mark.TABLE: "bold cyan", Mark.PART: "yellow"}


def render(question: str, words: Sequence[Word], links: Links, schema: Schema) -> Text:
    """The question with its words coloured by `Mark`, a line for each notable link, and a legend.

    Weak values are left out, and so are partial names whose words have a better mark.
    """
    marks = best_of_words(links)
    text = Text(printable(question))
    for position, mark in marks.items():
        text.stylize(_STYLES[mark], words[position].start, words[position].end)
    for start, end, mark, target in _notes(links, schema):
        if any(marks[position] is mark for position in range(start, end)):
            phrase = question[words[start].start : words[end - 1].end]
            text.append("\n  ").append(printable(phrase), _STYLES[mark]).append(printable(f" → {target}"))
    text.append("\n\n")
    for mark, style in _STYLES.items():
        text.append(mark, style).append("  ")
    text.rstrip()
    return text


def printable(text: str) -> str:
    """The text with blanks for control characters, which a terminal would obey."""
    return "".join(" " if unicodedata.category(character) == "Cc" else character for character in text)


def best_of_words(links: Links) -> dict[int, Mark]:
    """The most specific mark of each linked word."""
    order = list(Mark)
    marks: dict[int, Mark] = {}
    spans = [(link.start, link.end, mark_of(link)) for link in links.names]
    spans += [(link.start, link.end, Mark.VALUE) for link in links.values if link.strength >= STRONG]
    for start, end, mark in spans:
        for position in range(start, end):
            marks[position] = min(mark, marks.get(position, mark), key=order.index)
    return marks


def _notes(links: Links, schema: Schema) -> list[tuple[int, int, Mark, str]]:
    """Span, mark and target of each notable link, from left to right."""
    notes = [(link.start, link.end, mark_of(link), f"{link.item} {name_of(link, schema)}") for link in links.names]
    notes += [
        (link.start, link.end, Mark.VALUE, f"{schema.qualified(link.column)} = {link.value!r} ({link.how})")
        for link in links.values
        if link.strength >= STRONG
    ]
    return sorted(notes, key=lambda note: note[:2])


def mark_of(link: NameLink) -> Mark:
    return Mark(link.item.value) if link.kind is MatchKind.EXACT else Mark.PART


def name_of(link: NameLink, schema: Schema) -> str:
    """The name of the table or column that a link points at."""
    return schema.tables[link.index].name if link.item is Item.TABLE else schema.qualified(link.index)


def links_json(question: str, words: Sequence[Word], links: Links, schema: Schema) -> str:
    """The words and all links as JSON."""
    return json.dumps(links_content(question, words, links, schema), indent=1)


def links_content(question: str, words: Sequence[Word], links: Links, schema: Schema) -> dict[str, Any]:
    """The words and all links as JSON values; spans count words, and words have character offsets."""

    def span(link: NameLink | ValueLink) -> dict[str, Any]:
        text = question[words[link.start].start : words[link.end - 1].end]
        return {"start": link.start, "end": link.end, "text": text}

    return {
        "question": question,
        "words": [{"text": word.text, "lemma": word.lemma, "start": word.start, "end": word.end} for word in words],
        "names": [
            {**span(link), "item": link.item.value, "name": name_of(link, schema), "match": link.kind.value}
            for link in links.names
        ],
        "values": [
            {
                **span(link),
                "column": schema.qualified(link.column),
                "value": link.value,
                "match": link.how.value,
                "strength": link.strength,
            }
            for link in links.values
        ],
    }
