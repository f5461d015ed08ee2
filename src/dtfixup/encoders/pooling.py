"""From the states of subword tokens to one state per word.

Legend: B batch, T subword tokens, W words, D width.
"""

import torch
from torch import Tensor


def pool_words(states_BTD: Tensor, word_BT: Tensor, words: int | None = None) -> tuple[Tensor, Tensor]:
    """Mean state of each word's subwords, and which words are real.

    `word_BT` holds the index of the word a token belongs to, -1 for special tokens and padding, as
    `word_ids()` of a tokenizer gives it. Returns (states_BWD, keep_BW); a word without subwords is
    zero and not kept.
    """
    count = int(word_BT.max()) + 1 if words is None else words
    batch, _, dim = states_BTD.shape
    slot_BT = torch.where(word_BT >= 0, word_BT, count)  # other tokens go to a slot past the last word
    index_BTD = slot_BT[..., None].expand(-1, -1, dim)
    sums_BWD = states_BTD.new_zeros(batch, count + 1, dim).scatter_add(1, index_BTD, states_BTD)[:, :count]
    ones_BT = torch.ones_like(slot_BT, dtype=states_BTD.dtype)
    counts_BW = states_BTD.new_zeros(batch, count + 1).scatter_add(1, slot_BT, ones_BT)[:, :count]
    return sums_BWD / counts_BW.clamp_min(1)[..., None], counts_BW > 0
