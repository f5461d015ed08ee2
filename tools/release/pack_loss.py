"""What packing a model costs: its file and the packed one, on the same questions.

In: both files and a prepared dataset. Out: `PackLoss`: exact match of each, how many first queries changed, and what is
wrong with the packed model's wrong ones. `rounding_by_part` rounds one part of the model at a time, which shows where
the loss comes from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from dtfixup.sql.evaluation.evaluate import ALL, MatchVerdict, Summary, judge, summarise
from dtfixup.sql.evaluation.failures import count_failures, failures_of
from dtfixup.sql.model.decoding import decode
from dtfixup.sql.model.predictions import likeliest
from dtfixup.sql.model.prepared import Prepared
from dtfixup.sql.model.search import corpus_for
from dtfixup.sql.model.store import TrainedModel, load_model
from dtfixup.weights.packed import Storage, rounded
from dtfixup.weights.tensors import model_tensors
from dtfixup.weights.trained import frozen_names


@dataclass(frozen=True)
class Decoded:
    """A split, decoded by one model."""

    queries: list[str]
    verdicts: list[MatchVerdict]

    @property
    def summary(self) -> Summary:
        return summarise(self.verdicts)

    @property
    def exact(self) -> float:
        """In percent."""
        return 100 * self.summary.levels[ALL].exact_match

    def changed_from(self, other: "Decoded") -> float:
        """The percentage of first queries that differ."""
        return 100 * float(np.mean([one != another for one, another in zip(self.queries, other.queries, strict=True)]))


@dataclass(frozen=True)
class PackLoss:
    """The same questions, decoded by the whole model and by the packed one."""

    full: Decoded
    packed: Decoded
    megabytes_full: float
    megabytes: float
    parameters: int
    """Number of weights in the packed file."""

    @property
    def metrics(self) -> dict[str, float]:
        """Flat, as result files have them."""
        metrics = {
            "dev_exact_full": self.full.exact,
            "dev_exact_packed": self.packed.exact,
            "lost_points": self.full.exact - self.packed.exact,
            "changed_share": self.packed.changed_from(self.full),
            "megabytes": self.megabytes,
            "megabytes_full": self.megabytes_full,
            "dev_wrong": sum(not verdict.exact for verdict in self.packed.verdicts),
        }
        metrics |= {
            f"dev_exact_packed_{name}": 100 * level.exact_match
            for name, level in self.packed.summary.levels.items()
            if name != ALL and level.count
        }
        return {name: round(value, 4) for name, value in metrics.items()}

    @property
    def failures(self) -> Mapping[str, int]:
        """What is wrong with the packed model's wrong queries."""
        return count_failures(failures_of(verdict) for verdict in self.packed.verdicts)


def measure_loss(full: Path, packed: Path, prepared: Prepared, *, beam: int = 5, device: str = "cpu") -> PackLoss:
    """Decode dev with both files."""
    whole, small = (load_model(file, device) for file in (full, packed))
    decoded = [decode_dev(trained, prepared, beam) for trained in (whole, small)]
    sizes = [file.stat().st_size / 1e6 for file in (full, packed)]
    stored = model_tensors(small.model, frozen_names(small.model))
    return PackLoss(decoded[0], decoded[1], sizes[0], sizes[1], sum(tensor.numel() for tensor in stored.values()))


def decode_dev(trained: TrainedModel, prepared: Prepared, beam: int) -> Decoded:
    """The first query for every question of dev, judged."""
    model = trained.model
    corpus = corpus_for(model, prepared, next(model.parameters()).device)
    examples = np.asarray(prepared.split("dev"))
    queries = likeliest(decode(model, corpus, prepared, examples, beam=beam, progress=True))
    verdicts = [
        judge(prepared.text("query", "queries", example), query, prepared.schema_of(example))
        for example, query in zip(examples.tolist(), queries, strict=True)
    ]
    return Decoded(queries, verdicts)


def rounding_by_part(
    file: Path, full: Decoded, prepared: Prepared, *, beam: int = 5, device: str = "cpu"
) -> dict[str, float]:
    """Percentages of first queries that change where all matrices of one part are in 8 bits, and the rest is not."""
    changed = {}
    for part in ("encoder", "stack", "rest"):
        trained = load_model(file, device)
        model = trained.model
        parts: dict[str, list[nn.Module]] = {"encoder": [model.encoder], "stack": [model.stack]}
        parts["rest"] = [module for module in model.children() if module not in (model.encoder, model.stack)]
        with torch.no_grad():
            for parameter in nn.ModuleList(parts[part]).parameters():
                if parameter.requires_grad and parameter.dim() == 2:
                    parameter.copy_(rounded(parameter.detach().cpu(), Storage.INT8))
        changed[f"changed_share_{part}"] = round(decode_dev(trained, prepared, beam).changed_from(full), 4)
    return changed


def show_loss(loss: PackLoss, console: Console) -> None:
    """Print exact match by hardness, then the other metrics."""
    table = Table(title="exact match, %", title_justify="left")
    for heading in ("", "full", "packed"):
        table.add_column(heading, justify="right" if heading else "left")
    both = (loss.full.summary.levels, loss.packed.summary.levels)
    for name in both[0]:
        shares = [levels[name] for levels in both]
        table.add_row(name, *(f"{100 * level.exact_match:.2f}" if level.count else "-" for level in shares))
    console.print(table)
    for name, value in loss.metrics.items():
        if not name.startswith("dev_exact_packed_"):
            console.print(f"{name:24}{value:8.2f}", highlight=False)
