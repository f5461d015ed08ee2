"""Rows and trees as people and programs see them."""

import datetime
import json
from decimal import Decimal

from rich.console import Console

from dtfixup.sql.answer_view import rows_content, rows_table, tree_view
from dtfixup.sql.answers import tree_content
from dtfixup.sql.guard import Rows
from dtfixup.sql.sql_reader import SqlReader

from .test_dialects import schema


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
