"""Examples of a prepared dataset → groups of similar size, for batches with few shapes.

Examples with schemas of similar size share a group. The few with a long question, derivation or list of candidates have
groups of their own, so that the others are not padded to their length.
"""

from collections.abc import Sequence

import numpy as np

from dtfixup.sql.model.batches import Corpus
from dtfixup.sql.model.shapes import Shape, round_up
from dtfixup.training.plan import BatchPlan, Group
from dtfixup.weights.arrays import Array

USUAL = {"words": 24, "steps": 24, "values": 16, "value_tokens": 8}
"""Nine of ten examples of Spider are within these sizes."""
TOKEN_EDGES = (56, 72, 88, 104, 128, 160, 208, 288, 416)
"""Bounds of the groups of usual examples, by encoder tokens; longer inputs are grouped by their number of windows."""
LONG_TOKEN_EDGES = (96, 192, 416)


def plan_batches(
    corpus: Corpus,
    examples: Sequence[int] | Array,
    batch_size: int,
    *,
    extra: Sequence[int] | Array = (),
    extra_share: float = 1.0,
) -> BatchPlan[Shape]:
    """Plan epochs of all `examples` and a sample of `extra`, `extra_share` times as many, resampled every epoch."""
    examples, extra = np.asarray(examples, np.int64), np.asarray(extra, np.int64)
    everything = np.concatenate([examples, extra])
    is_extra = np.arange(len(everything)) >= len(examples)
    share = min(1.0, extra_share * len(examples) / max(len(extra), 1))
    key = _size_keys(corpus, everything)
    groups = []
    for number in range(int(key.max(initial=-1)) + 1):
        members, others = (everything[(key == number) & (is_extra == other)] for other in (False, True))
        shape = round_up(corpus.shape_of(everything[key == number]))
        groups.append(Group(members, shape, others, round(share * len(others))))
    return BatchPlan(groups, batch_size)


def _size_keys(corpus: Corpus, examples: Array) -> Array:
    """The number of the group of each example."""
    sizes = {name: corpus.sizes.column(name)[examples] for name in Shape.__dataclass_fields__}
    is_long = np.any([sizes[name] > most for name, most in USUAL.items()], axis=0)
    length = np.where(
        is_long,
        np.searchsorted(LONG_TOKEN_EDGES, sizes["tokens"]),
        np.searchsorted(TOKEN_EDGES, sizes["tokens"]),
    )
    keys = np.stack([sizes["windows"], is_long, length], axis=1)
    return np.unique(keys, axis=0, return_inverse=True)[1]
