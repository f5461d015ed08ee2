"""Examples → groups of similar length, for batches with few shapes."""

from collections.abc import Sequence

import numpy as np

from dtfixup.reading.tokens import Array, ReadingShape, ReadingTokens
from dtfixup.training.plan import BatchPlan, Group

TOKEN_EDGES = (96, 112, 128, 144, 160, 192, 256, 320, 384)
"""Groups of examples by their longest sequence."""
OPTION_EDGES = (2, 4, 6)
"""Groups of examples by their number of options."""


def plan_readings(tokens: ReadingTokens, examples: Sequence[int] | Array, batch_size: int) -> BatchPlan[ReadingShape]:
    """Batches of all examples in every epoch."""
    groups = _joined(_by_size(tokens, np.asarray(examples, np.int64)), batch_size)
    return BatchPlan([Group(group, tokens.padded_shape_of(group)) for group in groups], batch_size)


def _by_size(tokens: ReadingTokens, examples: Array) -> list[Array]:
    """Groups of similar numbers of options and similar lengths, in the order of both."""
    options = np.searchsorted(OPTION_EDGES, tokens.options_N[examples])
    lengths = np.searchsorted(TOKEN_EDGES, tokens.length_N[examples])
    _, group = np.unique(np.stack([options, lengths], axis=1), axis=0, return_inverse=True)
    return [examples[group == number] for number in range(int(group.max(initial=-1)) + 1)]


def _joined(groups: list[Array], batch_size: int) -> list[Array]:
    """Join each group that cannot fill a batch to the next one."""
    joined: list[Array] = []
    small = np.empty(0, np.int64)
    for group in groups:
        small = np.concatenate([small, group])
        if len(small) >= batch_size:
            joined.append(small)
            small = np.empty(0, np.int64)
    return [*joined, small] if len(small) else joined
