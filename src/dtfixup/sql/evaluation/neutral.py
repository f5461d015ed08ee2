"""Spider's exact match for queries over any schema.

In: two queries that the grammar can say. Out: the `Verdict` that the official script has for them. The script takes
quoted names for texts, fails on names such as `group` and on texts such as `it''s`, and knows no IS NULL; so both
queries are read into trees and written anew, with neutral names, one text for all, which it does not compare anyway,
and IS NULL as a comparison with that text. On queries that it can read, nothing changes.
"""

from collections import Counter
from dataclasses import replace
from functools import lru_cache

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.evaluate import Verdict, judge
from dtfixup.sql.grammar.joins import Joiner
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.grammar.tree import Child, Literal, Node
from dtfixup.sql.grammar.writer import SqlWriter

_TEXT = Literal("text", ValueKind.TEXT)
_COMPARISONS = {"IsNull": "Equal", "NotNull": "NotEqual"}


def judge_any(gold: str, predicted: str | None, schema: Schema) -> Verdict:
    """Compare a prediction, None where there is none, with its gold query."""
    neutral = neutral_names(schema)
    try:
        wanted = neutral_text(gold, schema)
    except SqlError as error:
        raise SqlError(f"gold query over {schema.database} cannot be read: {error}; it says: {gold}") from error
    try:
        found = "" if predicted is None else neutral_text(predicted, schema)
    except SqlError:
        found = ""  # as the script has it, an unreadable prediction is an empty query
    verdict = judge(wanted, found, neutral, official=False)
    if verdict.exact and predicted is not None and null_tests(gold, schema) != null_tests(predicted, schema):
        return replace(verdict, exact=False)
    return verdict


def null_tests(sql: str, schema: Schema) -> Counter[str]:
    """What a query asks to be NULL or not to be: as comparisons with a text they look like others."""
    found: Counter[str] = Counter()
    left: list[Child] = [SqlReader(schema).read(sql)]
    while left:
        child = left.pop()
        if isinstance(child, Node):
            found.update([repr(child)] if child.rule in _COMPARISONS else [])
            left += child.children
    return found


def neutral_text(sql: str, schema: Schema) -> str:
    """A query with the names of `neutral_names`, as the script can read it."""
    joiner = Joiner(schema)  # which tables are joined depends on their names too
    tree = SqlReader(schema, joiner=joiner).read(sql)
    plain = _plain(tree)
    assert isinstance(plain, Node)
    return SqlWriter(neutral_names(schema), joiner, quote_names=False).write(plain)


@lru_cache(maxsize=64)
def neutral_names(schema: Schema) -> Schema:
    """The same schema, every table and column under a name that means nothing in SQL.

    Columns of one name keep one: the script compares GROUP BY by names, whatever the tables.
    """
    known = {name: place for place, name in enumerate(dict.fromkeys(column.name.lower() for column in schema.columns))}
    tables = tuple(replace(table, name=f"table_{place}") for place, table in enumerate(schema.tables))
    columns = tuple(
        column if schema.is_star(place) else replace(column, name=f"column_{known[column.name.lower()]}")
        for place, column in enumerate(schema.columns)
    )
    return replace(schema, tables=tables, columns=columns)


def _plain(child: Child) -> Child:
    match child:
        case Node(rule, children):
            plain = tuple(map(_plain, children))
            if rule in _COMPARISONS:
                return Node(_COMPARISONS[rule], (*plain, Node("Value", (_TEXT,))))
            return Node(rule, plain)
        case Literal(_, kind) if kind is not ValueKind.NUMBER:
            return _TEXT
    return child
