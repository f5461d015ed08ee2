"""Batches of an epoch: every example once, few shapes, chance from the seed alone."""

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfixup.reading.plan import plan_readings
from dtfixup.reading.tokens import ReadingShape, ReadingTokens
from dtfixup.training.plan import BatchPlan, PlannedBatch


def tokens_of(lengths: list[int], options: list[int], max_tokens: int = 256) -> ReadingTokens:
    """Examples of given sizes; every option of an example is as long as the others."""
    per_option = np.repeat(lengths, options)
    return ReadingTokens(
        token=np.zeros(per_option.sum(), np.int32),
        token_start_R=np.cumsum([0, *per_option]),
        second_R=np.ones(len(per_option), np.int64),
        option_start_N=np.cumsum([0, *options]),
        label_N=np.zeros(len(lengths), np.int64),
        pad_id=0,
        max_tokens=max_tokens,
        cut_contexts=0,
    )


def epoch(plan: BatchPlan[ReadingShape], seed: int) -> list[PlannedBatch[ReadingShape]]:
    return list(plan.epoch(np.random.default_rng(seed)))


sizes = st.lists(st.tuples(st.integers(3, 256), st.integers(2, 10)), min_size=1, max_size=60)


@given(sizes, st.integers(1, 9), st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_an_epoch_has_every_example_once_and_shapes_that_hold_them(
    pairs: list[tuple[int, int]], batch_size: int, seed: int
) -> None:
    tokens = tokens_of(*map(list, zip(*pairs, strict=True)))
    plan = plan_readings(tokens, range(len(pairs)), batch_size)
    batches = epoch(plan, seed)
    assert len(batches) == len(plan)
    for batch in batches:
        real = batch.examples[batch.examples >= 0]
        assert len(batch.examples) == batch_size
        assert len(real), "no batch of fill alone"
        smallest = tokens.shape_of(real)
        assert smallest.options <= batch.shape.options
        assert smallest.tokens <= batch.shape.tokens <= 256
        assert batch.shape.tokens % 8 == 0
    found = Counter(int(example) for batch in batches for example in batch.examples if example >= 0)
    assert found == Counter(range(len(pairs)))
    not_full = [batch for batch in batches if -1 in batch.examples]
    assert len(not_full) <= len({batch.shape for batch in batches}) + 1


def test_examples_of_a_like_length_go_together() -> None:
    lengths = [40, 100, 120, 140, 180, 250] * 30
    batches = epoch(plan_readings(tokens_of(lengths, [4] * 180), range(180), 10), 0)
    assert sorted({batch.shape.tokens for batch in batches}) == [40, 104, 120, 144, 184, 256]
    for batch in batches:
        assert len({lengths[example] for example in batch.examples}) == 1
    changes = sum(one.shape != other.shape for one, other in pairwise(batches))
    assert changes > 8, "shapes come in random order"


def test_examples_with_many_options_do_not_widen_the_others() -> None:
    options = [4] * 40 + [10] * 3
    batches = epoch(plan_readings(tokens_of([100] * 43, options), range(43), 20), 0)
    assert sorted((batch.shape.options, int((batch.examples >= 0).sum())) for batch in batches) == [
        (4, 20),
        (4, 20),
        (10, 3),
    ]


def test_a_group_too_small_for_a_batch_goes_with_the_next() -> None:
    lengths = [90] * 3 + [150] * 20 + [250] * 2
    batches = epoch(plan_readings(tokens_of(lengths, [4] * 25), range(25), 10), 0)
    assert Counter(batch.shape.tokens for batch in batches) == {152: 3, 256: 1}
    assert len(plan_readings(tokens_of([90, 150, 250], [4] * 3), range(3), 10)) == 1


def test_only_the_examples_asked_for_are_planned() -> None:
    batches = epoch(plan_readings(tokens_of([50] * 9, [4] * 9), [7, 2], 8), 0)
    assert [sorted(batch.examples.tolist())[-2:] for batch in batches] == [[2, 7]]
