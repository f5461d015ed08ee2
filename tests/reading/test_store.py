"""Stored models: used as they were trained, with the encoder they were trained on, or refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dtfixup.encoders import load_encoder, load_tokenizer
from dtfixup.errors import CheckpointError, DataError
from dtfixup.reading.answers import Reader
from dtfixup.reading.scoring import probabilities
from dtfixup.reading.store import load_model
from dtfixup.reading.task import ReadingTask
from dtfixup.training.config import changed
from dtfixup.training.loop import fit
from dtfixup.weights.tensors import save_weights
from tests.reading.tiny_reading import TINY, encoder_folder, made_data, tiny_encoder


@pytest.fixture(scope="module", params=[0.0, 1.0])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[ReadingTask, Path]:
    """A task after training, with a frozen or a trained encoder, and the folder of its run."""
    folder = tmp_path_factory.mktemp("run")
    config = changed(
        replace(TINY, encoder=str(encoder_folder()), encoder_factor=request.param), {"training": {"epochs": 1}}
    )
    sha = load_tokenizer(encoder_folder()).sha256
    task = ReadingTask(config, made_data(), tiny_encoder(), torch.device("cpu"), tokenizer_sha256=sha)
    fit(task, config.training, folder)
    return task, folder


def test_a_stored_model_answers_as_it_did_after_training(trained: tuple[ReadingTask, Path]) -> None:
    task, folder = trained
    wanted = probabilities(task.model, task.corpus, task.evaluated)
    reader = Reader.load(folder, precision="fp32")
    assert reader.answer_all(task.data.val) == [pytest.approx(row, rel=1e-5) for row in wanted]
    example = task.data.val[3]
    alone = reader.answer(example.context, example.question, example.answers)
    assert alone == pytest.approx(wanted[3], rel=1e-4)
    assert sum(alone) == pytest.approx(1)
    assert Reader.load(folder / "last.safetensors", precision="fp32").answer_all(task.data.val[:1]) == [
        pytest.approx(wanted[0])
    ]


def test_a_model_says_what_it_is(trained: tuple[ReadingTask, Path]) -> None:
    task, folder = trained
    stored = load_model(folder)
    assert stored.model.config == task.config.model
    assert stored.encoder == str(encoder_folder())
    assert stored.content["fingerprint"]["data"] == "made-up"
    assert not stored.model.training


def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    own = shutil.copytree(encoder_folder(), tmp_path / "encoder")
    config = changed(replace(TINY, encoder=str(own)), {"training": {"epochs": 1}})
    sha = load_tokenizer(own).sha256
    task = ReadingTask(config, made_data(8, 4), load_encoder(own), torch.device("cpu"), tokenizer_sha256=sha)
    fit(task, config.training, tmp_path / "run")
    assert load_model(tmp_path / "run").encoder == str(own)
    settings = json.loads((own / "tokenizer_config.json").read_text())
    (own / "tokenizer_config.json").write_text(json.dumps({**settings, "do_lower_case": False}))
    with pytest.raises(CheckpointError, match="was trained with another tokenizer"):
        load_model(tmp_path / "run")


def test_what_holds_no_reading_model_is_refused(tmp_path: Path) -> None:
    other = save_weights(tmp_path / "other.safetensors", torch.nn.Linear(2, 2), {"fingerprint": {"model": {"a": 1}}})
    with pytest.raises(CheckpointError, match=r"other\.safetensors holds no reading model: ReadingConfig has no field"):
        load_model(other)


def test_a_question_that_cannot_be_asked_is_refused(trained: tuple[ReadingTask, Path]) -> None:
    reader = Reader(trained[0].model)
    for context, options, message in (
        ("", ["a", "b"], "the question, context is empty"),
        ("x", ["a"], "the question, options has 1 options, but 2 to 10"),
        ("x", ["a", "a"], r"options\[1\] repeats options\[0\]"),
    ):
        with pytest.raises(DataError, match=message):
            reader.answer(context, "which ?", options)
