"""SQL-SP: its inputs, candidates and loss written out by hand; and what its parameters do and do not depend on."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase, RobertaConfig, RobertaModel

from dtfixup.encoders import Encoder
from dtfixup.fixup import measure_input_norm
from dtfixup.sql.grammar.rules import Choice
from dtfixup.sql.model.batches import Batch, Corpus, Order
from dtfixup.sql.model.decoder import LogProbabilities
from dtfixup.sql.model.model import ModelConfig, SqlSpModel, used_before
from dtfixup.transformer import Kernel
from tests.sql.tiny_model import (
    DECODER,
    batch_of,
    larger,
    prepared_from,
    prepared_sample,
    sample_corpus,
    tiny_model,
)

MIX = (0, 45, 90, 135, 180, 225)
"""Examples over all databases of the sample."""


# What enters the stack.


def word_states(model: SqlSpModel, batch: Batch, row: int) -> dict[int, Tensor]:
    """The mean state of every word slot, windows encoded one at a time and without padding."""
    found: dict[int, list[Tensor]] = {}
    for token_T, keep_T, slot_T in zip(
        batch.token_BKT[row], batch.token_keep_BKT[row], batch.slot_BKT[row], strict=True
    ):
        if keep_T.any():
            state_TA = model.encoder(token_T[keep_T][None], torch.ones(1, int(keep_T.sum())))[0]
            for slot, state_A in zip(slot_T[keep_T].tolist(), state_TA, strict=True):
                found.setdefault(slot, []).append(state_A)
    return {slot: torch.stack(states).mean(0) for slot, states in found.items()}


def inputs_by_hand(model: SqlSpModel, batch: Batch, row: int) -> Tensor:
    """x of the vectors that are kept: words projected, items by a BiLSTM with what kind they are."""
    states = word_states(model, batch, row)
    lstm = nn.LSTM(model.encoder.dim, model.config.dim // 2, bidirectional=True, batch_first=True)
    weights = dict(model.items.forwards.state_dict())
    lstm.load_state_dict(weights | {f"{name}_reverse": t for name, t in model.items.backwards.state_dict().items()})
    x = [model.project_words(states[word]) for word in range(int(batch.word_keep_BW[row].sum()))]
    item_words = batch.item_word_keep_BIJ.shape[2]
    for item in batch.keep_BN[row, batch.words :].nonzero()[:, 0].tolist():
        first = batch.words + item * item_words
        count = int(batch.item_word_keep_BIJ[row, item].sum())
        state_1JD, (final_21M, _) = lstm(torch.stack([states[slot] for slot in range(first, first + count)])[None])
        kind_D = model.item_kinds.weight[batch.item_kind_BI[row, item]]
        x.append(state_1JD[0].mean(0) + final_21M[:, 0].flatten() + kind_D)
    return torch.stack(x)


@pytest.mark.parametrize(("max_tokens", "order"), [(512, Order.STORED), (72, Order.STORED), (72, Order.SHUFFLED)])
@torch.no_grad()
def test_the_stack_reads_means_over_subwords_and_windows(max_tokens: int, order: Order) -> None:
    model = tiny_model()
    torch.manual_seed(0)
    batch = batch_of(sample_corpus(max_tokens), [*MIX, -1], order)
    assert (batch.token_keep_BKT.any(2).sum(1).max() > 2) == (max_tokens == 72)
    x_BND = model.stack_input(batch)
    for row in range(len(MIX)):
        torch.testing.assert_close(
            x_BND[row][batch.keep_BN[row]], inputs_by_hand(model, batch, row), rtol=1e-4, atol=1e-5
        )


@torch.no_grad()
def test_a_candidate_is_its_text_its_words_and_its_column() -> None:
    model = tiny_model()
    batch = batch_of(sample_corpus(), MIX)
    y_BND = model.encode(batch)
    memory = model.memory_of(batch, y_BND)
    table = model.encoder.model.get_input_embeddings().weight
    none_D = torch.zeros(model.config.dim)
    linked = said = 0
    for row in range(len(MIX)):
        for value in range(int(batch.value_keep_BV[row].sum())):
            tokens = batch.value_token_BVU[row, value][batch.value_token_keep_BVU[row, value]]
            first, last = int(batch.value_first_BV[row, value]), int(batch.value_last_BV[row, value])
            column = int(batch.value_column_BV[row, value])
            said_D = y_BND[row, first:last].mean(0) if first >= 0 else none_D
            linked_D = y_BND[row, batch.words + column] if column >= 0 else none_D
            mixed_D = model.value_mix(torch.cat([model.value_text(table[tokens].mean(0)), said_D, linked_D]))
            mixed_D = mixed_D + model.value_kinds.weight[batch.value_kind_BV[row, value]]
            mixed_D = mixed_D + model.value_sources.weight[batch.value_source_BV[row, value]]
            wanted_D = model.decoder.value_key(mixed_D)
            torch.testing.assert_close(memory.value_key_BVD[row, value], wanted_D, rtol=1e-4, atol=1e-5)
            linked, said = linked + (column >= 0), said + (first >= 0)
    assert linked
    assert said


# The loss.


@torch.no_grad()
def test_training_feeds_the_action_before_and_the_parents() -> None:
    model = tiny_model()
    batch = batch_of(sample_corpus(), MIX)
    memory = model.remember(batch)
    decoder = model.decoder
    found_BSF = model.decode(batch, memory)
    for row in range(len(MIX)):
        own = memory.rows(torch.tensor([row]))
        state = decoder.first_state(1, memory.key_BHNZ)
        start_1E = decoder.start_embedding(1)
        taken_1E, hidden_1M = [start_1E], [state.h_BM]  # place t + 1 holds what step t gave
        for step in range(int(batch.step_keep_BS[row].sum())):
            above = int(batch.parent_BS[row, step]) + 1
            state_11 = batch.state_BS[row, step].view(1, 1)
            known_11G = decoder.known_gates(taken_1E[step][:, None], taken_1E[above][:, None], state_11)
            state = decoder.step(known_11G[:, 0], hidden_1M[above], state, own)
            wanted_F = torch.cat([state.h_BM, state.z_BD], -1)[0]
            torch.testing.assert_close(found_BSF[row, step], wanted_F, rtol=1e-4, atol=1e-5)
            choice_11, index_11 = (tensor[row, step].view(1, 1) for tensor in (batch.choice_BS, batch.index_BS))
            taken_1E.append(decoder.embed(own, choice_11, index_11)[:, 0])
            hidden_1M.append(state.h_BM)


def scores_of(model: SqlSpModel, batch: Batch) -> LogProbabilities:
    memory = model.remember(batch)
    used_BSI = used_before(batch.choice_BS, batch.index_BS, memory.column_keep_BI.shape[1])
    return model.decoder.log_probabilities(model.decode(batch, memory), batch.state_BS, used_BSI, memory)


def loss_by_hand(scores: LogProbabilities, batch: Batch, row: int, smoothing: float) -> float:
    """Negative log-likelihood; columns smoothed over the K that are legal (appendix C.5):
    (1 - eps) log p + eps / K sum log p."""
    loss = 0.0
    for step in range(int(batch.step_keep_BS[row].sum())):
        choice, index = int(batch.choice_BS[row, step]), int(batch.index_BS[row, step])
        if index < 0:
            continue
        if choice != Choice.COLUMN:
            loss -= float((scores.rule_BSR if choice == Choice.RULE else scores.value_BSV)[row, step, index])
            continue
        column_I = scores.column_BSI[row, step]
        legal = [float(score) for score in column_I if score > -1e8]
        loss -= (1 - smoothing) * float(column_I[index]) + smoothing / len(legal) * sum(legal)
    return loss


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@torch.no_grad()
def test_the_loss_is_the_papers(smoothing: float) -> None:
    model = tiny_model(decoder=replace(DECODER, label_smoothing=smoothing))
    batch = batch_of(sample_corpus(), [*MIX, -1, *range(100, 110)])
    loss_B = model(batch)
    assert loss_B[len(MIX)] == 0, "a row that fills the batch"
    scores = scores_of(model, batch)
    for row in range(len(loss_B)):
        assert float(loss_B[row]) == pytest.approx(loss_by_hand(scores, batch, row, smoothing), rel=1e-5)
    assert loss_B.max() < 1e5, "every gold action is legal"


@torch.no_grad()
def test_a_literal_that_is_no_candidate_costs_nothing() -> None:
    model = tiny_model()
    index = prepared_sample().arrays["step.index"]
    (uncovered,) = (index == -1).nonzero()[0]
    example = int((prepared_sample().arrays["steps.start"] > uncovered).argmax()) - 1
    batch = batch_of(sample_corpus(), [example])
    (place,) = (batch.index_BS[0] == -1).nonzero()
    assert batch.choice_BS[0, place] == Choice.VALUE
    scores = scores_of(model, batch)
    assert scores.value_BSV[0, place].max() < -0.01, "any candidate would cost something"
    assert float(model(batch)) == pytest.approx(loss_by_hand(scores, batch, 0, 0.0), rel=1e-5)


@torch.no_grad()
def test_used_columns_are_those_chosen_before() -> None:
    choice_BS = torch.tensor([[Choice.RULE, Choice.COLUMN, Choice.VALUE, Choice.COLUMN, Choice.COLUMN]])
    index_BS = torch.tensor([[2, 1, 3, 1, 0]])
    wanted = [[], [], [1], [1], [1]]
    found = used_before(choice_BS, index_BS, 4)[0]
    assert [row.nonzero()[:, 0].tolist() for row in found] == wanted


@torch.no_grad()
def test_relevance_is_a_second_loss_in_training_alone() -> None:
    model = tiny_model(relevance_weight=0.5)
    batch = batch_of(sample_corpus(), [*MIX, -1])
    plain_B = model(batch)
    model.train()
    assert model.relevance is not None
    score_BI = model.relevance(model.encode(batch))[:, batch.words :, 0]
    found_B = model(batch)
    for row in range(len(MIX)):
        items = batch.keep_BN[row, batch.words :]
        used = batch.item_used_BI[row, items].float()
        assert used.sum() > 1
        extra = F.binary_cross_entropy_with_logits(score_BI[row, items], used, reduction="sum")
        torch.testing.assert_close(found_B[row], plain_B[row] + 0.5 * extra)
    assert found_B[-1] == 0
    assert tiny_model().relevance is None


# Padding, neighbours, order.


@given(
    st.lists(st.sampled_from([-1, *range(240)]), min_size=1, max_size=4).filter(lambda found: max(found) >= 0),
    st.lists(st.integers(0, 5), min_size=8, max_size=8),
    st.sampled_from([72, 512]),
)
@settings(max_examples=12, deadline=None)
@torch.no_grad()
def test_the_loss_of_an_example_does_not_depend_on_its_batch(
    examples: list[int], extra: list[int], max_tokens: int
) -> None:
    model = tiny_model(decoder=replace(DECODER, label_smoothing=0.2))
    corpus = sample_corpus(max_tokens)
    shape = larger(corpus.shape_of([example for example in examples if example >= 0]), extra)
    together_B = model(corpus.assemble(torch.tensor(examples), shape))
    turned_B = model(corpus.assemble(torch.tensor(examples[::-1]), shape))
    torch.testing.assert_close(together_B, turned_B.flip(0), rtol=1e-4, atol=1e-4)
    for row, example in enumerate(examples):
        alone = float(model(batch_of(corpus, [example]))) if example >= 0 else 0.0
        assert float(together_B[row]) == pytest.approx(alone, rel=1e-4)


def test_gradients_do_not_depend_on_padding() -> None:
    corpus = sample_corpus()
    shape = corpus.shape_of(MIX)
    roomy = larger(shape, [3, 5, 1, 1, 9, 4, 2, 1])
    gradients = []
    for batch in (
        corpus.assemble(torch.tensor(MIX), shape),
        corpus.assemble(torch.tensor([*MIX, -1, -1]), roomy),
    ):
        model = tiny_model(decoder=replace(DECODER, label_smoothing=0.2), relevance_weight=0.1).train()
        model(batch).sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.requires_grad})
    for name, gradient in gradients[0].items():
        assert gradient is not None
        scale = float(gradient.abs().max())
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-3, atol=1e-4 * scale + 1e-5, msg=name)


def test_dropout_is_drawn_in_training_alone() -> None:
    model = tiny_model(decoder=replace(DECODER, dropout=0.5))
    batch = batch_of(sample_corpus(), MIX)
    with torch.no_grad():
        assert torch.equal(model(batch), model(batch))
        model.train()
        torch.manual_seed(1)
        first, second = model(batch), model(batch)
        torch.manual_seed(1)
        assert torch.equal(model(batch), first)
    assert not torch.equal(first, second)


# Parameters.


def shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def test_any_schema_can_be_read_by_any_model(tmp_path: Path) -> None:
    script = "CREATE TABLE word (a text, b text); CREATE TABLE lone (c text);"
    other = Corpus(
        prepared_from(tmp_path, script, [("Show a .", "SELECT a FROM word"), ("Show c .", "SELECT c FROM lone")])
    )
    trained = tiny_model(1)
    before = shapes(trained)
    optimizer = torch.optim.Adam([p for p in trained.parameters() if p.requires_grad], lr=1e-3)
    trained(batch_of(sample_corpus(), MIX)).sum().backward()
    optimizer.step()
    fresh = tiny_model(2)
    fresh.load_state_dict(trained.state_dict())
    with torch.no_grad():
        loss_B = fresh(batch_of(other, [0, 1]))
        assert loss_B.isfinite().all()
        torch.testing.assert_close(loss_B, trained.eval()(batch_of(other, [0, 1])))
    assert before == shapes(trained) == shapes(fresh)


def test_freezing_embeddings_freezes_tables_alone() -> None:
    frozen = {name for name, p in tiny_model().named_parameters() if not p.requires_grad}
    assert frozen == {
        f"encoder.model.embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")
    }
    assert all(p.requires_grad for p in tiny_model(freeze_embeddings=False).parameters())


@pytest.mark.parametrize("freeze", [True, False])
def test_every_trainable_parameter_gets_a_gradient(freeze: bool) -> None:
    decoder = replace(DECODER, label_smoothing=0.2, dropout=0.2)
    model = tiny_model(freeze_embeddings=freeze, relevance_weight=0.1, decoder=decoder).train()
    torch.manual_seed(0)
    corpus = sample_corpus()
    examples = range(0, 240, 8)
    model(corpus.assemble(torch.tensor(examples), corpus.shape_of(examples), Order.SHUFFLED)).sum().backward()
    silent = [name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert silent == []
    assert all(p.grad is None for p in model.parameters() if not p.requires_grad)


def test_plain_equals_the_kernel_that_auto_takes() -> None:
    batch = batch_of(sample_corpus(), [*MIX, -1])
    results = []
    for kernel in (Kernel.PLAIN, Kernel.AUTO):
        model = tiny_model(kernel=kernel)
        loss_B = model(batch)
        loss_B.sum().backward()
        results.append((loss_B.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}))
    torch.testing.assert_close(results[0][0], results[1][0])
    assert results[0][1].keys() == results[1][1].keys()
    for name, gradient in results[0][1].items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(results[1][1][name], gradient, rtol=1e-3, atol=1e-4 * scale + 1e-6, msg=name)


def test_the_input_norm_does_not_count_padding() -> None:
    model = tiny_model()
    batch = batch_of(sample_corpus(), MIX)
    norm = measure_input_norm(model, model.stack, [(batch,)], progress=False)
    with torch.no_grad():
        kept = model.stack_input(batch)[batch.keep_BN].norm(dim=-1).max()
    assert float(norm) == pytest.approx(float(kept), rel=1e-5)


def test_the_papers_model_has_380_million_parameters() -> None:
    config = RobertaConfig(
        vocab_size=50265,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        max_position_embeddings=514,
        type_vocab_size=1,
    )
    no_tokenizer = cast(PreTrainedTokenizerBase, None)
    with torch.device("meta"):
        encoder = Encoder(RobertaModel(config, add_pooling_layer=False), no_tokenizer, no_tokenizer, "roberta-large")
        model = SqlSpModel(ModelConfig(layers=24), encoder)
    assert all(parameter.is_meta for parameter in model.parameters())
    count = sum(parameter.numel() for parameter in model.parameters())
    assert 0.95 * 380e6 < count < 1.05 * 380e6, f"{count / 1e6:.1f} million"
