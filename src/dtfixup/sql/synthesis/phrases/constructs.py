"""All ways of asking by name, with how often each is tried.

The weights lean towards what Spider's own questions seldom say; what one database has no columns for, others make up.
"""

from collections.abc import Callable, Mapping
from functools import partial

from dtfixup.sql.synthesis.phrases.asking_children import ask_children, ask_did, ask_identity, ask_with_parent
from dtfixup.sql.synthesis.phrases.asking_groups import (
    ask_group_aggregate,
    ask_group_count,
    ask_having,
    ask_most_common,
)
from dtfixup.sql.synthesis.phrases.asking_one import ask_except, ask_lookup, ask_same
from dtfixup.sql.synthesis.phrases.asking_order import ask_distinct, ask_sorted, ask_superlative, ask_top
from dtfixup.sql.synthesis.phrases.asking_parents import (
    ask_distinct_parents,
    ask_parent_of_extreme,
    ask_parents_by_count,
    ask_parents_by_total,
    ask_per_parent,
    ask_sorted_parents,
    ask_with_children,
    ask_without_children,
)
from dtfixup.sql.synthesis.phrases.asking_rows import (
    ask_aggregate,
    ask_all,
    ask_count,
    ask_restricted,
    ask_several_aggregates,
    ask_some,
)
from dtfixup.sql.synthesis.phrases.asking_sides import ask_sides_of_children, ask_sides_of_groups, ask_superior
from dtfixup.sql.synthesis.phrases.asking_sums import ask_computed
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene

WAYS: Mapping[str, tuple[float, Callable[[Scene], Draft | None]]] = {
    "compare": (9, partial(ask_restricted, way="compare")),
    "range": (3, partial(ask_restricted, way="range")),
    "time": (6, partial(ask_restricted, way="time")),
    "value": (5, partial(ask_restricted, way="value")),
    "other values": (3, partial(ask_restricted, way="other values")),
    "pattern": (4, partial(ask_restricted, way="pattern")),
    "blank": (4, partial(ask_restricted, way="blank")),
    "flag": (10, partial(ask_restricted, way="flag")),
    "two columns": (7, partial(ask_restricted, way="two columns")),
    "average": (2.5, partial(ask_restricted, way="average")),
    "either": (2, partial(ask_restricted, way="either")),
    "all": (1, ask_all),
    "count": (1, ask_count),
    "aggregate": (5, ask_aggregate),
    "several aggregates": (2, ask_several_aggregates),
    "lookup": (5, ask_lookup),
    "same as": (1, ask_same),
    "except one": (0.7, ask_except),
    "some": (0.8, ask_some),
    "superlative": (6, ask_superlative),
    "top": (4, ask_top),
    "sorted": (5, ask_sorted),
    "distinct": (4, ask_distinct),
    "group count": (3, ask_group_count),
    "group aggregate": (4, ask_group_aggregate),
    "having": (2.5, ask_having),
    "most common": (2, ask_most_common),
    "computed": (12, ask_computed),
    "children": (6, ask_children),
    "did": (7, ask_did),
    "with parent": (3, ask_with_parent),
    "identity": (4, ask_identity),
    "per parent": (4, ask_per_parent),
    "parents by count": (5, ask_parents_by_count),
    "parents by total": (1.5, ask_parents_by_total),
    "sorted parents": (1, ask_sorted_parents),
    "distinct parents": (1, ask_distinct_parents),
    "parent of extreme": (2, ask_parent_of_extreme),
    "without children": (3, ask_without_children),
    "with children": (4, ask_with_children),
    "superior": (10, ask_superior),
    "sides of children": (5, ask_sides_of_children),
    "sides of groups": (2, ask_sides_of_groups),
}
