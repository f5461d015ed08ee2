"""Answers and rows for people and programs.

In: an `Answer`, or the `Rows` of its query. Out: tables and trees for a terminal, values for JSON, CSV.
"""

import csv
import datetime
import io
import math
from decimal import Decimal
from typing import Any

from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from dtfixup.sql.ask.answers import Answer, Verdict
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.execution.guarded import Rows
from dtfixup.sql.grammar.tree import Child, Literal, Node
from dtfixup.sql.linking.view import printable

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
_SQL_THEME = ANSISyntaxTheme(  # in the terminal's own colours, which are legible on any background
    {
        (): Style(),
        ("Keyword",): Style(bold=True),
        ("Operator", "Word"): Style(bold=True),
        ("Literal", "String"): Style(color="green"),
    }
)


def remark(answer: Answer, sure_above: float, *, list_follows: bool = True) -> str | None:
    """A sentence on an answer that is not sure, which introduces a list of queries if one follows."""
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
    reasons, best = list(answer.doubts), answer.alternatives[0].probability
    if best < sure_above or not reasons:
        share = percent(best, sure_above)
        reasons.insert(0, f"the likeliest query has probability {share}, and {100 * sure_above:g} % is called sure")
    return "; ".join([*reasons, "the question may mean"] if list_follows else reasons)


def percent(probability: float, sure_above: float) -> str:
    """A probability in percent; one below the limit is also below it when rounded.

    >>> percent(0.615, 0.8), percent(0.798, 0.8), percent(0.8, 0.8), percent(0.002, 0.8)
    ('62 %', '79 %', '80 %', '< 1 %')
    """
    nearest = math.floor(100 * probability + 0.5)
    if probability < sure_above and nearest >= 100 * sure_above:
        nearest -= 1
    return f"{nearest} %" if nearest else "< 1 %"


def alternatives_table(answer: Answer, sure_above: float) -> Table:
    """The queries with their numbers and probabilities, the likeliest first."""
    table = Table(box=None, pad_edge=False)
    table.add_column("", justify="right")
    table.add_column("probability", justify="right")
    table.add_column("query", overflow="fold")
    for number, query in enumerate(answer.alternatives, start=1):
        table.add_row(str(number), percent(query.probability, sure_above), Text(printable(query.sql)))
    return table


def sql_view(sql: str) -> Syntax:
    """A query for a terminal, light or dark."""
    return Syntax(printable(sql), "sql", theme=_SQL_THEME, word_wrap=True, background_color="default")


def tree_view(node: Node, schema: Schema) -> Tree:
    """A query as the grammar's tree."""
    view = Tree(Text(node.rule, "bold"))
    _add_children(view, node, schema)
    return view


def _add_children(view: Tree, node: Node, schema: Schema) -> None:
    for child in node.children:
        if child is None:
            continue
        branch = view.add(_leaf(child, schema))
        if isinstance(child, Node):
            _add_children(branch, child, schema)


def _leaf(child: Child, schema: Schema) -> Text:
    match child:
        case Node(rule):
            return Text(rule)
        case Literal(text):
            return Text(repr(printable(text)), "magenta")
        case int():
            return Text(printable(schema.qualified(child)), "green")
    return Text("")


def rows_table(rows: Rows) -> Table:
    """Rows under the names and kinds of their columns; the caption says whether there are more."""
    table = Table(caption=_count(rows), caption_justify="left")
    for column, name in enumerate(rows.columns):
        kind = _kind([row[column] for row in rows.rows])
        header = Text.assemble(printable(name), ("\n" + kind, "dim"))
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
    return Text(printable(str(value)))


def rows_content(rows: Rows) -> dict[str, Any]:
    """Rows for JSON: dates and times as text, bytes in hexadecimal."""
    return {
        "columns": list(rows.columns),
        "rows": [[_json_value(value) for value in row] for row in rows.rows],
        "truncated": rows.truncated,
    }


def rows_csv(rows: Rows) -> str:
    """Rows as CSV with a header and all digits of numbers; NULL is an empty field, bytes are in hexadecimal."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(rows.columns)
    writer.writerows(
        [value if isinstance(value, Decimal) else _json_value(value) for value in row] for row in rows.rows
    )
    return text.getvalue()


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
