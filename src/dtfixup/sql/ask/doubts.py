"""Reasons against a query, independent of the model.

In: a query's tree and the database; for `doubts` also the question. Out: sentences. `absurdities` concern types: a
date is compared with a small number, yes and no with a year; the next query of the beam is then taken. `doubts` are
questions that a person would ask back: about a number or name that the query leaves out, about tables that nothing
connects, about a wish to change the data. A query with a doubt is never called sure.
"""

from collections.abc import Iterator, Sequence

from dtfixup.sql.database.content import ContentIndex, Looks, looks_of
from dtfixup.sql.database.schema import ColumnType, Schema
from dtfixup.sql.grammar.joins import Joiner
from dtfixup.sql.grammar.tree import (
    OCCURRENCES,
    PLAIN_NUMBER,
    Child,
    Literal,
    Node,
    literals,
    nodes,
    occurrences,
    source_rules,
    statement_rules,
)
from dtfixup.sql.language.quantities import numbers_in
from dtfixup.sql.language.words import Word, begins_sentence
from dtfixup.sql.linking.inputs import QuestionInputs
from dtfixup.sql.linking.value_links import STRONG, ValueLink

_ORDERINGS = frozenset(["Less", "LessEqual", "Greater", "GreaterEqual", "Between"])
_COMPARISONS = _ORDERINGS | {"Equal", "NotEqual", "OneOf", "NoneOf"}
_BOOLEANS = frozenset(["0", "1", "true", "false", "yes", "no", "t", "f", "y", "n"])
_SUMMED = frozenset(["Sum", "Avg"])
_LITERAL_RULES = frozenset(["Value", "Last", "More"])
_SMALL_NUMBERS = frozenset(["0", "1", "2"])  # rules often express these: both, once, twice
_COMMANDS = frozenset(["delete", "drop", "erase", "insert", "remove", "rename", "truncate", "update"])
_YEAR_DIGITS = 4  # a date may be compared with a year, but not with fewer digits


def absurdities(tree: Node, schema: Schema, content: ContentIndex | None) -> Iterator[str]:
    """Comparisons and sums that do not fit the type of their column."""
    for node in nodes(tree):
        if node.rule in _COMPARISONS and (column := _column(node.children[0])) is not None:
            for child in node.children[1:]:
                for value in literals(child) if isinstance(child, Node) and child.rule in _LITERAL_RULES else ():
                    if (reason := _mismatch(column, value, node.rule in _ORDERINGS, schema, content)) is not None:
                        yield f"{schema.qualified(column)} {reason}, and is compared with {value.text!r}"
        summed = node.children[0] if node.rule in _SUMMED else None
        if isinstance(summed, int) and looks_of(summed, schema, content) is Looks.TIME:
            yield f"{schema.qualified(summed)} holds dates, and is added up"


def doubts(tree: Node, question: QuestionInputs, schema: Schema) -> Iterator[str]:
    """What the question has and the query leaves out, and tables that nothing connects."""
    first = next((text for word in question.words if (text := word.text.lower()) != "please"), "")
    if first in _COMMANDS:
        yield f"a query only reads, and changes nothing: {first!r} is not done"
    texts = [literal.text.strip().lower() for literal in literals(tree) if literal.text.strip()]
    for number in numbers_in(question.words):
        if number.text not in _SMALL_NUMBERS and not any(number.text in text for text in texts):
            yield f"the query leaves out the number {number.text}"
    links = [link for link in question.links.values if link.strength >= STRONG and _is_name(link, question.words)]
    for link in links:
        overlapping = [other.value.lower() for other in links if other.start < link.end and link.start < other.end]
        if not any(text in value or value in text for value in overlapping for text in texts):
            yield f"the query leaves out {link.value!r}"
    joiner = Joiner(schema)
    for node in nodes(tree):
        if node.rule in statement_rules() or node.rule in ("Member", "GroupedMember"):
            source = node.children[-1]
            source = source if isinstance(source, Node) and source.rule in source_rules() else None
            used = occurrences(node, schema)
            if used and any(not join.conditions for join in joiner.build(used, source)[1:]):
                yield "nothing in the schema connects two of its tables"


def _is_name(link: ValueLink, words: Sequence[Word]) -> bool:
    """Whether a value is written as a name is, with a capital inside a sentence."""
    return any(
        words[position].text[:1].isupper() and not begins_sentence(words, position)
        for position in range(link.start, link.end)
    )


def _column(child: Child) -> int | None:
    if isinstance(child, Node) and child.rule in OCCURRENCES and isinstance(child.children[0], int):
        return child.children[0]
    return None


def _mismatch(column: int, value: Literal, is_order: bool, schema: Schema, content: ContentIndex | None) -> str | None:
    """What a column holds, if a literal is not of that kind."""
    text = value.text.strip()
    is_number = PLAIN_NUMBER.fullmatch(text) is not None
    if schema.columns[column].type is ColumnType.BOOLEAN:
        stored = () if content is None else content.columns[column].values
        if is_order or (text.lower() not in _BOOLEANS and text not in stored):
            return "holds yes and no"
        return None
    match looks_of(column, schema, content):
        case Looks.NUMBER if not is_number:
            return "holds numbers"
        case Looks.TIME if is_number and len(text) < _YEAR_DIGITS:
            return "holds dates"
        case Looks.TEXT if is_order:
            return "holds text"
    return None
