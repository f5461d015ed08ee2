"""A query as a tree of rules whose leaves are columns and literals.

`reader.py` makes trees from SQL text, `writer.py` makes text from trees, `transitions.py` turns trees into actions and
back. This module has the nodes, and lists the columns, tables and literals that a query refers to.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.rules import REDUCE, Choice, ValueKind, sql_grammar

MAX_DIGITS = 300
PLAIN_NUMBER = re.compile(rf"-?(0|[1-9][0-9]{{0,{MAX_DIGITS}}})(\.[0-9]{{1,{MAX_DIGITS}}})?")
"""Numbers in literals: no exponent, no leading zero, no final dot."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value in a query; whether it is quoted depends on what it is compared with."""

    text: str
    kind: ValueKind


@dataclass(frozen=True, slots=True)
class Node:
    """A rule with its children: nodes, column indices, literals, or None where an optional child is left out."""

    rule: str
    children: tuple["Child", ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}({', '.join(map(str, self.children))})" if self.children else self.rule


Child: TypeAlias = Node | Literal | int | None

Reference: TypeAlias = tuple[int, int]
"""A column, and the occurrence of its table, counted from 1."""

Occurrence: TypeAlias = tuple[int, int]
"""A table, and the number of its occurrence in one FROM clause, counted from 1."""

OCCURRENCES = {"Column": 1, "Again": 2, "Third": 3}
"""Rules of column expressions, with the occurrence of the table that each refers to."""

_RULE_OF = {which: rule for rule, which in OCCURRENCES.items()}

GROUPINGS = {"By": 1, "ByThen": 1, "ByAgain": 2, "ByAgainThen": 2}
"""Rules that group by a column, with the occurrence of the table that each refers to."""


@cache
def statement_rules() -> frozenset[str]:
    """The rules that begin a query with its own FROM clause."""
    return _rules_of("statement")


@cache
def source_rules() -> frozenset[str]:
    """The rules that describe how tables are joined."""
    return _rules_of("source")


def _rules_of(field: str) -> frozenset[str]:
    grammar = sql_grammar()
    return frozenset(
        grammar.rules[rule]
        for index, state in enumerate(grammar.states)
        if state.field == field and state.choice is Choice.RULE
        for rule in grammar.rules_SR[index].nonzero()[0]
        if rule != REDUCE
    )


def references(node: Node) -> Iterator[Reference]:
    """The columns that a query refers to outside its FROM clause and nested queries, in reading order."""
    occurrence = (OCCURRENCES | GROUPINGS).get(node.rule, 1)
    for child in node.children:
        if isinstance(child, int):
            yield child, occurrence
        elif isinstance(child, Node) and child.rule not in statement_rules() and child.rule not in source_rules():
            yield from references(child)


def occurrences(node: Node, schema: Schema) -> tuple[Occurrence, ...]:
    """The tables of a query's columns, in order of first mention."""
    return tuple(dict.fromkeys((schema.columns[column].table, which) for column, which in references(node)))


def nodes(node: Node) -> Iterator[Node]:
    """Every node of a tree, nested queries included, in reading order."""
    yield node
    for child in node.children:
        if isinstance(child, Node):
            yield from nodes(child)


def literals(node: Node) -> Iterator[Literal]:
    """Every literal of a tree, nested queries included, in reading order."""
    return (child for part in nodes(node) for child in part.children if isinstance(child, Literal))


def refer(reference: Reference) -> Node:
    """The expression that refers to a column."""
    column, which = reference
    if which not in _RULE_OF:
        raise SqlError(f"a table occurs {which} times in one FROM clause; the grammar knows {len(_RULE_OF)}")
    return Node(_RULE_OF[which], (column,))
