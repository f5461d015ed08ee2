"""The grammar of queries, read from `grammar.txt` into tables.

In: the text of the grammar. Out: a `Grammar` with its rules and states, and boolean tables of the rules, kinds of
columns and kinds of values that are legal in each state. A state is a symbol with its attributes, and whether it may
be left out, so one gather gives the masks of a batch of states.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cache, cached_property
from importlib.resources import files
from typing import TypeAlias

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

    @property
    def field(self) -> str:
        """The symbol without its attributes: the type of the frontier field."""
        return self.symbol.partition("[")[0]

    @property
    def choice(self) -> Choice:
        return {"column": Choice.COLUMN, "value": Choice.VALUE}.get(self.field, Choice.RULE)

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
    def field_S(self) -> NDArray[np.int16]:
        """The types of the states' frontier fields, numbered in order of first use."""
        fields = list(dict.fromkeys(state.field for state in self.states))
        return np.array([fields.index(state.field) for state in self.states], np.int16)

    @cached_property
    def child_counts(self) -> tuple[int, ...]:
        """The number of children of each rule, which is the same in every state."""
        return tuple(int((self.children_SRC[:, rule] >= 0).sum(-1).max()) for rule in range(len(self.rules)))

    def children(self, state: int, rule: int) -> tuple[int, ...]:
        """The states that `rule` opens in `state`."""
        return tuple(int(child) for child in self.children_SRC[state, rule] if child >= 0)

    def costs(self, kinds_K: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The fewest actions that finish a state, and that follow a rule in a state; `UNREACHABLE` if none can.

        `kinds_K` marks the `ColumnKind`s of the schema: without columns to add up, `Sum` cannot be finished.
        """
        cost_S = np.full(len(self.states), UNREACHABLE, np.int32)
        cost_S[self.choice_S == Choice.VALUE] = 1
        cost_S[(self.columns_SK & kinds_K).any(-1)] = 1
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

_Alternatives: TypeAlias = dict[str, list[str]]
"""The children of each rule that a symbol offers."""
_Instance: TypeAlias = tuple[str, str, str]
"""A symbol with an attribute's value, the attribute in brackets, and the value in brackets that replaces it."""

_ALTERNATIVE = re.compile(r"(\w+)\((.*)\)$")
_HEADER = re.compile(r"(\w+)(?:\[([\w,]+)\])?:\s*(.*)$")


@cache
def sql_grammar() -> Grammar:
    """The bundled grammar of queries, read once."""
    return read_grammar((files("dtfixup.sql.grammar") / "grammar.txt").read_text(encoding="utf-8"))


def read_grammar(text: str) -> Grammar:
    """Read a grammar in the form that the head of `grammar.txt` describes."""
    attributes: dict[str, list[str]] = {}
    symbols: dict[str, _Alternatives] = {}
    accepts: dict[str, list[str]] = {}
    start = ""
    instances: list[_Instance] = []
    for number, line in _lines(text):
        keyword, _, rest = line.partition(" ")
        if keyword == "attribute":
            name, _, values = rest.partition("=")
            attributes[name.strip()] = values.split()
        elif keyword == "start":
            start = rest.strip()
        elif keyword == "accept":
            symbol, _, kinds = rest.partition(":")
            accepts[symbol.strip()] = kinds.split()
        else:
            alternative = line
            if header := _HEADER.match(line):
                instances = _instances(header[1], header[2], attributes)
                alternative = header[3]
            elif not instances:
                raise ConfigError(f"grammar line {number}: an alternative before any symbol: {line!r}")
            for instance in instances if alternative else ():
                _add(symbols, instance, alternative, number)
    return _tables(symbols, accepts, start)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if stripped := line.partition("#")[0].strip():
            yield number, stripped


def _instances(name: str, bracket: str | None, attributes: Mapping[str, list[str]]) -> list[_Instance]:
    if bracket is None:
        return [(name, "", "")]
    values = attributes.get(bracket) or bracket.split(",")
    return [(f"{name}[{value}]", f"[{bracket}]", f"[{value}]") for value in values]


def _add(symbols: dict[str, _Alternatives], instance: _Instance, text: str, number: int) -> None:
    """Add an alternative to one instance of a symbol."""
    symbol, attribute, value = instance
    own = symbols.setdefault(symbol, {})
    bound = text.replace(attribute, value)
    if bound.startswith("like "):
        source, _, without = map(str.strip, bound.removeprefix("like ").partition(" without "))
        if source not in symbols:
            raise ConfigError(f"grammar line {number}: {source!r} is not defined above")
        if without and without not in symbols[source]:
            raise ConfigError(f"grammar line {number}: {source} offers no {without} to leave out")
        added = {rule: children for rule, children in symbols[source].items() if rule != without}
    elif match := _ALTERNATIVE.match(bound):
        added = {match[1]: [child.strip() for child in match[2].split(",") if child.strip()]}
    else:
        raise ConfigError(f"grammar line {number}: expected Rule(child, ...), got {text!r}")
    if twice := sorted(set(added) & set(own)):
        raise ConfigError(f"grammar line {number}: {symbol} offers {twice[0]} twice")
    own.update(added)


def _tables(symbols: Mapping[str, _Alternatives], accepts: Mapping[str, list[str]], start: str) -> Grammar:
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
        symbol = name.removesuffix("?")
        states.append(State(symbol, optional=name.endswith("?")))
        rules_SR[state, REDUCE] = states[-1].optional
        is_column = states[-1].choice is Choice.COLUMN
        kinds: list[str] = [kind.name.lower() for kind in ColumnKind] if is_column else [*VALUE_KINDS]
        for kind in accepts.get(symbol, []):
            if kind not in kinds:
                raise ConfigError(
                    f"the grammar accepts kind {kind!r} in {symbol}; known are {', '.join(sorted(kinds))}"
                )
            (columns_SK if is_column else values_SK)[state, kinds.index(kind)] = True
        for rule, children in symbols.get(symbol, {}).items():
            if sizes.setdefault(rule, len(children)) != len(children):
                raise ConfigError(f"the grammar gives {rule} {sizes[rule]} children and {len(children)}")
            rules_SR[state, rule_index[rule]] = True
            children_SRC[state, rule_index[rule], : len(children)] = [state_index[child] for child in children]
    return Grammar(tuple(rules), tuple(states), 0, rules_SR, columns_SK, values_SK, children_SRC)
