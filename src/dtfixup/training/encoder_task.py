"""The common part of tasks that train new layers on a pre-trained encoder.

In: a model, and a plan of its batches. Out: most of the protocol `training.task.Task`; a subclass adds data and
metrics. `weights.trained` loads the weights of such a run.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from dtfixup.fixup import (
    FixupReport,
    MuChoice,
    initialise_free_,
    measure_input_norm,
    set_limits_,
    strategy_named,
)
from dtfixup.training.casting import call_cast, cast_names
from dtfixup.training.plan import BatchPlan, PlannedBatch, ShapeT
from dtfixup.training.update import ParameterGroup, parameter_groups
from dtfixup.weights.trained import freeze_if_untrained, frozen_checksum, frozen_names

ModelT = TypeVar("ModelT", bound=nn.Module)
_MU_BATCH = 64  # examples in a batch when mu is measured
_MU_BATCH_ON_GPU = 256  # larger, because kernel launches take most of the time there
_PROFILE_BATCHES = 8  # batches for strategies that profile the layers
_PROGRESS_ABOVE = 8  # batches; measuring fewer needs no progress bar


class EncoderTask(ABC, Generic[ModelT, ShapeT]):
    """A pre-trained encoder and new layers, as the engine trains them.

    Args:
        model: on the run's device.
        encoder: its pre-trained part.
        stack: its new layers, or None.
        strategy: initialisation of the new layers.
        encoder_factor: learning rate of the encoder, as a multiple of the run's; 0 freezes the encoder.
        plan: the batches of an epoch.
        made_of: hashes of data and tokenizer, and the configuration: the fingerprint of checkpoints.
        uncast: modules whose weights keep their precision under autocast.
        mu: the number that strategies use as input norm. It changes only the initial weights: a limit on the stream is
            always a multiple of the largest norm.
    """

    def __init__(
        self,
        model: ModelT,
        encoder: nn.Module,
        stack: nn.Module | None,
        strategy: str,
        *,
        encoder_factor: float,
        plan: BatchPlan[ShapeT],
        made_of: Mapping[str, Any],
        uncast: Sequence[nn.Module] = (),
        mu: MuChoice = MuChoice.MAX,
    ) -> None:
        self.model, self.plan, self._mu = model, plan, mu
        self._encoder, self._stack, self._strategy, self._factor = encoder, stack, strategy, encoder_factor
        self._device = next(model.parameters()).device
        freeze_if_untrained(encoder, encoder_factor)
        self._made_of = {"frozen": frozen_checksum(model), **made_of}
        self._cast = cast_names(model, keep=uncast)

    @abstractmethod
    def assemble(self, example_B: Tensor, shape: ShapeT) -> object:
        """Make a batch that the model takes, for training."""

    @abstractmethod
    def encode(self, planned: PlannedBatch[ShapeT]) -> object:
        """Run the model up to the stack, as in use and not as in training."""

    @abstractmethod
    def plan_of(self, batch_size: int) -> BatchPlan[ShapeT]:
        """Plan the training examples in batches of another size."""

    @property
    def stack(self) -> nn.Module:
        return nn.ModuleList() if self._stack is None else self._stack

    @property
    def left_out(self) -> list[str]:
        return frozen_names(self.model)

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        return self._made_of

    def initialise(self, generator: torch.Generator) -> FixupReport | None:
        """Xavier outside the stack; mu over all training examples if the strategy needs it; then the strategy."""
        initialise_free_(self.model, stack=self.stack, loaded=[self._encoder], generator=generator)
        if self._stack is None:
            return None
        strategy = strategy_named(self._strategy)
        plan = self.plan_of(_MU_BATCH_ON_GPU if self._device.type == "cuda" else _MU_BATCH)
        batches = list(plan.epoch(np.random.default_rng(0)))
        measured, is_long = None, len(batches) > _PROGRESS_ABOVE
        if strategy.needs_input_norm:
            measured = measure_input_norm(
                self.model, self._stack, batches, forward=lambda _, batch: self.encode(batch), progress=is_long
            )
        report = strategy.initialise_(
            self._stack,
            input_norm=None if measured is None else self._mu.of(measured),
            profile=lambda: [self.encode(batch) for batch in batches[:_PROFILE_BATCHES]],
            generator=generator,
        )
        if measured is not None:
            set_limits_(self._stack, measured.max)
        return report

    def parameter_groups(self) -> Sequence[ParameterGroup]:
        return parameter_groups(self.model, [("encoder", self._encoder, self._factor)])

    def batches(self, epoch: int, random: np.random.Generator) -> Sequence[PlannedBatch[ShapeT]]:
        return list(self.plan.epoch(random))

    def loss_sum(self, example_B: Tensor, shape: ShapeT) -> Tensor:
        """Sum the model's losses; under autocast its weights are cast together."""
        batch, kind = self.assemble(example_B, shape), self._device.type
        if torch.is_autocast_enabled(kind):
            loss_B: Tensor = call_cast(self.model, torch.get_autocast_dtype(kind), self._cast, batch)
        else:
            loss_B = self.model(batch)
        return loss_B.sum()
