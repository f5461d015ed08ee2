"""A question and its query without their database.

`maker.py` makes `Template`s of examples, `filler.py` makes examples of them. A template has a question, made of words
that fit any database and of slots for tables, columns and values; a tree whose leaves are numbers of the template's
columns; and the foreign keys between its tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.joins import Join, Joiner
from dtfixup.sql.grammar.tree import GROUPINGS, OCCURRENCES, Child, Literal, Node, nodes, occurrences
from dtfixup.sql.synthesis.templates.columns import Trait

SELECTS = frozenset(["Plain", "Grouped", "Member", "GroupedMember", "UnionRows", "IntersectRows", "ExceptRows"])
"""Rules that have a FROM clause of their own."""


class SlotKind(StrEnum):
    """What fills a slot of a question."""

    TABLE = "table"
    COLUMN = "column"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class TemplateSlot:
    """A place in a question; `index` is into the template's tables, columns or values."""

    kind: SlotKind
    index: int
    is_plural: bool = False
    is_whole: bool = True
    """Of a column: whether its name includes the words that it shares with its table."""
    begins_sentence: bool = False
    is_spelled: bool = False
    """Of a number: whether it is written as a word."""
    lead: str = ""
    """Words before it that the source did without."""


@dataclass(frozen=True, slots=True)
class ColumnNeed:
    """A column of a template, and what a column must be like to replace it."""

    table: int
    traits: frozenset[Trait]
    refers: int | None
    """The table of the template that it refers to as a foreign key."""
    is_named: bool
    shares_name: bool
    """Whether another table of the template has a column of this name, so that other words must name the table."""
    groups_rows: bool
    """Whether rows are grouped by it, so that its values should repeat."""
    stands_for_row: bool = False
    """Whether it is not named because it holds the names of rows: who asks for a singer asks for a name."""
    same_name: tuple[str, ...] = ()
    """Of an implied column, or one whose name another column shares in part: the name that a replacement must have."""

    @property
    def is_implied(self) -> bool:
        """Whether the words mean it without naming it."""
        return bool(self.same_name) and not self.is_named

    @property
    def is_key(self) -> bool:
        return not self.traits.isdisjoint([Trait.PRIMARY, Trait.FOREIGN])


class Form(StrEnum):
    """How a value is compared with its column."""

    WHOLE = "whole"
    BOUND = "bound"
    CONTAINS = "contains"
    BEGINS = "begins"
    ENDS = "ends"
    COUNT = "count"
    """A small number that is compared with no column."""
    CONSTANT = "constant"
    """It stays as it is; a column that it is compared with must hold it."""


PATTERNS = {"Contains": Form.CONTAINS, "StartsWith": Form.BEGINS, "EndsWith": Form.ENDS}
BOUNDS = frozenset(["Less", "LessEqual", "Greater", "GreaterEqual", "Between"])
COMPARISONS = BOUNDS | {"Equal", "NotEqual", "Like", "NotLike", "OneOf", "NoneOf"}


@dataclass(frozen=True, slots=True)
class ValueNeed:
    """A value of a template, with the source's literal; `column` is an index into the template's columns."""

    literal: Literal
    form: Form
    column: int | None
    ceiling_of: int | None = None
    """Of the upper end of a range: the value that is its lower end."""


Link: TypeAlias = tuple[int, int]
"""A foreign key from a table of the template to another."""

JoinShape: TypeAlias = tuple[tuple[int, int, frozenset[frozenset[tuple[int, int]]]], ...]
"""Per table of a FROM clause: table, occurrence, and the pairs of occurrences that its conditions tie."""


@dataclass(frozen=True, slots=True)
class Template:
    """A question and its query without their database."""

    source: int
    question: tuple[str | TemplateSlot, ...]
    tree: Node
    named_tables: tuple[bool, ...]
    links: tuple[Link, ...]
    columns: tuple[ColumnNeed, ...]
    values: tuple[ValueNeed, ...]
    joins: tuple[JoinShape, ...]
    kept: tuple[str, ...] = ()
    """Lemmas of words that stay although they are not plain: `old` in `How old is the dog?`"""

    @property
    def implied_names(self) -> tuple[tuple[str, ...], ...]:
        """The names of the columns that the words imply."""
        return tuple(need.same_name for need in self.columns if need.is_implied)

    @property
    def valueless_names(self) -> tuple[tuple[str, ...], ...]:
        """The implied names without a value in the question."""
        compared = {value.column for value in self.values}
        return tuple(
            need.same_name for index, need in enumerate(self.columns) if need.is_implied and index not in compared
        )

    def names_in(self, table: int) -> frozenset[tuple[str, ...]]:
        """The names that columns of a table must have."""
        return frozenset(need.same_name for need in self.columns if need.table == table and need.same_name)

    def is_referred(self, table: int) -> bool:
        """Whether a table that is named has a foreign key to this one: each of its rows has one row of this."""
        return any(target == table and self.named_tables[source] for source, target in self.links)

    @property
    def skeleton(self) -> str:
        """The shape of the query: rules and joins, without columns and values."""
        return f"{_rules_of(self.tree)} {[len(shape) for shape in self.joins]}"


def join_shapes(tree: Node, schema: Schema, joiner: Joiner) -> tuple[tuple[Join, ...], ...]:
    """The FROM clauses of a query and of those nested in it, in reading order."""
    return tuple(
        joiner.build(occurrences(node, schema), source if isinstance(source := node.children[-1], Node) else None)
        for node in nodes(tree)
        if node.rule in SELECTS
    )


def shape_of(joins: Sequence[Join], schema: Schema, number: dict[int, int]) -> JoinShape:
    """A FROM clause with the template's numbers of tables."""

    def end(column: int, which: int) -> tuple[int, int]:
        return number[schema.columns[column].table], which

    return tuple(
        (
            number[join.table],
            join.occurrence,
            frozenset(frozenset(end(*side) for side in pair) for group in join.conditions for pair in group),
        )
        for join in joins
    )


def replace_leaves(node: Node, columns: dict[int, int], values: Iterator[Literal]) -> Node:
    """Replace every column of a tree by `columns` and every literal by the next of `values`."""

    def replaced(child: Child) -> Child:
        match child:
            case Node():
                return replace_leaves(child, columns, values)
            case Literal():
                return next(values)
            case None:
                return None
            case _:
                return columns[child]

    return Node(node.rule, tuple(replaced(child) for child in node.children))


def _rules_of(node: Node) -> str:
    below = [_rules_of(child) for child in node.children if isinstance(child, Node)]
    return f"{node.rule}({','.join(below)})"


def columns_in(tree: Node) -> Iterator[int]:
    return (child for node in nodes(tree) for child in node.children if isinstance(child, int))


def literals_in(tree: Node) -> Iterator[Literal]:
    """The literals in the order of `replace_leaves`."""
    return (literal for literal, _, _ in literal_uses(tree))


def literal_uses(node: Node, around: Node | None = None) -> Iterator[tuple[Literal, Node, int | None]]:
    """Every literal, the node that compares it, and the column that it is compared with."""
    if node.rule in COMPARISONS:
        around = node
    elif node.rule in SELECTS or node.rule in ("Sorted", "First", "Limit"):
        around = None
    for child in node.children:
        if isinstance(child, Literal):
            left = around.children[0] if around else None
            is_column = isinstance(left, Node) and left.rule in (*OCCURRENCES, "Max", "Min", "Avg", "Sum")
            column = left.children[0] if is_column and isinstance(left, Node) else None
            parent = node if node.rule in (*PATTERNS, "Matches") or around is None else around
            yield child, parent, column if isinstance(column, int) else None
        elif isinstance(child, Node):
            yield from literal_uses(child, around)


def grouping_columns(tree: Node) -> Iterator[int]:
    """The columns that rows are grouped by, or that two sides of an intersection have in common."""
    for node in nodes(tree):
        if node.rule in GROUPINGS and isinstance(node.children[0], int):
            yield node.children[0]
        elif node.rule == "Intersect":
            yield from shown_columns(node)


def shown_columns(tree: Node) -> Iterator[int]:
    """The columns that the answer shows: those selected by the outermost, first query."""
    if tree.rule in ("Union", "Intersect", "Except"):
        pair = tree.children[0]
        first = pair.children[0] if isinstance(pair, Node) else None
        if isinstance(first, Node):
            yield from shown_columns(first)
    elif tree.rule in SELECTS and isinstance(tree.children[0], Node):
        yield from (
            child
            for node in nodes(tree.children[0])
            if node.rule not in ("Count", "CountDistinct", *GROUPINGS)
            for child in node.children
            if isinstance(child, int)
        )
