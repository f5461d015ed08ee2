"""Score many examples.

In: a model and example numbers. Out: the probability of every choice, and the accuracy. A choice is an option of a
question, or a class of a text. Legend: as in `tokens.py`.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from rich.progress import track

from dtfixup.files import write_atomically
from dtfixup.fixup.calls import evaluation_mode
from dtfixup.reading.model import ReadingModel
from dtfixup.reading.tokens import Array, ReadingCorpus

_BATCH = 64

Probabilities = tuple[float, ...]
"""One for each choice of an example."""


@torch.no_grad()
def probabilities(
    model: ReadingModel, corpus: ReadingCorpus, examples: Sequence[int] | Array, *, progress: bool = False
) -> list[Probabilities]:
    """The probabilities of each example, in the order given; examples of similar length share a batch."""
    chosen = np.asarray(examples, np.int64)
    tokens = corpus.tokens
    shape_of = tokens.shape_of if corpus.device.type == "cpu" else tokens.padded_shape_of
    by_length = np.lexsort((chosen, tokens.length_N[chosen]))
    rows: list[Probabilities] = [()] * len(chosen)
    with evaluation_mode(model.modules()):
        for start in track(range(0, len(chosen), _BATCH), "read", transient=True, disable=not progress):
            places = by_length[start : start + _BATCH]
            batch = corpus.assemble(torch.from_numpy(chosen[places]).to(corpus.device), shape_of(chosen[places]))
            row_BO = model.scores(batch).double().softmax(1).cpu().numpy()
            for place, row_O in zip(places, row_BO, strict=True):
                rows[place] = tuple(row_O[: tokens.options_N[chosen[place]] * model.score.out_features].tolist())
    return rows


def choices(rows: Sequence[Probabilities]) -> npt.NDArray[np.int64]:
    """The likeliest choice of each example, the first of equals."""
    return np.array([int(np.argmax(row)) for row in rows], np.int64)


def metrics_of(rows: Sequence[Probabilities], label_N: Array) -> dict[str, float]:
    """`accuracy` in percent, and `loss`, the mean cross entropy."""
    right = [max(row[label], 1e-30) for row, label in zip(rows, label_N.tolist(), strict=True)]
    return {
        "accuracy": 100 * float(np.mean(choices(rows) == label_N)),
        "loss": -float(np.mean(np.log(right))),
    }


def write_probabilities(path: str | Path, names: Sequence[str], rows: Sequence[Probabilities]) -> Path:
    """Write JSON lines: the name of each example, and the probability of each of its choices."""
    lines = "".join(
        json.dumps({"name": name, "probabilities": [round(value, 6) for value in row]}) + "\n"
        for name, row in zip(names, rows, strict=True)
    )
    return write_atomically(path, lambda temporary: temporary.write_text(lines, encoding="utf-8"))
