"""Plans over groups: every example once, extra ones by choice, shapes with their groups."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import ConfigError, DataError
from dtfixup.training.plan import BatchPlan, Group


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.floats(0, 1)), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
)
def test_an_epoch_has_every_example_once_and_of_the_extra_ones_as_many_as_asked(
    sizes: list[tuple[int, int, float]], batch_size: int, seed: int
) -> None:
    groups = []
    for number, (count, extra, share) in enumerate(sizes):
        members, others = 100 * number + np.arange(count), 100 * number + 50 + np.arange(extra)
        groups.append(Group(members, f"shape {number}", others, int(share * extra)))
    if not any(group.size for group in groups):
        with pytest.raises(DataError, match="no example to train on"):
            BatchPlan(groups, batch_size)
        return
    plan = BatchPlan(groups, batch_size)
    batches = list(plan.epoch(np.random.default_rng(seed)))
    assert len(batches) == len(plan)
    found = Counter(int(example) for batch in batches for example in batch.examples if example >= 0)
    assert set(found.values()) == {1}
    for number, group in enumerate(groups):
        own = {example for example in found if example // 100 == number}
        assert set(group.examples) <= own
        assert len(own) == group.size
        assert {batch.shape for batch in batches if set(batch.examples) & own} <= {group.shape}
    again = list(plan.epoch(np.random.default_rng(seed)))
    assert [batch.examples.tolist() for batch in again] == [batch.examples.tolist() for batch in batches]


def test_a_batch_of_no_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="batch_size must be at least 1, got 0"):
        BatchPlan([Group(np.arange(3), "shape")], 0)
