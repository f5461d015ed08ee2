"""The grammar as tables: how its text is read, what its states allow, and what finishing a state costs."""

from functools import cache

import numpy as np
import pytest

from dtfixup.errors import ConfigError
from dtfixup.sql.grammar.rules import (
    REDUCE,
    UNREACHABLE,
    VALUE_KINDS,
    Choice,
    ColumnKind,
    Grammar,
    ValueKind,
    kind_index,
    read_grammar,
    sql_grammar,
)

_SMALL = """
attribute n = any 2         # comments end a line
start list[any]

list[n]: Cons(item[n], list[n]?)
list[any]:
  Empty()
  Deep(list[2])
item[n]: Cell(column[x])
item[any]: Number(value)
short[any,2]: Cell(column[x])
list[2]: Short(short[2], short[any])

accept column[x]: number words
accept value: number time
"""


def _state(grammar: Grammar, name: str) -> int:
    return [str(state) for state in grammar.states].index(name)


def _rules(grammar: Grammar, name: str) -> set[str]:
    return {grammar.rules[rule] for rule in grammar.rules_SR[_state(grammar, name)].nonzero()[0]}


def _children(grammar: Grammar, name: str, rule: str) -> list[str]:
    opened = grammar.children(_state(grammar, name), grammar.rule_index[rule])
    return [str(grammar.states[state]) for state in opened]


def _kinds(grammar: Grammar, name: str) -> set[ColumnKind]:
    return {ColumnKind(kind) for kind in grammar.columns_SK[_state(grammar, name)].nonzero()[0]}


def test_attributes_optional_children_and_kinds_are_read() -> None:
    grammar = read_grammar(_SMALL)
    assert grammar.rules[REDUCE] == "Reduce"
    assert str(grammar.states[grammar.start]) == "list[any]"
    assert _rules(grammar, "list[any]") == {"Cons", "Empty", "Deep"}
    assert _rules(grammar, "list[any]?") == {"Reduce", "Cons", "Empty", "Deep"}
    assert _rules(grammar, "list[2]") == {"Cons", "Short"}
    assert _children(grammar, "list[2]", "Cons") == ["item[2]", "list[2]?"]
    assert _children(grammar, "list[any]", "Cons") == ["item[any]", "list[any]?"]
    assert _children(grammar, "list[any]", "Empty") == []
    assert grammar.children_SRC[_state(grammar, "list[2]"), grammar.rule_index["Deep"]].tolist() == [-1, -1]
    assert _rules(grammar, "item[2]") == {"Cell"}
    assert _rules(grammar, "item[any]") == {"Cell", "Number"}
    assert _kinds(grammar, "column[x]") == {ColumnKind.NUMBER, ColumnKind.WORDS}
    assert grammar.values_SK[_state(grammar, "value")].tolist() == [
        kind in {ValueKind.NUMBER, ValueKind.TIME} for kind in VALUE_KINDS
    ]
    assert grammar.states[_state(grammar, "column[x]")].choice is Choice.COLUMN
    assert grammar.states[_state(grammar, "value")].choice is Choice.VALUE
    fields = ["list", "item", "column", "value", "short"]
    assert [fields[field] for field in grammar.field_S] == [state.field for state in grammar.states]
    assert dict(zip(grammar.rules, grammar.child_counts, strict=True))["Cons"] == 2
    assert not grammar.rules_SR[grammar.choice_S != Choice.RULE].any()


def test_like_takes_the_rules_above_it_but_one() -> None:
    grammar = read_grammar("start a\na: One(b, c)\na: Two()\nb: like a without One\nc: like a")
    assert _rules(grammar, "b") == {"Two"}
    assert _rules(grammar, "c") == {"One", "Two"}
    assert _children(grammar, "c", "One") == ["b", "c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start a\na: One(b)", "uses 'b' and does not define it"),
        ("a: One()", "start"),
        ("start a\na: One()\nb: Two()", "defines and never uses b"),
        ("start a\na: One()\naccept value: number", "defines and never uses value"),
        ("start a\na: One(a?)\na: Two(b)\nb: One()", "gives One 1 children and 0"),
        ("start a\na: One(column)\naccept column: colour", "accepts kind 'colour' in column"),
        ("start a\na: One(value)\naccept value: star", "accepts kind 'star' in value"),
        ("start a\n  One()", "line 2: an alternative before any symbol"),
        ("start a\na:\n  One() Two", r"line 3: expected Rule\(child, ...\), got 'One\(\) Two'"),
        ("start a\na: One()\na: One()", "line 3: a offers One twice"),
        ("start a\na: like b", "line 2: 'b' is not defined above"),
        ("start a\nattribute n = 1 2\na: One(b[1])\nb[n]: Two(b[m])", r"uses 'b\[m\]' and does not define it"),
    ],
)
def test_a_grammar_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_grammar(text)


def test_every_rule_can_be_finished() -> None:
    grammar = sql_grammar()
    cost_S, after_SR = grammar.costs(np.ones(len(ColumnKind), bool))
    assert (cost_S < UNREACHABLE).all()
    assert ((after_SR < UNREACHABLE) == grammar.rules_SR).all()
    assert grammar.rules_SR.any(0).all(), "a rule that no state offers"


def _oracle(grammar: Grammar, kinds: set[ColumnKind]) -> list[int]:
    """The fewest actions of a state, by trying every derivation that is no deeper than there are states."""

    @cache
    def fewest(state: int, depth: int) -> int:
        if depth == 0:
            return UNREACHABLE
        if grammar.states[state].choice is Choice.VALUE:
            return 1
        if grammar.states[state].choice is Choice.COLUMN:
            accepted = {ColumnKind(kind) for kind in grammar.columns_SK[state].nonzero()[0]}
            return 1 if accepted & kinds else UNREACHABLE
        ways = [
            1 + sum(fewest(child, depth - 1) for child in grammar.children(state, int(rule)))
            for rule in grammar.rules_SR[state].nonzero()[0]
        ]
        return min(*ways, UNREACHABLE)

    return [fewest(state, len(grammar.states)) for state in range(len(grammar.states))]


@pytest.mark.parametrize(
    "kinds",
    [
        set(ColumnKind),
        {ColumnKind.STAR, ColumnKind.WORDS},
        {ColumnKind.STAR, ColumnKind.OTHERS},
        {ColumnKind.STAR, ColumnKind.NUMBER},
        {ColumnKind.STAR},
        set(),
    ],
)
def test_costs_equal_the_naive_count(kinds: set[ColumnKind]) -> None:
    for grammar in (sql_grammar(), read_grammar(_SMALL)):
        expected = _oracle(grammar, kinds)
        cost_S, after_SR = grammar.costs(np.array([kind in kinds for kind in ColumnKind]))
        assert cost_S.tolist() == expected
        for state, rule in np.argwhere(grammar.rules_SR):
            after = sum(expected[child] for child in grammar.children(state, rule))
            assert after_SR[state, rule] == min(after, UNREACHABLE)
        assert (after_SR[~grammar.rules_SR] == UNREACHABLE).all()


AGGREGATES = {"Count", "CountDistinct", "Max", "Min", "Sum", "Avg", "Apply"}


def test_aggregates_stand_only_where_rows_are_grouped() -> None:
    grammar = sql_grammar()
    for state in grammar.states:
        if state.choice is Choice.RULE and state.field in {"expression", "term", "operand", "right", "item"}:
            offered = _rules(grammar, str(state)) & AGGREGATES
            assert offered == (set() if state.symbol.endswith("[row]") else AGGREGATES), state
    for rule in ("Plain", "Grouped"):
        opened = _children(grammar, "statement[any]", rule)
        assert "condition[row]?" in opened, "WHERE"
        assert ("condition[group]?" in opened) == (rule == "Grouped"), "HAVING"
    assert _children(grammar, "statement[any]", "Plain")[2] == "order[row]?"
    assert _children(grammar, "statement[any]", "Grouped")[4] == "order[group]?"
    assert _children(grammar, "expression[group]", "Apply")[2] == "expression[row]", "no aggregate of an aggregate"


def test_sides_of_a_set_operation_have_the_same_width() -> None:
    grammar = sql_grammar()
    numbers = ("One", "Two", "Three", "Four", "Five", "Six")
    for width, number in enumerate(numbers, 1):
        assert _children(grammar, "pair[any]", f"Pair{width}") == [f"side[{width}]", f"member[{width}]"]
        for member in (f"side[{width}]", f"member[{width}]"):
            for rule in ("Member", "GroupedMember"):
                opened = _children(grammar, member, rule)
                assert opened[0] == f"select[{width}]"
                assert not any(child.startswith("order") for child in opened)
        assert _rules(grammar, f"select[{width}]") == {"Distinct", number}
        assert _rules(grammar, f"items[{width}]") == {number}
        assert _children(grammar, f"select[{width}]", number) == ["expression[group]"] * width
        for operation in ("Union", "Intersect", "Except"):
            assert _children(grammar, f"side[{width}]", operation) == [f"pair[{width}]"]
            assert _rules(grammar, f"pair[{width}]") == {f"Pair{width}"}
    assert _rules(grammar, "select[any]") == {"Distinct", *numbers}


def test_a_query_inside_a_condition_returns_one_column() -> None:
    grammar = sql_grammar()
    assert _children(grammar, "condition[row]", "In")[1] == "statement[1]"
    assert _children(grammar, "condition[group]", "NotIn")[1] == "statement[1]"
    assert _children(grammar, "right[row]", "Scalar") == ["statement[1]"]
    assert _children(grammar, "statement[1]", "Plain")[0] == "select[1]"
    assert _children(grammar, "statement[1]", "Union") == ["pair[1]"]
    assert "UnionRows" not in _rules(grammar, "statement[1]")
    assert "UnionRows" in _rules(grammar, "statement[any]")


def test_what_columns_and_values_are_accepted() -> None:
    grammar = sql_grammar()
    cells = set(ColumnKind) - {ColumnKind.STAR}
    assert _kinds(grammar, "column[any]") == set(ColumnKind)
    assert _kinds(grammar, "column[cell]") == cells
    assert _kinds(grammar, "column[table]") == {ColumnKind.STAR}
    assert _kinds(grammar, "column[measure]") == cells - {ColumnKind.WORDS, ColumnKind.OTHERS}
    assert grammar.values_SK[_state(grammar, "value[any]")].all()
    for symbol, accepted in (("number", {ValueKind.NUMBER, ValueKind.COUNT}), ("count", {ValueKind.COUNT})):
        found = grammar.values_SK[_state(grammar, f"value[{symbol}]")].tolist()
        assert found == [kind in accepted for kind in VALUE_KINDS]
    assert _children(grammar, "expression[group]", "Count") == ["column[any]"]
    assert _children(grammar, "expression[group]", "CountDistinct") == ["column[cell]"]
    assert _children(grammar, "expression[group]", "Sum") == ["column[measure]"]
    assert _children(grammar, "item", "Column") == ["column[any]"]
    assert _children(grammar, "limit?", "Limit") == ["value[count]"]
    assert "Value" not in _rules(grammar, "expression[row]"), "a query that reads no table"


@pytest.mark.parametrize(
    ("kind", "text", "index"),
    [
        (ValueKind.NUMBER, "12", ValueKind.COUNT),
        (ValueKind.NUMBER, "-1", ValueKind.NUMBER),
        (ValueKind.NUMBER, "1.0", ValueKind.NUMBER),
        (ValueKind.NUMBER, "\u0663", ValueKind.NUMBER),
        (ValueKind.TEXT, "12", ValueKind.TEXT),
    ],
)
def test_numbers_that_count_are_told_apart(kind: ValueKind, text: str, index: ValueKind) -> None:
    assert VALUE_KINDS[kind_index(kind, text)] is index
