"""One training run of SQL-SP, from a prepared dataset to a result file.

In: a configuration, a prepared dataset, a folder. Out, in the folder: weights, logs, the queries that a beam search
finds for the evaluation examples, and a result file with its provenance. Runs on a bare GPU box.
"""

import time
from pathlib import Path

from rich.console import Console

from dtfixup.encoders import load_encoder
from dtfixup.provenance import begin
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.sql.model.decoding import decode, exact_metrics
from dtfixup.sql.model.predictions import likeliest, write_beams
from dtfixup.sql.model.prepared import Prepared
from dtfixup.sql.model.task import SqlTask
from dtfixup.training.loop import fit
from dtfixup.training.ranks import launch
from dtfixup.training.result import TaskRun, finish_run, fit_metrics

BEAMS = "beams.jsonl"


def train_sql(
    config: SqlSpConfig,
    prepared: Prepared,
    folder: str | Path,
    *,
    name: str,
    command: str,
    resume: bool = False,
    console: Console | None = None,
) -> TaskRun:
    """Train, decode the evaluation examples with a beam, and write `result.json` and `beams.jsonl` into the folder."""
    started, folder = begin(), Path(folder)
    fabric = launch()
    task = SqlTask(config, prepared, load_encoder(config.encoder), fabric.device)
    done = fit(task, config.training, folder, fabric=fabric, resume=resume, console=console)
    if not done.finished or not fabric.is_global_zero:
        return TaskRun(done, {})
    before = time.monotonic()
    beams = decode(task.model, task.corpus, prepared, task.evaluated, beam=config.beam)
    decode_seconds = time.monotonic() - before
    exact = exact_metrics(prepared, task.evaluated, likeliest(beams))
    prefix = "held_out" if config.hold_out else "dev"
    metrics = {f"{prefix}_{key}": round(value, 4) for key, value in exact.items()}
    metrics |= {f"{prefix}_{key}_greedy": round(done.last[key], 4) for key in exact}
    metrics |= {"decode_seconds": round(decode_seconds, 2), **fit_metrics(done)}
    write_beams(folder / BEAMS, task.evaluated, beams)
    return finish_run(
        folder,
        config,
        done,
        metrics,
        name=name,
        command=command,
        started=started,
        data_hash=prepared.index["data_hash"],
    )
