"""Random legal derivations: what the grammar can say, whoever says it.

In: a schema. Out: trees made of legal actions only. They test the claim behind constrained decoding: whatever a search
chooses, it ends within the step limit in SQL that a database accepts.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dtfixup.sql.grammar import VALUE_KINDS, Choice, ColumnKind, ValueKind
from dtfixup.sql.schema import Schema
from dtfixup.sql.transitions import STEP_LIMIT, ApplyRule, Masks, SelectColumn, SelectValue, Walk, column_kinds
from dtfixup.sql.tree import Literal, Node

LITERALS = (
    Literal("1", ValueKind.NUMBER),
    Literal("-2.5", ValueKind.NUMBER),
    Literal('O\'Brien -- "x"', ValueKind.TEXT),
    Literal("2010-01-31", ValueKind.TIME),
)


def random_trees(
    schema: Schema,
    seed: int,
    kinds: Sequence[ColumnKind] | None = None,
    literals: Sequence[Literal] = LITERALS,
    limit: int = STEP_LIMIT,
) -> Iterator[Node]:
    """Trees without end, every action drawn evenly from the legal ones."""
    random = np.random.default_rng(seed)
    masks = Masks(column_kinds(schema) if kinds is None else kinds)
    value_kinds = np.array([VALUE_KINDS.index(literal.kind) for literal in literals])
    while True:
        walk = Walk(masks.grammar)
        while not walk.finished:
            state = np.array([walk.state])
            match masks.grammar.states[walk.state].choice:
                case Choice.RULE:
                    room = np.array([masks.room(len(walk.actions), walk.pending, limit)])
                    walk.take(ApplyRule(int(random.choice(masks.rules(state, room)[0].nonzero()[0]))))
                case Choice.COLUMN:
                    walk.take(SelectColumn(int(random.choice(masks.columns(state)[0].nonzero()[0]))))
                case Choice.VALUE:
                    chosen = int(random.choice(masks.values(state, value_kinds)[0].nonzero()[0]))
                    walk.take(SelectValue(literals[chosen]))
        yield walk.tree()
