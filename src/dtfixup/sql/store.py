"""A trained SQL-SP model from its file, ready for use.

In: a run's folder, or a file of weights that a run wrote. Out: `TrainedModel`: the model in evaluation mode, and how it
reads a schema. The encoder's own frozen tables are not in the file; they come from the encoder it names.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dtfixup.encoders import Encoder, LeanEncoder, load_reader
from dtfixup.errors import CheckpointError
from dtfixup.sql.batch import Order
from dtfixup.sql.model import ModelConfig, SqlSpModel
from dtfixup.sql.presets import SqlSpConfig
from dtfixup.training.checkpoint import weights_file
from dtfixup.training.config import from_json
from dtfixup.training.encoder_task import load_trained
from dtfixup.training.tensors import read_content


@dataclass(frozen=True)
class TrainedModel:
    """A model for use."""

    model: SqlSpModel
    encoder: str
    order: Order
    content: dict[str, Any]
    """What the file says of itself: configuration, data, evaluation."""


def load_model(
    path: str | Path, device: torch.device | str = "cpu", *, encoder: Encoder | LeanEncoder | None = None
) -> TrainedModel:
    """Read a model; `encoder` stands in for the one that the file names."""
    file = weights_file(path)
    content = read_content(file)
    try:
        settings = content["fingerprint"]
        config = from_json(ModelConfig, settings["model"])
        order = SqlSpConfig(order=Order(settings["order"])).reading_order
        name = settings["encoder"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file} holds no SQL-SP model: {error}") from error
    model = SqlSpModel(config, load_reader(name) if encoder is None else encoder)
    load_trained(file, model, model.encoder, settings)
    return TrainedModel(model.to(device).eval(), name, order, content)
