"""One state per word: the mean of its subwords, and nothing of anything else."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dtfixup.encoders import pool_words

D = 3


@st.composite
def tokens(draw: st.DrawFn) -> tuple[Tensor, int]:
    """word_BT with special tokens (-1), words in any order and words without a token; the number of words."""
    batch, length, words = draw(st.integers(1, 3)), draw(st.integers(1, 7)), draw(st.integers(1, 5))
    row = st.lists(st.integers(-1, words - 1), min_size=length, max_size=length)
    return torch.tensor(draw(st.lists(row, min_size=batch, max_size=batch))), words


def by_loop(states_BTD: Tensor, word_BT: Tensor, words: int) -> tuple[Tensor, Tensor]:
    pooled, keep = torch.zeros(len(word_BT), words, D), torch.zeros(len(word_BT), words, dtype=torch.bool)
    for b, row in enumerate(word_BT.tolist()):
        for word in range(words):
            own = [states_BTD[b, t] for t, owner in enumerate(row) if owner == word]
            if own:
                pooled[b, word], keep[b, word] = sum(own) / len(own), True
    return pooled, keep


@settings(deadline=None, max_examples=50)
@given(tokens())
def test_pooling_equals_a_loop_over_words(case: tuple[Tensor, int]) -> None:
    word_BT, words = case
    states_BTD = torch.randn(*word_BT.shape, D)
    pooled_BWD, keep_BW = pool_words(states_BTD, word_BT, words)
    expected_BWD, expected_keep_BW = by_loop(states_BTD, word_BT, words)
    torch.testing.assert_close(pooled_BWD, expected_BWD)
    assert torch.equal(keep_BW, expected_keep_BW)


def test_without_a_number_of_words_the_highest_index_decides() -> None:
    pooled_BWD, keep_BW = pool_words(torch.ones(2, 2, D), torch.tensor([[0, 1], [0, 0]]))
    assert tuple(pooled_BWD.shape) == (2, 2, D)
    assert keep_BW.tolist() == [[True, True], [True, False]]


def test_gradients_are_shared_out_over_the_subwords() -> None:
    states_BTD = torch.zeros(1, 4, 1, requires_grad=True)
    pool_words(states_BTD, torch.tensor([[-1, 0, 0, 1]]))[0].sum().backward()
    assert states_BTD.grad.flatten().tolist() == [0, 0.5, 0.5, 1]
