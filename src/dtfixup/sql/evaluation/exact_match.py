"""Spider's exact match: two queries compared component by component, and how hard a query is.

In: queries as `spider_reader` reads them. Out: a `Score` for each of the ten components, whether the queries match, and
the `Hardness` of one query. Everything is counted as in the official script, without literals.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum

from dtfixup.errors import SqlError
from dtfixup.sql.evaluation.spider_reader import (
    NONE,
    ColumnUse,
    Condition,
    Conditions,
    Expression,
    Ordering,
    SchemaNames,
    SelectItem,
    SpiderQuery,
)


class Hardness(StrEnum):
    """Spider's four levels."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"
    EXTRA = "extra"


class Component(StrEnum):
    """The components that the script scores, with its names and in its order."""

    SELECT = "select"
    SELECT_COLUMNS = "select(no AGG)"
    WHERE = "where"
    WHERE_COLUMNS = "where(no OP)"
    GROUP_COLUMNS = "group(no Having)"
    GROUP = "group"
    ORDER = "order"
    AND_OR = "and/or"
    SET_OPERATION = "IUEN"
    KEYWORDS = "keywords"


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one pair: accuracy, recall and F1 are all 0 or all 1.

    The pair counts in the accuracy of the whole set if `predicted` > 0, and in its recall if `gold` > 0.
    """

    f1: int
    predicted: int
    gold: int


def compare(predicted: SpiderQuery, gold: SpiderQuery) -> dict[Component, Score]:
    """Score every component; both queries come from `comparable`."""
    conditions, gold_conditions = _conditions(predicted.where), _conditions(gold.where)
    # Grouping is scored twice: by column names without tables, and with tables and HAVING.
    groups, gold_groups = ([use.column.split(".")[-1] for use in query.group] for query in (predicted, gold))
    same_group = [use.column for use in predicted.group] == [use.column for use in gold.group]
    return {
        Component.SELECT: _score_bags(predicted.select, gold.select),
        Component.SELECT_COLUMNS: _score_bags(
            [item.expression for item in predicted.select], [item.expression for item in gold.select]
        ),
        Component.WHERE: _score_bags(conditions, gold_conditions),
        Component.WHERE_COLUMNS: _score_bags(
            [condition.left for condition in conditions], [condition.left for condition in gold_conditions]
        ),
        Component.GROUP_COLUMNS: _score_bags(groups, gold_groups),
        Component.GROUP: _score_present(
            bool(groups), bool(gold_groups), same_group and predicted.having == gold.having
        ),
        Component.ORDER: _score_present(
            predicted.order is not None,
            gold.order is not None,
            predicted.order == gold.order and predicted.limit == gold.limit,
        ),
        Component.AND_OR: _score_connectives(set(predicted.where[1::2]), set(gold.where[1::2])),
        Component.SET_OPERATION: _score_present(
            predicted.other is not None, gold.other is not None, _same_set_operation(predicted, gold)
        ),
        Component.KEYWORDS: _score_bags(sorted(_keywords(predicted)), sorted(_keywords(gold))),
    }


def matches(scores: dict[Component, Score], predicted: SpiderQuery, gold: SpiderQuery) -> bool:
    """Whether every component is right and the tables are the same in any order."""
    if any(score.f1 != 1 for score in scores.values()):
        return False
    return not gold.tables or Counter(predicted.tables) == Counter(gold.tables)


def _score_bags(predicted: Sequence[object], gold: Sequence[object]) -> Score:
    return Score(int(Counter(predicted) == Counter(gold)), len(predicted), len(gold))


def _score_present(predicted: bool, gold: bool, same: bool) -> Score:
    """The score of a clause that a query has at most once; absent from both is right."""
    return Score(int(predicted == gold and (same or not gold)), int(predicted), int(gold))


def _score_connectives(predicted: AbstractSet[object], gold: AbstractSet[object]) -> Score:
    """Score AND and OR. The script counts a pair without any as right; if two differ, it swaps their counts."""
    if predicted == gold:
        return Score(1, 1, 1)
    return Score(0, predicted=len(gold), gold=len(predicted))


def _same_set_operation(predicted: SpiderQuery, gold: SpiderQuery) -> bool:
    if predicted.other is None or gold.other is None or predicted.set_operation != gold.set_operation:
        return False
    return matches(compare(predicted.other, gold.other), predicted.other, gold.other)


def _conditions(conditions: Conditions) -> list[Condition]:
    return [condition for condition in conditions[::2] if isinstance(condition, Condition)]


def _all_conditions(query: SpiderQuery) -> list[Condition]:
    return [*_conditions(query.joins), *_conditions(query.where), *_conditions(query.having)]


def _count_or(query: SpiderQuery) -> int:
    return [*query.joins[1::2], *query.where[1::2], *query.having[1::2]].count("or")


def _keywords(query: SpiderQuery) -> set[str]:
    conditions = _all_conditions(query)
    present = {
        "where": bool(query.where),
        "group": bool(query.group),
        "having": bool(query.having),
        "order": query.order is not None,
        "limit": query.limit,
        "or": _count_or(query) > 0,
        "not": any(condition.negated for condition in conditions),
        "in": any(condition.operator == "in" for condition in conditions),
        "like": any(condition.operator == "like" for condition in conditions),
    }
    words = {word for word, is_present in present.items() if is_present}
    if query.order:
        words.add(query.order.direction)
    if query.set_operation:
        words.add(query.set_operation)
    return words


def hardness(query: SpiderQuery) -> Hardness:
    """The hardness of a gold query, whether or not its literals and DISTINCT were removed."""
    clauses, nested, others = _count_clauses(query), _count_nested(query), _count_others(query)
    if nested == 0:
        if clauses <= 1 and others == 0:
            return Hardness.EASY
        if (clauses <= 1 and others <= 2) or (clauses <= 2 and others < 2):
            return Hardness.MEDIUM
        if (clauses <= 2 and others > 2) or (clauses == 3 and others <= 2):
            return Hardness.HARD
    elif nested == 1 and clauses <= 1 and others == 0:
        return Hardness.HARD
    return Hardness.EXTRA


def _count_clauses(query: SpiderQuery) -> int:
    clauses = [bool(query.where), bool(query.group), query.order is not None, query.limit]
    joins = max(len(query.tables) - 1, 0)
    likes = sum(condition.operator == "like" for condition in _all_conditions(query))
    return sum(clauses) + joins + _count_or(query) + likes


def _count_nested(query: SpiderQuery) -> int:
    return sum(len(condition.nested) for condition in _all_conditions(query)) + (query.other is not None)


def _count_others(query: SpiderQuery) -> int:
    aggregates = [item.aggregate for item in query.select] + [use.aggregate for use in query.group]
    for expression in query.order.items if query.order else ():
        aggregates += [use.aggregate for use in expression.uses]
    # The script counts NOT, and in HAVING each AND and OR, as aggregates.
    negated = sum(condition.negated for condition in _conditions(query.where))
    negated += sum(isinstance(part, str) or part.negated for part in query.having)
    count = sum(aggregate != NONE for aggregate in aggregates) + negated
    return sum([count > 1, len(query.select) > 1, len(query.where) > 1, len(query.group) > 1])


def comparable(query: SpiderQuery, names: SchemaNames) -> SpiderQuery:
    """Remove what exact match ignores: literals, DISTINCT, and which column of a foreign key is named.

    As in the script, some places are left out: literals stay in subqueries of FROM; DISTINCT and columns stay in every
    subquery; and a column is replaced only if the outermost FROM names its table, also after UNION.
    """
    tables = {table for table in query.tables if isinstance(table, str)}

    def representative(name: str) -> str:
        return names.representative.get(name, name) if name.partition(".")[0] in tables else name

    def in_use(use: ColumnUse) -> ColumnUse:
        return ColumnUse(use.aggregate, representative(use.column), False)

    def in_expression(expression: Expression) -> Expression:
        right = in_use(expression.right) if expression.right else None
        return Expression(expression.operator, in_use(expression.left), right)

    def in_conditions(conditions: Conditions) -> Conditions:
        return _each_condition(conditions, lambda condition: replace(condition, left=in_expression(condition.left)))

    def in_query(query: SpiderQuery) -> SpiderQuery:
        order = query.order
        return replace(
            query,
            distinct=False,
            select=tuple(SelectItem(item.aggregate, in_expression(item.expression)) for item in query.select),
            joins=in_conditions(query.joins),
            where=in_conditions(query.where),
            group=tuple(map(in_use, query.group)),
            having=in_conditions(query.having),
            order=Ordering(order.direction, tuple(map(in_expression, order.items))) if order else None,
            other=in_query(query.other) if query.other else None,
        )

    return in_query(_without_literals(query))


def _without_literals(query: SpiderQuery) -> SpiderQuery:
    return replace(
        query,
        joins=_each_condition(query.joins, _without_value),
        where=_each_condition(query.where, _without_value),
        having=_each_condition(query.having, _without_value),
        other=_without_literals(query.other) if query.other else None,
    )


def _without_value(condition: Condition) -> Condition:
    values = (condition.low, condition.high)
    low, high = (_without_literals(value) if isinstance(value, SpiderQuery) else None for value in values)
    return replace(condition, low=low, high=high)


def _each_condition(conditions: Conditions, change: Callable[[Condition], Condition]) -> Conditions:
    changed = list(conditions)
    for position in range(0, len(conditions), 2):
        condition = conditions[position]
        if isinstance(condition, str):
            raise SqlError(f"{condition.upper()} stands where a condition should: AND or OR is missing before it")
        changed[position] = change(condition)
    return tuple(changed)
