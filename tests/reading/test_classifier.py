"""A classifier of texts, from a CSV file to probabilities by class."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dtfixup.errors import CheckpointError, ConfigError
from dtfixup.reading.answers import Classifier, Reader
from dtfixup.reading.classifier import classifier_task, train_classifier
from dtfixup.reading.model import ReadingModel
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.reading.texts import LabelledTexts, read_texts, tokenise_texts
from dtfixup.reading.tokens import ReadingCorpus
from dtfixup.reading.train import train_reading
from dtfixup.training.config import changed
from dtfixup.weights.tensors import read_content
from tests.reading.tiny_reading import FILLING, MODEL, NOUNS, TINY, encoder_folder, made_data, tiny_encoder

CPU = torch.device("cpu")


def config(epochs: int = 6) -> ReadingRunConfig:
    return changed(TINY, {"encoder": str(encoder_folder()), "hold_out": 0.25, "training": {"epochs": epochs}})


def made_texts(count: int = 96) -> LabelledTexts:
    """Which of three nouns a text speaks of."""
    random = np.random.default_rng(0)
    labels = tuple(int(label) for label in random.integers(3, size=count))
    texts = tuple(f"the {NOUNS[label]} {' '.join(random.choice(FILLING[:-1], 3))}" for label in labels)
    return LabelledTexts(texts, labels, NOUNS[:3], "made-up")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "model"
    data = made_texts()
    rows = [f"{text},{data.classes[label]}\n" for text, label in zip(data.texts, data.labels, strict=True)]
    (folder.parent / "own.csv").write_text("text,label\n" + "".join(rows))
    done = train_classifier(folder.parent / "own.csv", folder, config())
    assert done.finished
    assert done.last["accuracy"] > 60, "a third is chance"
    return folder


def test_a_file_of_weights_tells_the_class_of_any_text(finished: Path) -> None:
    classifier = Classifier.load(finished)
    assert classifier.classes == NOUNS[:3]
    found = classifier.classify([f"the {noun} is here ." for noun in NOUNS[:3]])
    assert [max(row, key=row.__getitem__) for row in found] == list(NOUNS[:3])
    for row in found:
        assert sum(row.values()) == pytest.approx(1)
    alone = classifier.classify(["the boat is here ."])[0]
    assert list(alone.values()) == pytest.approx(list(found[NOUNS.index("boat")].values()), rel=1e-4)


def test_a_classifier_and_a_reader_are_told_apart(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds a classifier of texts: load it with Classifier\.load"):
        Reader.load(finished)
    choosing = replace(config(epochs=1), hold_out=0.0)
    train_reading(choosing, made_data(8, 4), tmp_path / "choice")
    with pytest.raises(CheckpointError, match=r"holds a model of multiple-choice questions: load it with Reader\.load"):
        Classifier.load(tmp_path / "choice")


def test_same_texts_are_held_out_together() -> None:
    data = made_texts(40)
    doubled = replace(data, texts=data.texts * 2, labels=data.labels * 2)
    task = classifier_task(config(), doubled, tiny_encoder(), CPU)
    seen = {doubled.texts[place] for place in task.train}
    assert not any(doubled.texts[place] in seen for place in task.evaluated)
    assert len(task.evaluated) >= 0.25 * 80
    with pytest.raises(ConfigError, match=r"set hold_out, such as 0\.1"):
        classifier_task(replace(config(), hold_out=0.0), data, tiny_encoder(), CPU)


@torch.no_grad()
def test_scores_are_those_of_each_text_alone() -> None:
    """And the loss is the cross entropy over the classes; a row that fills the batch costs nothing."""
    torch.manual_seed(0)
    model, data = ReadingModel(MODEL, tiny_encoder(), 3).eval(), made_texts(5)
    tokens = tokenise_texts(data.texts, data.labels, model.encoder.tokenizer, max_tokens=48)
    batch = ReadingCorpus(tokens).assemble(torch.tensor([3, -1, 1]), tokens.padded_shape_of([3, 1]))
    score_BC, loss_B = model.scores(batch), model(batch)
    assert score_BC.shape == (3, 3)
    for row, text in ((0, 3), (2, 1)):
        encoded = model.encoder.tokenizer(data.texts[text], return_tensors="pt")
        state_1TD = model.stack(model.encoder.model(**encoded).last_hidden_state) if model.stack else None
        assert state_1TD is not None
        wanted_1C = model.score(state_1TD[:, 0])
        torch.testing.assert_close(score_BC[row], wanted_1C[0], rtol=1e-4, atol=1e-5)
        wanted = F.cross_entropy(wanted_1C, torch.tensor([data.labels[text]]))
        torch.testing.assert_close(loss_B[row], wanted, rtol=1e-4, atol=1e-5)
    assert loss_B[1] == 0


def test_the_hash_of_the_file_is_in_the_weights(finished: Path) -> None:
    fingerprint = read_content(finished / "last.safetensors")["fingerprint"]
    assert fingerprint["data"] == read_texts(finished.parent / "own.csv").data_hash
    assert fingerprint["classes"] == list(NOUNS[:3])
