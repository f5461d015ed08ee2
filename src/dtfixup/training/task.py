"""Everything that the engine asks of a task.

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
    """A batch in the plan of an epoch."""

    @property
    def examples(self) -> npt.NDArray[np.int64]:
        """Example numbers, with -1 in empty rows."""
        ...

    @property
    def shape(self) -> ShapeT_co:
        """The padded sizes; the engine captures a CUDA graph per shape."""
        ...


class Task(Protocol[ShapeT]):
    """A model on the run's device, and its data. It draws from the generators it is given and from PyTorch's stream."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def stack(self) -> Stack:
        """The new layers, which the monitor watches."""
        ...

    @property
    def left_out(self) -> Collection[str]:
        """Names of weights that files leave out, because they are never trained and come with the encoder."""
        ...

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """Hashes of data and encoder, and the model's configuration, as JSON values; checkpoints must have the same."""
        ...

    @property
    def best_metric(self) -> str:
        """The metric of `evaluate` that selects the best weights; higher is better."""
        ...

    def initialise(self, generator: torch.Generator) -> FixupReport | None:
        """Initialise the new weights; the generator is on the model's device. A report with a mu starts the monitor."""
        ...

    def parameter_groups(self) -> Sequence[ParameterGroup]:
        """All trained parameters."""
        ...

    def batches(self, epoch: int, random: np.random.Generator) -> Sequence[Planned[ShapeT]]:
        """The plan of an epoch. The same arguments give the same plan; all epochs have the same length."""
        ...

    def loss_sum(self, example_B: Tensor, shape: ShapeT) -> Tensor:
        """The sum of the losses of the real rows; without any, 0 with gradients."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Metrics of the current weights. The engine has put the average in place and set evaluation mode."""
        ...
