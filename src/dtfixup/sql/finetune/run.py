"""One fine-tuning run: fine-tune a model on a user's pairs, and measure it before and after.

In: a file of question/SQL pairs, their database, a model. Out, in a folder: `last.safetensors`, the model for use;
`held_out.jsonl`, every held-out question with the answers before and after; `pairs.json`, the pairs that were left out
or held out; `result.json`, which is written last and marks the run as finished; and the engine's logs in `training`.
Until then, `training` also has the checkpoints from which a stopped run continues.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from rich.console import Console

from dtfixup.errors import CheckpointError, ConfigError
from dtfixup.files import write_atomically, write_json
from dtfixup.provenance import RESULT, begin
from dtfixup.sql.ask.opened import OpenedDatabase, open_database
from dtfixup.sql.ask.parser import TextToSql, default_model
from dtfixup.sql.database.location import DatabaseLike
from dtfixup.sql.finetune.pair_files import read_pair_file
from dtfixup.sql.finetune.pair_scores import PairJudge, PairScores, on_same_pairs
from dtfixup.sql.finetune.pairs import Fault, Pairs, SplitPairs, check_pairs, link_pairs, split_pairs
from dtfixup.sql.finetune.task import TUNING, FinetuneConfig, FinetuneTask, Keep, PreparedPairs, prepare_pairs
from dtfixup.sql.model.store import TrainedModel
from dtfixup.training.checkpoint import BEST, Checkpoints
from dtfixup.training.loop import fit
from dtfixup.training.ranks import launch
from dtfixup.training.result import FitResult, finish_run, fit_metrics
from dtfixup.weights.tensors import read_content, save_weights
from dtfixup.weights.trained import LAST, weights_file

TRAINING, TUNED = "training", "tuned.safetensors"
HELD_OUT_FILE, PAIRS_FILE = "held_out.jsonl", "pairs.json"
_COPIED = ("sure_above",)
"""Keys of a model's file that describe its use, copied to the tuned model."""


@dataclass(frozen=True)
class Finetuning:
    """The inputs of a run, read and checked."""

    config: FinetuneConfig
    database: OpenedDatabase
    weights: Path
    """File of the model to start from."""
    parser: TextToSql
    """The parser with that model."""
    pairs: Pairs
    split: SplitPairs
    prepared: PreparedPairs
    fabric: Fabric

    @property
    def trained(self) -> TrainedModel:
        return self.parser.trained

    @property
    def was_tuned(self) -> bool:
        """Whether the model comes from a fine-tuning run itself."""
        return TUNING in self.trained.content["fingerprint"]


@dataclass(frozen=True)
class FinetuneRun:
    """The outcome of a run."""

    fit: FitResult
    before: PairScores
    after: PairScores
    kept_tuned: bool
    """Whether the model for use is the tuned one, or the one that the run started from."""
    metrics: Mapping[str, float]

    @property
    def is_better(self) -> bool:
        return self.after.rank > self.before.rank


def open_finetuning(
    pairs: str | Path,
    database: DatabaseLike,
    model: str | Path | None = None,
    config: FinetuneConfig | None = None,
) -> Finetuning:
    """Read pairs, database and model, and check them against each other. Writes nothing.

    Args:
        pairs: CSV, JSON or JSON lines with `question` and `sql`; the queries are in the database's dialect.
        database: what `open_database` takes or returned.
        model: folder of a finished run, or file of weights; the shipped model by default.
        config: `FinetuneConfig()` by default.
    """
    given = read_pair_file(pairs)
    opened = database if isinstance(database, OpenedDatabase) else open_database(database)
    inputs = opened.read().inputs  # before the model is loaded, so that an error comes early
    weights = weights_file(default_model() if model is None else model)
    fabric = launch()
    parser = TextToSql.load(weights, fabric.device)
    config = replace(config or FinetuneConfig(), encoder=parser.trained.encoder)
    checked = check_pairs(given, inputs.schema, opened.dialect, require_readable=parser.require_readable)
    checked = link_pairs(checked, inputs)
    split = split_pairs(checked, config.hold_out, config.training.seed)
    prepared = prepare_pairs(split, opened, parser.tokenizer)
    return Finetuning(config, opened, weights, parser, checked, split, prepared, fabric)


def finetune(
    opened: Finetuning,
    folder: str | Path,
    *,
    keep: Keep = Keep.BETTER,
    deadline: float = 10.0,
    name: str = "sql-finetune",
    command: str = "",
    resume: bool = False,
    console: Console | None = None,
) -> FinetuneRun | None:
    """Measure, train, measure again, and leave the model for use in the folder; returns None if the run was stopped.

    Args:
        opened: from `open_finetuning`; its model is trained in place.
        folder: for all files; a folder that holds a model is an error.
        keep: which model to leave for use.
        deadline: seconds that a query may run.
        name: name in the result file.
        command: command in the result file.
        resume: continue the run in the folder.
        console: shows the progress; the error stream by default.
    """
    started, folder = begin(), Path(folder)
    _require_free(folder, opened.weights, resume=resume)
    console = console or Console(stderr=True)
    judge = PairJudge(
        opened.database,
        opened.split.held_out,
        beam=opened.config.beam,
        deadline=deadline,
        show_progress=console.is_terminal,
    )
    before = judge.score(opened.parser, "answering held-out questions, before")
    scored: list[PairScores] = []

    def evaluate() -> dict[str, float]:
        scored.append(judge.score(opened.parser, "answering held-out questions, after"))
        return _percentages(on_same_pairs(before, scored[-1])[1])

    task = FinetuneTask(
        opened.config,
        opened.trained,
        opened.prepared,
        evaluate=evaluate,
        made_of={"pairs": opened.pairs.data_hash},
        device=opened.fabric.device,
    )
    training = folder / TRAINING
    done = fit(task, opened.config.training, training, fabric=opened.fabric, resume=resume, console=console)
    if not done.finished:
        return None
    if not scored:  # the resumed run had finished training
        evaluate()
    before, after = on_same_pairs(before, scored[-1])
    kept_tuned = keep is Keep.TUNED or after.rank > before.rank
    content = read_content(training / LAST)
    content |= {name: opened.trained.content[name] for name in _COPIED if name in opened.trained.content}
    save_weights(folder / (LAST if kept_tuned else TUNED), task.model, content, left_out=task.left_out)
    if not kept_tuned:
        write_atomically(folder / LAST, lambda temporary: shutil.copyfile(opened.weights, temporary))
    write_json(folder / PAIRS_FILE, _pairs_content(opened))
    _write_held_out(folder / HELD_OUT_FILE, before, after)
    metrics = _metrics(opened, before, after, done, kept_tuned=kept_tuned)
    data_hash = opened.pairs.data_hash
    finish_run(folder, opened.config, done, metrics, name=name, command=command, started=started, data_hash=data_hash)
    _delete_checkpoints(folder)
    return FinetuneRun(done, before, after, kept_tuned, metrics)


def _require_free(folder: Path, weights: Path, *, resume: bool) -> None:
    """Refuse a folder with another run, or with the model that this run starts from."""
    if (folder / RESULT).exists():
        raise CheckpointError(f"{folder} holds a finished run: choose another folder")
    if folder.resolve() in weights.resolve().parents:
        raise ConfigError(f"{folder} holds the model that the run starts from: choose another folder")
    checkpoints = Checkpoints(folder / TRAINING)
    if resume and not checkpoints.saved():
        raise CheckpointError(f"{folder} has no run to continue: start it without --resume")
    if not resume:
        checkpoints.require_new()
        if (folder / LAST).exists():
            raise CheckpointError(f"{folder} holds a model: choose another folder")


def _percentages(scores: PairScores) -> dict[str, float]:
    shares = {"right": scores.right, "exact": scores.exact, "execution": scores.execution}
    return {name: value for name, value in shares.items() if value is not None}


def _metrics(
    opened: Finetuning, before: PairScores, after: PairScores, done: FitResult, *, kept_tuned: bool
) -> dict[str, float]:
    scores = {
        f"held_out_{name}_{when}": round(value, 4)
        for when, score in (("before", before), ("after", after))
        for name, value in _percentages(score).items()
    }
    return {
        **scores,
        "kept_tuned": float(kept_tuned),
        "pairs_used": len(opened.pairs.usable),
        "pairs_left_out": len(opened.pairs.unusable),
        "pairs_train": len(opened.split.train),
        "pairs_held_out": len(opened.split.held_out),
        "pairs_with_unsaid_values": opened.pairs.counts.get(Fault.MISSING_VALUE, 0),
        "pairs_without_link": len(opened.pairs.unlinked),
        **fit_metrics(done),
    }


def _pairs_content(opened: Finetuning) -> dict[str, Any]:
    return {
        "held_out_lines": [pair.line for pair in opened.split.held_out],
        "unlinked_lines": [pair.line for pair in opened.pairs.unlinked],
        "left_out": [
            {"line": pair.line, "fault": pair.fault.value, "reason": pair.reason} for pair in opened.pairs.unusable
        ],
    }


def _write_held_out(path: Path, before: PairScores, after: PairScores) -> None:
    lines = "".join(
        json.dumps(
            {
                "line": first.pair.line,
                "question": first.pair.question,
                "sql": first.pair.sql,
                "before": first.to_json(),
                "after": second.to_json(),
            },
            ensure_ascii=False,
        )
        + "\n"
        for first, second in zip(before.pairs, after.pairs, strict=True)
    )
    write_atomically(path, lambda temporary: temporary.write_text(lines, encoding="utf-8"))


def _delete_checkpoints(folder: Path) -> None:
    """Delete what a finished run does not need: checkpoints, copies of weights, leftovers of a crash."""
    training = folder / TRAINING
    for old in [training / BEST, training / LAST, *folder.glob(".*.safetensors")]:
        old.unlink(missing_ok=True)
    shutil.rmtree(Checkpoints(training).folder)
