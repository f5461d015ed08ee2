"""What a task gives to the engine, and nothing else is asked of it.

A task owns its model, its data and its metrics; the engine owns steps, schedule, random streams, ranks and files.
Legend: B examples of a batch.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dtfixup.fixup import FixupReport
from dtfixup.fixup.layers import Stack
from dtfixup.training.update import ParameterGroup

ShapeT = TypeVar("ShapeT", bound=Hashable)
ShapeT_co = TypeVar("ShapeT_co", bound=Hashable, covariant=True)


class Planned(Protocol[ShapeT_co]):
    """A batch of an epoch's plan."""

    @property
    def examples(self) -> npt.NDArray[np.int64]:
        """Example numbers, -1 where the batch is not full."""
        ...

    @property
    def shape(self) -> ShapeT_co:
        """The padded sizes; a CUDA graph is captured for each."""
        ...


class Task(Protocol[ShapeT]):
    """A model on the run's device with its data. Randomness comes from what is passed in and from PyTorch's stream."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def stack(self) -> Stack:
        """The new layers, which are watched."""
        ...

    @property
    def left_out(self) -> Collection[str]:
        """Names in the model's state that files leave out, because they are loaded elsewhere and never trained."""
        ...

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What a checkpoint belongs to, as JSON values: hashes of data and encoder, the model's configuration."""
        ...

    @property
    def best_metric(self) -> str:
        """The metric of `evaluate` that chooses the best weights; higher is better."""
        ...

    def initialise(self, generator: torch.Generator) -> FixupReport | None:
        """Set the new weights. The generator is on the model's device; the report's stack is watched if it has a μ."""
        ...

    def parameter_groups(self) -> Sequence[ParameterGroup]:
        """All that is trained."""
        ...

    def batches(self, epoch: int, random: np.random.Generator) -> Sequence[Planned[ShapeT]]:
        """The plan of an epoch, the same for the same arguments, and equally long for every epoch."""
        ...

    def loss_sum(self, example_B: Tensor, shape: ShapeT) -> Tensor:
        """The sum of the losses of the real rows: 0, with gradients, if there is none."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Metrics of the weights as they are: the averaged ones where an average is kept. In evaluation mode."""
        ...
