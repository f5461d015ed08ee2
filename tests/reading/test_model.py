"""The reading model against the plain way: one option at a time, without padding."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dtfixup.errors import ConfigError
from dtfixup.reading.model import ReadingConfig, ReadingModel
from dtfixup.reading.tokens import ReadingBatch, ReadingCorpus, ReadingShape, tokenise
from tests.reading.tiny_reading import MODEL, made_up, tiny_encoder, tiny_model

EXAMPLES = made_up(8, options=(2, 3, 4), longest=12)
KINDS = ("bert", "roberta")


def corpus_of(model: ReadingModel, max_tokens: int = 48) -> ReadingCorpus:
    return ReadingCorpus(tokenise(EXAMPLES, model.encoder.tokenizer, max_tokens=max_tokens))


def batch_of(model: ReadingModel, chosen: list[int], *, options: int = 0, tokens: int = 0) -> ReadingBatch:
    corpus = corpus_of(model, model.config.max_tokens)
    shape = corpus.tokens.shape_of([example for example in chosen if example >= 0])
    return corpus.assemble(torch.tensor(chosen), ReadingShape(shape.options + options, shape.tokens + tokens))


def plain_scores(model: ReadingModel, example: int) -> Tensor:
    """Each option as the tokenizer and the encoder read it alone."""
    found = []
    for answer in EXAMPLES[example].answers:
        encoded = model.encoder.tokenizer(
            EXAMPLES[example].context, f"{EXAMPLES[example].question} {answer}", return_tensors="pt"
        )
        x_1TD = model.encoder.model(**encoded).last_hidden_state
        if model.project is not None:
            x_1TD = model.project(x_1TD)
        if model.stack is not None:
            x_1TD = model.stack(x_1TD)
        found.append(model.score(x_1TD[0, 0]))
    return torch.cat(found)


@pytest.mark.parametrize("changes", [{}, {"layers": 0}, {"dim": 16}, {"layers": 0, "dim": 16}, {"strategy": "pre-ln"}])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_scores_are_those_of_each_option_alone(kind: str, changes: dict[str, object]) -> None:
    model = tiny_model(kind, max_tokens=48 if kind == "bert" else 120, **changes)
    chosen = [3, -1, 0, 7]
    score_BO = model.scores(batch_of(model, chosen, options=1, tokens=3))
    for row, example in enumerate(chosen):
        count = len(EXAMPLES[example].answers) if example >= 0 else 0
        if count:
            torch.testing.assert_close(score_BO[row, :count], plain_scores(model, example), rtol=1e-4, atol=1e-5)
        assert (score_BO[row, count:] == torch.finfo(torch.float32).min).all()
    assert score_BO[score_BO > -100].std() > 0.01, "there is something to compare"


@torch.no_grad()
def test_the_order_of_the_options_is_that_of_the_scores() -> None:
    model = tiny_model()
    order = (2, 0, 1)
    example = next(example for example in EXAMPLES if len(example.answers) == 3)
    turned = replace(example, answers=tuple(example.answers[place] for place in order))
    tokens = tokenise([example, turned], model.encoder.tokenizer, max_tokens=48)
    score_BO = model.scores(ReadingCorpus(tokens).assemble(torch.tensor([0, 1]), tokens.shape_of([0, 1])))
    torch.testing.assert_close(score_BO[1], score_BO[0, list(order)])


@torch.no_grad()
def test_the_loss_is_the_cross_entropy_over_the_options_there_are() -> None:
    model = tiny_model()
    loss_B = model(batch_of(model, [5, -1, 2], options=2))
    assert loss_B[1] == 0
    for row, example in ((0, 5), (2, 2)):
        label = EXAMPLES[example].label
        assert label is not None
        wanted = F.cross_entropy(plain_scores(model, example)[None], torch.tensor([label]))
        torch.testing.assert_close(loss_B[row], wanted, rtol=1e-4, atol=1e-5)


def test_fill_alone_costs_nothing_and_has_finite_gradients() -> None:
    model = tiny_model()
    corpus = corpus_of(model)
    loss = model(corpus.assemble(torch.tensor([-1, -1]), ReadingShape(3, 24))).sum()
    loss.backward()
    assert loss == 0
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients
    assert not any(gradient.any() for gradient in gradients)


def test_padding_and_fill_change_no_gradient() -> None:
    def gradients(**padding: int) -> list[Tensor]:
        model = tiny_model()
        model(batch_of(model, [1, 6, *[-1] * padding.pop("fill", 0)], **padding)).sum().backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    for one, other in zip(gradients(), gradients(options=2, tokens=5, fill=3), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


@torch.no_grad()
def test_an_encoder_with_two_token_types_is_told_where_the_question_begins() -> None:
    seen: list[Tensor | None] = []
    for kind in KINDS:
        model = tiny_model(kind, max_tokens=48 if kind == "bert" else 120)
        model.encoder.model.register_forward_pre_hook(
            lambda module, positional, named: seen.append(named["token_type_ids"]), with_kwargs=True
        )
        model.scores(batch_of(model, [0]))
    assert seen[1] is None, "RoBERTa has one"
    assert seen[0] is not None
    encoded = tiny_encoder().tokenizer(EXAMPLES[0].context, f"{EXAMPLES[0].question} {EXAMPLES[0].answers[0]}")
    assert seen[0][0].tolist() == encoded["token_type_ids"]


@torch.no_grad()
def test_scores_are_in_full_precision_under_autocast() -> None:
    model = tiny_model()
    batch = batch_of(model, [0, 1])
    plain_BO = model.scores(batch)
    with torch.autocast("cpu", torch.bfloat16):
        score_BO = model.scores(batch)
    assert score_BO.dtype == torch.float32
    assert not torch.equal(score_BO, plain_BO)
    torch.testing.assert_close(score_BO, plain_BO, rtol=0.1, atol=0.2)


@pytest.mark.parametrize("place", ["input_dropout", "dropout"])
@torch.no_grad()
def test_dropout_is_drawn_in_training_alone(place: str) -> None:
    model = tiny_model(**{place: 0.5})
    batch = batch_of(model, [0, 1])
    assert torch.equal(model.scores(batch), model.scores(batch))
    model.train()
    assert not torch.equal(model.scores(batch), model.scores(batch))


@torch.no_grad()
def test_in_use_the_last_layer_computes_the_first_token_alone_with_the_same_scores() -> None:
    """As in training, where the monitor looks at whole layers."""
    model, sizes = tiny_model(), []
    batch = batch_of(model, [0, 1, 2])
    assert model.stack is not None
    model.stack.layers[-1].mlp.register_forward_hook(lambda module, args, y_XTD: sizes.append(y_XTD.shape[1]))
    first_BO = model.scores(batch)
    whole_BO = model.train().scores(batch)
    torch.testing.assert_close(first_BO, whole_BO, rtol=1e-5, atol=1e-6)
    assert first_BO[first_BO > -100].std() > 0.01, "there is something to compare"
    assert sizes == [1, batch.token_BOT.shape[2]]


def test_a_model_without_new_layers_has_a_linear_layer_alone() -> None:
    model = ReadingModel(replace(MODEL, layers=0, dim=999), tiny_encoder())
    new = [name for name, _ in model.named_parameters() if not name.startswith("encoder.")]
    assert new == ["score.weight", "score.bias"]
    assert ReadingModel(MODEL, tiny_encoder()).project is None, "the widths are the same"


def test_sizes_that_cannot_be_are_refused() -> None:
    for changes, message in (
        ({"layers": -1}, "layers cannot be negative"),
        ({"dropout": 1.0}, r"must lie in \[0, 1\), got 1"),
        ({"max_tokens": 4}, "must leave room for context, question and option"),
    ):
        with pytest.raises(ConfigError, match=message):
            ReadingConfig(**changes)
    with pytest.raises(ConfigError, match=r"max_tokens is 256, but .* takes 64"):
        ReadingModel(replace(MODEL, max_tokens=256), tiny_encoder())
