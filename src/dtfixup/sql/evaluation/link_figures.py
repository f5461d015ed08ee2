"""How good links and literal candidates are, against gold queries.

In: examples with their links and candidates. Out: `LinkFigures.summary()`, plain data: the share of queries whose every
literal is a candidate, and recall and precision of links for the columns and tables of the gold queries.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import exp

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.linking.candidates import Candidate, Source, covers
from dtfixup.sql.linking.links import Item, Links, MatchKind, ValueMatch
from dtfixup.sql.linking.value_links import STRONG


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal of a query; a LIKE pattern without its outer %. `column` is what it is compared with."""

    text: str
    is_text: bool
    column: int | None


@dataclass(frozen=True, slots=True)
class Gold:
    """What a query says: tables, columns outside join conditions, and literals."""

    tables: frozenset[int]
    columns: frozenset[int]
    literals: tuple[Literal, ...]


def read_gold(query: str, schema: Schema) -> Gold:
    """Tables, columns and literals of a query; a quoted name that is no column's is a text, as SQLite takes it."""
    try:
        tree = sqlglot.parse_one(query, read="sqlite")
    except sqlglot.errors.SqlglotError as error:
        raise SqlError(f"the query cannot be read: {query!r}: {error}") from None
    names = {column.name.lower() for column in schema.columns}
    read = (table.name.lower() for table in tree.find_all(exp.Table))
    tables = frozenset(schema.table_index[name] for name in read if name in schema.table_index)
    columns: set[int] = set()
    literals = []
    for node in tree.walk():
        if isinstance(node, exp.Literal):
            literals.append(_literal(node, node.this, node.is_string, schema))
        elif isinstance(node, exp.Column):
            if node.this.args.get("quoted") and node.name.lower() not in names:
                literals.append(_literal(node, node.name, True, schema))
            elif (index := _column_of(node, schema)) is not None and not _is_in_join(node):
                columns.add(index)
    return Gold(tables, frozenset(columns), tuple(literals))


def _literal(node: exp.Expression, text: str, is_text: bool, schema: Schema) -> Literal:
    parent = node.parent
    if isinstance(parent, exp.Neg):
        text, node, parent = f"-{text}", parent, parent.parent
    if isinstance(parent, exp.Like):
        text = text.strip("%")
    sides = [parent.this, parent.args.get("expression")] if isinstance(parent, exp.Predicate) else []
    columns = [_column_of(side, schema) for side in sides if isinstance(side, exp.Column) and side is not node]
    return Literal(text, is_text, columns[0] if columns else None)


def _column_of(node: exp.Column, schema: Schema) -> int | None:
    """The schema's column, looked for in the tables of the query around it, then of the queries around that one."""
    select = node.find_ancestor(exp.Select)
    while select is not None:
        tables = dict(_tables_of(select, schema))
        found = [tables[node.table.lower()]] if node.table.lower() in tables else []
        for table in found if node.table else tables.values():
            if (table, node.name.lower()) in schema.column_index:
                return schema.column_index[table, node.name.lower()]
        select = select.find_ancestor(exp.Select)
    return None


def _tables_of(select: exp.Select, schema: Schema) -> Iterator[tuple[str, int]]:
    sources = [select.args.get("from_"), *(select.args.get("joins") or [])]
    for source in sources:
        table = source.this if source is not None else None
        if isinstance(table, exp.Table) and table.name.lower() in schema.table_index:
            yield table.alias_or_name.lower(), schema.table_index[table.name.lower()]


def _is_in_join(node: exp.Expression) -> bool:
    nearest = node.find_ancestor(exp.Join, exp.Select)
    return isinstance(nearest, exp.Join)


@dataclass
class _Rate:
    """Recall and precision of links over many questions."""

    right: int = 0
    gold: int = 0
    linked: int = 0

    def add(self, gold: frozenset[int], linked: set[int]) -> None:
        self.right += len(gold & linked)
        self.gold += len(gold)
        self.linked += len(linked)

    def summary(self) -> dict[str, float | int]:
        return {
            "recall": round(self.right / max(1, self.gold), 4),
            "precision": round(self.right / max(1, self.linked), 4),
            "gold": self.gold,
            "linked": self.linked,
        }


@dataclass
class LinkFigures:
    """Figures that grow example by example."""

    covered: list[bool] = field(default_factory=list)
    covered_but_for_case: list[bool] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    sources: dict[Source, list[int]] = field(default_factory=lambda: {source: [0, 0] for source in Source})
    rates: dict[str, _Rate] = field(default_factory=dict)

    def add(self, gold: Gold, links: Links, candidates: Sequence[Candidate]) -> list[Literal]:
        """Count one example; returns the literals that no candidate covers."""
        self._add_links(gold, links)
        self.counts.append(len(candidates))
        for candidate in candidates:
            self.sources[candidate.source][0] += 1
        missed = []
        for literal in gold.literals:
            usable = [one for one in candidates if literal.is_text or one.kind is ValueKind.NUMBER]
            used = next((one for one in usable if covers(one, literal.text)), None)
            if used is None:
                missed.append(literal)
            else:
                self.sources[used.source][1] += 1
        lowered = {candidate.text.lower() for candidate in candidates}
        self.covered.append(not missed)
        self.covered_but_for_case.append(all(literal.text.lower() in lowered for literal in missed))
        return missed

    def merge(self, other: "LinkFigures") -> None:
        """Add the figures of other examples."""
        self.covered += other.covered
        self.covered_but_for_case += other.covered_but_for_case
        self.counts += other.counts
        for source, (made, found) in other.sources.items():
            self.sources[source][0] += made
            self.sources[source][1] += found
        for name, rate in other.rates.items():
            own = self.rates.setdefault(name, _Rate())
            own.right, own.gold, own.linked = own.right + rate.right, own.gold + rate.gold, own.linked + rate.linked

    def _add_links(self, gold: Gold, links: Links) -> None:
        columns = [link for link in links.names if link.item is Item.COLUMN]
        tables = [link for link in links.names if link.item is Item.TABLE]
        strong = [link for link in links.values if link.strength >= STRONG]
        named = {link.index for link in columns}
        self._rate("tables, exact name", gold.tables, {link.index for link in tables if link.kind is MatchKind.EXACT})
        self._rate("tables, exact or partial name", gold.tables, {link.index for link in tables})
        self._rate(
            "columns, exact name", gold.columns, {link.index for link in columns if link.kind is MatchKind.EXACT}
        )
        self._rate("columns, exact or partial name", gold.columns, named)
        self._rate("columns, name or value", gold.columns, named | {link.column for link in strong})
        compared = frozenset(literal.column for literal in gold.literals if literal.column is not None)
        self._rate("compared columns, value", compared, {link.column for link in strong})
        for how in ValueMatch:
            found = {link.column for link in strong if link.how is how}
            self._rate(f"compared columns, value by {how}", compared, found)

    def _rate(self, name: str, gold: frozenset[int], linked: set[int]) -> None:
        self.rates.setdefault(name, _Rate()).add(gold, linked)

    def summary(self) -> dict[str, Any]:
        """Everything as plain data; of sources, candidates made per question and literals found."""
        questions = len(self.counts)
        if not questions:
            return {"questions": 0}
        return {
            "questions": questions,
            "queries with every literal a candidate": round(sum(self.covered) / questions, 4),
            "the same but for case": round(sum(self.covered_but_for_case) / questions, 4),
            "candidates": {
                "median": statistics.median(self.counts),
                "mean": round(statistics.mean(self.counts), 2),
                "most": max(self.counts),
            },
            "sources": {
                source.value: {"per question": round(made / questions, 3), "literals found": found}
                for source, (made, found) in self.sources.items()
            },
            "links": {name: rate.summary() for name, rate in self.rates.items()},
        }
