"""The grammar-guided decoder (appendix C.2): a parent-feeding LSTM that scores rules, columns and literals.

In: the stack's outputs. Out: log-probabilities of every action at every step. `step` advances the LSTM by one action
and `log_probabilities` scores the next. Training calls `step` along the gold derivation and scores all steps at once;
search calls the two in turn. So both get the same numbers, and in both an action outside the grammar has probability 0.

Legend: B batch (or hypotheses), N = words + items, I items, V candidates, S steps, D width of the stack, H heads,
Z width of a head, R rules, E width of an action embedding, G = 4 x LSTM width, M = LSTM width, F features of a step.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtfixup.sql.grammar.rules import Choice, Grammar
from dtfixup.transformer.relation_attention import has_triton

_NEVER = -1e9  # the logit of an impossible action; finite, so that a row of them has no NaN in its gradient


@dataclass(frozen=True)
class DecoderConfig:
    """Shape of the decoder; the sizes are the paper's (appendix C.5), the dropout the bundled encoder's."""

    action_dim: int = 128
    """Width of action embeddings."""
    node_dim: int = 64
    """Width of node-type embeddings."""
    lstm_dim: int = 512
    """Width of the LSTM."""
    heads: int = 8
    """Attention heads over the stack's outputs."""
    dropout: float = 0.3
    """Dropout on the context z."""
    values_in_context: bool = True
    """Let z attend to the literal candidates too, so that no condition is forgotten."""
    label_smoothing: float = 0.2
    """Uniform label smoothing over columns."""


class Memory(NamedTuple):
    """The decoder's inputs, one row per question."""

    key_BHNZ: Tensor
    value_BHNZ: Tensor
    keep_BN: Tensor
    column_key_BID: Tensor
    column_action_BIE: Tensor
    column_kind_BI: Tensor
    column_keep_BI: Tensor
    value_key_BVD: Tensor
    value_action_BVE: Tensor
    value_kind_BV: Tensor
    value_keep_BV: Tensor

    def repeat(self, times: int) -> "Memory":
        """Repeat every row for its hypotheses."""
        return Memory(*(tensor.repeat_interleave(times, 0) for tensor in self))

    def rows(self, row_B: Tensor) -> "Memory":
        return Memory(*(tensor[row_B] for tensor in self))


class StepState(NamedTuple):
    """The LSTM between two actions."""

    h_BM: Tensor
    m_BM: Tensor
    z_BD: Tensor


class LogProbabilities(NamedTuple):
    """The log-probability of every action at S steps; about -1e9 for an action outside the grammar."""

    rule_BSR: Tensor
    column_BSI: Tensor
    value_BSV: Tensor


class Decoder(nn.Module):
    """Scores actions; it depends on the grammar, not on a schema."""

    rules_SR: Tensor
    columns_SK: Tensor
    values_SK: Tensor

    def __init__(self, config: DecoderConfig, dim: int, grammar: Grammar) -> None:
        super().__init__()
        self.config, self.dim = config, dim
        action, lstm = config.action_dim, config.lstm_dim
        self.rules = nn.Embedding(len(grammar.rules) + 2, action)  # and the start, and an unknown literal
        self._start, self._unknown = len(grammar.rules), len(grammar.rules) + 1
        self.nodes = nn.Embedding(len(grammar.states), config.node_dim)
        self.column_action = nn.Linear(dim, action)
        self.value_action = nn.Linear(dim, action)
        self.known = nn.Linear(2 * action + config.node_dim, 4 * lstm)
        self.recurrent = nn.Linear(dim + 2 * lstm, 4 * lstm, bias=False)
        self.query, self.output = nn.Linear(lstm, dim), nn.Linear(dim, dim)
        self.keys, self.values = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim)
        self.rule_score = nn.Sequential(
            nn.Linear(lstm + dim, lstm), nn.Tanh(), nn.Linear(lstm, len(grammar.rules), bias=False)
        )
        self.column_query, self.column_key = nn.Linear(lstm + dim, dim), nn.Linear(dim, dim, bias=False)
        self.value_query, self.value_key = nn.Linear(lstm + dim, dim), nn.Linear(dim, dim, bias=False)
        self.used_gate = nn.Linear(lstm + dim, 1)
        for name, table in (
            ("rules_SR", grammar.rules_SR),
            ("columns_SK", grammar.columns_SK),
            ("values_SK", grammar.values_SK),
        ):
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(table)), persistent=False)

    def remember(
        self,
        y_BND: Tensor,
        keep_BN: Tensor,
        words: int,
        column_kind_BI: Tensor,
        column_keep_BI: Tensor,
        value_BVD: Tensor,
        value_kind_BV: Tensor,
        value_keep_BV: Tensor,
    ) -> Memory:
        """Compute once what every step needs of the stack's outputs y and of the encoded candidates."""
        items_BID = y_BND[:, words:]
        if self.config.values_in_context:
            y_BND = torch.cat([y_BND, value_BVD], 1)
            keep_BN = torch.cat([keep_BN, value_keep_BV], 1)
        return Memory(
            self._heads(self.keys(y_BND)),
            self._heads(self.values(y_BND)),
            keep_BN,
            self.column_key(items_BID),
            self.column_action(items_BID),
            column_kind_BI,
            column_keep_BI,
            self.value_key(value_BVD),
            self.value_action(value_BVD),
            value_kind_BV,
            value_keep_BV,
        )

    def _heads(self, x_BND: Tensor) -> Tensor:
        return x_BND.unflatten(-1, (self.config.heads, -1)).transpose(1, 2).contiguous()

    def first_state(self, batch: int, like: Tensor) -> StepState:
        """The state before the first action."""
        empty_BM = like.new_zeros(batch, self.config.lstm_dim)
        return StepState(empty_BM, empty_BM, like.new_zeros(batch, self.dim))

    def embed(self, memory: Memory, choice_BS: Tensor, index_BS: Tensor) -> Tensor:
        """[B, S, E]: a of each action; index -1 is a literal that is not a candidate."""
        index_BSE = index_BS.clamp_min(0)[..., None].expand(-1, -1, self.config.action_dim)
        rule_BS = torch.where(choice_BS == Choice.RULE, index_BS.clamp_min(0), self._unknown)
        embedded_BSE = self.rules(torch.where(index_BS < 0, self._unknown, rule_BS))
        for kind, table in ((Choice.COLUMN, memory.column_action_BIE), (Choice.VALUE, memory.value_action_BVE)):
            chosen_BSE = table.gather(1, index_BSE.clamp_max(table.shape[1] - 1))
            is_kind_BS = (choice_BS == kind) & (index_BS >= 0)
            embedded_BSE = torch.where(is_kind_BS[..., None], chosen_BSE, embedded_BSE)
        return embedded_BSE

    def start_embedding(self, batch: int) -> Tensor:
        """[B, E]: a of the action before the first."""
        return self.rules.weight[self._start].expand(batch, -1)

    def known_gates(self, previous_BSE: Tensor, parent_BSE: Tensor, state_BS: Tensor) -> Tensor:
        """[B, S, G]: the part of the gates that needs no earlier state: of a_{t-1}, a_p and n."""
        return self.known(torch.cat([previous_BSE, parent_BSE, self.nodes(state_BS)], -1))

    def step(
        self, known_BG: Tensor, parent_BM: Tensor, state: StepState, memory: Memory, drop_BD: Tensor | None = None
    ) -> StepState:
        """h_t, m_t and z_t; `parent_BM` is h of the parent's step, `drop_BD` the dropout factors of z."""
        gates_BG = known_BG + self.recurrent(torch.cat([state.z_BD, parent_BM, state.h_BM], -1))
        enter, forget, cell, leave = gates_BG.chunk(4, -1)
        m_BM = forget.sigmoid() * state.m_BM + enter.sigmoid() * cell.tanh()
        h_BM = leave.sigmoid() * m_BM.tanh()
        q_BHZ = self.query(h_BM).unflatten(-1, (self.config.heads, -1))
        logits_BHN = torch.einsum("bhz,bhnz->bhn", q_BHZ, memory.key_BHNZ) / q_BHZ.shape[-1] ** 0.5
        weights_BHN = logits_BHN.masked_fill(~memory.keep_BN[:, None], _NEVER).softmax(-1)
        z_BD = self.output(torch.einsum("bhn,bhnz->bhz", weights_BHN, memory.value_BHNZ).flatten(1))
        return StepState(h_BM, m_BM, z_BD if drop_BD is None else z_BD * drop_BD)

    @property
    def fits_kernels(self) -> bool:
        """Whether the kernels support these widths: their blocks are powers of two."""
        widths = (self.config.lstm_dim, self.dim, self.dim // self.config.heads)
        return all(width.bit_count() == 1 for width in widths)

    def run(
        self, known_BSG: Tensor, parent_BS: Tensor, memory: Memory, drop_BSD: Tensor | None, *, plain: bool = False
    ) -> Tensor:
        """[B, S, F]: h and z of every step along a given derivation, by kernels if possible."""
        if plain or not (known_BSG.is_cuda and self.fits_kernels and has_triton()):
            return self.run_plain(known_BSG, parent_BS, memory, drop_BSD)
        from dtfixup.sql.model.recurrence import Recurrence  # Triton is installed on GPU machines only

        with torch.autocast("cuda", enabled=False):
            features_BSF: Tensor = Recurrence.apply(  # type: ignore[no-untyped-call]
                known_BSG.float().contiguous(),
                memory.key_BHNZ.float(),
                memory.value_BHNZ.float(),
                self.recurrent.weight,
                self.query.weight,
                self.query.bias,
                self.output.weight,
                self.output.bias,
                parent_BS.contiguous(),
                memory.keep_BN.contiguous(),
                drop_BSD,
            )
        return features_BSF

    def run_plain(self, known_BSG: Tensor, parent_BS: Tensor, memory: Memory, drop_BSD: Tensor | None) -> Tensor:
        """[B, S, F]: h and z of every step along a given derivation; the kernels must equal this."""
        batch, steps = parent_BS.shape
        state = self.first_state(batch, known_BSG)
        history = [state.h_BM]
        features = []
        row_B = torch.arange(batch, device=parent_BS.device)
        for t in range(steps):
            parent_BM = torch.stack(history, 1)[row_B, parent_BS[:, t] + 1]
            state = self.step(known_BSG[:, t], parent_BM, state, memory, None if drop_BSD is None else drop_BSD[:, t])
            history.append(state.h_BM)
            features.append(torch.cat([state.h_BM, state.z_BD], -1))
        return torch.stack(features, 1)

    def log_probabilities(
        self, features_BSF: Tensor, state_BS: Tensor, used_BSI: Tensor, memory: Memory
    ) -> LogProbabilities:
        """Score every action in the state of each step; `used_BSI` is True for columns that were used before."""
        rule_BSR = masked_log_softmax(self.rule_score(features_BSF), self.rules_SR[state_BS])
        legal_BSI = self._legal(self.columns_SK, state_BS, memory.column_kind_BI) & memory.column_keep_BI[:, None]
        score_BSI = self.column_query(features_BSF) @ memory.column_key_BID.mT / self.dim**0.5
        column_BSI = gated_log_softmax(score_BSI, legal_BSI, used_BSI, self.used_gate(features_BSF))
        value_legal_BSV = self._legal(self.values_SK, state_BS, memory.value_kind_BV) & memory.value_keep_BV[:, None]
        value_score_BSV = self.value_query(features_BSF) @ memory.value_key_BVD.mT / self.dim**0.5
        return LogProbabilities(rule_BSR, column_BSI, masked_log_softmax(value_score_BSV, value_legal_BSV))

    def _legal(self, table_SK: Tensor, state_BS: Tensor, kind_BX: Tensor) -> Tensor:
        """[B, S, X]: whether a state accepts the kind of each column or value; no state accepts the kind of a table."""
        accepted_BSK = table_SK[state_BS]
        has_kind_BX = kind_BX < accepted_BSK.shape[-1]
        kind_BSX = torch.where(has_kind_BX, kind_BX, 0)[:, None].expand(-1, state_BS.shape[1], -1)
        return accepted_BSK.gather(-1, kind_BSX) & has_kind_BX[:, None]


def is_possible(log_probability: Tensor) -> Tensor:
    """Whether the grammar allows the actions with these log-probabilities."""
    return log_probability > _NEVER / 2


def masked_log_softmax(score: Tensor, legal: Tensor) -> Tensor:
    """Log-softmax over legal entries; -1e9 for the others."""
    return score.float().masked_fill(~legal, _NEVER).log_softmax(-1).masked_fill(~legal, _NEVER)


def gated_log_softmax(score_BSI: Tensor, legal_BSI: Tensor, used_BSI: Tensor, gate_BS1: Tensor) -> Tensor:
    """The memory-augmented pointer: a gate between columns used before and the rest, and a softmax within each.

    If one side has no legal column, the other gets all of the probability.
    """
    memory_BSI, rest_BSI = legal_BSI & used_BSI, legal_BSI & ~used_BSI
    has_memory_BS1, has_rest_BS1 = memory_BSI.any(-1, keepdim=True), rest_BSI.any(-1, keepdim=True)
    gate_BS1 = gate_BS1.float()
    to_memory_BS1 = torch.where(has_rest_BS1, F.logsigmoid(gate_BS1), 0.0)
    to_rest_BS1 = torch.where(has_memory_BS1, F.logsigmoid(-gate_BS1), 0.0)
    within_BSI = torch.where(
        used_BSI,
        masked_log_softmax(score_BSI, memory_BSI) + to_memory_BS1,
        masked_log_softmax(score_BSI, rest_BSI) + to_rest_BS1,
    )
    return within_BSI.masked_fill(~legal_BSI, _NEVER)
