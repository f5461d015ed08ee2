"""Reading as a task of the training engine: model, data and metrics.

In: a configuration, examples and an encoder. Out: a task for `training.loop.fit`. The whole dataset is on the device,
where batches are gathered. The loss is the cross entropy over the choices; the metric is accuracy, on val or on
held-out training examples.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dtfixup.encoders import Encoder
from dtfixup.errors import DataError
from dtfixup.reading.examples import ReadingData, ReadingExample
from dtfixup.reading.model import ReadingModel
from dtfixup.reading.plan import plan_readings
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.reading.scoring import metrics_of, probabilities
from dtfixup.reading.tokens import Array, ReadingBatch, ReadingCorpus, ReadingShape, ReadingTokens, tokenise
from dtfixup.training.config import to_json
from dtfixup.training.encoder_task import EncoderTask
from dtfixup.training.plan import BatchPlan, PlannedBatch

_HOLD_OUT_STREAM = 7  # not the run's seed: all runs hold out the same examples, so they can be compared


class SequenceTask(EncoderTask[ReadingModel, ReadingShape]):
    """A model and its tokenised examples.

    Args:
        config: the run's configuration.
        model: not yet on the device.
        tokens: the sequences of all examples.
        split: numbers of the examples to train on, and of those to evaluate on.
        made_of: hashes of data and tokenizer, and anything else that files of weights record with the configuration.
        device: the device to train on.
    """

    best_metric = "accuracy"

    def __init__(
        self,
        config: ReadingRunConfig,
        model: ReadingModel,
        tokens: ReadingTokens,
        split: tuple[Array, Array],
        made_of: Mapping[str, Any],
        device: torch.device,
    ) -> None:
        self.config = config
        self.train, self.evaluated = split
        self.corpus = ReadingCorpus(tokens, device)
        settings = {name: value for name, value in to_json(config).items() if name != "training"}
        super().__init__(
            model.to(device),
            model.encoder,
            model.stack,
            config.model.strategy,
            encoder_factor=config.encoder_factor,
            plan=self.plan_of(config.training.batch_size),
            made_of={**made_of, **settings},
            uncast=[model.score],
        )

    def assemble(self, example_B: Tensor, shape: ReadingShape) -> ReadingBatch:
        return self.corpus.assemble(example_B, shape)

    def encode(self, planned: PlannedBatch[ReadingShape]) -> Tensor:
        """Run real sequences only, without missing options and empty rows."""
        examples = torch.from_numpy(planned.examples[planned.examples >= 0]).to(self.corpus.device)
        batch = self.corpus.assemble(examples, planned.shape)
        keep_BO = batch.option_keep_BO
        return self.model.read(batch.token_BOT[keep_BO], batch.token_keep_BOT[keep_BO], batch.second_BOT[keep_BO])

    def plan_of(self, batch_size: int) -> BatchPlan[ReadingShape]:
        return plan_readings(self.corpus.tokens, self.train, batch_size)

    def evaluate(self) -> dict[str, float]:
        """Accuracy in percent, and the mean loss."""
        rows = probabilities(self.model, self.corpus, self.evaluated)
        return metrics_of(rows, self.corpus.tokens.label_N[self.evaluated])


class ReadingTask(SequenceTask):
    """Multiple-choice questions; `tokens` are those of `task_examples`, if they exist already."""

    def __init__(
        self,
        config: ReadingRunConfig,
        data: ReadingData,
        encoder: Encoder,
        device: torch.device,
        *,
        tokenizer_sha256: str = "",
        tokens: ReadingTokens | None = None,
    ) -> None:
        self.data, self.examples = data, task_examples(data, config.hold_out)
        split = split_examples(data, config.hold_out)
        model = ReadingModel(config.model, encoder)
        if tokens is None:
            tokens = tokenise(self.examples, encoder.tokenizer, max_tokens=config.model.max_tokens)
        made_of = {"data": data.data_hash, "tokenizer": tokenizer_sha256}
        super().__init__(config, model, tokens, split, made_of, device)

    @property
    def is_new_context(self) -> Array:
        """For each evaluated example, whether no training example has its context."""
        context_N = _context_numbers(self.examples)
        is_new: Array = ~np.isin(context_N[self.evaluated], context_N[self.train])
        return is_new


def task_examples(data: ReadingData, hold_out: float) -> tuple[ReadingExample, ...]:
    """All examples of a run: the training examples, then val unless examples are held out."""
    return (*data.train, *(() if hold_out else data.val))


def split_examples(data: ReadingData, hold_out: float) -> tuple[Array, Array]:
    """Numbers of the examples to train on and to evaluate on, in the order of `task_examples`.

    Examples that share a context are either all held out or all trained on.
    """
    if hold_out:
        return split_groups(_context_numbers(data.train), hold_out, "contexts")
    if not data.val:
        raise DataError("there is nothing to evaluate on: add a val file to the folder, or set hold_out, such as 0.1")
    everything = np.arange(len(data.train) + len(data.val))
    return everything[: len(data.train)], everything[len(data.train) :]


def split_groups(group_N: Array, hold_out: float, groups: str) -> tuple[Array, Array]:
    """Numbers of the examples to train on, and of those held out: whole groups, the same in every run."""
    size_G = np.bincount(group_N)
    order = np.random.default_rng(_HOLD_OUT_STREAM).permutation(len(size_G))
    count = int(np.searchsorted(np.cumsum(size_G[order]), hold_out * len(group_N))) + 1
    is_held_N = np.isin(group_N, order[:count])
    if is_held_N.all():
        raise DataError(
            f"{hold_out} of {len(group_N)} training examples, over {len(size_G)} {groups}, cannot be held out: none "
            "would be left to train on"
        )
    return (~is_held_N).nonzero()[0], is_held_N.nonzero()[0]


def numbered(values: Iterable[Hashable]) -> Array:
    """A number for each value, from 0; equal values have the same number.

    >>> numbered("abca").tolist()
    [0, 1, 2, 0]
    """
    number_of: dict[Hashable, int] = {}
    return np.array([number_of.setdefault(value, len(number_of)) for value in values], np.int64)


def _context_numbers(examples: Sequence[ReadingExample]) -> Array:
    """A number for each example's context; contexts that differ only in spaces are equal."""
    return numbered(" ".join(example.context.split()) for example in examples)
