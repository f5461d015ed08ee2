"""Remove from a user's query what only its server requires.

In: a user's SQL, in the dialect of the database. Out: SQL of the same dialect for `SqlReader`. Removed is what
`dialects/translate.py` puts back: ILIKE, casts to text before LIKE and to fractions before AVG or a division, typed
dates, a guard against division by 0, the order of NULLs, and the namespace `public`. Nothing else changes: a cast that
rounds has a meaning, and stays for the reader to refuse.
"""

import sqlglot
from sqlglot import exp

from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.execution.text_filter import check_statement

_FRACTIONS = {exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL}
_TIMES = {exp.DType.DATE, exp.DType.DATETIME, exp.DType.TIME, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ}


def plain_query(sql: str, dialect: Dialect) -> str:
    """The query without what only its server requires; any statement but one query that only reads is refused.

    >>> plain_query("SELECT name FROM public.pets WHERE name ILIKE '%rex%'", Dialect.POSTGRESQL)
    "SELECT name FROM pets WHERE name LIKE '%rex%'"
    """
    check_statement(sql, dialect)  # also refuses nesting that would end the process
    if dialect is Dialect.SQLITE:
        return sql
    tree = sqlglot.parse_one(sql, read=dialect.value)
    for node in list(tree.walk()):
        match node:
            case exp.ILike():
                node.replace(exp.Like(**node.args))
            case exp.Cast() if _only_fits_types(node, dialect):
                node.replace(node.this)
            case exp.Nullif() if isinstance(node.parent, exp.Div) and node.arg_key == "expression" and _is_zero(node):
                node.replace(node.this)
            case exp.Ordered():
                _sort_nulls_by_default(node, dialect)
            case exp.Table() if dialect is Dialect.POSTGRESQL and node.db == "public":
                node.set("db", None)
    return tree.sql(dialect=dialect.value)


def _only_fits_types(cast: exp.Cast, dialect: Dialect) -> bool:
    """Whether a cast only makes types fit that SQLite, the dialect of the grammar, does not check."""
    target, parent = cast.to.this, cast.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(cast.this, exp.Literal) and cast.this.is_string:
        return target in _TIMES
    if target in exp.DataType.TEXT_TYPES:
        return isinstance(parent, exp.Like | exp.ILike)
    rounds = target is exp.DType.DECIMAL and (dialect is not Dialect.POSTGRESQL or bool(cast.to.expressions))
    return target in _FRACTIONS and not rounds and isinstance(parent, exp.Avg | exp.Div)


def _is_zero(node: exp.Nullif) -> bool:
    return isinstance(node.expression, exp.Literal) and node.expression.name == "0"


def _sort_nulls_by_default(key: exp.Ordered, dialect: Dialect) -> None:
    """Sort NULLs as the dialect does by default: the grammar has no words for their place."""
    nulls_are_large = sqlglot.Dialect.get_or_raise(dialect.value).NULL_ORDERING == "nulls_are_large"
    key.set("nulls_first", bool(key.args.get("desc")) == nulls_are_large)
