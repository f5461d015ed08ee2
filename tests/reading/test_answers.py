"""A reader in use: one question or many, in one precision or another, as it was trained, or refused."""

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
from dtfixup.reading.task import ReadingTask
from dtfixup.reading.tokens import ReadingCorpus, tokenise
from dtfixup.training.config import changed
from dtfixup.training.loop import fit
from dtfixup.weights.tensors import save_weights
from tests.reading.tiny_reading import TINY, encoder_folder, made_data, made_up, tiny_encoder, tiny_model

EXAMPLES = made_up(6, options=(2, 3, 4), longest=12)


def test_answers_are_the_models_probabilities() -> None:
    model = tiny_model()
    corpus = ReadingCorpus(tokenise(EXAMPLES, model.encoder.tokenizer, max_tokens=48))
    wanted = probabilities(model, corpus, range(6))
    reader = Reader(model, "fp32")
    assert reader.answer_all(EXAMPLES) == wanted
    for example, row in zip(EXAMPLES, wanted, strict=True):
        assert reader.answer(example.context, example.question, example.answers) == pytest.approx(row, rel=1e-4)


def test_bf16_moves_probabilities_a_little() -> None:
    model = tiny_model()
    exact, rough = (Reader(model, precision).answer_all(EXAMPLES) for precision in ("fp32", "bf16"))
    assert exact != rough
    for one, other in zip(exact, rough, strict=True):
        assert other == pytest.approx(one, abs=0.1)
    with pytest.raises(ValueError, match="fp8"):
        Reader(model, "fp8")


def test_a_reader_leaves_the_model_trainable() -> None:
    model = tiny_model()
    Reader(model).answer_all(EXAMPLES)
    batch_corpus = ReadingCorpus(tokenise(EXAMPLES, model.encoder.tokenizer, max_tokens=48))
    model(batch_corpus.assemble(torch.tensor([0, 1]), batch_corpus.tokens.shape_of([0, 1]))).sum().backward()
    assert model.score.weight.grad is not None


def test_on_a_cpu_nothing_is_padded_beyond_the_longest_option() -> None:
    model, lengths = tiny_model(), []
    model.encoder.register_forward_pre_hook(lambda module, args: lengths.append(args[0].shape[1]))
    reader = Reader(model)
    for example in EXAMPLES:
        reader.answer_all([example])
    tokenizer = model.encoder.tokenizer
    assert lengths == [
        max(len(tokenizer(each.context, f"{each.question} {answer}")["input_ids"]) for answer in each.answers)
        for each in EXAMPLES
    ]
    assert any(length % 8 for length in lengths)


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


def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    own = shutil.copytree(encoder_folder(), tmp_path / "encoder")
    config = changed(replace(TINY, encoder=str(own)), {"training": {"epochs": 1}})
    sha = load_tokenizer(own).sha256
    task = ReadingTask(config, made_data(8, 4), load_encoder(own), torch.device("cpu"), tokenizer_sha256=sha)
    fit(task, config.training, tmp_path / "run")
    Reader.load(tmp_path / "run")
    settings = json.loads((own / "tokenizer_config.json").read_text())
    (own / "tokenizer_config.json").write_text(json.dumps({**settings, "do_lower_case": False}))
    with pytest.raises(CheckpointError, match="was trained with another tokenizer"):
        Reader.load(tmp_path / "run")


def test_what_holds_no_reading_model_is_refused(tmp_path: Path) -> None:
    other = save_weights(tmp_path / "other.safetensors", torch.nn.Linear(2, 2), {"fingerprint": {"model": {"a": 1}}})
    with pytest.raises(CheckpointError, match=r"other\.safetensors holds no reading model: ReadingConfig has no field"):
        Reader.load(other)


def test_a_question_that_cannot_be_asked_is_refused(trained: tuple[ReadingTask, Path]) -> None:
    reader = Reader(trained[0].model)
    for context, options, message in (
        ("", ["a", "b"], "the question, context is empty"),
        ("x", ["a"], "the question, options has 1 options, but must have 2 to 10"),
        ("x", ["a", "a"], r"options\[1\] repeats options\[0\]"),
    ):
        with pytest.raises(DataError, match=message):
            reader.answer(context, "which ?", options)
