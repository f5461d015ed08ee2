"""The decoder: its recurrence against PyTorch's own cell and attention, its probabilities against the grammar.

Legend: as in `decoder.py`.
"""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from dtfixup.sql.grammar.rules import VALUE_KINDS, Choice, ColumnKind, sql_grammar
from dtfixup.sql.grammar.transitions import Masks
from dtfixup.sql.model.batches import TABLE_KIND
from dtfixup.sql.model.decoder import Decoder, DecoderConfig, LogProbabilities, Memory, StepState, gated_log_softmax

D, WORDS = 8, 3
CONFIG = DecoderConfig(action_dim=6, node_dim=4, lstm_dim=10, heads=2)
GRAMMAR = sql_grammar()
POSSIBLE = -1e8


def make_decoder(**changes: Any) -> Decoder:
    torch.manual_seed(0)
    return Decoder(DecoderConfig(**{**vars(CONFIG), **changes}), D, GRAMMAR).double().eval()


def make_memory(
    decoder: Decoder, kind_BI: Tensor, keep_BN: Tensor, value_kind_BV: Tensor, value_keep_BV: Tensor
) -> Memory:
    """A memory of random states; items come after the words, tables have a kind of their own."""
    random = torch.Generator().manual_seed(1)
    y_BND = torch.randn(*keep_BN.shape, D, dtype=torch.float64, generator=random)
    value_BVD = torch.randn(*value_kind_BV.shape, D, dtype=torch.float64, generator=random)
    column_keep_BI = keep_BN[:, WORDS:] & (kind_BI < TABLE_KIND)
    return decoder.remember(y_BND, keep_BN, WORDS, kind_BI, column_keep_BI, value_BVD, value_kind_BV, value_keep_BV)


def some_memory(decoder: Decoder) -> Memory:
    """Three questions, padded: the second has few items and candidates, the third fills the batch."""
    kind_BI = torch.tensor([[0, 1, 2, 3, 4, 5, 6, TABLE_KIND], [0, 3, 3, TABLE_KIND, 0, 0, 0, 0], [0] * 8])
    keep_BN = torch.ones(3, WORDS + 8, dtype=torch.bool)
    keep_BN[1, [2, 7, 8, 9, 10]] = False
    keep_BN[2] = False
    value_kind_BV = torch.tensor([[0, 1, 2, 3], [1, 0, 0, 0], [0] * 4])
    value_keep_BV = torch.tensor([[True] * 4, [True, False, False, False], [False] * 4])
    return make_memory(decoder, kind_BI, keep_BN, value_kind_BV, value_keep_BV)


# The recurrence.


def random_derivation(decoder: Decoder, steps: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Embeddings of the previous and of the parent's action, states and parents."""
    random = torch.Generator().manual_seed(seed)
    previous_BSE = torch.randn(3, steps, CONFIG.action_dim, dtype=torch.float64, generator=random)
    parent_BSE = torch.randn(3, steps, CONFIG.action_dim, dtype=torch.float64, generator=random)
    state_BS = torch.randint(len(GRAMMAR.states), (3, steps), generator=random)
    parents = [
        [int(torch.randint(-1, max(t, 1), (), generator=random)) if t else -1 for t in range(steps)] for _ in range(3)
    ]
    return previous_BSE, parent_BSE, state_BS, torch.tensor(parents)


def written_out(
    decoder: Decoder,
    previous_SE: Tensor,
    parent_SE: Tensor,
    state_S: Tensor,
    parent_S: Tensor,
    memory: Memory,
    row: int,
    drop_SD: Tensor | None,
) -> Tensor:
    """h and z of every step of one example: the input is [a_{t-1}; z_{t-1}; h_p; a_p; n] (appendix C.2)."""
    known, width = decoder.known.weight, CONFIG.lstm_dim
    cell = nn.LSTMCell(known.shape[1] + D + width, width).double()
    cell.weight_ih = nn.Parameter(torch.cat([known, decoder.recurrent.weight[:, : D + width]], 1))
    cell.weight_hh = nn.Parameter(decoder.recurrent.weight[:, D + width :])
    cell.bias_ih, cell.bias_hh = decoder.known.bias, nn.Parameter(torch.zeros_like(decoder.known.bias))
    keep_N = memory.keep_BN[row]
    key_HNZ, value_HNZ = memory.key_BHNZ[row][:, keep_N], memory.value_BHNZ[row][:, keep_N]
    h_M, m_M, z_D = torch.zeros(width).double(), torch.zeros(width).double(), torch.zeros(D).double()
    history, features = [h_M], []
    for t in range(len(state_S)):
        node_N = decoder.nodes.weight[state_S[t]]
        parent_M = history[int(parent_S[t]) + 1]
        inputs = torch.cat([previous_SE[t], parent_SE[t], node_N, z_D, parent_M])
        h_M, m_M = cell(inputs, (h_M, m_M))
        q_H1Z = decoder.query(h_M).view(CONFIG.heads, 1, -1)
        z_D = decoder.output(F.scaled_dot_product_attention(q_H1Z, key_HNZ, value_HNZ).flatten())
        if drop_SD is not None:
            z_D = z_D * drop_SD[t]
        history.append(h_M)
        features.append(torch.cat([h_M, z_D]))
    return torch.stack(features)


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("values_in_context", [False, True])
@torch.no_grad()
def test_the_recurrence_is_an_lstm_that_sees_parents_and_attends(dropped: bool, values_in_context: bool) -> None:
    decoder = make_decoder(values_in_context=values_in_context)
    memory = some_memory(decoder)
    assert memory.keep_BN.shape[1] == WORDS + 8 + 4 * values_in_context
    previous_BSE, parent_BSE, state_BS, parent_BS = random_derivation(decoder, 9, seed=2)
    drop_BSD = torch.rand(3, 9, D, dtype=torch.float64) if dropped else None
    known_BSG = decoder.known_gates(previous_BSE, parent_BSE, state_BS)
    for run in (decoder.run_plain, decoder.run):
        found_BSF = run(known_BSG, parent_BS, memory, drop_BSD)
        assert found_BSF.isfinite().all(), "also in a row that fills the batch"
        for row in range(2):
            drop_SD = None if drop_BSD is None else drop_BSD[row]
            arguments = (previous_BSE[row], parent_BSE[row], state_BS[row], parent_BS[row], memory, row, drop_SD)
            torch.testing.assert_close(found_BSF[row], written_out(decoder, *arguments))


def test_step_by_step_equals_the_whole_derivation() -> None:
    decoder = make_decoder()
    memory = some_memory(decoder)
    previous_BSE, parent_BSE, state_BS, parent_BS = random_derivation(decoder, 7, seed=3)
    whole_BSF = decoder.run_plain(decoder.known_gates(previous_BSE, parent_BSE, state_BS), parent_BS, memory, None)
    state = decoder.first_state(3, memory.key_BHNZ)
    assert isinstance(state, StepState)
    assert not torch.cat(state, -1).any()
    hidden: list[Tensor] = []
    for t in range(7):
        known_B1G = decoder.known_gates(previous_BSE[:, t : t + 1], parent_BSE[:, t : t + 1], state_BS[:, t : t + 1])
        parents = [
            hidden[parent][row] if parent >= 0 else torch.zeros(10).double()
            for row, parent in enumerate(parent_BS[:, t])
        ]
        state = decoder.step(known_B1G[:, 0], torch.stack(parents), state, memory)
        hidden.append(state.h_BM)
        torch.testing.assert_close(torch.cat([state.h_BM, state.z_BD], -1), whole_BSF[:, t])


def test_a_step_knows_nothing_of_later_ones_or_of_other_rows() -> None:
    decoder = make_decoder()
    memory = some_memory(decoder)
    previous_BSE, parent_BSE, state_BS, parent_BS = random_derivation(decoder, 7, seed=4)
    known_BSG = decoder.known_gates(previous_BSE, parent_BSE, state_BS)
    whole_BSF = decoder.run_plain(known_BSG, parent_BS, memory, None)
    torch.testing.assert_close(decoder.run_plain(known_BSG[:, :4], parent_BS[:, :4], memory, None), whole_BSF[:, :4])
    turned = torch.tensor([1, 0])
    alone_BSF = decoder.run_plain(known_BSG[turned], parent_BS[turned], memory.rows(turned), None)
    torch.testing.assert_close(alone_BSF, whole_BSF[turned])


def test_a_memory_repeats_each_row() -> None:
    memory = some_memory(make_decoder())
    repeated = memory.repeat(3)
    for before, after in zip(memory, repeated, strict=True):
        assert torch.equal(after, torch.stack([before] * 3, 1).flatten(0, 1))


def test_actions_are_embedded_by_what_they_choose() -> None:
    decoder = make_decoder()
    memory = some_memory(decoder)
    choice_BS = torch.tensor([[Choice.RULE, Choice.COLUMN, Choice.VALUE, Choice.VALUE]] * 3)
    index_BS = torch.tensor([[4, 6, 3, -1], [0, 1, 0, -1], [0, 0, 0, -1]])
    found_BSE = decoder.embed(memory, choice_BS, index_BS)
    rules = len(GRAMMAR.rules)
    for row in range(3):
        rule, column, value, _ = index_BS[row].tolist()
        assert torch.equal(found_BSE[row, 0], decoder.rules.weight[rule])
        assert torch.equal(found_BSE[row, 1], memory.column_action_BIE[row, column])
        assert torch.equal(found_BSE[row, 2], memory.value_action_BVE[row, value])
        assert torch.equal(found_BSE[row, 3], decoder.rules.weight[rules + 1]), "a literal that is no candidate"
    assert torch.equal(decoder.start_embedding(2), decoder.rules.weight[[rules, rules]])


# Probabilities.


def every_state(decoder: Decoder, memory: Memory, used_share: float = 0.3) -> tuple[LogProbabilities, Tensor]:
    """Log-probabilities in every state of the grammar, from random features, and which columns were used."""
    random = torch.Generator().manual_seed(5)
    states = len(GRAMMAR.states)
    features_BSF = 2 * torch.randn(3, states, CONFIG.lstm_dim + D, dtype=torch.float64, generator=random)
    used_BSI = torch.rand(3, states, memory.column_keep_BI.shape[1], generator=random) < used_share
    state_BS = torch.arange(states).expand(3, -1)
    return decoder.log_probabilities(features_BSF, state_BS, used_BSI, memory), used_BSI


def test_what_is_possible_is_what_the_masks_allow() -> None:
    decoder = make_decoder()
    memory = some_memory(decoder)
    scores, _ = every_state(decoder, memory)
    states_S = np.arange(len(GRAMMAR.states))
    for row in range(2):
        columns = memory.column_keep_BI[row].nonzero()[:, 0].tolist()
        values = memory.value_keep_BV[row].nonzero()[:, 0].tolist()
        masks = Masks([ColumnKind(kind) for kind in memory.column_kind_BI[row, columns].tolist()])
        legal_SI = np.zeros((len(states_S), 8), bool)
        legal_SI[:, columns] = masks.columns(states_S)
        assert ((scores.column_BSI[row] > POSSIBLE).numpy() == legal_SI).all()
        legal_SV = np.zeros((len(states_S), 4), bool)
        legal_SV[:, values] = masks.values(states_S, memory.value_kind_BV[row, values].numpy())
        assert ((scores.value_BSV[row] > POSSIBLE).numpy() == legal_SV).all()
    everything = Masks(list(ColumnKind))
    possible_SR = (scores.rule_BSR[0] > POSSIBLE).numpy()
    assert (possible_SR == GRAMMAR.rules_SR).all()
    is_rule_S = GRAMMAR.choice_S == Choice.RULE
    assert (possible_SR == everything.rules(states_S, np.full(len(states_S), 1000)))[is_rule_S].all()


def test_probabilities_sum_to_one_over_what_is_possible() -> None:
    decoder = make_decoder()
    scores, _ = every_state(decoder, some_memory(decoder))
    certain = 0
    for table_BSX in scores:
        possible_BSX = table_BSX > POSSIBLE
        some_BS = possible_BSX.any(-1)
        total_BS = torch.where(possible_BSX, table_BSX, -torch.inf).exp().sum(-1)
        torch.testing.assert_close(total_BS[some_BS], torch.ones(int(some_BS.sum())))
        assert not total_BS[~some_BS].any()
        assert (table_BSX[~possible_BSX & some_BS[..., None]].exp() == 0).all(), "nothing is left for the rest"
        certain += int(some_BS.sum())
    assert certain > 2 * len(GRAMMAR.states)
    assert scores.rule_BSR.dtype == torch.float32, "also where features are of lower precision"


@pytest.mark.parametrize("used_share", [0.0, 0.5, 1.0])
@torch.no_grad()
def test_the_gate_shares_out_used_columns_and_the_rest(used_share: float) -> None:
    decoder = make_decoder()
    memory = some_memory(decoder)
    features_BSF = torch.randn(3, 5, CONFIG.lstm_dim + D, dtype=torch.float64)
    state = next(place for place, state in enumerate(GRAMMAR.states) if state.symbol == "column[any]")
    state_BS = torch.full((3, 5), state)
    used_BSI = torch.rand(3, 5, 8, generator=torch.Generator().manual_seed(6)) < used_share
    column_BSI = decoder.log_probabilities(features_BSF, state_BS, used_BSI, memory).column_BSI.double()
    for row in range(2):
        columns = memory.column_keep_BI[row].nonzero()[:, 0].tolist()
        score_SI = decoder.column_query(features_BSF[row]) @ memory.column_key_BID[row, columns].T / D**0.5
        for step in range(5):
            used_I = used_BSI[row, step, columns]
            gate = float(decoder.used_gate(features_BSF[row, step]).sigmoid())
            wanted_I = torch.zeros(len(columns), dtype=torch.float64)
            for side, share in ((used_I, gate), (~used_I, 1 - gate)):
                if side.any():
                    share = share if (~side).any() else 1.0
                    wanted_I[side] = share * score_SI[step, side].softmax(-1)
            torch.testing.assert_close(column_BSI[row, step, columns].exp(), wanted_I, rtol=1e-5, atol=1e-7)


masks = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=5)


@given(masks, st.floats(-30, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_the_pointer_is_a_distribution_with_finite_gradients(
    mask_I: list[tuple[bool, bool]], gate: float, seed: int
) -> None:
    legal_BSI, used_BSI = (torch.tensor([[flags]]) for flags in zip(*mask_I, strict=True))
    score_BSI = torch.randn(1, 1, len(mask_I), generator=torch.Generator().manual_seed(seed)).requires_grad_()
    gate_BS1 = torch.tensor([[[gate]]], requires_grad=True)
    found_BSI = gated_log_softmax(score_BSI, legal_BSI, used_BSI, gate_BS1)
    possible_I = found_BSI[legal_BSI]
    assert (found_BSI[~legal_BSI] < POSSIBLE).all()
    if legal_BSI.any():
        assert possible_I.detach().exp().sum().item() == pytest.approx(1, abs=1e-5)
        memory = found_BSI.detach()[legal_BSI & used_BSI].exp().sum()
        if (legal_BSI & used_BSI).any() and (legal_BSI & ~used_BSI).any():
            assert memory.item() == pytest.approx(torch.tensor(gate).sigmoid().item(), abs=1e-5)
    possible_I.sum().backward()
    for tensor in (score_BSI, gate_BS1):
        assert tensor.grad is None or tensor.grad.isfinite().all()


def test_sizes_come_from_the_grammar_and_the_configuration() -> None:
    decoder = make_decoder()
    shapes = {name: tuple(tensor.shape) for name, tensor in decoder.state_dict().items()}
    assert shapes["rules.weight"] == (len(GRAMMAR.rules) + 2, 6)
    assert shapes["nodes.weight"] == (len(GRAMMAR.states), 4)
    assert not {"rules_SR", "columns_SK", "values_SK"} & shapes.keys(), "the grammar is code, not weights"
    assert decoder.values_SK.shape[1] == len(VALUE_KINDS)
