"""Which examples form the batches of an epoch, and with which shapes.

In: the sizes of the examples. Out: for each epoch, batches of example numbers in random order, each with one of a few
shapes: a CUDA graph is captured per shape, and padding costs time. Examples of a like schema size go together; the few
with a long question, derivation or list of candidates go apart, so that the many need not be padded for them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dtfixup.errors import ConfigError, DataError
from dtfixup.sql.batch import Corpus
from dtfixup.sql.prepared import Array
from dtfixup.sql.shapes import Shape, rounded

USUAL = {"words": 24, "steps": 24, "values": 16, "value_tokens": 8}
"""What nine of ten of Spider's examples stay within."""
TOKEN_EDGES = (56, 72, 88, 104, 128, 160, 208, 288, 416)
"""Encoder inputs of usual examples, by length; longer ones are grouped by their number of windows."""
LONG_TOKEN_EDGES = (96, 192, 416)


@dataclass(frozen=True)
class PlannedBatch:
    """Example numbers, -1 where the batch is not full, and the shape that holds them."""

    examples: Array
    shape: Shape


class BatchPlan:
    """Batches of a fixed set of examples."""

    def __init__(self, corpus: Corpus, examples: Sequence[int] | Array, batch_size: int) -> None:
        if batch_size < 1:
            raise ConfigError(f"a batch holds at least one example, got {batch_size}")
        self.examples = np.asarray(examples, np.int64)
        if not len(self.examples):
            raise DataError("there is no example to train on")
        self.batch_size = batch_size
        sizes = {name: corpus.sizes.column(name)[self.examples] for name in Shape.__dataclass_fields__}
        is_long = np.any([sizes[name] > most for name, most in USUAL.items()], axis=0)
        length = np.where(
            is_long,
            np.searchsorted(LONG_TOKEN_EDGES, sizes["tokens"]),
            np.searchsorted(TOKEN_EDGES, sizes["tokens"]),
        )
        keys = np.stack([sizes["windows"], is_long, length], axis=1)
        _, group = np.unique(keys, axis=0, return_inverse=True)
        self._groups = [self.examples[group == number] for number in range(int(group.max()) + 1)]
        self._shapes = [rounded(corpus.shape_of(members)) for members in self._groups]

    def __len__(self) -> int:
        return sum(-(-len(group) // self.batch_size) for group in self._groups)

    def epoch(self, random: np.random.Generator) -> Iterator[PlannedBatch]:
        """The batches of one epoch, in random order."""
        batches = []
        for group, shape in zip(self._groups, self._shapes, strict=True):
            order = random.permutation(group)
            missing = -len(order) % self.batch_size
            rows = np.pad(order, (0, missing), constant_values=-1).reshape(-1, self.batch_size)
            batches += [PlannedBatch(row, shape) for row in rows]
        for place in random.permutation(len(batches)):
            yield batches[place]
