"""The kinds of errors in wrong queries, for tables that count them.

In: the `MatchVerdict` of a pair. Out: its `Failure`s; a query may have several. They follow Spider's components, but do
not overlap: either conditions on other columns, or the right columns with another operator.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from dtfixup.sql.evaluation.evaluate import MatchVerdict
from dtfixup.sql.evaluation.exact_match import Component


class Failure(StrEnum):
    """Kinds of errors; the values are the texts of tables."""

    SHOWN_COLUMNS = "other columns are shown, or more or fewer of them"
    AGGREGATE = "the right columns are shown, with another aggregate"
    CONDITION_COLUMNS = "conditions on other columns, or more or fewer of them"
    CONDITION = "conditions on the right columns, with another operator or nested query"
    GROUP = "another GROUP BY or HAVING"
    ORDER = "another ORDER BY or LIMIT"
    SET_OPERATION = "another UNION, INTERSECT or EXCEPT, or none"
    OTHER_WORDS = "another AND, OR, NOT, IN or LIKE"
    TABLES = "other tables are joined, and nothing else differs"
    VALUES = "only a literal or DISTINCT differs, and the rows do"
    NO_QUERY = "no query: nothing in the question links to the schema, or none could be written"


def failures_of(verdict: MatchVerdict) -> tuple[Failure, ...]:
    """The kinds of errors of a pair by exact match, which ignores literals and DISTINCT."""
    if verdict.exact:
        return ()
    wrong = {component for component, score in verdict.scores.items() if score.f1 != 1}
    is_present = {
        Failure.SHOWN_COLUMNS: Component.SELECT_COLUMNS in wrong,
        Failure.AGGREGATE: Component.SELECT in wrong and Component.SELECT_COLUMNS not in wrong,
        Failure.CONDITION_COLUMNS: Component.WHERE_COLUMNS in wrong,
        Failure.CONDITION: Component.WHERE in wrong and Component.WHERE_COLUMNS not in wrong,
        Failure.GROUP: not wrong.isdisjoint({Component.GROUP, Component.GROUP_COLUMNS}),
        Failure.ORDER: Component.ORDER in wrong,
        Failure.SET_OPERATION: Component.SET_OPERATION in wrong,
    }
    kinds = tuple(kind for kind, present in is_present.items() if present)
    return kinds or (Failure.OTHER_WORDS if wrong else Failure.TABLES,)


def count_failures(failures: Iterable[tuple[Failure, ...]]) -> Mapping[str, int]:
    """The number of queries with each kind, the commonest first."""
    counts = Counter(kind for kinds in failures for kind in kinds)
    order = sorted((kind for kind in Failure if kind in counts), key=lambda kind: -counts[kind])
    return {kind.value: counts[kind] for kind in order}
