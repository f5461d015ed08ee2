"""Everything that the engine asks of a task.

A task owns its model, its data and its metrics; the engine owns steps, schedule, random streams, ranks and files.
Legend: B examples of a batch.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from dtfixup.fixup import FixupReport
from dtfixup.fixup.layers import Stack
from dtfixup.training.plan import PlannedBatch, ShapeT
from dtfixup.training.update import ParameterGroup


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

    def batches(self, epoch: int, random: np.random.Generator) -> Sequence[PlannedBatch[ShapeT]]:
        """The plan of an epoch. The same arguments give the same plan; all epochs have the same length."""
        ...

    def loss_sum(self, example_B: Tensor, shape: ShapeT) -> Tensor:
        """The sum of the losses of the real rows; without any, 0 with gradients."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Metrics of the current weights. The engine has put the average in place and set evaluation mode."""
        ...
