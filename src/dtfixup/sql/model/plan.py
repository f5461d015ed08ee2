"""Examples of a prepared dataset → groups of a like size, for batches with few shapes.

Examples of a like schema size go together; the few with a long question, derivation or list of candidates go apart, so
that the many need not be padded for them.
"""

from collections.abc import Sequence

import numpy as np

from dtfixup.sql.model.batches import Corpus
from dtfixup.sql.model.shapes import Shape, rounded
from dtfixup.training.plan import BatchPlan, Group
from dtfixup.weights.arrays import Array

USUAL = {"words": 24, "steps": 24, "values": 16, "value_tokens": 8}
"""What nine of ten of Spider's examples stay within."""
TOKEN_EDGES = (56, 72, 88, 104, 128, 160, 208, 288, 416)
"""Encoder inputs of usual examples, by length; longer ones are grouped by their number of windows."""
LONG_TOKEN_EDGES = (96, 192, 416)


def plan_batches(
    corpus: Corpus,
    examples: Sequence[int] | Array,
    batch_size: int,
    *,
    extra: Sequence[int] | Array = (),
    extra_share: float = 1.0,
) -> BatchPlan[Shape]:
    """Every epoch has all `examples`, and of the `extra` ones a new choice, `extra_share` times as many."""
    examples, extra = np.asarray(examples, np.int64), np.asarray(extra, np.int64)
    everything = np.concatenate([examples, extra])
    is_extra = np.arange(len(everything)) >= len(examples)
    share = min(1.0, extra_share * len(examples) / max(len(extra), 1))
    key = _size_keys(corpus, everything)
    groups = []
    for number in range(int(key.max(initial=-1)) + 1):
        members, others = (everything[(key == number) & (is_extra == other)] for other in (False, True))
        shape = rounded(corpus.shape_of(everything[key == number]))
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
    _, group = np.unique(keys, axis=0, return_inverse=True)
    found: Array = group
    return found
