"""The shortest `source` from which `joins.py` rebuilds a given FROM clause.

In: the tables and conditions of a written query. Out: a `source` node, or None if the clause is inferred without one.
"""

from collections.abc import Iterator, Sequence

from dtfixup.errors import SqlError
from dtfixup.sql.grammar.joins import Condition, Join, Joiner
from dtfixup.sql.grammar.tree import Node, Occurrence, Reference, refer


def find_source(joiner: Joiner, wanted: Sequence[Join], needed: Sequence[Occurrence], *, ordered: bool) -> Node | None:
    """A `source` that builds the wanted clause and has no part that could be left out.

    With `ordered`, tables and conditions must come in the same order.
    """

    def suffices(hints: Sequence[Node]) -> bool:
        return _same(joiner.build(needed, _chain(hints)), wanted, ordered=ordered)

    hints = next((list(proposal) for proposal in _proposals(joiner, wanted, needed) if suffices(proposal)), None)
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
    yield []
    stars = joiner.schema.stars
    unnamed = [join for join in wanted if (join.table, join.occurrence) not in needed]
    yield from ([Node("Through", (stars[join.table],))] for join in unnamed)
    if len(unnamed) > 1:
        yield [Node("Through", (stars[join.table],)) for join in unnamed]
    yield [Node("Through", (stars[join.table],)) for join in wanted]
    conditions = [condition for join in wanted for condition in join.conditions]
    inferred = {_unordered(condition) for join in joiner.build(needed) for condition in join.conditions}
    special = [condition for condition in conditions if _unordered(condition) not in inferred]
    if special:
        yield [hint for condition in special for hint in _on(condition)]
    all_conditions = [hint for condition in conditions for hint in _on(condition)]
    first = [Node("Through", (stars[wanted[0].table],))]
    yield all_conditions
    yield first + all_conditions
    touched = {
        (joiner.schema.columns[column].table, which) for group in conditions for pair in group for column, which in pair
    }
    loose = [Node("Beside", (stars[join.table],)) for join in wanted if (join.table, join.occurrence) not in touched]
    yield all_conditions + loose
    yield [Node("Beside", (stars[join.table],)) for join in wanted] + all_conditions


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
    tables = [(join.table, join.occurrence) for join in built]
    if ordered:
        return tables == [(join.table, join.occurrence) for join in wanted] and (_written(built) == _written(wanted))
    if sorted(tables) != sorted((join.table, join.occurrence) for join in wanted):
        return False
    return {_unordered(c) for join in built for c in join.conditions} == {
        _unordered(c) for join in wanted for c in join.conditions
    }


def _unordered(condition: Condition) -> frozenset[frozenset[Reference]]:
    return frozenset(frozenset(pair) for pair in condition)


def _written(joins: Sequence[Join]) -> list[Condition]:
    """Conditions in the order of the text: Spider's evaluator compares those of nested queries literally."""
    return [condition for join in joins for condition in join.conditions]
