"""Trained models in use: `Reader` answers questions about passages, `Classifier` tells the class of texts.

In: a context, a question and options, or texts. Out: a probability for each option, or for each class. Short and long
inputs run through the same code as in training.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from dtfixup.reading.examples import ReadingExample, example_from
from dtfixup.reading.model import ReadingModel
from dtfixup.reading.scoring import Probabilities, probabilities
from dtfixup.reading.store import load_classifier, load_model
from dtfixup.reading.texts import tokenise_texts
from dtfixup.reading.tokens import ReadingCorpus, ReadingTokens, tokenise
from dtfixup.training.precision import Precision, autocast, fast_precision, float32_products


class _Loaded:
    """A model and the arithmetic it is used with.

    `precision` bf16 takes about 0.6 of the time on a CPU that has instructions for it, and moves probabilities a
    little. By default it is used on such a CPU, and fp32 elsewhere.
    """

    def __init__(self, model: ReadingModel, precision: Precision | str | None = None) -> None:
        self.model = model
        device = model.score.weight.device
        self.precision = fast_precision(device) if precision is None else Precision(precision)

    def _probabilities(self, tokens: ReadingTokens, *, progress: bool) -> list[Probabilities]:
        corpus = ReadingCorpus(tokens, self.model.score.weight.device)
        with torch.inference_mode(), float32_products(self.precision), autocast(self.precision, corpus.device):
            return probabilities(self.model, corpus, range(len(tokens.label_N)), progress=progress)


class Reader(_Loaded):
    """Reads passages and weighs options."""

    @classmethod
    def load(
        cls, path: str | Path, device: torch.device | str = "cpu", precision: Precision | str | None = None
    ) -> "Reader":
        """Of a finished run's folder, or a file of weights."""
        return cls(load_model(path, device).model, precision)

    def answer(self, context: str, question: str, options: Sequence[str]) -> Probabilities:
        """The probability of each option, in their order."""
        row = {"context": context, "question": question, "options": list(options)}
        return self.answer_all([example_from(row, "the question")])[0]

    def answer_all(self, examples: Sequence[ReadingExample], *, progress: bool = False) -> list[Probabilities]:
        """The same for many examples."""
        tokens = tokenise(examples, self.model.encoder.tokenizer, max_tokens=self.model.config.max_tokens)
        return self._probabilities(tokens, progress=progress)


class Classifier(_Loaded):
    """Tells the class of a text; `classes` are their names."""

    def __init__(self, model: ReadingModel, classes: Sequence[str], precision: Precision | str | None = None) -> None:
        super().__init__(model, precision)
        self.classes = tuple(classes)

    @classmethod
    def load(
        cls, path: str | Path, device: torch.device | str = "cpu", precision: Precision | str | None = None
    ) -> "Classifier":
        """Of a finished run's folder, or a file of weights."""
        found = load_classifier(path, device)
        return cls(found.model, found.classes, precision)

    def classify(self, texts: Sequence[str], *, progress: bool = False) -> list[dict[str, float]]:
        """The probability of each class, by its name, for each text."""
        limit = self.model.config.max_tokens
        tokens = tokenise_texts(texts, [None] * len(texts), self.model.encoder.tokenizer, max_tokens=limit)
        found = self._probabilities(tokens, progress=progress)
        return [dict(zip(self.classes, row, strict=True)) for row in found]
