"""Answers and rows as people and programs see them.

In: an `Answer`, or the `Rows` of its query. Out: tables and trees for a terminal, values for JSON.
"""

import datetime
import math
from decimal import Decimal
from typing import Any

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from dtfixup.sql.answers import Answer, Verdict
from dtfixup.sql.guard import Rows
from dtfixup.sql.links_view import shown
from dtfixup.sql.schema import Schema
from dtfixup.sql.tree import Child, Literal, Node

_MOST_TABLES = 12
_KINDS = (
    (bool, "yes or no"),
    (int, "integer"),
    ((float, Decimal), "number"),
    (str, "text"),
    (datetime.datetime, "date and time"),
    (datetime.date, "date"),
    ((datetime.time, datetime.timedelta), "time"),
    ((bytes, bytearray, memoryview), "bytes"),
)


def remark(answer: Answer, sure_above: float) -> str | None:
    """What has to be said of an answer that is not sure."""
    if answer.verdict is Verdict.NO_LINK:
        tables = [table.natural for table in answer.schema.tables]
        more = ", …" if len(tables) > _MOST_TABLES else ""
        return (
            "no word of the question names a table, a column or a stored value of this database, so every query would "
            f"be a guess. The database is about: {', '.join(tables[:_MOST_TABLES])}{more}"
        )
    if answer.verdict is Verdict.SURE:
        return None
    if not answer.alternatives:
        return "no query could be written for this question: ask it in other words"
    best = math.floor(100 * answer.alternatives[0].probability) / 100  # 0.798 is below 0.80, and has to read so
    return f"the likeliest query has probability {best:.2f}, and {sure_above:.2f} is called sure; the question may mean"


def alternatives_table(answer: Answer) -> Table:
    """The queries with their probabilities, the likeliest first."""
    table = Table(box=None, pad_edge=False)
    table.add_column("probability", justify="right")
    table.add_column("query", overflow="fold")
    for each in answer.alternatives:
        table.add_row(f"{each.probability:.3f}", Text(shown(each.sql)))
    return table


def tree_view(node: Node, schema: Schema) -> Tree:
    """A query as the grammar built it."""
    view = Tree(Text(node.rule, "bold"))
    _grow(view, node, schema)
    return view


def _grow(view: Tree, node: Node, schema: Schema) -> None:
    for child in node.children:
        if child is None:
            continue
        branch = view.add(_leaf(child, schema))
        if isinstance(child, Node):
            _grow(branch, child, schema)


def _leaf(child: Child, schema: Schema) -> Text:
    match child:
        case Node(rule):
            return Text(rule)
        case Literal(text):
            return Text(repr(shown(text)), "magenta")
        case int():
            return Text(shown(schema.qualified(child)), "green")
    return Text("")


def rows_table(rows: Rows) -> Table:
    """Rows with the kinds of their values; NULL is shown as such, and so is a cut."""
    table = Table(caption=_count(rows), caption_justify="left")
    for place, name in enumerate(rows.columns):
        kind = _kind([row[place] for row in rows.rows])
        header = Text.assemble(shown(name), ("\n" + kind, "dim"))
        table.add_column(header, justify="right" if kind in ("integer", "number") else "left", overflow="fold")
    for row in rows.rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def _count(rows: Rows) -> str:
    count = f"{len(rows.rows):,} row{'' if len(rows.rows) == 1 else 's'}"
    return f"the first {count}; there are more" if rows.truncated else count


def _kind(values: list[Any]) -> str:
    kinds = {_kind_of(value) for value in values if value is not None}
    if kinds == {"integer", "number"}:
        return "number"
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else ""


def _kind_of(value: Any) -> str:
    return next((name for kind, name in _KINDS if isinstance(value, kind)), type(value).__name__)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", "dim italic")
    if isinstance(value, bytes | bytearray | memoryview):
        return Text(f"{len(bytes(value)):,} bytes", "dim")
    return Text(shown(str(value)))


def rows_content(rows: Rows) -> dict[str, Any]:
    """Rows for JSON: dates and times as text, bytes in hexadecimal."""
    return {
        "columns": list(rows.columns),
        "rows": [[_json_value(value) for value in row] for row in rows.rows],
        "truncated": rows.truncated,
    }


def _json_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        value = int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)
