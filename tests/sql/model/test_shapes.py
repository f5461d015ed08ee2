"""Shapes hold their examples and no more; a question that leaves no room for the schema is an error."""

from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from dtfixup.errors import DataError
from dtfixup.sql.model.batches import Corpus
from dtfixup.sql.model.shapes import ANCHOR_TOKENS, Shape, round_up
from tests.sql.plain_example import Plain, read_windows
from tests.sql.tiny_model import batch_of, holds, prepared_from, prepared_sample, sample_corpus


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(DataError, match="at least one example"):
        sample_corpus().shape_of([])


def test_a_shape_holds_its_examples_and_no_more() -> None:
    corpus = sample_corpus()
    shape = corpus.shape_of([3, 200])
    batch = batch_of(corpus, [3, 200])
    one, other = (astuple(corpus.shape_of([example])) for example in (3, 200))
    assert astuple(shape) == tuple(map(max, one, other))
    assert shape.words == int(batch.word_keep_BW.sum(1).max())
    assert shape.items == int(batch.keep_BN.sum(1).sub(batch.word_keep_BW.sum(1)).max())
    assert shape.item_words == int(batch.item_word_keep_BIJ.sum(2).max())
    assert (shape.windows, shape.tokens) == (1, int(batch.token_keep_BKT.sum(2).max()))
    assert shape.steps == int(batch.step_keep_BS.sum(1).max())
    assert shape.values == int(batch.value_keep_BV.sum(1).max())
    assert shape.value_tokens == int(batch.value_token_keep_BVU.sum(2).max())


def test_a_rounded_shape_holds_the_shape() -> None:
    for example in range(240):
        shape = sample_corpus().shape_of([example])
        assert holds(round_up(shape), shape)
    shape = Shape(words=8, items=9, item_words=3, windows=2, tokens=17, steps=1, values=9, value_tokens=4)
    assert round_up(shape) == Shape(8, 16, 3, 2, 24, 8, 16, 4)


def test_a_question_that_leaves_no_room_is_refused() -> None:
    prepared = prepared_sample()
    rows = [Plain(prepared, example) for example in range(240)]
    needs = [len(row.question) + 2 + 2 * (max(map(len, row.item_tokens)) + 1 + ANCHOR_TOKENS) for row in rows]
    assert min(row.length for row in rows) > max(needs), "no schema fits into one window"
    cramped, enough = int(np.argmax(needs)), max(needs)
    with pytest.raises(DataError, match=rf"question of example {cramped} leaves no room .* {enough - 1} tokens"):
        Corpus(prepared, max_tokens=enough - 1)
    Corpus(prepared, max_tokens=enough)


def test_a_long_question_may_have_a_small_schema(tmp_path: Path) -> None:
    prepared = prepared_from(
        tmp_path,
        "CREATE TABLE ship (registration_identification_number int);",
        [("How many ships are there in the harbour today", "SELECT count(*) FROM ship")],
    )
    total = Plain(prepared, 0).length
    batch = batch_of(Corpus(prepared, max_tokens=total), [0])
    assert read_windows(batch, 0, Plain(prepared, 0)) == [[0, 1, 2]]
    with pytest.raises(DataError, match="question of example 0 leaves no room"):
        Corpus(prepared, max_tokens=total - 1)
