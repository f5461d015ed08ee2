"""The batches of an epoch, and their shapes.

In: groups of examples that share a padded shape. Out: batches of example numbers in random order, for every epoch.
Every shape costs the capture of a CUDA graph, and padding costs time. So tasks choose few groups, of similar sizes.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dtfixup.errors import ConfigError, DataError

Array = npt.NDArray[Any]
ShapeT = TypeVar("ShapeT", bound=Hashable)
"""The padded sizes of a batch; the engine captures a CUDA graph per shape."""


@dataclass(frozen=True)
class PlannedBatch(Generic[ShapeT]):
    """Example numbers, with -1 in empty rows, and the shape of the batch."""

    examples: Array
    shape: ShapeT


@dataclass(frozen=True)
class Group(Generic[ShapeT]):
    """Examples whose batches share a shape."""

    examples: Array
    """Seen once in every epoch."""
    shape: ShapeT
    extra: Array = field(default_factory=lambda: np.empty(0, np.int64))
    """Resampled every epoch."""
    extra_count: int = 0
    """Number of `extra` examples per epoch."""

    @property
    def size(self) -> int:
        return len(self.examples) + self.extra_count


class BatchPlan(Generic[ShapeT]):
    """Batches of a fixed set of examples."""

    def __init__(self, groups: Sequence[Group[ShapeT]], batch_size: int) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, got {batch_size}")
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
        for index in random.permutation(len(batches)):
            yield batches[index]
