"""A trained model that answers questions about passages.

In: a context, a question and options. Out: a probability for each option. Short and long inputs run through the same
code as in training.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from dtfixup.reading.examples import ReadingExample, example_from
from dtfixup.reading.model import ReadingModel
from dtfixup.reading.scoring import Probabilities, probabilities
from dtfixup.reading.store import load_model
from dtfixup.reading.tokens import ReadingCorpus, tokenise


class Reader:
    """Reads passages and weighs options."""

    def __init__(self, model: ReadingModel) -> None:
        self.model = model

    @classmethod
    def load(cls, path: str | Path, device: torch.device | str = "cpu") -> "Reader":
        """Of a finished run's folder, or a file of weights."""
        return cls(load_model(path, device).model)

    def answer(self, context: str, question: str, options: Sequence[str]) -> Probabilities:
        """The probability of each option, in their order."""
        row = {"context": context, "question": question, "options": list(options)}
        return self.answer_all([example_from(row, "the question")])[0]

    def answer_all(self, examples: Sequence[ReadingExample], *, progress: bool = False) -> list[Probabilities]:
        """The same for many examples."""
        return probabilities(self.model, self.corpus_of(examples), range(len(examples)), progress=progress)

    def corpus_of(self, examples: Sequence[ReadingExample]) -> ReadingCorpus:
        """The examples as this model reads them."""
        tokens = tokenise(examples, self.model.encoder.tokenizer, max_tokens=self.model.config.max_tokens)
        return ReadingCorpus(tokens, self.model.score.weight.device)
