"""A parser to ask in tests: a small model with fresh weights, stored like a run's."""

import atexit
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dtfixup.encoders import Encoder
from dtfixup.encoders.load import minilm_path
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.model.batches import Order
from dtfixup.sql.model.model import SqlSpModel
from dtfixup.training.config import to_json
from dtfixup.weights.tensors import save_weights
from dtfixup.weights.trained import frozen_checksum, frozen_names
from tests.sql.tiny_model import CONFIG, tiny_encoder, tiny_model


def save_run(folder: Path, model: SqlSpModel, encoder: str, **content: Any) -> Path:
    """The folder of a finished run that holds this model."""
    made_of = {"model": to_json(model.config), "order": Order.STORED, "encoder": encoder, "encoder_factor": 0.1}
    made_of |= {"frozen": frozen_checksum(model)}
    file = folder / "last.safetensors"
    save_weights(file, model, {"fingerprint": made_of, **content}, left_out=frozen_names(model))
    return folder


def save_encoder(folder: Path, encoder: Encoder | None = None) -> Path:
    """A tiny encoder on disk, with MiniLM's tokenizer."""
    (encoder or tiny_encoder()).model.save_pretrained(folder)
    for file in [*minilm_path().glob("*token*"), minilm_path() / "vocab.txt"]:
        shutil.copy(file, folder)
    return folder


@cache
def tiny_run() -> Path:
    """A run whose model gives some query to any question."""
    kept = TemporaryDirectory(prefix="dtfixup-asked-")
    atexit.register(kept.cleanup)
    encoder = save_encoder(Path(kept.name) / "encoder")
    (run := Path(kept.name) / "run").mkdir()
    return save_run(run, tiny_model(), str(encoder))


@cache
def tiny_parser() -> TextToSql:
    return TextToSql.load(tiny_run())


def run_of_other_size(folder: Path) -> Path:
    """A run whose file says that its model is wider than its weights are."""
    encoder = save_encoder(folder / "encoder")
    (run := folder / "run").mkdir()
    model = tiny_model()
    object.__setattr__(model, "config", replace(CONFIG, mlp_dim=CONFIG.mlp_dim + 1))
    return save_run(run, model, str(encoder))
