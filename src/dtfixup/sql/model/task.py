"""SQL-SP as a task of the training engine: model, data and metrics.

In: a configuration and a prepared dataset. Out: the protocol `training.task.Task`. The whole dataset is on the device,
and batches are gathered there; the loss is the decoder's; the metric is Spider's exact match, over held-out databases
or over dev.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dtfixup.encoders import Encoder
from dtfixup.errors import DataError
from dtfixup.sql.database.dataset import split_names
from dtfixup.sql.model.batches import Batch
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.sql.model.decoding import decode, exact_metrics
from dtfixup.sql.model.model import SqlSpModel
from dtfixup.sql.model.plan import plan_batches
from dtfixup.sql.model.predictions import likeliest
from dtfixup.sql.model.prepared import SYNTHETIC, Prepared
from dtfixup.sql.model.search import corpus_for
from dtfixup.sql.model.shapes import Shape
from dtfixup.training.config import to_json
from dtfixup.training.encoder_task import EncoderTask
from dtfixup.training.plan import BatchPlan, PlannedBatch
from dtfixup.weights.arrays import Array

_HOLD_OUT_SEED = 7  # the same for every seed of a run, so that runs hold out the same databases


class SqlTask(EncoderTask[SqlSpModel, Shape]):
    """SQL-SP and its data, as the engine trains them."""

    best_metric = "exact"

    def __init__(self, config: SqlSpConfig, prepared: Prepared, encoder: Encoder, device: torch.device) -> None:
        self.config, self.prepared = config, prepared
        model = SqlSpModel(config.model, encoder).to(device)
        self.corpus = corpus_for(model, prepared, device)
        self.train, self.evaluated = split_examples(prepared, config.splits, config.hold_out)
        made_up = synthetic_examples(prepared, self.evaluated) if config.synthetic else ()
        index, decoder = prepared.index, model.decoder
        settings = {name: value for name, value in to_json(config).items() if name not in ("training", "beam")}
        super().__init__(
            model,
            encoder,
            model.stack,
            config.model.strategy,
            encoder_factor=config.encoder_factor,
            plan=plan_batches(
                self.corpus, self.train, config.training.batch_size, extra=made_up, extra_share=config.synthetic
            ),
            made_of={"data": index["data_hash"], "tokenizer": index["encoder"]["tokenizer_sha256"], **settings},
            uncast=[decoder.recurrent, decoder.query, decoder.output],
            mu=config.mu,
        )

    def assemble(self, example_B: Tensor, shape: Shape) -> Batch:
        return self.corpus.assemble(example_B, shape, self.config.order)

    def encode(self, planned: PlannedBatch[Shape]) -> Tensor:
        example_B = torch.from_numpy(planned.examples).to(self.corpus.device)
        shape = replace(planned.shape, steps=1)
        return self.model.encode(self.corpus.assemble(example_B, shape))

    def plan_of(self, batch_size: int) -> BatchPlan[Shape]:
        return plan_batches(self.corpus, self.train, batch_size)

    def evaluate(self) -> dict[str, float]:
        """Exact match of greedy decoding, in percent."""
        beams = decode(self.model, self.corpus, self.prepared, self.evaluated, beam=1)
        return exact_metrics(self.prepared, self.evaluated, likeliest(beams))


def split_examples(prepared: Prepared, splits: str, hold_out: int) -> tuple[Array, Array]:
    """Examples to train on, except those outside the grammar; and examples to evaluate on."""
    chosen = np.concatenate([np.asarray(prepared.split(name)) for name in split_names(splits)])
    readable = chosen[np.diff(prepared.arrays["steps.start"])[chosen] > 0]
    if not hold_out:
        return readable, np.asarray(prepared.split("dev"))
    databases = np.asarray(prepared.arrays["example.database"], np.int64)
    asked = np.unique(databases[chosen])
    if hold_out >= len(asked):
        raise DataError(f"{hold_out} databases cannot be held out of {len(asked)}: some must be left to train on")
    held = np.random.default_rng(_HOLD_OUT_SEED).permutation(asked)[:hold_out]
    return readable[~np.isin(databases[readable], held)], chosen[np.isin(databases[chosen], held)]


def synthetic_examples(prepared: Prepared, evaluated: Array) -> Array:
    """Made-up examples, except those over an evaluated database or made from a question over one."""
    if SYNTHETIC not in prepared.index["splits"]:
        raise DataError(
            f"{prepared.folder} has no made-up examples: prepare it with --synthetic 40000, or train with synthetic 0"
        )
    made_up = np.asarray(prepared.split(SYNTHETIC))
    asked, source = (np.asarray(prepared.arrays[f"example.{name}"], np.int64) for name in ("database", "source"))
    avoided = np.unique(asked[evaluated])
    return made_up[~np.isin(asked[made_up], avoided) & ~np.isin(source[made_up], avoided)]
