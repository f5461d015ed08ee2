"""The shortest `source` from which `joins.py` rebuilds a given FROM clause.

In: the tables and conditions of a written query. Out: a `source` node, or None if the clause is inferred without one.
"""

from collections.abc import Iterator, Sequence

from dtfixup.errors import SqlError
from dtfixup.sql.grammar.joins import Condition, Join, Joiner
from dtfixup.sql.grammar.tree import Node, Occurrence, Reference, refer

_TABLE_RULES = ("Through", "Beside")


def find_source(joiner: Joiner, wanted: Sequence[Join], needed: Sequence[Occurrence], *, ordered: bool) -> Node | None:
    """A `source` that builds the wanted clause and has no part that could be left out.

    With `ordered`, tables and conditions must come in the same order.
    """

    def suffices(hints: Sequence[Node]) -> bool:
        return _same(joiner.build(needed, _chain(hints)), wanted, ordered=ordered)

    hints = next(filter(suffices, _proposals(joiner, wanted, needed)), None)
    if hints is None:
        raise SqlError("the FROM clause is not in the grammar")
    for position in reversed(range(len(hints))):
        fewer = hints[:position] + hints[position + 1 :]
        if suffices(fewer):
            hints = fewer
    return _chain(hints)


def infers(joiner: Joiner, wanted: Sequence[Join], needed: Sequence[Occurrence], *, ordered: bool) -> bool:
    """Whether the wanted clause is inferred without a `source`."""
    return _same(joiner.build(needed), wanted, ordered=ordered)


def _proposals(joiner: Joiner, wanted: Sequence[Join], needed: Sequence[Occurrence]) -> Iterator[list[Node]]:
    """Hints for a FROM clause, from none to all."""
    through, beside = ([Node(rule, (joiner.schema.stars[join.table],)) for join in wanted] for rule in _TABLE_RULES)
    yield []
    unnamed = [hint for hint, join in zip(through, wanted, strict=True) if (join.table, join.occurrence) not in needed]
    yield from ([hint] for hint in unnamed)
    yield unnamed
    yield through
    conditions = [condition for join in wanted for condition in join.conditions]
    inferred = {_unordered(condition) for join in joiner.build(needed) for condition in join.conditions}
    yield [hint for condition in conditions if _unordered(condition) not in inferred for hint in _on(condition)]
    on = [hint for condition in conditions for hint in _on(condition)]
    yield on
    yield [*through[:1], *on]
    columns = {reference for condition in conditions for pair in condition for reference in pair}
    joined = {(joiner.schema.columns[column].table, which) for column, which in columns}
    yield on + [hint for hint, join in zip(beside, wanted, strict=True) if (join.table, join.occurrence) not in joined]
    yield beside + on


def _on(condition: Condition) -> list[Node]:
    return [
        Node("On" if position == 0 else "OrOn", (refer(left), refer(right)))
        for position, (left, right) in enumerate(condition)
    ]


def _chain(hints: Sequence[Node]) -> Node | None:
    source: Node | None = None
    for hint in reversed(hints):
        source = Node(hint.rule, (*hint.children, source))
    return source


def _same(built: Sequence[Join], wanted: Sequence[Join], *, ordered: bool) -> bool:
    """Whether two clauses are alike. Spider's evaluator compares conditions of nested queries in order, literally."""
    tables, wanted_tables = ([(join.table, join.occurrence) for join in joins] for joins in (built, wanted))
    conditions, wanted_conditions = ([c for join in joins for c in join.conditions] for joins in (built, wanted))
    if ordered:
        return tables == wanted_tables and conditions == wanted_conditions
    return sorted(tables) == sorted(wanted_tables) and (
        {_unordered(c) for c in conditions} == {_unordered(c) for c in wanted_conditions}
    )


def _unordered(condition: Condition) -> frozenset[frozenset[Reference]]:
    return frozenset(frozenset(pair) for pair in condition)
