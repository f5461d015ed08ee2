"""A reader in use: one question or many, in one arithmetic or another."""

import pytest
import torch

from dtfixup.reading.answers import Reader
from dtfixup.reading.scoring import probabilities
from dtfixup.reading.tokens import ReadingCorpus, tokenise
from dtfixup.training.precision import Precision, fast_precision
from tests.reading.tiny_reading import made_up, tiny_model

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


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, Precision.BF16),
        ({"avx512_bf16": False, "amx_bf16": True}, Precision.BF16),
        ({"avx512_f": True}, Precision.FP32),
        ({}, Precision.FP32),
    ],
)
def test_bf16_is_used_where_the_cpu_has_instructions_for_it(
    known: dict[str, bool], wanted: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known, raising=False)
    assert Reader(tiny_model()).precision is wanted
    assert fast_precision(torch.device("cuda")) is Precision.FP32


def test_a_torch_that_does_not_tell_is_taken_at_full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert fast_precision(torch.device("cpu")) is Precision.FP32


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
