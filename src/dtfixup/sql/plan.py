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

    def __init__(
        self,
        corpus: Corpus,
        examples: Sequence[int] | Array,
        batch_size: int,
        *,
        extra: Sequence[int] | Array = (),
        extra_share: float = 1.0,
    ) -> None:
        """Every epoch has all `examples`, and of the `extra` ones a new choice, `extra_share` times as many."""
        if batch_size < 1:
            raise ConfigError(f"a batch holds at least one example, got {batch_size}")
        self.examples = np.asarray(examples, np.int64)
        if not len(self.examples):
            raise DataError("there is no example to train on")
        self.batch_size = batch_size
        extra = np.asarray(extra, np.int64)
        everything = np.concatenate([self.examples, extra])
        sizes = {name: corpus.sizes.column(name)[everything] for name in Shape.__dataclass_fields__}
        is_long = np.any([sizes[name] > most for name, most in USUAL.items()], axis=0)
        length = np.where(
            is_long,
            np.searchsorted(LONG_TOKEN_EDGES, sizes["tokens"]),
            np.searchsorted(TOKEN_EDGES, sizes["tokens"]),
        )
        keys = np.stack([sizes["windows"], is_long, length], axis=1)
        _, group = np.unique(keys, axis=0, return_inverse=True)
        numbers = range(int(group.max()) + 1)
        is_extra = np.arange(len(everything)) >= len(self.examples)
        self._groups = [everything[(group == number) & ~is_extra] for number in numbers]
        self._extra = [everything[(group == number) & is_extra] for number in numbers]
        self._shapes = [rounded(corpus.shape_of(everything[group == number])) for number in numbers]
        share = min(1.0, extra_share * len(self.examples) / max(len(extra), 1))
        self._counts = [round(share * len(members)) for members in self._extra]

    def __len__(self) -> int:
        sizes = (len(group) + count for group, count in zip(self._groups, self._counts, strict=True))
        return sum(-(-size // self.batch_size) for size in sizes)

    def epoch(self, random: np.random.Generator) -> Iterator[PlannedBatch]:
        """The batches of one epoch, in random order."""
        batches = []
        for group, extra, count, shape in zip(self._groups, self._extra, self._counts, self._shapes, strict=True):
            chosen = random.permutation(extra)[:count]
            order = random.permutation(np.concatenate([group, chosen]))
            missing = -len(order) % self.batch_size
            rows = np.pad(order, (0, missing), constant_values=-1).reshape(-1, self.batch_size)
            batches += [PlannedBatch(row, shape) for row in rows]
        for place in random.permutation(len(batches)):
            yield batches[place]
