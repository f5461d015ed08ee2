"""Which examples form the batches of an epoch, and with which shapes.

In: groups of examples that share a padded shape. Out: for each epoch, batches of example numbers in random order. A
CUDA graph is captured per shape, and padding costs time: tasks choose few groups of like sizes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from dtfixup.errors import ConfigError, DataError
from dtfixup.training.task import ShapeT

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class PlannedBatch(Generic[ShapeT]):
    """Example numbers, -1 where the batch is not full, and the shape that holds them."""

    examples: Array
    shape: ShapeT


@dataclass(frozen=True)
class Group(Generic[ShapeT]):
    """Examples whose batches have one shape."""

    examples: Array
    """All of them come once an epoch."""
    shape: ShapeT
    extra: Array = field(default_factory=lambda: np.empty(0, np.int64))
    """Of these comes a new choice in every epoch."""
    extra_count: int = 0
    """How many."""

    @property
    def size(self) -> int:
        return len(self.examples) + self.extra_count


class BatchPlan(Generic[ShapeT]):
    """Batches of a fixed set of examples."""

    def __init__(self, groups: Sequence[Group[ShapeT]], batch_size: int) -> None:
        if batch_size < 1:
            raise ConfigError(f"a batch holds at least one example, got {batch_size}")
        self.groups = list(groups)
        if not any(group.size for group in self.groups):
            raise DataError("there is no example to train on")
        self.batch_size = batch_size

    def __len__(self) -> int:
        return sum(-(-group.size // self.batch_size) for group in self.groups)

    def epoch(self, random: np.random.Generator) -> Iterator[PlannedBatch[ShapeT]]:
        """The batches of one epoch, in random order."""
        batches = []
        for group in self.groups:
            chosen = random.permutation(group.extra)[: group.extra_count]
            order = random.permutation(np.concatenate([group.examples, chosen]))
            missing = -len(order) % self.batch_size
            rows = np.pad(order, (0, missing), constant_values=-1).reshape(-1, self.batch_size)
            batches += [PlannedBatch(row, group.shape) for row in rows]
        for place in random.permutation(len(batches)):
            yield batches[place]
