"""One training run of the reading model, from files of examples to a result file.

In: a configuration, a folder of data, a folder for the run. Out: weights and logs in the folder, the probability of
every option of the evaluation examples, and a result file with its provenance.
"""

import math
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from dtfixup.encoders import load_encoder, load_tokenizer
from dtfixup.errors import DivergedError
from dtfixup.provenance import begin
from dtfixup.reading.examples import ReadingData, read_data
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.reading.scoring import metrics_of, probabilities, write_probabilities
from dtfixup.reading.task import ReadingTask, task_examples
from dtfixup.reading.tokens import ReadingTokens, tokenise
from dtfixup.training.loop import fit
from dtfixup.training.ranks import launch
from dtfixup.training.result import TaskRun, finish_run, fit_metrics

PREDICTIONS = "predictions.jsonl"


class ReadingSource:
    """Examples for several runs, read once and tokenised once per encoder and length.

    Pickled, it is the path alone: another process reads the file itself when it needs it.
    """

    def __init__(self, data: str | Path | ReadingData) -> None:
        self._given = data if isinstance(data, ReadingData) else Path(data).absolute()
        self._tokens: dict[tuple[str, int, bool], ReadingTokens] = {}
        self._tokenizer_sha256: dict[str, str] = {}

    @cached_property
    def data(self) -> ReadingData:
        return self._given if isinstance(self._given, ReadingData) else read_data(self._given)

    def __reduce__(self) -> tuple[type["ReadingSource"], tuple[Path | ReadingData]]:
        return ReadingSource, (self._given,)

    def task(self, config: ReadingRunConfig, device: torch.device) -> ReadingTask:
        """The task of one run, with an encoder of its own, because training changes it."""
        encoder = load_encoder(config.encoder)
        key = (config.encoder, config.model.max_tokens, bool(config.hold_out))
        if key not in self._tokens:
            examples = task_examples(self.data, config.hold_out)
            self._tokens[key] = tokenise(examples, encoder.tokenizer, max_tokens=config.model.max_tokens)
            self._tokenizer_sha256[config.encoder] = load_tokenizer(config.encoder).sha256
        sha256 = self._tokenizer_sha256[config.encoder]
        return ReadingTask(config, self.data, encoder, device, tokenizer_sha256=sha256, tokens=self._tokens[key])


def train_reading(
    config: ReadingRunConfig,
    data: str | Path | ReadingData | ReadingSource,
    folder: str | Path,
    *,
    name: str = "reading-train",
    command: str = "",
    resume: bool = False,
    console: Console | None = None,
) -> TaskRun:
    """Train, score the evaluation examples, and write `result.json` and `predictions.jsonl` into the folder.

    `data` is a folder with `train` and `val`, one file of examples to train on, or the result of `read_data`. Runs on
    the same data share a `ReadingSource`.
    """
    started, folder = begin(), Path(folder)
    fabric = launch()
    source = data if isinstance(data, ReadingSource) else ReadingSource(data)
    task = source.task(config, fabric.device)
    done = fit(task, config.training, folder, fabric=fabric, resume=resume, console=console)
    if not done.finished or not fabric.is_global_zero:
        return TaskRun(done, {})
    rows = probabilities(task.model, task.corpus, task.evaluated)
    label_N = task.corpus.tokens.label_N[task.evaluated]
    prefix = "held_out" if config.hold_out else "val"
    metrics = {f"{prefix}_{key}": round(value, 4) for key, value in metrics_of(rows, label_N).items()}
    if not math.isfinite(metrics[f"{prefix}_loss"]):
        raise DivergedError("the trained model's scores are not finite: lower the learning rate")
    if (is_new := task.is_new_context).any():
        new = [row for row, kept in zip(rows, is_new, strict=True) if kept]
        metrics[f"{prefix}_accuracy_new_contexts"] = round(metrics_of(new, label_N[is_new])["accuracy"], 4)
    metrics |= {
        f"{prefix}_accuracy_best": round(done.best["accuracy"], 4),
        "chance": round(100 * float(np.mean(1 / task.corpus.tokens.options_N[task.evaluated])), 4),
        "train_examples": len(task.train),
        "evaluated_examples": len(task.evaluated),
        "evaluated_new_contexts": int(is_new.sum()),
        "cut_contexts": task.corpus.tokens.cut_contexts,
        **fit_metrics(done),
    }
    write_probabilities(folder / PREDICTIONS, [task.examples[number].name for number in task.evaluated], rows)
    return finish_run(
        folder,
        config,
        done,
        metrics,
        name=name,
        command=command,
        started=started,
        data_hash=source.data.data_hash,
    )
