"""Error messages that quote a query in the user's own words.

In: a message that quotes a part of a query as sqlglot writes it, and the user's query. Out: the message with the part
as the user typed it.
"""

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dtfixup.sql.database.dialect import Dialect

_BEFORE, _AFTER = 2, 8  # tokens that may belong to an expression beside those whose position sqlglot keeps


def quote_as_typed(message: str, sql: str, dialect: Dialect) -> str:
    """Replace the longest quoted part of a query.

    >>> message = "TIME_TO_STR(CAST(name AS TIMESTAMP), '%Y') is not in the grammar here"
    >>> quote_as_typed(message, "select strftime('%Y', name) from pets", Dialect.SQLITE)
    "strftime('%Y', name) is not in the grammar here"
    """
    parts = {node.sql(): node for node in sqlglot.parse_one(sql, read=dialect.value).walk()}
    quoted = [text for text in parts if text in message]
    if not quoted:
        return message
    longest = max(quoted, key=len)
    for typed in _pieces(parts[longest], sql, dialect):
        try:
            same = sqlglot.parse_one(typed, read=dialect.value).sql() == longest
        except SqlglotError:
            continue
        if same:
            return message.replace(longest, " ".join(typed.split()), 1)
    return message


def _pieces(node: exp.Expr, sql: str, dialect: Dialect) -> Iterator[str]:
    """Pieces of the query around an expression, shorter ones first."""
    places = [part.meta for part in node.walk() if "start" in part.meta]
    if not places:
        return
    start, end = min(place["start"] for place in places), max(place["end"] for place in places)
    tokens = sqlglot.tokenize(sql, read=dialect.value)
    starts = [token.start for token in tokens if token.start <= start][-1 - _BEFORE :]
    ends = [token.end for token in tokens if token.end >= end][: 1 + _AFTER]
    for stop in ends:
        for begin in reversed(starts):
            yield sql[begin : stop + 1]
