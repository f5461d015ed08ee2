"""The training loop: a task, a configuration and a folder → trained weights, logs and checkpoints in the folder.

The gradient of an update is the mean over the examples of `accumulate` batches, whose rows the ranks share. After an
update follow a line of the log, a checkpoint and, at the end of an epoch, an evaluation, each when it is due. Between
two lines of the log nothing waits for the device. The number of updates alone determines where a run continues, so a
run can stop after any update.
"""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median
from typing import Any, Generic

import numpy as np
import torch
from lightning_fabric import Fabric
from rich.console import Console
from torch import Tensor

from dtfixup.errors import ConfigError, DivergedError, DtFixupError, TrainingError
from dtfixup.files import finite_or_none, write_json
from dtfixup.fixup import FixupReport
from dtfixup.fixup.monitor import Monitor, watch
from dtfixup.training.checkpoint import (
    Checkpoints,
    RunState,
    identity,
    random_streams,
    random_tensors,
    require_same,
    restore,
    state_tensors,
)
from dtfixup.training.config import TrainingConfig
from dtfixup.training.health import Health
from dtfixup.training.log import Interval, RunLog
from dtfixup.training.plan import PlannedBatch, ShapeT
from dtfixup.training.precision import autocast, float32_products
from dtfixup.training.ranks import Ranks, Request, launch
from dtfixup.training.result import FitResult, joined_in_time, joined_over_ranks, peak_gib, typical_step_ms
from dtfixup.training.schedule import anneal
from dtfixup.training.seeds import stream_seed
from dtfixup.training.signals import StopRequested, StopSignals
from dtfixup.training.steps import EagerSteps, GraphSteps, StepLog
from dtfixup.training.task import Task
from dtfixup.training.update import Updater
from dtfixup.weights.tensors import model_tensors

CONFIG = "config.json"


def fit(
    task: Task[ShapeT],
    config: TrainingConfig,
    folder: str | Path,
    *,
    fabric: Fabric | None = None,
    resume: bool = False,
    stop_after: int | None = None,
    console: Console | None = None,
) -> FitResult:
    """Train to the end of the schedule, or until SIGTERM or Ctrl-C, and save.

    At the end of the schedule the model has the weights for use: the moving average if the run keeps one.

    Args:
        task: model and data, on the device of `fabric`.
        config: schedule, precision and intervals.
        folder: for logs, checkpoints and weights; without `resume`, an earlier run in it is an error.
        fabric: from `launch()`; one process on one device by default.
        resume: continue from the folder's newest checkpoint.
        stop_after: stop after this many updates of the schedule.
        console: shows the progress; the error stream by default.
    """
    ranks = Ranks(fabric or launch(next(task.model.parameters()).device.type))
    checkpoints = Checkpoints(Path(folder))
    try:
        with float32_products(config.precision), StopSignals() as signals:
            run = _Run(task, config, Path(folder), ranks, signals, resume=resume)
            return run.train(stop_after, console)
    except Exception as error:
        explained = _explained(error, config, checkpoints)
        ranks.fail(explained)
        if explained is error:
            raise
        raise explained from error


def _explained(error: Exception, config: TrainingConfig, checkpoints: Checkpoints) -> Exception:
    """The error in words that help a user."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error):
        return TrainingError(
            f"out of memory with batches of {config.batch_size} in {config.precision}: lower batch_size (and raise "
            f"accumulate, which is {config.accumulate}, so that an update sees as many examples), or use bf16. "
            f"{checkpoints.advice()}. {error}"
        )
    if isinstance(error, OSError) and not isinstance(error, DtFixupError):
        return TrainingError(f"a file of the run cannot be read or written: {error}. {checkpoints.advice()}")
    return error


class _Run(Generic[ShapeT]):
    """One run, from its start or from a checkpoint."""

    def __init__(
        self,
        task: Task[ShapeT],
        config: TrainingConfig,
        folder: Path,
        ranks: Ranks,
        signals: StopSignals,
        *,
        resume: bool,
    ) -> None:
        self.task, self.config, self.folder, self.ranks, self.signals = task, config, folder, ranks, signals
        began, self.checkpoints = time.monotonic(), Checkpoints(folder)
        if not resume:
            self.checkpoints.require_new()
        ranks.require_on_device(task.model)
        if ranks.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(ranks.device)
        generator = torch.Generator(ranks.device).manual_seed(stream_seed(config.seed, "init"))
        self.report: FixupReport | None = task.initialise(generator)
        ranks.share_weights(task.model)
        self.updater = Updater(task.parameter_groups(), config.update)
        self.state = state_tensors(task.model, self.updater, task.left_out)
        self.identity = identity(config, task.fingerprint, ranks.world, ranks.device)
        name = "model" if ranks.first else f"model of rank {ranks.rank}"
        torch.manual_seed(stream_seed(config.seed, name))
        self.updates_per_epoch = len(self._plan(0))
        self.total = config.epochs * self.updates_per_epoch

        self.at = self._restored() if resume else RunState()
        self.best = self.checkpoints.best_evaluation()
        self._watched_before, self._began = self.at.watched, began - self.at.seconds
        self._saved_at, self._saved_step, self._read_until = time.monotonic(), self.at.step, self.at.step
        self._line_at, self._examples = time.monotonic(), 0
        self._epoch_ms: list[float] = []
        self._agreed = Request()
        self._health = Health(config)
        self.monitor: Monitor | None = None

    def train(self, stop_after: int | None, console: Console | None) -> FitResult:
        """Train from the current step to the end, or to a stop."""
        self.ranks.agree()
        self.task.model.train()
        self._stop_after = self.total if stop_after is None else stop_after
        with ExitStack() as stack:
            if self.ranks.first:
                self._open_folder()
            where = self.folder if self.ranks.first else None
            log = RunLog(where, total=self.total, step=self.at.step, best=self._describe_best(), console=console)
            self.log = stack.enter_context(log)
            if self.report is not None and self.report.input_norm is not None:
                self.monitor = stack.enter_context(self._watch(self.report))
            self._make_steps()
            self._evaluate_where_due()
            while self.at.step < self.total and not self._stopping:
                self._train_epoch()
                self._evaluate_where_due()
                if self.at.step % self.updates_per_epoch == 0:
                    self.log.epoch(self.at.step // self.updates_per_epoch, self.config.epochs, self._epoch_ms[-1])
            self._finish()
        self.ranks.agree()
        return self._result()

    def _open_folder(self) -> None:
        try:
            write_json(self.folder / CONFIG, self.identity)
        except OSError as error:
            raise TrainingError(f"nothing can be written to {self.folder}: {error}. Choose another folder") from error

    def _watch(self, report: FixupReport) -> Monitor:
        monitor = watch(
            self.task.stack,
            report,
            writer=self.log.scalars,
            callback=self.log.alert,
            every=self.config.log_every,
            first_step=self.at.step + 1,
        )
        return monitor.to(self.ranks.device)

    def _make_steps(self) -> None:
        device, config = self.ranks.device, self.config
        graphs = device.type == "cuda" if config.graphs is None else config.graphs
        if graphs and device.type != "cuda":
            raise ConfigError(f"CUDA graphs need a GPU, and this run is on {device}: set graphs to none or false")

        def loss_sum(example_B: Tensor, shape: ShapeT) -> Tensor:
            with autocast(config.precision, device):
                return self.task.loss_sum(example_B, shape)

        self._rows = StepLog(config.log_every, device)
        combine = self._meet if self.ranks.world > 1 else None
        in_parts = config.accumulate > 1
        eager = EagerSteps(loss_sum, self.updater, self._rows, self.monitor, combine=combine, in_parts=in_parts)
        self._steps = GraphSteps(eager) if graphs else eager

    def _plan(self, epoch: int) -> list[Sequence[PlannedBatch[ShapeT]]]:
        """The batches of every update of an epoch."""
        random = np.random.default_rng(stream_seed(self.config.seed, f"data of epoch {epoch}"))
        planned, size = self.task.batches(epoch, random), self.config.accumulate
        if not len(planned):
            raise ConfigError("the task has no batch to train on")
        return [planned[first : first + size] for first in range(0, len(planned), size)]

    @property
    def _stopping(self) -> bool:
        return self._agreed.stop or self.at.step >= self._stop_after

    def _train_epoch(self) -> None:
        """Train to the end of the epoch, or to a stop."""
        began, (epoch, done) = time.monotonic(), divmod(self.at.step, self.updates_per_epoch)
        plan = self._plan(epoch)
        if len(plan) != self.updates_per_epoch:
            raise ConfigError(
                f"the task planned {len(plan)} updates for epoch {epoch} and {self.updates_per_epoch} for the first: "
                "the schedule needs epochs of one length"
            )
        for batches in plan[done:]:
            self._update(batches)
            if self.at.step % self.config.log_every == 0:
                self._write_line()
            if self._agreed.save:
                self._save()
            if self._stopping:
                break
        if self.ranks.device.type == "cuda":
            torch.cuda.synchronize()
        if self.at.step % self.updates_per_epoch == 0:
            self._epoch_ms.append(1000 * (time.monotonic() - began) / (len(plan) - done))

    def _update(self, batches: Sequence[PlannedBatch[ShapeT]]) -> None:
        self.at.step += 1
        self.updater.set_rate(self._rate_factor())
        count = sum(int((batch.examples >= 0).sum()) for batch in batches)
        self._examples += count
        rows = [(torch.from_numpy(self.ranks.rows(batch.examples)), batch.shape) for batch in batches]
        self._steps.update(rows, count)
        if self.ranks.world == 1:
            self._agreed = self._request()

    def _rate_factor(self) -> float:
        """The schedule's factor of the current update."""
        return anneal(self.at.step - 1, self.total, warmup=self.config.warmup, power=self.config.power)

    def _meet(self, tensors: Sequence[Tensor]) -> None:
        """Replace gradients and losses by their sums over the ranks."""
        self._agreed = self.ranks.agree(self._request())
        self.ranks.add_up(tensors)

    def _request(self) -> Request:
        minutes, steps = self.config.checkpoint_minutes, self.config.checkpoint_steps
        by_clock = minutes > 0 and time.monotonic() - self._saved_at >= 60 * minutes
        by_count = steps > 0 and self.at.step - self._saved_step >= steps
        return Request(stop=self.signals.received is not None, save=self.ranks.first and (by_clock or by_count))

    def _read_rows(self) -> None:
        """Wait for the device, and read the steps since the last time."""
        first, self._read_until = self._read_until + 1, self.at.step
        rows = self._rows.read(self.at.step - first + 1)
        self.at.pending += rows
        self.at.skipped += sum(skipped for _, _, skipped in rows)
        if problem := self._health.problem(rows, first):
            raise DivergedError(
                f"{problem}. The loss or the gradient is not finite, or far above the usual. Lower the learning rate, "
                f"or look at the monitor's alerts. {self.checkpoints.advice()}"
            )

    def _write_line(self) -> None:
        self._read_rows()
        rows = self.at.pending
        losses, norms = ([row[column] for row in rows if math.isfinite(row[column])] for column in (0, 1))
        now = time.monotonic()
        self.log.interval(
            Interval(
                step=self.at.step,
                epoch=self.at.step / self.updates_per_epoch,
                loss=fmean(losses) if losses else None,
                gradient_norm=median(norms) if norms else None,
                learning_rate=self.config.update.learning_rate * self._rate_factor(),
                skipped=self.at.skipped,
                examples_per_second=self._examples / max(now - self._line_at, 1e-9),
                seconds=now - self._began,
            )
        )
        self.at.pending, self._line_at, self._examples = [], now, 0

    def _evaluate_where_due(self) -> None:
        """Evaluate at the end of every `evaluate_every` epochs, unless the resumed run has done so."""
        epoch, rest = divmod(self.at.step, self.updates_per_epoch)
        every = self.config.evaluate_every
        due = rest == 0 and epoch > 0 and ((every > 0 and epoch % every == 0) or self.at.step == self.total)
        if due and not (self.at.history and self.at.history[-1]["step"] == self.at.step):
            evaluation = self._evaluate(epoch) if self.ranks.first else None
            evaluation, self.best = self.ranks.from_first((evaluation, self.best))
            if evaluation is None:
                self._agreed = Request(stop=True)
                return
            self.at.history.append(evaluation)
            self.log.evaluation(evaluation, self._describe_best())

    def _evaluate(self, epoch: int) -> dict[str, Any] | None:
        """Evaluate the averaged weights, and save the best; None if a stop interrupted it."""
        devices = [self.ranks.device] if self.ranks.device.type == "cuda" else []
        self.task.model.eval()
        try:  # an evaluation must not move the random streams of the training
            with torch.random.fork_rng(devices), torch.no_grad(), self.updater.averaged():
                with self.signals.interruptible():
                    metrics = {name: finite_or_none(float(value)) for name, value in self.task.evaluate().items()}
                evaluation = {"step": self.at.step, "epoch": epoch, **metrics}
                self._save_where_best(evaluation)
        except StopRequested:
            return None
        finally:
            self.task.model.train()
        return evaluation

    def _save_where_best(self, evaluation: dict[str, Any]) -> None:
        name = self.task.best_metric
        if name not in evaluation:
            raise TrainingError(f"the evaluation has no {name} to choose the best by; it has {', '.join(evaluation)}")
        value = evaluation[name]
        if value is not None and (self.best is None or value > self.best[name]):
            weights = model_tensors(self.task.model, self.task.left_out)
            self.checkpoints.write(self.checkpoints.best, weights, {**self.identity, "evaluation": evaluation})
            self.best = evaluation

    def _describe_best(self) -> str:
        name = self.task.best_metric
        return "" if self.best is None else f"best {name} {self.best[name]:.4g}"

    def _save(self) -> None:
        self._read_rows()
        summary = {} if self.monitor is None else self.monitor.summary()
        parts = self.ranks.gather((random_streams(self.ranks.device), summary))
        self.at.watched = joined_in_time(self._watched_before, joined_over_ranks([summary for _, summary in parts]))
        self.at.seconds = time.monotonic() - self._began
        if self.ranks.first:
            tensors = self.state | random_tensors([streams for streams, _ in parts])
            self.checkpoints.save(self.at.step, tensors, {**self.identity, "standing": self.at.to_json()})
        self._saved_at, self._saved_step = time.monotonic(), self.at.step

    def _restored(self) -> RunState:
        tensors, content, path = self.checkpoints.read_newest()
        require_same(path, content, self.identity)
        restore(self.state, tensors, path, self.ranks.rank)
        return RunState.from_json(content["standing"])

    def _finish(self) -> None:
        """Write the last line and checkpoint; after a stop, say how to continue."""
        self._read_rows()
        if self.at.step == self.total and self.at.pending:
            self._write_line()
        if self.monitor is not None:
            self.monitor.close()
        self._save()
        if self._finished:
            self.updater.take_average_()
            if self.ranks.first:
                weights = model_tensors(self.task.model, self.task.left_out)
                content = {**self.identity, "evaluation": self.at.history[-1]}
                self.checkpoints.write(self.checkpoints.last, weights, content)
        elif self.ranks.first:
            why = "" if self.signals.received is None else f" by {self.signals.received.name}"
            where = f"step {self.at.step:,} of {self.total:,}, saved to {self.checkpoints.saved()[-1]}"
            self.log.print(f"Stopped{why} after {where}: continue with --resume")

    @property
    def _finished(self) -> bool:
        return self.at.step == self.total and bool(self.at.history) and self.at.history[-1]["step"] == self.total

    def _result(self) -> FitResult:
        return FitResult(
            finished=self._finished,
            steps=self.at.step,
            skipped_steps=self.at.skipped,
            step_ms=typical_step_ms(self._epoch_ms),
            wall_seconds=self.at.seconds,
            peak_gib=peak_gib(self.ranks.device),
            best=self.best or {},
            last=self.at.history[-1] if self.at.history else {},
            history=tuple(self.at.history),
            watched=self.at.watched,
        )
