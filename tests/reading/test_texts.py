"""Files of texts with a class each: what is read, what is refused, and their tokens."""

import logging
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dtfixup.errors import DataError
from dtfixup.reading.texts import read_texts, tokenise_texts
from tests.reading.tiny_reading import tiny_encoder


def test_texts_and_classes_are_read_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text(',text,label\n0," the boat, here ",wet\n1,a door,dry\n2,the cloud,wet\n')  # as pandas numbers rows
    found = read_texts(file)
    assert found.texts == ("the boat, here", "a door", "the cloud")
    assert (found.classes, found.labels) == (("dry", "wet"), (1, 0, 1))
    file.write_text("text,label\na,x\nb,y\n")
    assert read_texts(file).data_hash != found.data_hash


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no column text"),
        ("text,class\na,b\n", r"has no column label: its first line must name the columns, such as text,label"),
        ("text,label\na,x\n ,y\n", "row 2, text is empty: fill it in, or leave the row out"),
        ("text,label\na,x\nb\n", "row 2, label is empty"),
        ("text,label\na,x\nb,x\n", "has 1 different labels: at least two"),
        ("text,label\n", "has 0 different labels"),
        ("text,label\na,b,c\n", "row 1 has more cells than the first line has columns: quote cells that hold commas"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text(content)
    with pytest.raises(DataError, match=message):
        read_texts(file)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_tokens_are_the_tokenizers_own(kind: str) -> None:
    tokenizer, texts = tiny_encoder(kind).tokenizer, ["the boat is here", "a door"]
    tokens = tokenise_texts(texts, [1, None], tokenizer, max_tokens=40)
    for text, (start, end) in zip(texts, pairwise(tokens.token_start_R), strict=True):
        assert tokens.token[start:end].tolist() == tokenizer(text)["input_ids"]
    assert tokens.label_N.tolist() == [1, -1]
    assert tokens.options_N.tolist() == [1, 1]
    assert (tokens.second_R == np.diff(tokens.token_start_R)).all(), "there is no second part"
    assert tokens.cut_contexts == 0


def test_long_texts_lose_their_end_and_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = tiny_encoder().tokenizer
    with caplog.at_level(logging.WARNING, "dtfixup"):
        tokens = tokenise_texts(["the boat " * 10, "a door"], [0, 1], tokenizer, max_tokens=8)
    assert np.diff(tokens.token_start_R).tolist() == [8, 4]
    assert tokens.token[7] == tokenizer.sep_token_id, "the end is marked all the same"
    assert "1 of 2 texts were cut to fit 8 tokens" in caplog.text
    with pytest.raises(DataError, match="no text"):
        tokenise_texts([], [], tokenizer, max_tokens=8)
