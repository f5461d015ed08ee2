"""Rows and trees as people and programs see them."""

import datetime
import json
import re
from decimal import Decimal
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dtfixup.sql.ask.answers import Alternative, Answer, Timing, Verdict, tree_content
from dtfixup.sql.ask.view import alternatives_table, percent, remark, rows_content, rows_table, sql_view, tree_view
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.execution.guarded import Rows
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.linking.links import Links
from tests.sql.dialects.test_translate import schema


def shown(renderable: object) -> str:
    console = Console(width=100, record=True, file=None, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_rows_show_kinds_nulls_and_cuts() -> None:
    rows = [
        ("Rex", 3, 2.5, None, datetime.date(2024, 5, 1), b"\0\1", True),
        ("\x1b[31mred", 4, 3, None, None, None, False),
    ]
    text = shown(rows_table(Rows(("name", "age", "weight", "x", "born", "photo", "tame"), rows, truncated=True)))
    for part in ("text", "integer", "number", "date", "bytes", "yes or no", "NULL", "2 bytes", "2024-05-01"):
        assert part in text
    assert "the first 2 rows; there are more" in text
    assert "\x1b" not in text, "a stored value cannot give orders to a terminal"
    assert "1 row\n" in shown(rows_table(Rows(("n",), [(1,)], truncated=False))).replace("1 row  ", "1 row\n")


def test_rows_are_json() -> None:
    row = (None, True, 1, 2.5, float("inf"), Decimal("2"), Decimal("2.5"), b"\xff", datetime.time(9, 30), "x")
    content = json.loads(json.dumps(rows_content(Rows(tuple("abcdefghij"), [row], truncated=False))))
    assert content["rows"] == [[None, True, 1, 2.5, "inf", 2, 2.5, "ff", "09:30:00", "x"]]
    assert content["truncated"] is False


def test_trees_name_columns_and_literals() -> None:
    tree = SqlReader(schema()).read("SELECT name FROM pets WHERE age > 3")
    text = shown(tree_view(tree, schema()))
    assert all(part in text for part in ("Plain", "pets.name", "Greater", "'3'"))
    assert tree_content(tree, schema())[:2] == ["Plain", ["One", ["Column", {"column": "pets.name"}]]]


def unsure(*probabilities: float, doubts: tuple[str, ...] = ()) -> Answer:
    tree = SqlReader(schema()).read("SELECT name FROM pets")
    queries = tuple(Alternative(f"SELECT {number}", each, 0.0, tree) for number, each in enumerate(probabilities))
    timing = Timing(0.0, 0.0, 0.0, 0.0)
    return Answer(
        "x", Verdict.UNSURE, queries, (), Links((), ()), schema(), Dialect.SQLITE, timing=timing, doubts=doubts
    )


@pytest.mark.parametrize(("probability", "told"), [(0.615, "62 %"), (0.798, "79 %"), (0.614, "61 %")])
def test_the_remark_and_the_list_round_alike(probability: float, told: str) -> None:
    answer = unsure(probability, 0.002)
    sentence = f"the likeliest query has probability {told}, and 80 % is called sure"
    assert remark(answer, 0.8, list_follows=False) == sentence
    assert remark(answer, 0.8) == f"{sentence}; the question may mean"
    rows = [line.split() for line in shown(alternatives_table(answer, 0.8)).splitlines()]
    assert rows[1:] == [["1", *told.split(), "SELECT", "0"], ["2", "<", "1", "%", "SELECT", "1"]]


@given(st.floats(0, 1), st.floats(0.01, 1))
def test_a_probability_below_the_limit_reads_so(probability: float, sure_above: float) -> None:
    number = float(percent(probability, sure_above).removeprefix("< ").removesuffix(" %"))
    assert abs(number - 100 * probability) <= 1
    if probability < sure_above and number > 1:
        assert number < 100 * sure_above


def test_doubts_stand_for_a_probability_that_is_high_enough() -> None:
    doubted = "the query leaves out the number 5"
    assert remark(unsure(0.9, doubts=(doubted,)), 0.8, list_follows=False) == doubted
    both = remark(unsure(0.7, doubts=(doubted,)), 0.8)
    assert both is not None
    assert both.endswith(f"probability 70 %, and 80 % is called sure; {doubted}; the question may mean")


@pytest.mark.parametrize("colours", ["standard", "256", "truecolor"])
def test_a_query_reads_on_a_light_terminal_and_on_a_dark_one(
    colours: Literal["standard", "256", "truecolor"],
) -> None:
    console = Console(width=100, force_terminal=True, color_system=colours)
    with console.capture() as capture:
        console.print(sql_view("SELECT name, 3.5 FROM pets WHERE city = 'Oslo' AND age NOT IN (1) -- all"))
    codes = set(re.findall(r"\x1b\[([\d;]*)m", capture.get()))
    assert codes == {"0", "49", "1;49", "32;49"}, "the terminal's own colour, bold, and green"
