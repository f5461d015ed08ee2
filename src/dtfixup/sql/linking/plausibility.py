"""What speaks against a query, whatever the model thinks of it.

In: a query's tree and the database; for `doubts` also the question. Out: sentences. `absurdities` are about types: a
date is compared with a small number, yes and no with a year; another query of the beam is taken then. `doubts` are what
a person would ask back about: a number or a name in the question that the query leaves out, tables that nothing
connects, a wish to change the data. A query in doubt is never called sure.
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

_ORDERED = frozenset(["Less", "LessEqual", "Greater", "GreaterEqual", "Between"])
_COMPARED = _ORDERED | {"Equal", "NotEqual", "OneOf", "NoneOf"}
_TRUTHS = frozenset(["0", "1", "true", "false", "yes", "no", "t", "f", "y", "n"])
_ADDED = frozenset(["Sum", "Avg"])
_LISTED = frozenset(["Value", "Last", "More"])
_SMALL = frozenset(["0", "1", "2"])  # these are often said by a rule: both, once, twice
_ORDERS = frozenset(["delete", "drop", "erase", "insert", "remove", "rename", "truncate", "update"])
_FIGURES = 4  # a date may be compared with a year; fewer figures are no date


def absurdities(tree: Node, schema: Schema, content: ContentIndex | None) -> Iterator[str]:
    """Comparisons and sums that no column of the kind is made for."""
    for node in nodes(tree):
        if node.rule in _COMPARED and (column := _column(node.children[0])) is not None:
            for child in node.children[1:]:
                for value in literals(child) if isinstance(child, Node) and child.rule in _LISTED else ():
                    if (reason := _misfit(column, value, node.rule in _ORDERED, schema, content)) is not None:
                        yield f"{schema.qualified(column)} {reason}, and is compared with {value.text!r}"
        added = node.children[0] if node.rule in _ADDED else None
        if isinstance(added, int) and looks_of(added, schema, content) is Looks.TIME:
            yield f"{schema.qualified(added)} holds dates, and is added up"


def doubts(tree: Node, question: QuestionInputs, schema: Schema) -> Iterator[str]:
    """What the question says and the query does not, and tables that stand side by side."""
    first = next((text for word in question.words if (text := word.text.lower()) != "please"), "")
    if first in _ORDERS:
        yield f"a query only reads, and changes nothing: {first!r} is not done"
    said = [literal.text.strip().lower() for literal in literals(tree) if literal.text.strip()]
    for number in numbers_in(question.words):
        if number.text not in _SMALL and not any(number.text in text for text in said):
            yield f"the query leaves out the number {number.text}"
    links = [link for link in question.links.values if link.strength >= STRONG and _is_name(link, question.words)]
    for link in links:
        overlapping = [other.value.lower() for other in links if other.start < link.end and link.start < other.end]
        if not any(text in value or value in text for value in overlapping for text in said):
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
    """Whether a value is said as names are, with a capital where a sentence does not begin."""
    return any(
        words[place].text[:1].isupper() and not begins_sentence(words, place) for place in range(link.start, link.end)
    )


def _column(child: Child) -> int | None:
    if isinstance(child, Node) and child.rule in OCCURRENCES and isinstance(child.children[0], int):
        return child.children[0]
    return None


def _misfit(column: int, value: Literal, is_ordered: bool, schema: Schema, content: ContentIndex | None) -> str | None:
    """What a column holds, where a literal is nothing of that kind."""
    text = value.text.strip()
    is_number = PLAIN_NUMBER.fullmatch(text) is not None
    if schema.columns[column].type is ColumnType.BOOLEAN:
        stored = () if content is None else content.columns[column].values
        if is_ordered or (text.lower() not in _TRUTHS and text not in stored):
            return "holds yes and no"
        return None
    match looks_of(column, schema, content):
        case Looks.NUMBER if not is_number:
            return "holds numbers"
        case Looks.TIME if is_number and len(text) < _FIGURES:
            return "holds dates"
        case Looks.TEXT if is_ordered:
            return "holds text"
    return None
