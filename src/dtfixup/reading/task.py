"""Reading as a task of the training engine: model, data and metrics.

In: a configuration, examples and an encoder. Out: what `training.loop.fit` asks for. Batches are gathered on the device
from the whole dataset, which lies there; the loss is the cross entropy over the choices; the metric is accuracy, over
val or over training examples that were held out.
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

_HOLD_OUT_STREAM = 7  # which examples are held out is the same for every seed of a run, so that runs can be compared


class SequenceTask(EncoderTask[ReadingModel, ReadingShape]):
    """Tokenised examples and a model over them, as the engine trains it.

    Args:
        config: of the run.
        model: not yet on the device.
        tokens: of all examples.
        split: numbers of the examples to train on and of those to evaluate on.
        made_of: hashes of data and tokenizer, and what else a file of weights must say beside the configuration.
        device: where to train.
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
        """The sequences that there are, and nothing that fills the batch."""
        examples = torch.from_numpy(planned.examples[planned.examples >= 0]).to(self.corpus.device)
        batch = self.corpus.assemble(examples, planned.shape)
        keep_BO = batch.option_keep_BO
        return self.model.read(batch.token_BOT[keep_BO], batch.token_keep_BOT[keep_BO], batch.second_BOT[keep_BO])

    def plan_of(self, batch_size: int) -> BatchPlan[ReadingShape]:
        return plan_readings(self.corpus.tokens, self.train, batch_size)

    def evaluate(self) -> dict[str, float]:
        """Accuracy in percent, and the mean loss."""
        found = probabilities(self.model, self.corpus, self.evaluated)
        return metrics_of(found, self.corpus.tokens.label_N[self.evaluated])


class ReadingTask(SequenceTask):
    """Multiple-choice questions; `tokens` are those of `task_examples`, where they are at hand already."""

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
    """Those that a run looks at, the training examples first: val only where none are held out."""
    return (*data.train, *(() if hold_out else data.val))


def split_examples(data: ReadingData, hold_out: float) -> tuple[Array, Array]:
    """Numbers of the examples to train on and to evaluate on; val comes after the training examples.

    Examples that share a context are held out together, or not at all.
    """
    if hold_out:
        return split_groups(_context_numbers(data.train), hold_out, "contexts")
    if not data.val:
        raise DataError("there is nothing to evaluate on: add a val file to the folder, or set hold_out, such as 0.1")
    everything = np.arange(len(data.train) + len(data.val))
    return everything[: len(data.train)], everything[len(data.train) :]


def split_groups(group_N: Array, hold_out: float, groups: str) -> tuple[Array, Array]:
    """Numbers of the examples to train on and of those held out: whole groups, the same in every run."""
    size_G = np.bincount(group_N)
    order = np.random.default_rng(_HOLD_OUT_STREAM).permutation(len(size_G))
    count = int(np.searchsorted(np.cumsum(size_G[order]), hold_out * len(group_N))) + 1
    is_held_N = np.isin(group_N, order[:count])
    if is_held_N.all():
        raise DataError(
            f"{hold_out} of {len(group_N)} training examples, over {len(size_G)} {groups}, cannot be held out: some "
            "must be left to train on"
        )
    return (~is_held_N).nonzero()[0], is_held_N.nonzero()[0]


def numbered(values: Iterable[Hashable]) -> Array:
    """The same number for equal values, from 0.

    >>> numbered("abca").tolist()
    [0, 1, 2, 0]
    """
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], np.int64)


def _context_numbers(examples: Sequence[ReadingExample]) -> Array:
    """The same number for examples that share their context, whatever its spaces."""
    return numbered(" ".join(each.context.split()) for each in examples)
