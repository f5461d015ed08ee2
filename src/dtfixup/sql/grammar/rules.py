"""The grammar of queries, read from `grammar.txt` into tables.

In: the text of the grammar. Out: `Grammar`: its rules, its states, and for each state the rules, kinds of columns and
kinds of values that are legal next, as boolean tables. A state is a symbol with its attributes and whether it may be
left out, so one gather gives the masks of a batch of states.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property, lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from dtfixup.errors import ConfigError

REDUCE = 0
"""The first rule of every grammar: an optional child is left out."""


class Choice(IntEnum):
    """What an action chooses in a state."""

    RULE = 0
    COLUMN = 1
    VALUE = 2


class ColumnKind(IntEnum):
    """The kinds of columns in the grammar; `WORDS` is text whose stored values are not numbers."""

    STAR = 0
    NUMBER = 1
    TEXT = 2
    WORDS = 3
    TIME = 4
    BOOLEAN = 5
    OTHERS = 6


class ValueKind(StrEnum):
    """The kinds of literals."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    COUNT = "count"
    """A whole number that is not negative; `kind_index` recognises it."""


VALUE_KINDS = tuple(ValueKind)


def kind_index(kind: ValueKind, text: str) -> int:
    """The index of a literal's kind in `VALUE_KINDS`; whole numbers that are not negative are `COUNT`."""
    is_count = kind is ValueKind.NUMBER and text.isascii() and text.isdigit()
    return VALUE_KINDS.index(ValueKind.COUNT if is_count else kind)


@dataclass(frozen=True, slots=True)
class State:
    """An open position in a tree: its symbol, and whether it may be left out."""

    symbol: str
    optional: bool
    choice: Choice

    @property
    def field(self) -> str:
        """The symbol without its attributes: the type of the frontier field."""
        return self.symbol.partition("[")[0]

    def __str__(self) -> str:
        return f"{self.symbol}?" if self.optional else self.symbol


@dataclass(frozen=True)
class Grammar:
    """Axes: S states, R rules, C children of a rule, K kinds."""

    rules: tuple[str, ...]
    states: tuple[State, ...]
    start: int
    rules_SR: NDArray[np.bool_]
    """Which rules are legal in a state; `REDUCE` if it may be left out."""
    columns_SK: NDArray[np.bool_]
    """Which kinds of columns are legal, by `ColumnKind`."""
    values_SK: NDArray[np.bool_]
    """Which kinds of values are legal, in the order of `VALUE_KINDS`."""
    children_SRC: NDArray[np.int16]
    """The states that a rule opens in a state, first to last; -1 pads."""

    @cached_property
    def rule_index(self) -> dict[str, int]:
        return {rule: index for index, rule in enumerate(self.rules)}

    @cached_property
    def choice_S(self) -> NDArray[np.int8]:
        return np.array([state.choice for state in self.states], np.int8)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The types of frontier fields: symbols without attributes, in order of first use."""
        return tuple(dict.fromkeys(state.field for state in self.states))

    @cached_property
    def field_S(self) -> NDArray[np.int16]:
        index = {field: position for position, field in enumerate(self.fields)}
        return np.array([index[state.field] for state in self.states], np.int16)

    @cached_property
    def child_counts(self) -> tuple[int, ...]:
        """The number of children of each rule, which is the same in every state."""
        return tuple(int((self.children_SRC[:, rule] >= 0).sum(-1).max()) for rule in range(len(self.rules)))

    def children(self, state: int, rule: int) -> tuple[int, ...]:
        """The states that `rule` opens in `state`."""
        return tuple(int(child) for child in self.children_SRC[state, rule] if child >= 0)

    def costs(self, kinds: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The fewest actions that finish a state, and that follow a rule in a state; `UNREACHABLE` if none can.

        `kinds` marks the `ColumnKind`s of the schema: without columns to add up, `Sum` cannot be finished.
        """
        present = np.ones(len(ColumnKind), bool) if kinds is None else kinds
        cost_S = np.full(len(self.states), UNREACHABLE, np.int32)
        leaf = (self.choice_S == Choice.VALUE) | (
            (self.choice_S == Choice.COLUMN) & (self.columns_SK & present).any(-1)
        )
        cost_S[leaf] = 1
        while True:
            padded = np.append(cost_S, 0)  # index -1 is padding and costs nothing
            after_SR = np.minimum(padded[self.children_SRC].sum(-1), UNREACHABLE).astype(np.int32)
            after_SR[~self.rules_SR] = UNREACHABLE
            ruled = np.minimum(after_SR.min(-1) + 1, UNREACHABLE)
            new_S = np.where(self.choice_S == Choice.RULE, ruled, cost_S).astype(np.int32)
            if (new_S == cost_S).all():
                return cost_S, after_SR
            cost_S = new_S


UNREACHABLE = 10_000

_ALTERNATIVE = re.compile(r"(\w+)\((.*)\)$")
_HEADER = re.compile(r"(\w+)(?:\[([\w,]+)\])?:\s*(.*)$")


@lru_cache(maxsize=1)
def sql_grammar() -> Grammar:
    """The bundled grammar of queries, read once."""
    return read_grammar((files("dtfixup.sql.grammar") / "grammar.txt").read_text(encoding="utf-8"))


def read_grammar(text: str) -> Grammar:
    """Read a grammar in the form that the head of `grammar.txt` describes."""
    attributes: dict[str, list[str]] = {}
    symbols: dict[str, dict[str, list[str]]] = {}
    accepts: dict[str, list[str]] = {}
    start = ""
    open_symbols: list[tuple[str, dict[str, str]]] = []
    for number, line in _lines(text):
        if line.startswith("attribute "):
            name, _, values = line.removeprefix("attribute ").partition("=")
            attributes[name.strip()] = values.split()
        elif line.startswith("start "):
            start = line.removeprefix("start ").strip()
        elif line.startswith("accept "):
            symbol, _, kinds = line.removeprefix("accept ").partition(":")
            accepts[symbol.strip()] = kinds.split()
        elif header := _HEADER.match(line):
            open_symbols = _instances(header[1], header[2], attributes)
            if header[3]:
                _add(symbols, open_symbols, header[3], number)
        else:
            _add(symbols, open_symbols, line.strip(), number)
    return _tables(symbols, accepts, start)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.partition("#")[0].rstrip()
        if stripped:
            yield number, stripped


def _instances(name: str, bracket: str | None, attributes: Mapping[str, list[str]]) -> list[tuple[str, dict[str, str]]]:
    """Pairs of a header: a symbol with its attribute value, and the value that the attribute's name stands for."""
    if bracket is None:
        return [(name, {})]
    if bracket in attributes:
        return [(f"{name}[{value}]", {bracket: value}) for value in attributes[bracket]]
    return [(f"{name}[{value}]", {}) for value in bracket.split(",")]


def _add(
    symbols: dict[str, dict[str, list[str]]], targets: list[tuple[str, dict[str, str]]], text: str, number: int
) -> None:
    """Add one alternative to every instance of the open symbol."""
    if not targets:
        raise ConfigError(f"grammar line {number}: an alternative before any symbol: {text!r}")
    for symbol, bindings in targets:
        own = symbols.setdefault(symbol, {})
        bound = text
        for name, value in bindings.items():
            bound = bound.replace(f"[{name}]", f"[{value}]")
        if bound.startswith("like "):
            source, _, without = bound.removeprefix("like ").partition(" without ")
            if source not in symbols:
                raise ConfigError(f"grammar line {number}: {source!r} is not defined above")
            if without.strip() and without.strip() not in symbols[source]:
                raise ConfigError(f"grammar line {number}: {source} offers no {without.strip()} to leave out")
            taken = {rule: children for rule, children in symbols[source].items() if rule != without.strip()}
            twice = sorted(set(taken) & set(own))
            if twice:
                raise ConfigError(f"grammar line {number}: {symbol} offers {twice[0]} twice")
            own.update(taken)
        elif match := _ALTERNATIVE.match(bound):
            if match[1] in own:
                raise ConfigError(f"grammar line {number}: {symbol} offers {match[1]} twice")
            own[match[1]] = [child.strip() for child in match[2].split(",") if child.strip()]
        else:
            raise ConfigError(f"grammar line {number}: expected Rule(child, ...), got {text!r}")


def _tables(symbols: Mapping[str, Mapping[str, list[str]]], accepts: Mapping[str, list[str]], start: str) -> Grammar:
    """Number the states in the order they are reached from `start`, and fill the tables."""
    if not start:
        raise ConfigError("the grammar has no line `start symbol`")
    order = [start]
    for name in order:  # grows while it is walked
        symbol = name.removesuffix("?")
        if symbol not in symbols and symbol not in accepts:
            raise ConfigError(f"the grammar uses {symbol!r} and does not define it")
        reached = (child for children in symbols.get(symbol, {}).values() for child in children)
        order += [child for child in dict.fromkeys(reached) if child not in order]
    unused = (set(symbols) | set(accepts)) - {name.removesuffix("?") for name in order}
    if unused:
        raise ConfigError(f"the grammar defines and never uses {', '.join(sorted(unused))}")
    state_index = {name: index for index, name in enumerate(order)}
    rules = ["Reduce", *dict.fromkeys(rule for alternatives in symbols.values() for rule in alternatives)]
    rule_index = {rule: index for index, rule in enumerate(rules)}
    sizes: dict[str, int] = {}
    width = max(len(children) for alternatives in symbols.values() for children in alternatives.values())

    states = []
    rules_SR = np.zeros((len(order), len(rules)), bool)
    columns_SK = np.zeros((len(order), len(ColumnKind)), bool)
    values_SK = np.zeros((len(order), len(VALUE_KINDS)), bool)
    children_SRC = np.full((len(order), len(rules), width), -1, np.int16)
    for state, name in enumerate(order):
        symbol, optional = name.removesuffix("?"), name.endswith("?")
        field = symbol.partition("[")[0]
        choice = {"column": Choice.COLUMN, "value": Choice.VALUE}.get(field, Choice.RULE)
        states.append(State(symbol, optional, choice))
        rules_SR[state, REDUCE] = optional
        for kind in accepts.get(symbol, []):
            kinds = {kind.name.lower() for kind in ColumnKind} if choice is Choice.COLUMN else set(VALUE_KINDS)
            if kind not in kinds:
                raise ConfigError(
                    f"the grammar accepts kind {kind!r} in {symbol}; known are {', '.join(sorted(kinds))}"
                )
            if choice is Choice.COLUMN:
                columns_SK[state, ColumnKind[kind.upper()]] = True
            else:
                values_SK[state, VALUE_KINDS.index(ValueKind(kind))] = True
        for rule, children in symbols.get(symbol, {}).items():
            if sizes.setdefault(rule, len(children)) != len(children):
                raise ConfigError(f"the grammar gives {rule} {sizes[rule]} children and {len(children)}")
            rules_SR[state, rule_index[rule]] = True
            children_SRC[state, rule_index[rule], : len(children)] = [state_index[child] for child in children]
    return Grammar(tuple(rules), tuple(states), 0, rules_SR, columns_SK, values_SK, children_SRC)
