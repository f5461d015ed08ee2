"""Tree ↔ actions, and which actions are legal next."""

from pathlib import Path

import numpy as np
import pytest

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import ColumnType, read_tables_json
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import REDUCE, VALUE_KINDS, Choice, ColumnKind, ValueKind, read_grammar, sql_grammar
from dtfixup.sql.grammar.transitions import (
    STEP_LIMIT,
    Action,
    ApplyRule,
    Masks,
    SelectColumn,
    SelectValue,
    Walk,
    column_kinds,
    first_illegal,
    steps_of,
    tree_of,
)
from dtfixup.sql.grammar.tree import Literal, Node

_SCHEMAS = read_tables_json(Path(__file__).parents[1] / "fixtures" / "tables.json")
_SCHEMA = _SCHEMAS["harbour"]
_SQL = (
    "SELECT flag, count(*) FROM ship WHERE length > 90 OR name IN (SELECT name FROM port) GROUP BY flag "
    "ORDER BY count(*) DESC LIMIT 3"
)


def _rule(name: str) -> ApplyRule:
    return ApplyRule(sql_grammar().rule_index[name])


def _named(action: Action) -> str:
    match action:
        case ApplyRule(rule):
            return sql_grammar().rules[rule]
        case SelectColumn(column):
            return _SCHEMA.qualified(column)
        case SelectValue(literal):
            return literal.text


def test_actions_run_top_down_and_left_to_right() -> None:
    steps = steps_of(SqlReader(_SCHEMA).read(_SQL))
    assert " ".join(_named(step.action) for step in steps) == (
        "Grouped Two Column ship.flag Count ship.* "
        "Or Greater Column ship.length Value 90 In Column ship.name "
        "Plain One Column port.name Reduce Reduce Reduce "
        "By ship.flag Reduce Sorted Descending Count ship.* Limit 3 Reduce"
    )


def test_each_step_knows_its_state_and_who_opened_it() -> None:
    grammar = sql_grammar()
    steps = steps_of(SqlReader(_SCHEMA).read(_SQL))
    assert (steps[0].state, steps[0].parent) == (grammar.start, -1)
    opened: dict[int, list[int]] = {}
    for index, step in enumerate(steps[1:], 1):
        assert 0 <= step.parent < index
        opened.setdefault(step.parent, []).append(step.state)
    for parent, states in opened.items():
        action = steps[parent].action
        assert isinstance(action, ApplyRule)
        assert tuple(states) == grammar.children(steps[parent].state, action.rule)
    states = {_named(step.action): str(grammar.states[step.state]) for step in steps}
    assert {name: states[name] for name in ("Or", "Greater", "Plain", "Descending", "3", "90")} == {
        "Or": "condition[row]?", "Greater": "condition[row]", "Plain": "statement[1]", "Descending": "keys[group]",
        "3": "value[count]", "90": "value[any]",
    }  # fmt: skip


def test_a_walk_says_what_is_open() -> None:
    grammar = sql_grammar()
    walk = Walk()
    assert walk.pending == (grammar.start,)
    assert not walk.finished
    for name in ("Plain", "One", "Count"):
        walk.take(_rule(name))
    assert [str(grammar.states[state]) for state in walk.pending] == [
        "source?", "order[row]?", "condition[row]?", "column[any]",
    ]  # fmt: skip
    assert str(grammar.states[walk.state]) == "column[any]"
    walk.take(SelectColumn(10))
    with pytest.raises(SqlError, match=r"the query is not complete: condition\[row\]\? is open"):
        walk.tree()
    for _ in range(3):
        walk.take(ApplyRule(REDUCE))
    assert walk.finished
    assert walk.tree() == Node("Plain", (Node("One", (Node("Count", (10,)),)), None, None, None))
    with pytest.raises(SqlError, match="the query is complete"):
        walk.take(ApplyRule(REDUCE))


@pytest.mark.parametrize(
    ("before", "action", "message"),
    [
        ("", _rule("One"), r"One is not legal in statement\[any\]"),
        ("", ApplyRule(REDUCE), r"Reduce is not legal in statement\[any\]"),
        ("", SelectColumn(1), r"SelectColumn\(column=1\) is not legal in statement\[any\]"),
        ("Plain One Count", _rule("Count"), r"Count is not legal in column\[any\]"),
        ("Plain One Count", SelectValue(Literal("1", ValueKind.NUMBER)), r"is not legal in column\[any\]"),
        ("Plain One Count 10 Reduce First", SelectValue(Literal("x", ValueKind.TEXT)), r"in value\[count"),
        ("Plain One Count 10 Reduce First", SelectValue(Literal("1.5", ValueKind.NUMBER)), r"in value\[count"),
    ],
)  # fmt: skip
def test_an_action_that_does_not_fit_is_refused(before: str, action: Action, message: str) -> None:
    walk = Walk()
    prefix: list[Action] = [SelectColumn(int(name)) if name.isdigit() else _rule(name) for name in before.split()]
    for earlier in prefix:
        walk.take(earlier)
    pending = walk.pending
    with pytest.raises(SqlError, match=message):
        walk.take(action)
    assert (walk.pending, walk.actions) == (pending, prefix), "a refused action leaves no trace"


def test_a_tree_that_is_not_of_the_grammar_is_refused() -> None:
    one = Node("One", (Node("Column", (12,)),))
    steps_of(Node("Plain", (one, None, None, None)))
    with pytest.raises(SqlError, match="the grammar has no rule 'Rank'"):
        steps_of(Node("Plain", (Node("Rank", ()), None, None, None)))
    with pytest.raises(SqlError, match="Plain has 3 children; the grammar gives it 4"):
        steps_of(Node("Plain", (one, None, None)))
    with pytest.raises(SqlError, match=r"Sum is not legal in expression\[row\]"):
        steps_of(Node("Plain", (one, Node("IsNull", (Node("Sum", (12,)),)), None, None)))
    with pytest.raises(SqlError, match=r"Reduce is not legal in select\[any\]"):
        steps_of(Node("Plain", (None, None, None, None)))


def test_tree_of_needs_a_whole_derivation() -> None:
    with pytest.raises(SqlError, match="the query is not complete"):
        tree_of([])
    with pytest.raises(SqlError, match="the query is not complete"):
        tree_of([_rule("Plain"), _rule("One")])


_CHAIN = read_grammar("start list\nlist: Cons(column, list?)\nlist: Two(list, list)\naccept column: number")


def test_room_is_what_is_left_after_all_that_is_open() -> None:
    masks = Masks([ColumnKind.NUMBER], _CHAIN)
    start = _CHAIN.start
    optional = [str(state) for state in _CHAIN.states].index("list?")
    assert masks.cost_S[[start, optional]].tolist() == [3, 1], "Cons, a column, Reduce; or Reduce alone"
    assert masks.room(0, [start], 10) == 9
    assert masks.room(4, [optional, start, start], 10) == 10 - 4 - 1 - 3 - 1
    assert masks.room(0, [start]) == STEP_LIMIT - 1


def test_a_rule_is_legal_while_it_can_be_finished() -> None:
    masks = Masks([ColumnKind.NUMBER], _CHAIN)
    states_B = np.array([_CHAIN.start] * 3)
    legal = masks.rules(states_B, np.array([1, 2, 6]))
    assert legal[:, _CHAIN.rule_index["Cons"]].tolist() == [False, True, True], "a column and Reduce follow"
    assert legal[:, _CHAIN.rule_index["Two"]].tolist() == [False, False, True]
    assert not legal[:, REDUCE].any()
    assert legal.shape == (3, len(_CHAIN.rules))


def test_masks_of_a_batch_are_those_of_its_states() -> None:
    grammar = sql_grammar()
    masks = Masks(column_kinds(_SCHEMA))
    states_B = np.arange(len(grammar.states))
    kinds_V = np.arange(len(VALUE_KINDS))
    rules = masks.rules(states_B, np.full(len(states_B), STEP_LIMIT))
    columns, values = masks.columns(states_B), masks.values(states_B, kinds_V)
    assert (rules == grammar.rules_SR).all(), "with enough room, and every kind of column"
    for state in states_B:
        for column, kind in enumerate(masks.kinds_C):
            assert columns[state, column] == grammar.columns_SK[state, kind]
    assert (values == grammar.values_SK).all()
    choices = grammar.choice_S
    assert (rules.any(1) == (choices == Choice.RULE)).all()
    assert (columns.any(1) == (choices == Choice.COLUMN)).all()
    assert (values.any(1) == (choices == Choice.VALUE)).all()
    assert masks.values(states_B, np.array([1, 1, 0])).shape == (len(states_B), 3)


def test_without_numbers_nothing_is_added_up() -> None:
    schema = _SCHEMAS["words_only"]
    texts = [index for index, column in enumerate(schema.columns) if column.type is ColumnType.TEXT]
    grammar = sql_grammar()
    state_B = np.array([[str(state) for state in grammar.states].index("expression[group]")])
    for words, is_summed in (([], True), (texts, False)):  # unknown text may hold numbers
        legal = Masks(column_kinds(schema, words=words)).rules(state_B, np.array([STEP_LIMIT]))[0]
        rules = {grammar.rules[rule] for rule in legal.nonzero()[0]}
        assert rules >= {"Max", "Min", "Count"}
        assert rules & {"Sum", "Avg"} == ({"Sum", "Avg"} if is_summed else set())


def test_kinds_of_columns() -> None:
    kinds = column_kinds(_SCHEMA)
    assert [kind.name.lower() for kind in kinds] == [column.type for column in _SCHEMA.columns]
    name = list(map(_SCHEMA.qualified, range(len(kinds)))).index("ship.name")
    assert column_kinds(_SCHEMA, words=[name]) == (*kinds[:name], ColumnKind.WORDS, *kinds[name + 1 :])
    assert {kind.name for kind in ColumnType} <= {kind.name for kind in ColumnKind}


def test_the_first_illegal_step() -> None:
    masks = Masks(column_kinds(_SCHEMA))
    steps = steps_of(SqlReader(_SCHEMA).read(_SQL))
    assert first_illegal(steps, masks) is None
    assert first_illegal(steps, masks, limit=len(steps)) is None
    short = first_illegal(steps, masks, limit=len(steps) - 1)
    assert short is not None, "no room for the whole of it"
    summed = steps_of(SqlReader(_SCHEMA).read("SELECT sum(name) FROM ship"))
    assert first_illegal(summed, masks) is None
    name = summed[3].action
    assert name == SelectColumn(12)
    assert first_illegal(summed, Masks(column_kinds(_SCHEMA, words=[12]))) == 3
