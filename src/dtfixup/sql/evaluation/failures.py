"""What is wrong with a wrong query, in kinds that can be counted.

In: the `Verdict` of a pair. Out: its `Failure`s; a query may have several. They are Spider's components, told apart
where one holds another: conditions on other columns, and the right columns with another operator.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from dtfixup.sql.evaluation.evaluate import Verdict
from dtfixup.sql.evaluation.exact_match import Component


class Failure(StrEnum):
    """Kinds of failures, in the words that a table shows."""

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


def failures_of(verdict: Verdict) -> tuple[Failure, ...]:
    """What is wrong by exact match, which neither literals nor DISTINCT have a say in; nothing where it is right."""
    if verdict.exact:
        return ()
    wrong = {component for component, score in verdict.scores.items() if score.f1 != 1}
    found = {
        Failure.SHOWN_COLUMNS: Component.SELECT_COLUMNS in wrong,
        Failure.AGGREGATE: Component.SELECT in wrong and Component.SELECT_COLUMNS not in wrong,
        Failure.CONDITION_COLUMNS: Component.WHERE_COLUMNS in wrong,
        Failure.CONDITION: Component.WHERE in wrong and Component.WHERE_COLUMNS not in wrong,
        Failure.GROUP: not wrong.isdisjoint({Component.GROUP, Component.GROUP_COLUMNS}),
        Failure.ORDER: Component.ORDER in wrong,
        Failure.SET_OPERATION: Component.SET_OPERATION in wrong,
    }
    kinds = tuple(kind for kind, is_wrong in found.items() if is_wrong)
    return kinds or (Failure.OTHER_WORDS if wrong else Failure.TABLES,)


def count_failures(found: Iterable[tuple[Failure, ...]]) -> Mapping[str, int]:
    """How many queries have each kind, the commonest first."""
    counted = Counter(kind for kinds in found for kind in kinds)
    order = list(Failure)
    return {kind.value: counted[kind] for kind in sorted(counted, key=lambda kind: (-counted[kind], order.index(kind)))}
