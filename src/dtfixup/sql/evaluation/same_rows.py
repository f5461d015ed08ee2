"""Whether two queries gave the same rows.

In: the rows of two queries. Out: whether they are equal by the rule of the test-suite metric (Zhong et al., EMNLP
2020): as a bag, or as a list if the gold query orders them, with the columns in any order. Departs: DISTINCT is not
removed from queries, and numbers have a tolerance.
"""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

_TOLERANCE: Final = 1e-9
"""Relative: sums of the same numbers in another order differ by less, different answers by more."""

_NOTHING: Final = 1e-12
"""What rounding leaves of a sum that should be 0."""
_LARGEST_WHOLE: Final = 2**100
"""Beyond any integer type of the databases; larger numbers are compared as fractions."""

_Column: TypeAlias = tuple[Hashable, ...]

_LEXEME = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|[()]|\w+""", re.DOTALL)


def is_ordered(sql: str) -> bool:
    """Whether a query has ORDER BY outside brackets, where it orders the result.

    >>> is_ordered("SELECT a FROM t ORDER BY a"), is_ordered("SELECT a FROM (SELECT a FROM t ORDER BY a)")
    (True, False)
    """
    depth = 0
    for lexeme in _LEXEME.findall(sql):
        depth += (lexeme == "(") - (lexeme == ")")
        if depth == 0 and lexeme.lower() == "order":
            return True
    return False


def equal_results(gold_rows: Sequence[Sequence[Any]], predicted_rows: Sequence[Sequence[Any]], ordered: bool) -> bool:
    """Whether two results are equal for some order of the columns, and of the rows unless `ordered`.

    >>> equal_results([(1, "a"), (2, "b")], [("b", 2.0), ("a", 1)], ordered=False)
    True
    """
    if len(gold_rows) != len(predicted_rows):
        return False
    if not gold_rows:
        return True
    if len(gold_rows[0]) != len(predicted_rows[0]):
        return False
    numbers = _number_classes(value for rows in (gold_rows, predicted_rows) for row in rows for value in row)
    gold, predicted = (
        [tuple(_comparable(value, numbers) for value in row) for row in rows] for rows in (gold_rows, predicted_rows)
    )
    if gold == predicted:
        return True
    if ordered:
        # With the rows fixed, columns are compared one by one.
        return Counter(_columns(gold)) == Counter(_columns(predicted))
    if Counter(gold) == Counter(predicted):
        return True
    return _match(_columns(gold), _columns(predicted), [0] * len(gold[0]), [0] * len(gold[0]))


def _columns(rows: Sequence[tuple[Hashable, ...]]) -> list[_Column]:
    return list(zip(*rows, strict=True))


def _comparable(value: Any, numbers: dict[float, float]) -> Hashable:
    """A representative of a value: equal for values that count as the same, and only for those."""
    if isinstance(value, int | float | Decimal):
        return numbers.get(_plain(value), math.nan)  # the same object, which is equal to itself in a tuple
    # Arrays, which some databases return, have no hash.
    return value if isinstance(value, Hashable) else (type(value), repr(value))


def _plain(number: int | float | Decimal) -> int | float:
    """The same number, as an int if it is whole. Booleans are stored as numbers."""
    if isinstance(number, int):
        return int(number)
    is_whole = math.isfinite(number) and -_LARGEST_WHOLE < number < _LARGEST_WHOLE and number == int(number)
    return int(number) if is_whole else float(number)


def _number_classes(values: Iterable[Any]) -> dict[float, float]:
    """For every number, the representative of all numbers within the tolerance. Integers are compared exactly, so that
    neighbouring large keys stay apart; a fraction joins the integer next to it, or else its neighbours."""
    numbers = {_plain(value) for value in values if isinstance(value, int | float | Decimal)}
    integers = sorted(number for number in numbers if isinstance(number, int))
    classes: dict[float, float] = {number: number for number in integers}
    last: float | None = None
    for number in sorted(number for number in numbers if isinstance(number, float) and not math.isnan(number)):
        position = bisect_left(integers, number)
        near = [whole for whole in integers[max(position - 1, 0) : position + 1] if _is_close(whole, number)]
        if near:
            classes[number] = min(near, key=lambda whole: abs(whole - number))
        elif last is not None and _is_close(last, number):
            classes[number] = classes[last]
            last = number
        else:
            classes[number] = last = number
    return classes


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_NOTHING)


def _match(
    gold: Sequence[_Column],
    predicted: Sequence[_Column],
    gold_colours: list[int],
    predicted_colours: list[int],
) -> bool:
    """Whether some order of the predicted columns, each with a gold column of its colour, makes the bags of rows equal.

    Columns get colours by their values, rows by the colours and values in them, columns again by their rows, until no
    colour splits further: columns of different colour cannot be the same. If unequal columns still share a colour, one
    of them is singled out and each candidate is tried, so few permutations are ever compared.
    """
    classes = 0
    while True:
        rows: dict[Hashable, int] = {}  # shared by both sides, so that equal colours mean the same
        gold_rows = _row_colours(gold, gold_colours, rows)
        predicted_rows = _row_colours(predicted, predicted_colours, rows)
        columns: dict[Hashable, int] = {}
        gold_colours = _column_colours(gold, gold_colours, gold_rows, columns)
        predicted_colours = _column_colours(predicted, predicted_colours, predicted_rows, columns)
        if Counter(gold_colours) != Counter(predicted_colours):
            return False
        if len(columns) == classes:
            break
        classes = len(columns)
    for colour in range(classes):
        shared = [column for column, own in zip(gold, gold_colours, strict=True) if own == colour]
        if len(set(shared)) > 1:
            single = gold.index(shared[0])
            # Equal columns are interchangeable: one of them is enough.
            candidates = {predicted[index]: index for index, own in enumerate(predicted_colours) if own == colour}
            return any(
                _match(gold, predicted, _single_out(gold_colours, single), _single_out(predicted_colours, index))
                for index in candidates.values()
            )
    return True


def _row_colours(columns: Sequence[_Column], colours: list[int], colour_of: dict[Hashable, int]) -> list[int]:
    groups: dict[int, list[int]] = {}
    for column in sorted(range(len(columns)), key=colours.__getitem__):
        groups.setdefault(colours[column], []).append(column)
    result = []
    for row in zip(*columns, strict=True):
        key = tuple(
            row[group[0]] if len(group) == 1 else frozenset(Counter(row[column] for column in group).items())
            for group in groups.values()
        )
        result.append(colour_of.setdefault(key, len(colour_of)))
    return result


def _column_colours(
    columns: Sequence[_Column], colours: list[int], rows: list[int], colour_of: dict[Hashable, int]
) -> list[int]:
    result = []
    for column, colour in zip(columns, colours, strict=True):
        key = (colour, frozenset(Counter(zip(rows, column, strict=True)).items()))
        result.append(colour_of.setdefault(key, len(colour_of)))
    return result


def _single_out(colours: list[int], column: int) -> list[int]:
    return [max(colours) + 1 if index == column else colour for index, colour in enumerate(colours)]
