"""SQL-SP as a task of the training engine: model, data and metrics.

In: a configuration and a prepared dataset. Out: what `training.loop.fit` asks for. Batches are gathered on the device
from the whole dataset, which lies there; the loss is the decoder's; the metric is Spider's exact match, over databases
that were held out or over dev.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dtfixup.encoders import Encoder
from dtfixup.errors import DataError
from dtfixup.fixup import FixupReport, strategy_named
from dtfixup.sql.dataset import split_names
from dtfixup.sql.decoding import corpus_for, decode, exact_metrics
from dtfixup.sql.model import SqlSpModel
from dtfixup.sql.plan import BatchPlan, PlannedBatch
from dtfixup.sql.predictions import likeliest
from dtfixup.sql.prepared import SYNTHETIC, Array, Prepared
from dtfixup.sql.presets import SqlSpConfig
from dtfixup.sql.shapes import Shape
from dtfixup.training.casting import call_cast, cast_names
from dtfixup.training.config import to_json
from dtfixup.training.start import initialise_new_layers
from dtfixup.training.tensors import frozen_checksum
from dtfixup.training.update import ParameterGroup, parameter_groups

_MEASURE_BATCH = 64
_MEASURE_BATCH_ON_A_GPU = 256  # there the launches of kernels take the time
_HOLD_OUT_STREAM = 7  # which databases are held out is the same for every seed of a run, so that runs can be compared


class SqlTask:
    """What the engine trains."""

    best_metric = "exact"

    def __init__(self, config: SqlSpConfig, prepared: Prepared, encoder: Encoder, device: torch.device) -> None:
        self.config, self.prepared = config, prepared
        if not config.encoder_factor:
            encoder.requires_grad_(False)
        self.model = SqlSpModel(config.model, encoder).to(device)
        self.corpus = corpus_for(self.model, prepared, device)
        self.train, self.evaluated = split_examples(prepared, config.splits, config.hold_out)
        made_up = synthetic_examples(prepared, self.evaluated) if config.synthetic else ()
        self.plan = BatchPlan(
            self.corpus, self.train, config.training.batch_size, extra=made_up, extra_share=config.synthetic
        )
        self._frozen = frozen_checksum(self.model, self.model.frozen_names)
        decoder = self.model.decoder
        self._cast = cast_names(self.model, keep=[decoder.recurrent, decoder.query, decoder.output])

    @property
    def stack(self) -> nn.Module:
        return self.model.stack

    @property
    def left_out(self) -> list[str]:
        return self.model.frozen_names

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        index = self.prepared.index
        settings = {name: value for name, value in to_json(self.config).items() if name not in ("training", "beam")}
        made_of = {"data": index["data_hash"], "tokenizer": index["encoder"]["tokenizer_sha256"]}
        return {**made_of, "frozen": self._frozen, **settings}

    def initialise(self, generator: torch.Generator) -> FixupReport:
        """Xavier outside the stack, mu over all training examples, then the strategy."""
        size = _MEASURE_BATCH_ON_A_GPU if self.corpus.device.type == "cuda" else _MEASURE_BATCH
        plan = BatchPlan(self.corpus, self.train, size)
        return initialise_new_layers(
            self.model,
            self.model.stack,
            self.model.encoder,
            strategy_named(self.config.model.strategy),
            list(plan.epoch(np.random.default_rng(0))),
            self._encode,
            generator,
        )

    def _encode(self, model: nn.Module, batch: PlannedBatch) -> object:
        example_B = torch.from_numpy(batch.examples).to(self.corpus.device)
        shape = replace(batch.shape, steps=1)
        return self.model.encode(self.corpus.assemble(example_B, shape, self.config.reading_order))

    def parameter_groups(self) -> Sequence[ParameterGroup]:
        return parameter_groups(self.model, [("encoder", self.model.encoder, self.config.encoder_factor)])

    def batches(self, epoch: int, random: np.random.Generator) -> Sequence[PlannedBatch]:
        return list(self.plan.epoch(random))

    def loss_sum(self, example_B: Tensor, shape: Shape) -> Tensor:
        batch = self.corpus.assemble(example_B, shape, self.config.order)
        kind = self.corpus.device.type
        if torch.is_autocast_enabled(kind):
            loss_B: Tensor = call_cast(self.model, torch.get_autocast_dtype(kind), self._cast, batch)
        else:
            loss_B = self.model(batch)
        return loss_B.sum()

    def evaluate(self) -> dict[str, float]:
        """Exact match of greedy decoding, in percent."""
        found = decode(self.model, self.corpus, self.prepared, self.evaluated, self.config.reading_order, beam=1)
        return exact_metrics(self.prepared, self.evaluated, likeliest(found))


def split_examples(prepared: Prepared, splits: str, hold_out: int) -> tuple[Array, Array]:
    """Examples to train on, without those the grammar cannot say; and examples to evaluate on."""
    chosen = np.concatenate([np.asarray(prepared.split(name)) for name in split_names(splits)])
    readable = chosen[np.diff(prepared.arrays["steps.start"])[chosen] > 0]
    if not hold_out:
        return readable, np.asarray(prepared.split("dev"))
    databases = np.asarray(prepared.arrays["example.database"], np.int64)
    known = np.unique(databases[chosen])
    if hold_out >= len(known):
        raise DataError(f"{hold_out} databases cannot be held out of {len(known)}: some must be left to train on")
    held = np.random.default_rng(_HOLD_OUT_STREAM).permutation(known)[:hold_out]
    return readable[~np.isin(databases[readable], held)], chosen[np.isin(databases[chosen], held)]


def synthetic_examples(prepared: Prepared, evaluated: Array) -> Array:
    """Made-up examples, but none over a database that is evaluated on, nor with the words of a question over one."""
    if SYNTHETIC not in prepared.index["splits"]:
        raise DataError(
            f"{prepared.folder} has no made-up examples: prepare it with --synthetic 40000, or train with synthetic 0"
        )
    made_up = np.asarray(prepared.split(SYNTHETIC))
    asked, source = (np.asarray(prepared.arrays[f"example.{name}"], np.int64) for name in ("database", "source"))
    avoided = np.unique(asked[evaluated])
    return made_up[~np.isin(asked[made_up], avoided) & ~np.isin(source[made_up], avoided)]
