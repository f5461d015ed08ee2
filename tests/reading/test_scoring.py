"""Probabilities of many examples, and what is counted of them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from dtfixup.reading.scoring import choices, metrics_of, probabilities, write_probabilities
from dtfixup.reading.tokens import ReadingCorpus, tokenise
from tests.reading.tiny_reading import made_up, tiny_model


def test_probabilities_come_in_the_order_given_whatever_is_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(dropout=0.5).train()
    corpus = ReadingCorpus(tokenise(made_up(20, options=(2, 4), longest=12), model.encoder.tokenizer, max_tokens=48))
    chosen = [7, 19, 0, 3]
    together = probabilities(model, corpus, chosen)
    assert model.training, "its mode is put back"
    monkeypatch.setattr("dtfixup.reading.scoring._BATCH", 1)
    apart = probabilities(model, corpus, chosen)
    for one, other, example in zip(together, apart, chosen, strict=True):
        assert len(one) == corpus.tokens.options_N[example]
        assert one == pytest.approx(other, rel=1e-4)
        assert sum(one) == pytest.approx(1)
        score_O = model.eval().scores(corpus.assemble(torch.tensor([example]), corpus.tokens.shape_of([example])))[0]
        assert one == pytest.approx(score_O.softmax(0).tolist(), rel=1e-4)


def test_metrics_are_the_share_of_right_ones_and_the_mean_loss() -> None:
    found = [(0.5, 0.3, 0.2), (0.1, 0.9), (0.25, 0.75)]
    metrics = metrics_of(found, np.array([0, 0, 1]))
    assert metrics["accuracy"] == pytest.approx(200 / 3)
    assert metrics["loss"] == pytest.approx(-(math.log(0.5) + math.log(0.1) + math.log(0.75)) / 3)
    assert choices(found).tolist() == [0, 1, 1]
    assert metrics_of([(0.0, 1.0)], np.array([0]))["loss"] < 100, "finite, as JSON wants it"


def test_probabilities_are_written_as_json_lines(tmp_path: Path) -> None:
    file = write_probabilities(tmp_path / "p.jsonl", ["a", "ü"], [(1 / 3, 2 / 3), (0.5, 0.25, 0.25)])
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows == [
        {"name": "a", "probabilities": [0.333333, 0.666667]},
        {"name": "ü", "probabilities": [0.5, 0.25, 0.25]},
    ]
