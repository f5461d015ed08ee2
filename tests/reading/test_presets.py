"""Presets are the paper's and ours; impossible settings are refused."""

from dataclasses import replace

import pytest
import torch

from dtfixup.errors import ConfigError
from dtfixup.reading.presets import PRESETS, ReadingRunConfig, minilm, own_data, paper
from dtfixup.training.config import from_json, named, to_json
from dtfixup.training.precision import Precision


def test_presets_are_the_papers_and_ours() -> None:
    run, update = paper(), paper().training.update
    assert (run.encoder, run.model.dim, run.model.heads, run.model.mlp_dim, run.model.layers) == (
        "roberta-large", 1024, 8, 2048, 4,
    )  # fmt: skip
    assert (run.model.input_dropout, run.model.dropout, run.model.max_tokens) == (0.4, 0.1, 256)
    assert (run.training.epochs, run.training.batch_size, run.training.power, run.training.warmup) == (12, 24, 1.0, 0)
    assert (update.betas, update.epsilon, update.weight_decay, update.learning_rate) == ((0.9, 0.98), 1e-6, 0.01, 3e-4)
    assert run.encoder_factor * update.learning_rate == pytest.approx(1e-5)
    ours = minilm()
    assert (ours.model.dim, ours.model.layers, ours.training.epochs, ours.training.batch_size) == (384, 4, 12, 24)
    assert 2e-5 <= ours.encoder_factor * ours.training.update.learning_rate <= 5e-5
    for make in PRESETS.values():
        assert from_json(ReadingRunConfig, to_json(make())) == make()
    with pytest.raises(ConfigError, match="no preset 'large': choose one of paper, minilm, smoke"):
        named(PRESETS, "large")


def test_own_data_is_the_bundled_encoder_with_a_tenth_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = own_data(layers=7, epochs=3)
    assert (made.encoder, made.hold_out) == ("minilm", 0.1)
    assert (made.model.layers, made.training.epochs) == (7, 3)
    assert made.model == replace(minilm().model, layers=7)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert own_data().training.precision is Precision.FP32
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert own_data().training.precision is Precision.BF16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hold_out": -0.1}, "hold_out is a share"),
        ({"hold_out": 1.0}, "hold_out is a share"),
        ({"encoder_factor": -1.0}, "encoder_factor cannot be negative"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(minilm(), **change)
