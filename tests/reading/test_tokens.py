"""Tokens of every option, against the tokenizer's own pairs; batches, against one example at a time."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfixup.errors import DataError, EncoderError
from dtfixup.reading.examples import ReadingExample
from dtfixup.reading.tokens import ReadingCorpus, ReadingShape, ReadingTokens, tokenise
from tests.reading.tiny_reading import made_up, tiny_encoder
from tests.transformer.operations import READS_A_NUMBER, Operations

TOKENIZERS = {kind: tiny_encoder(kind).tokenizer for kind in ("bert", "roberta")}
EXAMPLES = made_up(30, options=(2, 3, 5), longest=30)


def sequence(tokens: ReadingTokens, row: int) -> list[int]:
    ids: list[int] = tokens.token[tokens.token_start_R[row] : tokens.token_start_R[row + 1]].tolist()
    return ids


@pytest.mark.parametrize(("kind", "max_tokens"), [("bert", 64), ("bert", 20), ("roberta", 300), ("roberta", 70)])
def test_a_sequence_is_what_the_tokenizer_makes_of_context_and_question_with_option(kind: str, max_tokens: int) -> None:
    tokenizer = TOKENIZERS[kind]
    tokens = tokenise(EXAMPLES, tokenizer, max_tokens=max_tokens)
    row, cut = 0, 0
    for example in EXAMPLES:
        for answer in example.answers:
            pair = example.context, f"{example.question} {answer}"
            wanted = tokenizer(*pair, truncation="only_first", max_length=max_tokens)
            assert sequence(tokens, row) == wanted["input_ids"]
            part = wanted.sequence_ids(0)
            assert tokens.second_R[row] == part.index(1)
            row += 1
        whole = max(
            len(tokenizer(example.context, f"{example.question} {answer}")["input_ids"]) for answer in example.answers
        )
        cut += whole > max_tokens
    assert row == len(tokens.second_R) == tokens.option_start_N[-1]
    assert tokens.cut_contexts == cut
    assert (cut > 0) == (max_tokens in (20, 70)), "both cases are seen"
    assert tokens.label_N.tolist() == [example.label for example in EXAMPLES]
    assert tokens.options_N.tolist() == [len(example.answers) for example in EXAMPLES]


def test_a_tokenizer_that_cannot_pad_is_refused() -> None:
    tokenizer = tiny_encoder().tokenizer
    tokenizer.pad_token = None
    with pytest.raises(EncoderError, match="does not pad: use another"):
        tokenise(EXAMPLES[:1], tokenizer, max_tokens=64)


def test_only_the_end_of_the_context_is_cut_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    example = ReadingExample("apple boat cloud door engine", "which ?", ("flute", "garden hammer hammer"), 0, "long")
    fits = ReadingExample("apple", "which ?", ("flute", "garden"), 0, "short")
    with caplog.at_level(logging.WARNING):
        tokens = tokenise([example, fits, example], TOKENIZERS["bert"], max_tokens=10)
    texts = [TOKENIZERS["bert"].decode(sequence(tokens, row)) for row in (0, 1)]
    assert texts[0] == "[CLS] apple boat cloud door [SEP] which? flute [SEP]"
    assert texts[1] == "[CLS] apple boat [SEP] which? garden hammer hammer [SEP]"
    assert caplog.messages == ["2 of 3 contexts were cut to fit 10 tokens"]
    caplog.clear()
    assert tokenise([fits], TOKENIZERS["bert"], max_tokens=10).cut_contexts == 0
    assert not caplog.messages


def test_a_question_that_leaves_no_room_for_the_context_is_refused() -> None:
    example = ReadingExample("apple", "which ?", ("flute", "garden hammer hammer"), 0, "train_17")
    assert tokenise([example], TOKENIZERS["bert"], max_tokens=9).length_N.tolist() == [9]
    with pytest.raises(DataError, match=r"train_17: question and option have 5 tokens, and 8 leave no room .* 'garden"):
        tokenise([example], TOKENIZERS["bert"], max_tokens=8)


def test_a_padded_shape_is_a_multiple_but_never_longer_than_allowed() -> None:
    tokens = tokenise(EXAMPLES, TOKENIZERS["bert"], max_tokens=45)
    longest = int(tokens.length_N.argmax())
    assert tokens.shape_of([longest]).tokens in range(41, 46)
    assert tokens.padded_shape_of([longest]).tokens == 45
    shape = tokens.shape_of([0, 1])
    assert tokens.padded_shape_of([0, 1]).tokens % 8 == 0
    assert 0 <= tokens.padded_shape_of([0, 1]).tokens - shape.tokens < 8
    assert shape.options == max(len(example.answers) for example in EXAMPLES[:2])


TOKENS = tokenise(EXAMPLES, TOKENIZERS["bert"], max_tokens=40)


@given(st.lists(st.integers(-1, len(EXAMPLES) - 1), min_size=1, max_size=6), st.integers(0, 3), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_a_row_of_a_batch_is_its_example_in_any_batch_and_shape(chosen: list[int], options: int, more: int) -> None:
    real = [example for example in chosen if example >= 0] or [0]
    smallest = TOKENS.shape_of(real)
    shape = ReadingShape(smallest.options + options, smallest.tokens + more)
    batch = ReadingCorpus(TOKENS).assemble(torch.tensor(chosen), shape)
    assert batch.token_BOT.shape == (len(chosen), shape.options, shape.tokens)
    assert batch.keep_B.tolist() == [example >= 0 for example in chosen]
    assert batch.token_keep_BOT.any(2).all(), "no sequence is empty"
    for row, example in enumerate(chosen):
        count = TOKENS.options_N[example] if example >= 0 else 0
        assert batch.option_keep_BO[row].tolist() == [place < count for place in range(shape.options)]
        if example < 0:
            continue
        assert batch.label_B[row] == EXAMPLES[example].label
        for option in range(shape.options):
            place = TOKENS.option_start_N[example] + (option if option < count else 0)
            wanted, second = sequence(TOKENS, place), int(TOKENS.second_R[place])
            padding = shape.tokens - len(wanted)
            assert batch.token_BOT[row, option].tolist() == wanted + [TOKENS.pad_id] * padding
            assert batch.token_keep_BOT[row, option].tolist() == [True] * len(wanted) + [False] * padding
            kept = [False] * second + [True] * (len(wanted) - second) + [False] * padding
            assert batch.second_BOT[row, option].tolist() == kept


def test_a_row_that_fills_the_batch_repeats_one_that_is_in_it() -> None:
    batch = ReadingCorpus(TOKENS).assemble(torch.tensor([-1, 4, -1]), TOKENS.shape_of([4]))
    assert torch.equal(batch.token_BOT[0], batch.token_BOT[1])
    assert torch.equal(batch.token_BOT[2], batch.token_BOT[1])
    assert not batch.option_keep_BO[[0, 2]].any()


def test_a_graph_can_hold_the_assembly() -> None:
    corpus, shape = ReadingCorpus(TOKENS), TOKENS.shape_of(range(len(EXAMPLES)))
    with Operations() as operations:
        corpus.assemble(torch.tensor([3, -1, 7]), shape)
    assert operations.count[READS_A_NUMBER] == operations.count["aten::nonzero"] == 0
    assert operations.count["aten::index"] > 0


def test_unknown_labels_are_kept_as_such() -> None:
    tokens = tokenise([replace(EXAMPLES[0], label=None)], TOKENIZERS["bert"], max_tokens=40)
    assert tokens.label_N.tolist() == [-1]
    assert ReadingCorpus(tokens).assemble(torch.tensor([0]), tokens.shape_of([0])).label_B.tolist() == [0]
    assert tokens.token.dtype == np.int32
