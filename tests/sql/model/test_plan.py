"""Batch plans: every example once an epoch, in few shapes that hold their batches."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfixup.sql.model.batches import Corpus
from dtfixup.sql.model.plan import USUAL, plan_batches
from dtfixup.sql.model.shapes import Shape
from dtfixup.training.plan import BatchPlan, PlannedBatch
from tests.sql.plain_example import random_examples
from tests.sql.tiny_model import holds, sample_corpus

seeds = st.integers(0, 2**32 - 1)


def epoch(plan: BatchPlan[Shape], seed: int) -> list[PlannedBatch[Shape]]:
    return list(plan.epoch(np.random.default_rng(seed)))


def rows(batches: Sequence[PlannedBatch[Shape]]) -> list[list[int]]:
    return [batch.examples.tolist() for batch in batches]


@given(st.sets(st.integers(0, 239), min_size=1), st.integers(1, 40), seeds, st.sampled_from([512, 72]))
@settings(max_examples=40, deadline=None)
def test_every_example_comes_once_an_epoch(examples: set[int], batch_size: int, seed: int, max_tokens: int) -> None:
    corpus = sample_corpus(max_tokens)
    plan = plan_batches(corpus, sorted(examples), batch_size)
    batches = epoch(plan, seed)
    assert len(batches) == len(plan)
    for batch in batches:
        assert len(batch.examples) == batch_size
        real = [example for example in batch.examples.tolist() if example >= 0]
        assert real, "no batch of fill alone"
        assert batch.examples.tolist() == [*real, *[-1] * (batch_size - len(real))]
        assert holds(batch.shape, corpus.shape_of(real))
    found = Counter(example for row in rows(batches) for example in row if example >= 0)
    assert found == Counter(examples)
    not_full = [batch.shape for batch in batches if -1 in batch.examples]
    assert len(not_full) == len(set(not_full)), "fill stands in the last batch of a shape alone"


def test_there_are_few_shapes() -> None:
    shapes = {batch.shape for batch in epoch(plan_batches(sample_corpus(), range(240), 16), 0)}
    assert len(shapes) <= 8
    assert len({shape.tokens for shape in shapes}) > 2, "and examples of a like size go together"
    other = {batch.shape for batch in epoch(plan_batches(sample_corpus(), range(240), 16), 1)}
    assert other == shapes, "the same in every epoch"


def test_long_examples_go_apart() -> None:
    mixed = 0
    for corpus in (sample_corpus(), *(Corpus(random_examples(seed)) for seed in range(10))):
        is_long = np.any([corpus.sizes.column(name) > most for name, most in USUAL.items()], axis=0)
        mixed += 0 < is_long.sum() < len(is_long)
        for batch in epoch(plan_batches(corpus, range(len(is_long)), 8), 0):
            assert len(set(is_long[batch.examples[batch.examples >= 0]])) == 1
    assert mixed > 5, "there was something to tell apart"


def test_shapes_come_in_random_order() -> None:
    shapes = [batch.shape for batch in epoch(plan_batches(sample_corpus(), range(240), 4), 0)]
    changes = sum(one != other for one, other in pairwise(shapes))
    assert changes > 2 * len(set(shapes))


@given(seeds, st.integers(31, 45))
@settings(max_examples=15, deadline=None)
def test_no_batch_is_longer_than_the_encoder_reads(seed: int, max_tokens: int) -> None:
    corpus = Corpus(random_examples(seed), max_tokens=max_tokens)
    for batch in epoch(plan_batches(corpus, range(6), 2), seed):
        made = corpus.assemble(torch.from_numpy(batch.examples), batch.shape)
        assert made.token_BKT.shape[2] <= max_tokens
        assert made.keep_BN.shape[1] == batch.shape.words + batch.shape.items


@given(
    st.sets(st.integers(0, 239), min_size=1, max_size=120),
    st.sets(st.integers(0, 239), max_size=120),
    st.floats(0, 3),
    seeds,
)
@settings(max_examples=40, deadline=None)
def test_of_the_extra_examples_an_epoch_takes_a_part(
    examples: set[int], extra: set[int], share: float, seed: int
) -> None:
    extra -= examples
    plan = plan_batches(sample_corpus(), sorted(examples), 8, extra=sorted(extra), extra_share=share)
    random = np.random.default_rng(seed)
    for _ in range(2):
        batches = list(plan.epoch(random))
        assert len(batches) == len(plan), "epochs are of one length"
        found = Counter(example for row in rows(batches) for example in row if example >= 0)
        assert set(found.values()) == {1}
        assert examples <= set(found) <= examples | extra
        wanted = min(share * len(examples), len(extra))
        assert abs(len(found) - len(examples) - wanted) <= 0.5 * len(plan.groups) + 1e-9, "rounded in every group"


def test_every_epoch_takes_other_extra_examples() -> None:
    plan = plan_batches(sample_corpus(), range(40), 8, extra=range(40, 240), extra_share=1.0)
    random = np.random.default_rng(0)
    first, second = ({example for row in rows(list(plan.epoch(random))) for example in row} for _ in range(2))
    assert len(first - second) > 20
