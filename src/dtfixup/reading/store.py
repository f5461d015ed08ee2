"""A trained reading model from its file, ready for use.

In: a run's folder, or a file of weights that a run wrote. Out: `TrainedReading`: the model in evaluation mode. Of an
encoder that was not trained, the weights are not in the file; they come from the encoder it names.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dtfixup.encoders import Encoder, load_encoder, load_tokenizer
from dtfixup.errors import CheckpointError
from dtfixup.reading.model import ReadingConfig, ReadingModel
from dtfixup.training.config import from_json
from dtfixup.weights.tensors import read_content
from dtfixup.weights.trained import load_trained, weights_file


@dataclass(frozen=True)
class TrainedReading:
    """A model for use."""

    model: ReadingModel
    encoder: str
    content: dict[str, Any]
    """What the file says of itself: configuration, data, evaluation."""
    classes: tuple[str, ...] = ()
    """Names of the classes that a text can have; none where the model chooses among options."""


def load_model(
    path: str | Path, device: torch.device | str = "cpu", *, encoder: Encoder | None = None
) -> TrainedReading:
    """Read a model of multiple-choice questions; `encoder` stands in for the one that the file names."""
    found = _load(path, device, encoder)
    if found.classes:
        raise CheckpointError(f"{path} holds a classifier of texts: load it by Classifier.load")
    return found


def load_classifier(
    path: str | Path, device: torch.device | str = "cpu", *, encoder: Encoder | None = None
) -> TrainedReading:
    """Read a classifier of texts; `encoder` stands in for the one that the file names."""
    found = _load(path, device, encoder)
    if not found.classes:
        raise CheckpointError(f"{path} holds a model of multiple-choice questions: load it by Reader.load")
    return found


def _load(path: str | Path, device: torch.device | str, encoder: Encoder | None) -> TrainedReading:
    file = weights_file(path)
    content = read_content(file)
    try:
        settings = content["fingerprint"]
        config = from_json(ReadingConfig, settings["model"])
        name, tokenizer, classes = settings["encoder"], settings["tokenizer"], settings.get("classes", ())
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file} holds no reading model: {error}") from error
    if encoder is None and tokenizer != load_tokenizer(name).sha256:
        raise CheckpointError(f"{file} was trained with another tokenizer than {name} has here. Use that encoder")
    model = ReadingModel(config, load_encoder(name) if encoder is None else encoder, len(classes) or 1)
    load_trained(file, model, model.encoder, settings)
    return TrainedReading(model.to(device).eval(), name, content, tuple(classes))
