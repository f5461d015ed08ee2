"""Small experiments and result files for them, with numbers of our choice."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dtfixup_paper.tables.cells import Cell, Experiment, RunConfig, metric_of

from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.reading.presets import minilm as reading_minilm
from dtfixup.sql.model.config import SqlSpConfig, minilm
from dtfixup.training.config import to_json


def sql_config(strategy: str = "dt-fixup", layers: int = 24, **changes: Any) -> SqlSpConfig:
    config = minilm()
    training = replace(config.training, epochs=changes.pop("epochs", 16))
    return replace(config, model=replace(config.model, strategy=strategy, layers=layers), training=training, **changes)


def reading_config(strategy: str = "dt-fixup", layers: int = 4, **changes: Any) -> ReadingRunConfig:
    config = reading_minilm()
    return replace(config, model=replace(config.model, strategy=strategy, layers=layers), **changes)


def path_of(config: RunConfig) -> str:
    """The path of a configuration's runs; configurations that differ have paths that differ."""
    config = replace(config, training=replace(config.training, seed=1, evaluate_every=1))
    digest = hashlib.sha256(json.dumps(to_json(config)).encode()).hexdigest()[:8]
    return f"toy/{config.model.strategy}-n{config.model.layers}-{digest}"


def cell(
    config: RunConfig, *, row: str = "", column: str = "", seeds: int = 2, paper: str = "", path: str = ""
) -> Cell:
    model = config.model
    return Cell(
        row or model.strategy,
        column or f"N = {model.layers}",
        path or path_of(config),
        config,
        seeds,
        paper,
    )


def experiment(name: str, cells: Sequence[Cell], **fields: str) -> Experiment:
    known = {"title": f"About {name}", "reference": "Table 5", **fields}
    return Experiment(name, known["title"], known["reference"], lambda setup: cells, known.get("remark", ""))


def write_result(
    folder: Path, config: RunConfig, value: float | None, *, seed: int = 1, file: str = "", **fields: Any
) -> Path:
    """The file of a run that came to a value; of one that diverged if there is none."""
    path = folder / (file or f"{path_of(config)}-seed{seed}.json")
    config = replace(config, training=replace(config.training, seed=seed))
    encoder = config.encoder.replace("minilm", "minilm-fp16")  # as on a machine without network
    metrics = {} if value is None else {metric_of(config): value, "steps": 100, "skipped_steps": 1}
    if isinstance(config, ReadingRunConfig) and metrics:
        metrics |= {"chance": 25.0, "evaluated_examples": 500}
    content = {
        "seed": seed,
        "encoder": encoder,
        "hardware": "a GPU",
        "command": "dtfixup sql train",
        "wall_seconds": 60.0,
        "config": {**to_json(config), "encoder": encoder},
        "metrics": {**metrics, **fields.pop("metrics", {})},
        "curve": [],
        "state": "diverged" if value is None else "finished",
        **fields,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def curve(*values: float, every: int = 2) -> list[dict[str, float]]:
    """Exact match at every second epoch."""
    return [{"step": 9 * place, "epoch": every * place, "exact": value} for place, value in enumerate(values, start=1)]
