"""Spider's exact match for queries over any schema.

In: two queries in the grammar. Out: the official script's `MatchVerdict`. The script takes quoted names for texts,
fails on names such as `group` and texts such as `it''s`, and has no IS NULL. So both queries are first rewritten: with
neutral names, with one text for all literals, which exact match ignores, and with IS NULL as a comparison with that
text. Verdicts on queries that the script can read stay the same.
"""

from collections import Counter
from dataclasses import replace
from functools import lru_cache

from dtfixup.errors import SqlError
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.evaluate import MatchVerdict, judge
from dtfixup.sql.grammar.joins import Joiner
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.grammar.tree import Child, Literal, Node, nodes
from dtfixup.sql.grammar.writer import SqlWriter

_TEXT = Literal("text", ValueKind.TEXT)
_COMPARISONS = {"IsNull": "Equal", "NotNull": "NotEqual"}


def judge_any(gold: str, predicted: str | None, schema: Schema) -> MatchVerdict:
    """Compare a prediction, if there is one, with its gold query."""
    names = neutral_names(schema)
    try:
        neutral_gold = neutral_text(gold, schema)
    except SqlError as error:
        raise SqlError(f"gold query over {schema.database} cannot be read: {error}: {gold}") from error
    try:
        neutral_prediction = "" if predicted is None else neutral_text(predicted, schema)
    except SqlError:
        neutral_prediction = ""  # as for the script, an unreadable prediction is an empty query
    verdict = judge(neutral_gold, neutral_prediction, names, official=False)
    if verdict.exact and predicted is not None and null_tests(gold, schema) != null_tests(predicted, schema):
        return replace(verdict, exact=False)
    return verdict


def null_tests(sql: str, schema: Schema) -> Counter[str]:
    """Count the tests for NULL, which look like other comparisons in `neutral_text`."""
    return Counter(repr(node) for node in nodes(SqlReader(schema).read(sql)) if node.rule in _COMPARISONS)


def neutral_text(sql: str, schema: Schema) -> str:
    """Rewrite a query with neutral names, literals and NULL tests, so that the script can read it."""
    joiner = Joiner(schema)  # joins are inferred from the true names
    tree = SqlReader(schema, joiner=joiner).read(sql)
    plain = _plain(tree)
    assert isinstance(plain, Node)
    return SqlWriter(neutral_names(schema), joiner, quote_names=False).write(plain)


@lru_cache(maxsize=64)
def neutral_names(schema: Schema) -> Schema:
    """Rename tables and columns so that no name is a word of SQL.

    Columns of the same name get the same neutral name: the script compares GROUP BY by names without tables.
    """
    names = dict.fromkeys(column.name.lower() for column in schema.columns)
    numbers = {name: index for index, name in enumerate(names)}
    tables = tuple(replace(table, name=f"table_{index}") for index, table in enumerate(schema.tables))
    columns = tuple(
        column if schema.is_star(index) else replace(column, name=f"column_{numbers[column.name.lower()]}")
        for index, column in enumerate(schema.columns)
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
