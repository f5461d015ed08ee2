"""`dtfixup demo-train`: 24 new layers on MiniLM, trained three ways side by side on two CPU cores.

Standard, pre-LN and DT-Fixup get the same model, data and number of steps. The baselines' learning rate and warm-up are
tuned: each trial trains for a quarter of the schedule, and the best on held-out training stories continues to the end.
DT-Fixup runs once, without warm-up. All trials come from one wider sweep (results/kinship/sweep.json): beyond them
standard and DT-Fixup break and pre-LN gets worse.
"""

import hashlib
import logging
import math
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from dtfixup.demo.kinship import generate
from dtfixup.demo.model import RELATIONS, KinshipModel, Sentences, Stories, to_tensors
from dtfixup.encoders import load_encoder
from dtfixup.errors import needs_extra
from dtfixup.files import write_atomically
from dtfixup.fixup import initialise_free_, measure_input_norm, strategy_named
from dtfixup.fixup.monitor import Monitor, watch
from dtfixup.training.schedule import anneal
from dtfixup.training.seeds import stream, stream_seed
from dtfixup.transformer import StackConfig


@dataclass(frozen=True)
class DemoTrial:
    """A learning rate and warm-up to try."""

    learning_rate: float
    warmup: int = 0


@dataclass(frozen=True)
class DemoConfig:
    """The demo's task, model and schedule."""

    train: int = 6000
    """Training stories."""
    held_out: int = 500
    """Stories to tune on, and as many again to validate on."""
    story_steps: tuple[int, ...] = (2, 3, 4)
    """Numbers of facts that an answer needs."""
    layers: int = 24
    """New layers."""
    dim: int = 64
    """Width of the new layers."""
    heads: int = 4
    """Attention heads."""
    mlp_dim: int = 128
    """Inner width of the MLP."""
    batch_size: int = 32
    """Stories per step."""
    steps: int = 1100
    """Optimiser steps of a full run."""
    tune_steps: int = 300
    """Steps after which only the best trial continues."""
    evaluate_every: int = 100
    """Steps between two points of the validation curve."""
    clip: float = 1.0
    """Largest gradient norm."""
    stream_limit: float = 0.0
    """Largest norm of a vector between layers, as a multiple of mu, for strategies that measure mu; 0 for none."""
    seed: int = 0
    """Seed of the weights and the order of batches."""
    data_seed: int = 0
    """Seed of the stories."""

    def stack(self) -> StackConfig:
        shape = (self.layers, self.dim, self.heads, self.mlp_dim)
        return StackConfig(*shape, relations=RELATIONS, stream_limit=self.stream_limit)


TRIALS = {
    "standard": (DemoTrial(1e-4, 100), DemoTrial(2e-4, 100), DemoTrial(5e-4, 300)),
    "pre-ln": (DemoTrial(1e-3), DemoTrial(2e-3)),
    "dt-fixup": (DemoTrial(3e-3),),
}


@dataclass(frozen=True)
class DemoData:
    """The stories as tensors, and the encoded sentences."""

    table: torch.Tensor
    train: Stories
    tune: Stories
    validation: Stories


@dataclass(frozen=True)
class DemoResult:
    """One strategy's tuned run."""

    strategy: str
    learning_rate: float
    warmup: int
    candidates: int
    input_norm: float
    steps: tuple[int, ...]
    validation: tuple[float, ...]
    by_story_steps: dict[int, float]
    alerts: tuple[str, ...]
    seconds: float

    @property
    def accuracy(self) -> float:
        return self.validation[-1]


Progress = Callable[[dict[str, Any]], object]
PROGRESS_EVERY = 10


def prepare_stories(config: DemoConfig, encoder: str = "minilm") -> DemoData:
    """Generate the stories and encode each distinct sentence once."""
    sentences = Sentences()
    counts = {"train": config.train, "tune": config.held_out, "validation": config.held_out}
    parts = {
        name: to_tensors(generate(count, config.story_steps, stream_seed(config.data_seed, name)), sentences)
        for name, count in counts.items()
    }
    return DemoData(sentences.encode(load_encoder(encoder)), **parts)


class DemoRun:
    """One model in training; it can pause and continue."""

    def __init__(self, strategy: str, trial: DemoTrial, config: DemoConfig, data: DemoData) -> None:
        self.config, self.trial, self.data = config, trial, data
        chosen = strategy_named(strategy)
        with torch.random.fork_rng():
            torch.manual_seed(stream_seed(config.seed, "init"))
            self.model = KinshipModel(data.table, config.stack(), chosen)
            initialise_free_(self.model, stack=self.model.new_layers, loaded=[])
            batches = data.train.batches(256)
            self.input_norm = measure_input_norm(self.model, self.model.new_layers, batches, progress=False)
            report = chosen.initialise_(self.model.new_layers, input_norm=self.input_norm)
        self.monitor: Monitor | None = None
        if chosen.needs_input_norm:
            self.monitor = watch(self.model.new_layers, report)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=trial.learning_rate, fused=True)
        self.order = stream(config.seed, "data")
        self.queue = torch.empty(0, dtype=torch.long)
        self.step = 0
        self.curve: dict[int, float] = {}
        self.loss = math.nan

    def train_until(self, last: int, progress: Progress) -> None:
        """Train up to step `last` of the full schedule."""
        while self.step < last:
            self._train_step()
            if self.step % self.config.evaluate_every == 0 or self.step == self.config.steps:
                self.curve[self.step] = accuracy(self.model, self.data.validation)
            if self.step % PROGRESS_EVERY == 0:
                point = self.curve[max(self.curve)] if self.curve else None
                progress({"step": self.step, "loss": self.loss, "accuracy": point})

    def _train_step(self) -> None:
        if len(self.queue) < self.config.batch_size:
            self.queue = torch.randperm(len(self.data.train), generator=self.order)
        rows, self.queue = self.queue.split([self.config.batch_size, len(self.queue) - self.config.batch_size])
        factor = anneal(self.step, self.config.steps, warmup=self.trial.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = factor * self.trial.learning_rate
        loss = F.cross_entropy(self.model(*self.data.train.inputs(rows)), self.data.train.answer_B[rows])
        self.optimizer.zero_grad()
        loss.backward()
        if self.monitor is not None:
            self.monitor.step()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()
        self.loss = loss.item()
        self.step += 1


def train_strategy(strategy: str, config: DemoConfig, data: DemoData, progress: Progress) -> DemoResult:
    """Tune, then train the trial that did best on the tuning stories to the end."""
    started = time.monotonic()
    trials = TRIALS[strategy]
    runs = []
    for number, trial in enumerate(trials, start=1):
        run = DemoRun(strategy, replace(trial, warmup=min(trial.warmup, config.tune_steps)), config, data)
        if len(trials) > 1:
            run.train_until(config.tune_steps, _numbered(progress, number))
        runs.append(run)
    best = min(runs, key=lambda run: answer_loss(run.model, data.tune)) if len(runs) > 1 else runs[0]
    best.train_until(config.steps, progress)
    if best.monitor is not None:
        best.monitor.close()
    return DemoResult(
        strategy=strategy,
        learning_rate=best.trial.learning_rate,
        warmup=best.trial.warmup,
        candidates=len(trials),
        input_norm=float(best.input_norm),
        steps=tuple(best.curve),
        validation=tuple(best.curve.values()),
        by_story_steps={
            count: accuracy(best.model, data.validation, data.validation.steps_B == count)
            for count in config.story_steps
        },
        alerts=tuple(map(str, best.monitor.alerts)) if best.monitor is not None else (),
        seconds=time.monotonic() - started,
    )


def _numbered(progress: Progress, trial: int) -> Progress:
    return lambda state: progress({**state, "trial": trial})


@torch.no_grad()
def accuracy(model: KinshipModel, stories: Stories, rows: torch.Tensor | None = None) -> float:
    """Share of right answers, 0-100."""
    model.eval()
    chosen = torch.arange(len(stories)) if rows is None else rows.nonzero()[:, 0]
    right = sum(
        int((model(*stories.inputs(part)).argmax(-1) == stories.answer_B[part]).sum()) for part in chosen.split(250)
    )
    model.train()
    return 100 * right / len(chosen)


@torch.no_grad()
def answer_loss(model: KinshipModel, stories: Stories) -> float:
    """Mean loss; NaN counts as the worst."""
    model.eval()
    loss = float(F.cross_entropy(model(*stories.inputs(slice(None))), stories.answer_B))
    model.train()
    return loss if math.isfinite(loss) else math.inf


def run_in_process(strategy: str, config: DemoConfig, data: DemoData, messages: "Queue[dict[str, Any]]") -> None:
    """Train one strategy in this process, on one thread, and send its progress and result."""
    torch.set_num_threads(1)
    logging.getLogger("dtfixup").setLevel(logging.ERROR)  # the result has the alerts; the screen shows the bars
    parent = multiprocessing.parent_process()

    def send(state: dict[str, Any]) -> None:
        if parent is not None and not parent.is_alive():
            sys.exit("the demo was stopped")
        messages.put({"strategy": strategy, "kind": "progress", **state})

    try:
        result = train_strategy(strategy, config, data, send)
        messages.put({"strategy": strategy, "kind": "result", "result": result})
    except Exception as error:
        messages.put({"strategy": strategy, "kind": "error", "error": f"{type(error).__name__}: {error}"})


def plot(results: Sequence[DemoResult], config: DemoConfig, path: str | Path) -> Path:
    """Draw the validation curves as a PNG."""
    with needs_extra("plot", "pictures"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axis = figure.subplots()
    for result in results:
        label = f"{result.strategy}: {result.accuracy:.0f} %  (lr {result.learning_rate:g}"
        label += f", warm-up {result.warmup})" if result.warmup else ", no warm-up)"
        wide = 2.6 if result.strategy == "dt-fixup" else 1.6
        axis.plot((0, *result.steps), (math.nan, *result.validation), marker="o", ms=3, lw=wide, label=label)
    axis.set_xlabel(f"training steps of {config.batch_size} stories")
    axis.set_ylabel("validation accuracy, %")
    axis.set_ylim(0, 102)
    axis.set_title(f"{config.layers} new layers on frozen MiniLM, {config.train:,} training stories", fontsize=11)
    axis.grid(alpha=0.3)
    axis.legend(loc="upper left", fontsize=9)
    return write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=130))


def metrics(results: Sequence[DemoResult]) -> dict[str, float]:
    """The metrics of the result file."""
    numbers = {}
    for result in results:
        name = result.strategy.replace("-", "_")
        numbers[f"{name}_accuracy"] = result.accuracy
        numbers[f"{name}_learning_rate"] = result.learning_rate
        numbers[f"{name}_warmup"] = float(result.warmup)
        numbers |= {f"{name}_accuracy_{count}_steps": share for count, share in result.by_story_steps.items()}
    return numbers


def stories_hash(data: DemoData) -> str:
    """A hash of the stories, for result files."""
    digest = hashlib.sha256()
    for stories in (data.train, data.tune, data.validation):
        for tensor in (stories.sentence_BS, stories.relation_BLL, stories.answer_B):
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:16]
