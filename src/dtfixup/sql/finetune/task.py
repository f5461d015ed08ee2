"""Fine-tuning as a task of the training engine: configuration, data and model.

In: a trained model, checked pairs, their database. Out: the protocol `training.task.Task`. No weight is initialised.
The encoder is frozen, which keeps a step short on a CPU and preserves the model's English. Legend: B examples of a
batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dtfixup.encoders import Tokenizer
from dtfixup.errors import ConfigError
from dtfixup.fixup.calls import evaluation_mode
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.database.dataset import Example
from dtfixup.sql.finetune.pairs import SplitPairs
from dtfixup.sql.model.batches import Order
from dtfixup.sql.model.prepared import ExampleArrays, SpecialIds
from dtfixup.sql.model.search import corpus_for
from dtfixup.sql.model.shapes import Shape, round_up
from dtfixup.sql.model.store import TrainedModel
from dtfixup.sql.preparation.assembly import assemble_parts
from dtfixup.sql.preparation.prepare import make_part
from dtfixup.training.config import TrainingConfig, to_json
from dtfixup.training.plan import PlannedBatch
from dtfixup.training.precision import Precision
from dtfixup.training.update import ParameterGroup, UpdateConfig, parameter_groups
from dtfixup.weights.tensors import checksum, model_tensors
from dtfixup.weights.trained import frozen_names

TRAIN, HELD_OUT = "train", "held_out"
TUNING = "finetune"
"""Key in the fingerprint of a tuned model: what it was tuned from and on."""


class Keep(StrEnum):
    """Which model a run leaves for use."""

    BETTER = "better"
    """The tuned model if it answers the held-out pairs better, else the model it started from."""
    TUNED = "tuned"
    """The tuned model in any case."""


def _schedule() -> TrainingConfig:
    return TrainingConfig(
        epochs=8,
        batch_size=4,
        precision=Precision.FP32,
        power=1.0,
        evaluate_every=0,
        checkpoint_minutes=2.0,
        log_every=5,
        graphs=False,
        update=UpdateConfig(learning_rate=2e-4),
    )


@dataclass(frozen=True)
class FinetuneConfig:
    """Everything that a fine-tuning run depends on, except model, pairs and database."""

    encoder: str = "minilm"
    """Encoder of the model, which stays frozen."""
    hold_out: float = 0.2
    """Share of the pairs to hold out and measure on."""
    beam: int = 5
    """Beam width when the model is measured, as in `dtfixup ask`."""
    training: TrainingConfig = field(default_factory=_schedule)
    """Training schedule."""

    def __post_init__(self) -> None:
        if not 0 < self.hold_out <= 0.5:
            raise ConfigError(f"hold_out must be above 0 and at most 0.5, such as 0.2; got {self.hold_out:g}")
        if self.beam < 1:
            raise ConfigError(f"beam must be at least 1, got {self.beam}")


@dataclass(frozen=True)
class PreparedPairs:
    """Pairs as the model reads them, and the examples of each split."""

    examples: ExampleArrays
    splits: Mapping[str, range]


def prepare_pairs(pairs: SplitPairs, database: OpenedDatabase, tokenizer: Tokenizer) -> PreparedPairs:
    """Prepare the pairs in memory, by the code that `dtfixup sql prepare` uses."""
    schema = database.read().schema
    examples = {
        split: [Example(schema.database, pair.question, pair.query) for pair in members]
        for split, members in ((TRAIN, pairs.train), (HELD_OUT, pairs.held_out))
    }
    part = make_part(schema, database, [*examples[TRAIN], *examples[HELD_OUT]])
    arrays, index = assemble_parts({schema.database: part}, examples, tokenizer.pieces)
    special = SpecialIds(tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
    return PreparedPairs(ExampleArrays(arrays, special), {name: range(*ends) for name, ends in index["splits"].items()})


class FinetuneTask:
    """A trained model and a user's pairs, as the engine trains them.

    Args:
        config: of the run.
        trained: the model to start from; its weights change in place.
        prepared: from `prepare_pairs`.
        evaluate: returns metrics of the current weights, in percent.
        made_of: hashes for the fingerprint of checkpoints, beside the model's own fingerprint and the configuration.
        device: of the run.
    """

    best_metric = "exact"

    def __init__(
        self,
        config: FinetuneConfig,
        trained: TrainedModel,
        prepared: PreparedPairs,
        *,
        evaluate: Callable[[], dict[str, float]],
        made_of: Mapping[str, Any],
        device: torch.device,
    ) -> None:
        self.model = trained.model.to(device)
        self.stack = self.model.stack
        # Before the encoder is frozen, since the tuned model's file must hold all that the first model's file holds.
        self.left_out = frozen_names(self.model)
        start = checksum({name: tensor.cpu() for name, tensor in model_tensors(self.model, self.left_out).items()})
        settings = {name: value for name, value in to_json(config).items() if name not in ("training", "encoder")}
        self.fingerprint: Mapping[str, Any] = {
            **trained.content["fingerprint"],
            TUNING: {"from": start, **settings, **made_of},
        }
        self.model.encoder.requires_grad_(False)
        self._order = Order(trained.content["fingerprint"]["order"])
        self._corpus = corpus_for(self.model, prepared.examples, device)
        self._examples = np.asarray(prepared.splits[TRAIN], np.int64)
        self._batch_size, self._evaluate = config.training.batch_size, evaluate

    def initialise(self, generator: torch.Generator) -> None:
        """Do nothing: the weights are trained."""

    def parameter_groups(self) -> Sequence[ParameterGroup]:
        return parameter_groups(self.model, [])

    def batches(self, epoch: int, random: np.random.Generator) -> Sequence[PlannedBatch[Shape]]:
        """Batches in their smallest shapes: a CPU has no graphs to share, and padding costs time."""
        order = random.permutation(self._examples)
        parts = [order[first : first + self._batch_size] for first in range(0, len(order), self._batch_size)]
        return [PlannedBatch(part, round_up(self._corpus.shape_of(part))) for part in parts]

    def loss_sum(self, example_B: Tensor, shape: Shape) -> Tensor:
        batch = self._corpus.assemble(example_B.to(self._corpus.device), shape, self._order)
        with evaluation_mode(self.model.encoder.modules()):  # the frozen encoder runs without dropout
            loss_B: Tensor = self.model(batch)
        return loss_B.sum()

    def evaluate(self) -> dict[str, float]:
        return self._evaluate()
