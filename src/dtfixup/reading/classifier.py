"""Labelled texts → a trained classifier: encoder, N vanilla layers, a linear layer on the first token's state.

In: a CSV file of texts and labels, and a folder. Out: the run's weights, logs and checkpoints in the folder, for
`answers.Classifier`.
"""

from pathlib import Path

import torch
from rich.console import Console

from dtfixup.encoders import Encoder, load_encoder, load_tokenizer
from dtfixup.errors import ConfigError
from dtfixup.reading.model import ReadingModel
from dtfixup.reading.presets import ReadingRunConfig, own_data
from dtfixup.reading.task import SequenceTask, numbered, split_groups
from dtfixup.reading.texts import LabelledTexts, read_texts, tokenise_texts
from dtfixup.training.loop import fit
from dtfixup.training.ranks import launch
from dtfixup.training.result import FitResult


def train_classifier(
    data: str | Path | LabelledTexts,
    folder: str | Path,
    config: ReadingRunConfig | None = None,
    *,
    resume: bool = False,
    console: Console | None = None,
) -> FitResult:
    """Train on labelled texts; `last["accuracy"]` of the result is the accuracy on held-out texts in percent.

    Args:
        data: a CSV file with the columns `text` and `label`, or the result of `read_texts`.
        folder: for logs, checkpoints and weights.
        config: `own_data()` by default.
        resume: continue the run in the folder.
        console: shows the progress; the error stream by default.
    """
    config = own_data() if config is None else config
    fabric = launch()
    texts = data if isinstance(data, LabelledTexts) else read_texts(data)
    sha256 = load_tokenizer(config.encoder).sha256
    task = classifier_task(config, texts, load_encoder(config.encoder), fabric.device, tokenizer_sha256=sha256)
    return fit(task, config.training, folder, fabric=fabric, resume=resume, console=console)


def classifier_task(
    config: ReadingRunConfig,
    data: LabelledTexts,
    encoder: Encoder,
    device: torch.device,
    *,
    tokenizer_sha256: str = "",
) -> SequenceTask:
    """The task for the engine. Equal texts are either all held out or all trained on."""
    if not config.hold_out:
        raise ConfigError("a classifier is evaluated on held-out texts: set hold_out, such as 0.1")
    tokens = tokenise_texts(data.texts, data.labels, encoder.tokenizer, max_tokens=config.model.max_tokens)
    split = split_groups(numbered(data.texts), config.hold_out, "texts")
    made_of = {"data": data.data_hash, "tokenizer": tokenizer_sha256, "classes": list(data.classes)}
    return SequenceTask(config, ReadingModel(config.model, encoder, len(data.classes)), tokens, split, made_of, device)
