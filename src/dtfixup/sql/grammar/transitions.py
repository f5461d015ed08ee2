"""Trees to actions and back, and which actions are legal next.

In: a tree of the grammar. Out: the actions that build it top-down and left to right, each with its state and the step
that opened that state; and the tree again. `Masks` gives the legal next actions of a batch of states by one gather. An
action is legal only if the query can still be finished within the step limit.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.rules import REDUCE, Choice, ColumnKind, Grammar, kind_index, sql_grammar
from dtfixup.sql.grammar.tree import Child, Literal, Node

STEP_LIMIT = 100
"""The longest derivation a search or a random walk may take; Spider's longest gold query needs 58."""


@dataclass(frozen=True, slots=True)
class ApplyRule:
    """Expand a state by a rule; rule 0 is Reduce, which leaves an optional child out."""

    rule: int


@dataclass(frozen=True, slots=True)
class SelectColumn:
    """Choose a column of the schema."""

    column: int


@dataclass(frozen=True, slots=True)
class SelectValue:
    """Choose a literal."""

    literal: Literal


Action = ApplyRule | SelectColumn | SelectValue


@dataclass(frozen=True, slots=True)
class Step:
    """An action with its state and the step that opened that state, -1 at the root."""

    action: Action
    state: int
    parent: int


def steps_of(tree: Node, grammar: Grammar | None = None) -> tuple[Step, ...]:
    """The derivation of a tree, with every step checked against the grammar."""
    grammar = grammar or sql_grammar()
    steps: list[Step] = []
    stack: list[tuple[Child, int, int]] = [(tree, grammar.start, -1)]
    while stack:
        child, state, parent = stack.pop()
        action = _action_of(child, grammar)
        _check(action, state, grammar)
        steps.append(Step(action, state, parent))
        if isinstance(child, Node):
            opened = grammar.children(state, grammar.rule_index[child.rule])
            if len(opened) != len(child.children):
                raise SqlError(f"{child.rule} has {len(child.children)} children; the grammar gives it {len(opened)}")
            index = len(steps) - 1
            stack += [(below, opening, index) for below, opening in zip(child.children, opened, strict=True)][::-1]
    return tuple(steps)


def tree_of(actions: Iterable[Action], grammar: Grammar | None = None) -> Node:
    """The tree that a complete derivation builds."""
    walk = Walk(grammar)
    for action in actions:
        walk.take(action)
    return walk.tree()


def _action_of(child: Child, grammar: Grammar) -> Action:
    match child:
        case None:
            return ApplyRule(REDUCE)
        case Node(rule):
            if rule not in grammar.rule_index:
                raise SqlError(f"the grammar has no rule {rule!r}")
            return ApplyRule(grammar.rule_index[rule])
        case Literal():
            return SelectValue(child)
        case _:
            return SelectColumn(child)


def _check(action: Action, state: int, grammar: Grammar) -> None:
    """Raise if an action does not fit a state; kinds of columns are not checked."""
    choice = grammar.states[state].choice
    match action:
        case ApplyRule(rule) if choice is Choice.RULE and grammar.rules_SR[state, rule]:
            return
        case SelectColumn() if choice is Choice.COLUMN:
            return
        case SelectValue(literal) if (
            choice is Choice.VALUE and grammar.values_SK[state, kind_index(literal.kind, literal.text)]
        ):
            return
    name = grammar.rules[action.rule] if isinstance(action, ApplyRule) else str(action)
    raise SqlError(f"{name} is not legal in {grammar.states[state]}")


class Walk:
    """A derivation in progress: its open states and the actions taken."""

    def __init__(self, grammar: Grammar | None = None) -> None:
        self.grammar = grammar or sql_grammar()
        self.actions: list[Action] = []
        self._open: list[int] = [self.grammar.start]

    @property
    def finished(self) -> bool:
        return not self._open

    @property
    def state(self) -> int:
        """The state that the next action expands."""
        return self._open[-1]

    @property
    def pending(self) -> tuple[int, ...]:
        """All open states, the next one last."""
        return tuple(self._open)

    def take(self, action: Action) -> None:
        """Take one action."""
        if not self._open:
            raise SqlError("the query is complete; no action can follow")
        _check(action, self.state, self.grammar)
        state = self._open.pop()
        self.actions.append(action)
        if isinstance(action, ApplyRule):
            self._open += reversed(self.grammar.children(state, action.rule))

    def tree(self) -> Node:
        """The tree of a finished walk."""
        if self._open:
            raise SqlError(f"the query is not complete: {self.grammar.states[self.state]} is open")
        tree = self._build(iter(self.actions))
        assert isinstance(tree, Node)  # the start is not optional
        return tree

    def _build(self, actions: Iterator[Action]) -> Child:
        """The subtree that the next actions build."""
        match next(actions):
            case SelectColumn(column):
                return column
            case SelectValue(literal):
                return literal
            case ApplyRule(rule):
                children = tuple(self._build(actions) for _ in range(self.grammar.child_counts[rule]))
                return None if rule == REDUCE else Node(self.grammar.rules[rule], children)


class Masks:
    """Legal next actions over one schema, for batches of states. Axes: B states, R rules, C columns."""

    def __init__(self, column_kinds: Sequence[ColumnKind], grammar: Grammar | None = None) -> None:
        self.grammar = grammar or sql_grammar()
        self.kinds_C = np.array(column_kinds, np.int8)
        present = np.zeros(len(ColumnKind), bool)
        present[self.kinds_C] = True
        self.cost_S, self.after_SR = self.grammar.costs(present)

    def room(self, taken: int, pending: Sequence[int], limit: int = STEP_LIMIT) -> int:
        """How many actions may follow the next one, so that the other open states can be finished in time."""
        return limit - taken - 1 - int(self.cost_S[list(pending[:-1])].sum())

    def rules(self, states_B: NDArray[np.integer], room_B: NDArray[np.integer]) -> NDArray[np.bool_]:
        """[B, R]: legal rules, `REDUCE` included."""
        return self.after_SR[states_B] <= room_B[:, None]

    def columns(self, states_B: NDArray[np.integer]) -> NDArray[np.bool_]:
        """[B, C]: legal columns."""
        return self.grammar.columns_SK[states_B][:, self.kinds_C]

    def values(self, states_B: NDArray[np.integer], kinds_V: NDArray[np.integer]) -> NDArray[np.bool_]:
        """[B, V]: legal candidates, by `kind_index`."""
        return self.grammar.values_SK[states_B][:, kinds_V]


def first_illegal(steps: Sequence[Step], masks: Masks, limit: int = STEP_LIMIT) -> int | None:
    """The first step of a derivation that the masks forbid, or None."""
    walk = Walk(masks.grammar)
    for index, step in enumerate(steps):
        state = np.array([walk.state])
        match step.action:
            case ApplyRule(rule):
                is_legal = masks.rules(state, np.array([masks.room(index, walk.pending, limit)]))[0, rule]
            case SelectColumn(column):
                is_legal = masks.columns(state)[0, column]
            case SelectValue(literal):
                is_legal = masks.values(state, np.array([kind_index(literal.kind, literal.text)]))[0, 0]
        if not is_legal:
            return index
        walk.take(step.action)
    return None


def column_kinds(schema: Schema, words: Iterable[int] = ()) -> tuple[ColumnKind, ...]:
    """The kinds of a schema's columns; `words` are text columns whose stored values are not numbers."""
    kinds = [ColumnKind[column.type.name] for column in schema.columns]
    for column in words:
        kinds[column] = ColumnKind.WORDS
    return tuple(kinds)
