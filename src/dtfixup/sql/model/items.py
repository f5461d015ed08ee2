"""Schema items from the states of their words: a BiLSTM, mean state + final state (appendix C.1).

The two directions are two LSTMs; the second reads each item's words in reverse. So padding always comes last, where it
changes nothing, and lengths stay on the device: a packed sequence would wait for them, which a CUDA graph cannot do.
Legend: B batch, I items, J words of an item, A width of the encoder, X = B x I, M width of a direction, D = 2 M.
"""

import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError


class ItemReader(nn.Module):
    """A BiLSTM over the words of each item."""

    def __init__(self, dim_in: int, dim: int) -> None:
        super().__init__()
        if dim % 2:
            raise ConfigError(f"a BiLSTM has two directions: the width {dim} must be even")
        self.forwards = nn.LSTM(dim_in, dim // 2, batch_first=True)
        self.backwards = nn.LSTM(dim_in, dim // 2, batch_first=True)

    def forward(self, word_BIJA: Tensor, keep_BIJ: Tensor) -> Tensor:
        """[B, I, D]: mean state + final state; zero for an item without words."""
        word_XJA, keep_XJ = word_BIJA.flatten(0, 1), keep_BIJ.flatten(0, 1)
        count_X1 = keep_XJ.sum(1, keepdim=True)
        last_X1 = (count_X1 - 1).clamp_min(0)
        position_J = torch.arange(keep_XJ.shape[1], device=keep_XJ.device)
        reversed_XJ = (last_X1 - position_J).clamp_min(0)
        share_XJ = keep_XJ / count_X1.clamp_min(1)
        weight_XJ = share_XJ + (position_J == last_X1).to(share_XJ.dtype) * keep_XJ  # the mean, and the last once more
        directions = []
        for lstm, words in (
            (self.forwards, word_XJA),
            (self.backwards, word_XJA.gather(1, reversed_XJ[..., None].expand_as(word_XJA))),
        ):
            h_XJM, _ = lstm(words)
            directions.append((h_XJM * weight_XJ[..., None]).sum(1))
        return torch.cat(directions, -1).unflatten(0, keep_BIJ.shape[:2])
