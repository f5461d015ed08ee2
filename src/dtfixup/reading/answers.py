"""Trained models in use: `Reader` answers questions about passages, `Classifier` classifies texts.

In: a run's folder or its file of weights; then passages with questions and options, or texts. Out: a probability for
each option, or for each class. Inputs of any length run through the same code as in training.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from dtfixup.encoders import load_encoder, load_tokenizer
from dtfixup.errors import CheckpointError
from dtfixup.reading.examples import ReadingExample, example_from
from dtfixup.reading.model import ReadingConfig, ReadingModel
from dtfixup.reading.scoring import Probabilities, probabilities
from dtfixup.reading.texts import tokenise_texts
from dtfixup.reading.tokens import ReadingCorpus, ReadingTokens, tokenise
from dtfixup.training.config import from_json
from dtfixup.training.precision import Precision, autocast, fast_precision, float32_products
from dtfixup.weights.tensors import read_content
from dtfixup.weights.trained import load_trained, weights_file


class _TrainedModel:
    """A model and the precision that it runs in.

    On a CPU with instructions for bf16 that is the default: it takes about 0.6 of the time and moves probabilities a
    little. Elsewhere the default is fp32.
    """

    def __init__(self, model: ReadingModel, precision: Precision | str | None = None) -> None:
        self.model = model
        device = model.score.weight.device
        self.precision = fast_precision(device) if precision is None else Precision(precision)

    def _probabilities(self, tokens: ReadingTokens, *, progress: bool) -> list[Probabilities]:
        corpus = ReadingCorpus(tokens, self.model.score.weight.device)
        with torch.inference_mode(), float32_products(self.precision), autocast(self.precision, corpus.device):
            return probabilities(self.model, corpus, range(len(tokens.label_N)), progress=progress)


class Reader(_TrainedModel):
    """Chooses among the options of a question about a passage."""

    @classmethod
    def load(
        cls, path: str | Path, device: torch.device | str = "cpu", precision: Precision | str | None = None
    ) -> "Reader":
        """Load the model of a finished run's folder, or of a file of weights."""
        model, classes = _load(path, device)
        if classes:
            raise CheckpointError(f"{path} holds a classifier of texts: load it with Classifier.load")
        return cls(model, precision)

    def answer(self, context: str, question: str, options: Sequence[str]) -> Probabilities:
        """The probability of each option, in their order."""
        row = {"context": context, "question": question, "options": list(options)}
        return self.answer_all([example_from(row, "the question")])[0]

    def answer_all(self, examples: Sequence[ReadingExample], *, progress: bool = False) -> list[Probabilities]:
        """The probabilities of many examples."""
        tokens = tokenise(examples, self.model.encoder.tokenizer, max_tokens=self.model.config.max_tokens)
        return self._probabilities(tokens, progress=progress)


class Classifier(_TrainedModel):
    """Classifies texts; `classes` are the names of the classes."""

    def __init__(self, model: ReadingModel, classes: Sequence[str], precision: Precision | str | None = None) -> None:
        super().__init__(model, precision)
        self.classes = tuple(classes)

    @classmethod
    def load(
        cls, path: str | Path, device: torch.device | str = "cpu", precision: Precision | str | None = None
    ) -> "Classifier":
        """Load the model of a finished run's folder, or of a file of weights."""
        model, classes = _load(path, device)
        if not classes:
            raise CheckpointError(f"{path} holds a model of multiple-choice questions: load it with Reader.load")
        return cls(model, classes, precision)

    def classify(self, texts: Sequence[str], *, progress: bool = False) -> list[dict[str, float]]:
        """For each text, the probability of each class by its name."""
        limit = self.model.config.max_tokens
        tokens = tokenise_texts(texts, [None] * len(texts), self.model.encoder.tokenizer, max_tokens=limit)
        rows = self._probabilities(tokens, progress=progress)
        return [dict(zip(self.classes, row, strict=True)) for row in rows]


def _load(path: str | Path, device: torch.device | str) -> tuple[ReadingModel, tuple[str, ...]]:
    """A model in evaluation mode, and its classes; none for multiple-choice questions."""
    file = weights_file(path)
    content = read_content(file)
    try:
        settings = content["fingerprint"]
        config = from_json(ReadingConfig, settings["model"])
        encoder, tokenizer, classes = settings["encoder"], settings["tokenizer"], settings.get("classes", ())
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file} holds no reading model: {error}") from error
    if tokenizer != load_tokenizer(encoder).sha256:
        raise CheckpointError(f"{file} was trained with another tokenizer than {encoder} has here. Use that encoder")
    model = ReadingModel(config, load_encoder(encoder), len(classes) or 1)
    load_trained(file, model, model.encoder, settings)
    return model.to(device).eval(), tuple(classes)
