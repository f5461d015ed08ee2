"""Batches: what a plain reading of the prepared rows says, whoever shares the batch and however it is padded."""

from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dtfixup.encoders import load_encoder
from dtfixup.errors import DataError
from dtfixup.sql.linking.relations import Relation
from dtfixup.sql.model.batches import TABLE_KIND, Batch, Corpus, Order
from tests.sql.plain_example import CLS, PAD, SEP, Plain, items_of, random_examples, read_windows
from tests.sql.tiny_model import batch_of, larger, prepared_sample, sample_corpus

some_examples = st.lists(st.sampled_from([-1, *range(240)]), min_size=1, max_size=5).filter(lambda row: max(row) >= 0)
seeds = st.integers(0, 2**32 - 1)


def real(keep: Tensor, *tensors: Tensor) -> list[list[Any]]:
    """What is not padding, and a check that padding comes last."""
    count = int(keep.sum())
    assert keep.tolist() == [True] * count + [False] * (len(keep) - count)
    return [tensor[:count].tolist() for tensor in tensors]


# Relations.


def test_relation_ids_of_another_version_are_refused() -> None:
    prepared = prepared_sample()
    relation = prepared.arrays["relation"].copy()
    relation[5] = len(Relation)
    with pytest.raises(DataError, match="relation ids that this version does not know: prepare them again"):
        Corpus(replace(prepared, arrays={**prepared.arrays, "relation": relation}))


# What an example gives does not depend on the batch.


def whole_row(batch: Batch, row: int, plain: Plain) -> dict[str, Any]:
    """Everything a batch says of an example, without padding."""
    words = batch.words
    (choice, index, state, parent) = real(
        batch.step_keep_BS[row], batch.choice_BS[row], batch.index_BS[row], batch.state_BS[row], batch.parent_BS[row]
    )
    tokens = [
        real(keep_U, token_U)[0]
        for keep_U, token_U in zip(batch.value_token_keep_BVU[row], batch.value_token_BVU[row], strict=True)
    ]
    named = ("kind", "column", "first", "last", "source")
    values = real(batch.value_keep_BV[row], *(getattr(batch, f"value_{name}_BV")[row] for name in named))
    items = items_of(batch, row)
    keep_N = batch.keep_BN[row]
    return {
        "windows": read_windows(batch, row, plain),
        "words": int(batch.word_keep_BW[row].sum()),
        "items": items,
        "item words": [
            sum(real(batch.item_word_keep_BIJ[row, item], batch.item_word_keep_BIJ[row, item])[0]) for item in items
        ],
        "kinds": batch.item_kind_BI[row, items].tolist(),
        "columns": batch.column_keep_BI[row].nonzero()[:, 0].tolist(),
        "used": batch.item_used_BI[row].nonzero()[:, 0].tolist(),
        "relations": batch.relation_BNN[row][keep_N][:, keep_N].tolist(),
        "steps": [choice, index, state, parent],
        "values": values,
        "value tokens": tokens[: len(values[0])],
        "word keep": keep_N[:words].tolist() == batch.word_keep_BW[row].tolist(),
    }


def wanted_row(plain: Plain) -> dict[str, Any]:
    """The same from the prepared rows."""
    prepared, example = plain.prepared, plain.example
    first, last = (int(place) for place in prepared.arrays["values.start"][example : example + 2])
    named = ("kind", "column", "first", "last", "source")
    items = list(range(plain.items))
    return {
        "windows": [items],
        "words": plain.words,
        "items": items,
        "item words": [owners[-1] + 1 for owners in plain.item_owners],
        "kinds": [*plain.kinds, *[TABLE_KIND] * (plain.items - plain.columns)],
        "columns": list(range(plain.columns)),
        "used": sorted(plain.used),
        "relations": plain.relations().tolist(),
        "steps": [plain.steps(name) for name in ("choice", "index", "state", "parent")],
        "values": [prepared.row(f"value.{name}", "values", example).tolist() for name in named],
        "value tokens": [prepared.row("value_token.id", "value_tokens", row).tolist() for row in range(first, last)],
        "word keep": True,
    }


@given(some_examples, st.lists(st.integers(0, 9), min_size=8, max_size=8))
@settings(max_examples=25, deadline=None)
def test_a_row_is_its_example_in_any_batch_and_shape(examples: list[int], extra: list[int]) -> None:
    corpus = sample_corpus()
    shape = larger(corpus.shape_of([example for example in examples if example >= 0]), extra)
    batch = corpus.assemble(torch.tensor(examples), shape)
    assert batch.keep_B.tolist() == [example >= 0 for example in examples]
    for row, example in enumerate(examples):
        if example >= 0:
            plain = Plain(prepared_sample(), example)
            assert whole_row(batch, row, plain) == wanted_row(plain)
            keep_N = batch.keep_BN[row]
            assert not batch.relation_BNN[row][~keep_N].any()
            assert not batch.relation_BNN[row][:, ~keep_N].any()


def test_a_row_that_fills_the_batch_holds_nothing() -> None:
    corpus = sample_corpus()
    batch = corpus.assemble(torch.tensor([-1, 7]), corpus.shape_of([7]), Order.SHUFFLED)
    for name in (
        "keep_B", "word_keep_BW", "item_word_keep_BIJ", "column_keep_BI", "keep_BN", "relation_BNN", "step_keep_BS",
        "value_keep_BV", "value_token_keep_BVU",
    ):  # fmt: skip
        assert not getattr(batch, name)[0].any(), name
        assert getattr(batch, name)[1].any(), name
    assert batch.token_BKT[0].tolist() == [[CLS, SEP, *[PAD] * (batch.token_BKT.shape[2] - 2)]], "never quite empty"
    assert batch.token_keep_BKT[0].sum() == 2
    assert (batch.slot_BKT[0] == -1).all()
    assert (batch.index_BS[0] == -1).all()
    assert (batch.parent_BS[0] == -1).all()


# The encoder's input.


def test_the_encoder_reads_the_question_then_each_item() -> None:
    batch = batch_of(sample_corpus(), [0])
    text = str(load_encoder("minilm").tokenizer.decode(batch.token_BKT[0, 0]))
    assert text.startswith(
        "[CLS] how many branches does the library run? [SEP] * branch [SEP] branch id [SEP] "
        "name central library [SEP] city [SEP]"  # a branch is named so
    )
    assert text.endswith(
        "[SEP] fine [SEP] branch [SEP] author [SEP] book [SEP] book author [SEP] copy [SEP] member [SEP] loan [SEP]"
    )


@pytest.mark.parametrize("order", list(Order))
def test_every_token_of_every_item_is_read_once(order: Order) -> None:
    corpus = sample_corpus()
    for first in range(0, 240, 48):
        examples = range(first, first + 48)
        batch = batch_of(corpus, examples, order)
        for row, example in enumerate(examples):
            plain = Plain(prepared_sample(), example)
            (window,) = read_windows(batch, row, plain)
            assert sorted(window) == list(range(plain.items))
            slots = {slot for slot in batch.slot_BKT[row].flatten().tolist() if slot >= 0}
            words = batch.words
            covered = torch.zeros(words + batch.item_word_keep_BIJ[row].numel(), dtype=torch.bool)
            covered[list(slots)] = True
            assert covered[:words].tolist() == batch.word_keep_BW[row].tolist()
            assert covered[words:].tolist() == batch.item_word_keep_BIJ[row].flatten().tolist()


def orders_drawn(order: Order, count: int, example: int = 5) -> list[list[int]]:
    corpus = sample_corpus()
    plain = Plain(prepared_sample(), example)
    batch = corpus.assemble(torch.full((count,), example), corpus.shape_of([example]), order)
    return [read_windows(batch, row, plain)[0] for row in range(count)]


def test_random_orders_are_drawn_from_the_stream_of_torch() -> None:
    torch.manual_seed(4)
    first, second = orders_drawn(Order.SHUFFLED, 6), orders_drawn(Order.SHUFFLED, 6)
    torch.manual_seed(4)
    assert orders_drawn(Order.SHUFFLED, 6) == first
    assert len({tuple(found) for found in first + second}) == 12, "each draw is its own"


def test_the_stored_order_draws_nothing() -> None:
    torch.manual_seed(4)
    before = torch.random.get_rng_state()
    assert len({tuple(found) for found in orders_drawn(Order.STORED, 3)}) == 1
    assert torch.equal(torch.random.get_rng_state(), before)


def test_shuffled_puts_every_item_everywhere() -> None:
    torch.manual_seed(0)
    place = np.array(orders_drawn(Order.SHUFFLED, 600)).argsort(1)  # of each item
    middle, spread = (place.shape[1] - 1) / 2, place.shape[1] / 12**0.5
    assert np.abs(place.mean(0) - middle).max() < 4.5 * spread / 600**0.5, "evenly, as far as 600 draws show"


# Windows.


@given(seeds, st.integers(31, 60), st.sampled_from(list(Order)), st.integers(0, 2), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_long_schema_is_laid_out_over_windows(
    seed: int, max_tokens: int, order: Order, more: int, anchors: bool
) -> None:
    prepared = random_examples(seed)
    corpus = Corpus(prepared, max_tokens=max_tokens, anchors=anchors)
    examples = [0, 1, -1, 2, 3, 4, 5]
    shape = corpus.shape_of(range(6))
    assert shape.tokens <= max_tokens
    torch.manual_seed(seed)
    batch = corpus.assemble(torch.tensor(examples), replace(shape, windows=shape.windows + more), order)
    for row, example in enumerate(examples):
        if example >= 0:
            plain = Plain(prepared, example, anchors=anchors)
            windows = read_windows(batch, row, plain)
            items = [*chain(*windows)]
            assert (items if order is Order.STORED else sorted(items)) == list(range(plain.items))
            assert all(windows), "no window without an item"
            assert (len(windows) == 1) == (plain.length <= max_tokens)
            filled = batch.token_keep_BKT[row].any(1)
            assert filled.tolist() == sorted(filled.tolist(), reverse=True), "windows are filled from the first"
            assert len(windows) <= corpus.shape_of([example]).windows
            relation_NN = batch.relation_BNN[row][batch.keep_BN[row]][:, batch.keep_BN[row]]
            assert (relation_NN.numpy() == plain.relations()).all()


# Spider.
