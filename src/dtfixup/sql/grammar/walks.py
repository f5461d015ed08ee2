"""Random legal derivations.

In: a schema. Out: trees made of legal actions only. They test the promise of constrained decoding: whatever a search
chooses, it ends within the step limit in SQL that a database accepts.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.rules import Choice, ColumnKind, ValueKind, kind_index
from dtfixup.sql.grammar.transitions import STEP_LIMIT, ApplyRule, Masks, SelectColumn, SelectValue, Walk, column_kinds
from dtfixup.sql.grammar.tree import Literal, Node

LITERALS = (
    Literal("1", ValueKind.NUMBER),
    Literal("-2.5", ValueKind.NUMBER),
    Literal('O\'Brien -- "x"', ValueKind.TEXT),
    Literal("2010-01-31", ValueKind.TIME),
)


def legal_walk(
    masks: Masks,
    choose: Callable[[Sequence[int]], int],
    literals: Sequence[Literal] = LITERALS,
    limit: int = STEP_LIMIT,
) -> Walk:
    """A finished derivation whose actions `choose` picks among the legal ones."""
    kinds_V = np.array([kind_index(literal.kind, literal.text) for literal in literals])
    walk = Walk(masks.grammar)
    while not walk.finished:
        state_B = np.array([walk.state])
        match masks.grammar.states[walk.state].choice:
            case Choice.RULE:
                room_B = np.array([masks.room(len(walk.actions), walk.pending, limit)])
                walk.take(ApplyRule(choose(masks.rules(state_B, room_B)[0].nonzero()[0].tolist())))
            case Choice.COLUMN:
                walk.take(SelectColumn(choose(masks.columns(state_B)[0].nonzero()[0].tolist())))
            case Choice.VALUE:
                walk.take(SelectValue(literals[choose(masks.values(state_B, kinds_V)[0].nonzero()[0].tolist())]))
    return walk


def random_trees(schema: Schema, seed: int, kinds: Sequence[ColumnKind] | None = None) -> Iterator[Node]:
    """An endless stream of trees; every action is drawn evenly from the legal ones."""
    random = np.random.default_rng(seed)
    masks = Masks(column_kinds(schema) if kinds is None else kinds)
    while True:
        yield legal_walk(masks, lambda options: int(random.choice(options))).tree()
