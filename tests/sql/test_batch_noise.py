"""Noise in batches: it leaves out, hides and removes what it may, and nothing else."""

from collections.abc import Iterator
from dataclasses import fields
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfixup.sql.batch import Batch, Corpus, Noise, Order

from .plain_example import CLS, MASK, Plain, items_of, random_prepared, read_windows
from .tiny_model import prepared_sample, sample_corpus

seeds = st.integers(0, 2**32 - 1)


def noisy_rows(noise: Noise, order: Order = Order.STORED) -> Iterator[tuple[Batch, int, Plain]]:
    """Every third example of the sample, with noise."""
    corpus = sample_corpus()
    torch.manual_seed(3)
    for first in range(0, 240, 60):
        examples = range(first, first + 60, 3)
        batch = corpus.assemble(torch.tensor(examples), corpus.shape_of(examples), order, noise)
        for row, example in enumerate(examples):
            yield batch, row, Plain(prepared_sample(), example)


@pytest.mark.parametrize("order", list(Order))
def test_items_that_are_used_and_their_tables_are_never_left_out(order: Order) -> None:
    dropped = total = beside = gone = 0
    for batch, row, plain in noisy_rows(Noise(items=0.9), order):
        items = items_of(batch, row)
        assert plain.used <= set(items)
        tables = {item - plain.columns for item in items if item >= plain.columns}
        assert {plain.table_of(item) for item in items} == tables, "a table that goes takes its columns along"
        assert sorted(chain(*read_windows(batch, row, plain))) == items
        assert batch.column_keep_BI[row].nonzero()[:, 0].tolist() == [item for item in items if item < plain.columns]
        assert batch.item_word_keep_BIJ[row].any(1).nonzero()[:, 0].tolist() == items
        kept = [*range(plain.words), *(plain.words + item for item in items)]
        relation_NN = batch.relation_BNN[row][batch.keep_BN[row]][:, batch.keep_BN[row]]
        assert (relation_NN.numpy() == plain.relations()[np.ix_(kept, kept)]).all()
        assert batch.index_BS[row][batch.step_keep_BS[row]].tolist() == plain.steps("index"), "and steps still fit"
        dropped += plain.items - len(items)
        total += plain.items - len(plain.used)
        siblings = {
            item for item in range(plain.columns) if plain.columns + plain.table_of(item) in plain.used
        } - plain.used
        beside += len(siblings)
        gone += len(siblings - set(items))
    assert 0.5 < dropped / total < 0.7, "about half of 0.9, and more where a whole table goes"
    assert 0.35 < gone / beside < 0.55, "half of 0.9 of the columns of a table that stays for another column"


@given(seeds, st.integers(31, 40), st.sampled_from(list(Order)))
@settings(max_examples=40, deadline=None)
def test_items_left_out_leave_whole_windows(seed: int, max_tokens: int, order: Order) -> None:
    prepared = random_prepared(seed)
    corpus = Corpus(prepared, max_tokens=max_tokens)
    torch.manual_seed(seed)
    batch = corpus.assemble(torch.arange(6), corpus.shape_of(range(6)), order, Noise(items=1.0))
    for row in range(6):
        windows = read_windows(batch, row, Plain(prepared, row))
        assert sorted(chain(*windows)) == items_of(batch, row)


def test_noise_of_links_only_removes_links() -> None:
    removed = linked = 0
    for batch, row, plain in noisy_rows(Noise(links=0.4)):
        keep_N = batch.keep_BN[row]
        relation_NN = batch.relation_BNN[row][keep_N][:, keep_N].numpy()
        bare_NN = plain.relations(np.zeros_like(plain.links))
        whole_NN = plain.relations()
        is_whole, is_bare = relation_NN == whole_NN, relation_NN == bare_NN
        assert (is_whole | is_bare).all()
        words = plain.words
        assert is_whole[:words, :words].all()
        assert is_whole[words:, words:].all()
        links = whole_NN != bare_NN
        gone = links & is_bare
        assert (gone == gone.T).all(), "a link goes in both directions"
        removed += int(gone.sum())
        linked += int(links.sum())
        assert len(items_of(batch, row)) == plain.items
    assert 0.3 < removed / linked < 0.5


def test_noise_of_words_only_masks_words_of_the_question() -> None:
    hidden = words = 0
    for batch, row, plain in noisy_rows(Noise(words=0.3), Order.GROUPED):
        (window,) = read_windows(batch, row, plain, masked=True)
        assert len(window) == plain.items
        seen = batch.token_BKT[row, 0, 1 : len(plain.question) + 1].tolist()
        for word in range(plain.words):
            of_word = [place for place, owner in enumerate(plain.question_owners) if owner == word]
            masked = [seen[place] == MASK for place in of_word]
            assert all(masked) or [seen[place] for place in of_word] == [plain.question[place] for place in of_word]
            hidden += masked[0]
            words += 1
    assert 0.2 < hidden / words < 0.4


def test_a_masked_word_is_masked_in_every_window() -> None:
    corpus = sample_corpus(max_tokens=72)
    torch.manual_seed(0)
    batch = corpus.assemble(torch.arange(20), corpus.shape_of(range(20)), Order.STORED, Noise(words=0.3))
    several = 0
    for row in range(20):
        length = len(Plain(prepared_sample(), row).question)
        seen = [window[1 : length + 1].tolist() for window in batch.token_BKT[row] if window[0] == CLS]
        assert all(window == seen[0] for window in seen)
        several += len(seen) > 1
    assert several


def test_noise_comes_from_the_stream_of_torch() -> None:
    corpus = sample_corpus()
    noise = Noise(items=0.5, words=0.2, links=0.3)

    def draw() -> Batch:
        return corpus.assemble(torch.arange(8), corpus.shape_of(range(8)), Order.GROUPED_SHUFFLED, noise)

    torch.manual_seed(1)
    first, other = draw(), draw()
    torch.manual_seed(1)
    again = draw()
    for field in fields(Batch):
        assert torch.equal(getattr(first, field.name), getattr(again, field.name)), field.name
    for name in ("token_BKT", "keep_BN", "relation_BNN"):
        assert not torch.equal(getattr(first, name), getattr(other, name)), name


@given(st.lists(st.integers(0, 239), min_size=1, max_size=4), seeds)
@settings(max_examples=10, deadline=None)
def test_no_noise_is_a_rate_of_zero(examples: list[int], seed: int) -> None:
    corpus = sample_corpus()
    shape = corpus.shape_of(examples)
    torch.manual_seed(seed)
    plain = corpus.assemble(torch.tensor(examples), shape, Order.GROUPED_SHUFFLED)
    torch.manual_seed(seed)
    noisy = corpus.assemble(torch.tensor(examples), shape, Order.GROUPED_SHUFFLED, Noise())
    for field in fields(Batch):
        assert torch.equal(getattr(plain, field.name), getattr(noisy, field.name)), field.name
