"""A small real task for the engine's tests, and how to run it in a process of its own.

Four new layers on a frozen table of embeddings learn which third of the vocabulary a sequence starts with. Batches come
in two shapes, the last of each not full. Legend: B batch, L length, D width.
"""

import io
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F

from dtfixup.fixup import FixupReport, initialise_free_, measure_input_norm, strategy_named
from dtfixup.training.config import TrainingConfig
from dtfixup.training.loop import fit
from dtfixup.training.plan import PlannedBatch
from dtfixup.training.result import FitResult
from dtfixup.training.update import ParameterGroup, UpdateConfig, parameter_groups
from dtfixup.transformer import StackConfig, TransformerStack

VOCABULARY, CLASSES, D = 12, 3, 8
LENGTHS = (3, 5)


class ToyModel(nn.Module):
    def __init__(self, dropout: float, strategy: str) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, D)
        self.table.weight.data = torch.randn(VOCABULARY, D, generator=torch.Generator().manual_seed(5))
        self.table.requires_grad_(False)
        self.project = nn.Linear(D, D)
        config = StackConfig(layers=4, dim=D, heads=2, mlp_dim=16, input_dropout=dropout)
        self.stack = TransformerStack(config, strategy)
        self.head = nn.Linear(D, CLASSES)

    def forward(self, token_BL: Tensor) -> Tensor:
        y_BLD = self.stack(self.project(self.table(token_BL)))
        return self.head(y_BLD.mean(1))


class ToyTask:
    best_metric = "accuracy"
    left_out = ("table.weight",)

    def __init__(
        self,
        *,
        dropout: float = 0.2,
        strategy: str = "dt-fixup",
        examples: int = 43,
        data_seed: int = 0,
        batch_size: int = 8,
        device: str | torch.device = "cpu",
    ) -> None:
        random = torch.Generator().manual_seed(data_seed)
        self.token_NL = torch.randint(VOCABULARY, (examples, max(LENGTHS)), generator=random).to(device)
        self.length_N = np.array([LENGTHS[number % 3 == 0] for number in range(examples)])
        self.batch_size, self.strategy = batch_size, strategy
        self.model = ToyModel(dropout, strategy).to(device)
        self.stack = self.model.stack
        self.fingerprint = {"data_hash": f"toy {data_seed} {examples}", "encoder_sha256": "ab12"}
        self.evaluations = 0
        self.on_batch: Callable[[int], object] = lambda number: None  # called before the pass of each batch
        self.on_evaluation: Callable[[int], object] = lambda number: None
        self._batches = 0

    def initialise(self, generator: torch.Generator) -> FixupReport:
        initialise_free_(self.model, stack=self.stack, loaded=[self.model.table], generator=generator)
        norm = measure_input_norm(self.model, self.stack, [self.token_NL], progress=False)
        return strategy_named(self.strategy).initialise_(self.stack, input_norm=norm, generator=generator)

    def parameter_groups(self) -> list[ParameterGroup]:
        return parameter_groups(self.model, [("head", self.model.head, 0.5)])

    def batches(self, epoch: int, random: np.random.Generator) -> list[PlannedBatch[int]]:
        found = []
        for length in LENGTHS:
            order = random.permutation(np.flatnonzero(self.length_N == length))
            for first in range(0, len(order), self.batch_size):
                chosen = order[first : first + self.batch_size]
                missing = self.batch_size - len(chosen)
                found.append(PlannedBatch(np.pad(chosen, (0, missing), constant_values=-1), length))
        return [found[place] for place in random.permutation(len(found))]

    def loss_sum(self, example_B: Tensor, shape: int) -> Tensor:
        self._batches += 1
        self.on_batch(self._batches)
        token_BL = self.token_NL[example_B.clamp_min(0), :shape]
        loss_B = F.cross_entropy(self.model(token_BL).float(), token_BL[:, 0] % CLASSES, reduction="none")
        return torch.where(example_B >= 0, loss_B, 0.0).sum()

    def evaluate(self) -> dict[str, float]:
        self.evaluations += 1
        self.on_evaluation(self.evaluations)
        assert not self.model.training
        torch.rand(3)  # an evaluation may draw; training does not notice
        scores = self.model(self.token_NL)
        gold = self.token_NL[:, 0] % CLASSES
        return {
            "accuracy": 100 * float((scores.argmax(1) == gold).float().mean()),
            "dev_loss": float(F.cross_entropy(scores, gold)),
        }


def toy_config(**changes: Any) -> TrainingConfig:
    """Six updates an epoch, five epochs, everything on."""
    given = {"learning_rate": 5e-3, "average": 0.9, **changes.pop("update", {})}
    plain: dict[str, Any] = {"epochs": 5, "batch_size": 8, "log_every": 4, "evaluate_every": 2, "checkpoint_minutes": 0}
    return TrainingConfig(**{**plain, "precision": "fp32", "update": UpdateConfig(**given), **changes})


def run(folder: Path, task: ToyTask | None = None, config: TrainingConfig | None = None, **options: Any) -> FitResult:
    """`fit`, without a word on the terminal."""
    return fit(task or ToyTask(), config or toy_config(), folder, console=Console(file=io.StringIO()), **options)


def killed_at(batch: int) -> Callable[[int], None]:
    """The process ends at this batch, as by `kill -9`."""

    def kill(number: int) -> None:
        if number == batch:
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


def start(target: Callable[..., object], *arguments: Any) -> multiprocessing.process.BaseProcess:
    """Run a function in a fresh process, which a server forks that has imported torch and nothing more."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    root = str(Path(__file__).parents[2])
    if root not in sys.path:
        sys.path.insert(0, root)  # where the new process finds this module again
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def as_rank(rank: int, world: int, port: int, target: Callable[..., object], *arguments: Any) -> None:
    """Be a rank that `torchrun` started."""
    os.environ |= {
        "TORCHELASTIC_RUN_ID": "toy",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
    }
    torch.set_num_threads(1)
    target(rank, *arguments)


def losses(folder: Path) -> list[tuple[int, float]]:
    """The loss curve of a run's folder."""
    rows = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    return [(row["step"], row["loss"]) for row in rows]
