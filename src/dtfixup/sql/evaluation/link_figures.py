"""How good links and literal candidates are, measured against gold queries.

In: examples with their links and candidates. Out: `LinkFigures.summary()`, plain data: the share of queries whose
literals are all candidates, and recall and precision of links for the columns and tables of the gold queries.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence, Set
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
class GoldLiteral:
    """A literal of a gold query; a LIKE pattern without its outer %. `column` is what it is compared with."""

    text: str
    is_text: bool
    column: int | None


@dataclass(frozen=True, slots=True)
class GoldQuery:
    """The tables, the columns outside join conditions, and the literals of a gold query."""

    tables: frozenset[int]
    columns: frozenset[int]
    literals: tuple[GoldLiteral, ...]


def read_gold(query: str, schema: Schema) -> GoldQuery:
    """Read a gold query. A quoted name that no column has is a text, as in SQLite."""
    try:
        tree = sqlglot.parse_one(query, read="sqlite")
    except sqlglot.errors.SqlglotError as error:
        raise SqlError(f"the query cannot be read: {query!r}: {error}") from None
    column_names = {column.name.lower() for column in schema.columns}
    table_names = {table.name.lower() for table in tree.find_all(exp.Table)}
    tables = frozenset(schema.table_index[name] for name in table_names & schema.table_index.keys())
    columns: set[int] = set()
    literals = []
    for node in tree.walk():
        if isinstance(node, exp.Literal):
            literals.append(_literal(node, node.this, node.is_string, schema))
        elif isinstance(node, exp.Column):
            if node.this.args.get("quoted") and node.name.lower() not in column_names:
                literals.append(_literal(node, node.name, True, schema))
            elif (index := _column_of(node, schema)) is not None and not _is_in_join(node):
                columns.add(index)
    return GoldQuery(tables, frozenset(columns), tuple(literals))


def _literal(node: exp.Expression, text: str, is_text: bool, schema: Schema) -> GoldLiteral:
    parent = node.parent
    if isinstance(parent, exp.Neg):
        text, node, parent = f"-{text}", parent, parent.parent
    if isinstance(parent, exp.Like):
        text = text.strip("%")
    sides = [parent.this, parent.args.get("expression")] if isinstance(parent, exp.Predicate) else []
    columns = [_column_of(side, schema) for side in sides if isinstance(side, exp.Column) and side is not node]
    return GoldLiteral(text, is_text, columns[0] if columns else None)


def _column_of(node: exp.Column, schema: Schema) -> int | None:
    """The schema's column, in a table of the innermost query around it that has one."""
    select = node.find_ancestor(exp.Select)
    while select is not None:
        for alias, table in _tables_of(select, schema).items():
            column = schema.column_index.get((table, node.name.lower()))
            if column is not None and node.table.lower() in ("", alias):
                return column
        select = select.find_ancestor(exp.Select)
    return None


def _tables_of(select: exp.Select, schema: Schema) -> dict[str, int]:
    """The tables of a FROM clause by alias."""
    sources = [select.args.get("from_"), *(select.args.get("joins") or [])]
    tables = [source.this for source in sources if source is not None and isinstance(source.this, exp.Table)]
    return {
        table.alias_or_name.lower(): schema.table_index[table.name.lower()]
        for table in tables
        if table.name.lower() in schema.table_index
    }


def _is_in_join(node: exp.Expression) -> bool:
    return isinstance(node.find_ancestor(exp.Join, exp.Select), exp.Join)


@dataclass
class LinkFigures:
    """Figures that grow example by example."""

    covered: list[bool] = field(default_factory=list)
    covered_but_for_case: list[bool] = field(default_factory=list)
    candidates: list[int] = field(default_factory=list)
    made: Counter[Source] = field(default_factory=Counter)
    """Candidates of each source."""
    used: Counter[Source] = field(default_factory=Counter)
    """Literals of gold queries that a candidate of each source covers."""
    links: Counter[tuple[str, str]] = field(default_factory=Counter)
    """For each kind of link how many are `gold`, `linked`, and `right`, which is both."""

    def add(self, gold: GoldQuery, links: Links, candidates: Sequence[Candidate]) -> list[GoldLiteral]:
        """Count one example; returns the literals that no candidate covers."""
        missed = []
        for literal in gold.literals:
            usable = [one for one in candidates if literal.is_text or one.kind is ValueKind.NUMBER]
            used = next((one for one in usable if covers(one, literal.text)), None)
            if used is None:
                missed.append(literal)
            else:
                self.used[used.source] += 1
        lowered = {candidate.text.lower() for candidate in candidates}
        self.covered.append(not missed)
        self.covered_but_for_case.append(all(literal.text.lower() in lowered for literal in missed))
        self.candidates.append(len(candidates))
        self.made.update(candidate.source for candidate in candidates)
        for name, (wanted, linked) in _linked(gold, links).items():
            counts = {"right": len(wanted & linked), "gold": len(wanted), "linked": len(linked)}
            self.links.update({(name, what): count for what, count in counts.items()})
        return missed

    def merge(self, other: "LinkFigures") -> None:
        """Add the figures of other examples."""
        self.covered += other.covered
        self.covered_but_for_case += other.covered_but_for_case
        self.candidates += other.candidates
        for own, more in ((self.made, other.made), (self.used, other.used)):
            own.update(more)
        self.links.update(other.links)

    def summary(self) -> dict[str, Any]:
        """Everything as plain data; for each source, the candidates per question and the literals that they cover."""
        questions = len(self.candidates)
        if not questions:
            return {"questions": 0}
        return {
            "questions": questions,
            "queries with every literal a candidate": round(sum(self.covered) / questions, 4),
            "the same but for case": round(sum(self.covered_but_for_case) / questions, 4),
            "candidates": {
                "median": statistics.median(self.candidates),
                "mean": round(statistics.mean(self.candidates), 2),
                "most": max(self.candidates),
            },
            "sources": {
                source.value: {
                    "per question": round(self.made[source] / questions, 3),
                    "literals found": self.used[source],
                }
                for source in Source
            },
            "links": {name: self._rates(name) for name, _ in self.links},
        }

    def _rates(self, name: str) -> dict[str, float]:
        right, gold, linked = (self.links[name, what] for what in ("right", "gold", "linked"))
        return {
            "recall": round(right / max(1, gold), 4),
            "precision": round(right / max(1, linked), 4),
            "gold": gold,
            "linked": linked,
        }


def _linked(gold: GoldQuery, links: Links) -> Mapping[str, tuple[Set[int], Set[int]]]:
    """For each kind of link, the tables or columns that the gold query has and those that are linked."""
    columns = [link for link in links.names if link.item is Item.COLUMN]
    tables = [link for link in links.names if link.item is Item.TABLE]
    strong = [link for link in links.values if link.strength >= STRONG]
    named, valued = {link.index for link in columns}, {link.column for link in strong}
    compared = {literal.column for literal in gold.literals if literal.column is not None}
    return {
        "tables, exact name": (gold.tables, {link.index for link in tables if link.kind is MatchKind.EXACT}),
        "tables, exact or partial name": (gold.tables, {link.index for link in tables}),
        "columns, exact name": (gold.columns, {link.index for link in columns if link.kind is MatchKind.EXACT}),
        "columns, exact or partial name": (gold.columns, named),
        "columns, name or value": (gold.columns, named | valued),
        "compared columns, value": (compared, valued),
    } | {
        f"compared columns, value by {how}": (compared, {link.column for link in strong if link.how is how})
        for how in ValueMatch
    }
