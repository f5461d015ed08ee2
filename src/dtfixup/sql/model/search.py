"""Beam search over derivations, for a batch of questions at once, without Python per hypothesis.

In: a model, and a batch or examples of a corpus. Out: the best derivations of every question, best first. A hypothesis
is a row of tensors: the open states of its tree as a stack, the LSTM, the actions so far. The grammar's tables and the
remaining steps say which actions are allowed, so every tree is finished within the limit. A score is the sum of the
decoder's log-probabilities, as in training.

Legend: B questions, K beam, Y = B x K hypotheses, A = R + I + V actions (rules, items, candidates), P places of a
stack, T steps so far, C children of a rule, S grammar states; the rest as in `decoder.py`.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from rich.progress import track
from torch import Tensor

from dtfixup.errors import ConfigError
from dtfixup.fixup.calls import evaluation_mode
from dtfixup.sql.grammar.rules import Choice, ColumnKind, Grammar, sql_grammar
from dtfixup.sql.grammar.transitions import STEP_LIMIT
from dtfixup.sql.model.batches import Batch, Corpus
from dtfixup.sql.model.decoder import Memory, StepState, is_possible
from dtfixup.sql.model.model import SqlSpModel
from dtfixup.sql.model.prepared import ExampleArrays
from dtfixup.sql.model.shapes import round_up
from dtfixup.weights.arrays import Array

MAX_TOKENS = 512
"""The longest window, also for an encoder that reads longer ones: schemas are lists, not stories."""
_IMPOSSIBLE = -1e30  # the score of an action that cannot be chosen
_CODE = 1 << 16  # an action as one number: choice * _CODE + index


@dataclass(frozen=True)
class Hypothesis:
    """A finished derivation: its log-probability, and (choice, index) of every action."""

    score: float
    actions: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Beam:
    """Hypotheses as rows; the axes are those of the module."""

    lstm: StepState
    hidden_YTM: Tensor
    embedded_YTE: Tensor
    action_YT: Tensor
    open_state_YP: Tensor
    open_parent_YP: Tensor
    depth_Y: Tensor
    open_cost_Y: Tensor
    used_YI: Tensor
    score_Y: Tensor

    def rows(self, row_Y: Tensor) -> "_Beam":
        lstm = StepState(*(tensor[row_Y] for tensor in self.lstm))
        others = {name: getattr(self, name)[row_Y] for name in self.__dataclass_fields__ if name != "lstm"}
        return _Beam(lstm=lstm, **others)


class BeamSearch:
    """Beam search with one model; `limit` is the largest number of steps of a derivation."""

    def __init__(
        self, model: SqlSpModel, *, beam: int = 5, limit: int = STEP_LIMIT, grammar: Grammar | None = None
    ) -> None:
        if beam < 1:
            raise ConfigError(f"a beam holds at least one hypothesis, got {beam}")
        self.model, self.beam, self.limit = model, beam, limit
        self.grammar = grammar or sql_grammar()
        self._costs_by_code: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        device = next(model.parameters()).device
        self._children_SRC = torch.from_numpy(self.grammar.children_SRC.astype(np.int64)).to(device)
        self._choice_S = torch.from_numpy(self.grammar.choice_S.astype(np.int64)).to(device)

    @torch.no_grad()
    def __call__(self, batch: Batch) -> list[list[Hypothesis]]:
        """The best derivations of every question of the batch, best first; none for a row of padding."""
        memory = self.model.remember(batch)
        cost_BS, after_BSR = self._costs(batch)
        memory = memory.repeat(self.beam)
        cost_YS, after_YSR = (table.repeat_interleave(self.beam, 0) for table in (cost_BS, after_BSR))
        beam = self._first(memory, cost_YS)
        for taken in range(self.limit):
            beam = self._advance(beam, memory, cost_YS, after_YSR, taken)
            if not bool((beam.depth_Y > 0).any()):
                break
        return self._hypotheses(beam, batch)

    def _costs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Per question, the fewest actions that finish each state, and each rule in it."""
        device = batch.item_kind_BI.device
        kind_K = torch.arange(len(ColumnKind), device=device)
        is_present_BK = ((batch.item_kind_BI[..., None] == kind_K) & batch.column_keep_BI[..., None]).any(1)
        code_B = (is_present_BK * (1 << kind_K)).sum(1)
        code_U, row_B = code_B.unique(return_inverse=True)
        tables = [self._costs_of(code) for code in code_U.tolist()]
        cost_US, after_USR = (torch.from_numpy(np.stack(rows)).long().to(device) for rows in zip(*tables, strict=True))
        return cost_US[row_B], after_USR[row_B]

    def _costs_of(self, code: int) -> tuple[np.ndarray, np.ndarray]:
        """The costs for schemas that have exactly the kinds of columns whose bits are set."""
        if code not in self._costs_by_code:
            present = np.array([bool(code >> kind & 1) for kind in range(len(ColumnKind))])
            self._costs_by_code[code] = self.grammar.costs(present)
        return self._costs_by_code[code]

    def _first(self, memory: Memory, cost_YS: Tensor) -> _Beam:
        decoder = self.model.decoder
        rows = memory.keep_BN.shape[0]
        like = memory.key_BHNZ
        score_Y = torch.full((rows,), _IMPOSSIBLE, device=like.device)
        score_Y[:: self.beam] = 0.0
        return _Beam(
            lstm=decoder.first_state(rows, like),
            hidden_YTM=like.new_zeros(rows, 1, decoder.config.lstm_dim),
            embedded_YTE=decoder.start_embedding(rows)[:, None],
            action_YT=cost_YS.new_zeros(rows, 0),
            open_state_YP=cost_YS.new_full((rows, self.limit + 1), self.grammar.start),  # each takes a step at least
            open_parent_YP=cost_YS.new_full((rows, self.limit + 1), -1),
            depth_Y=cost_YS.new_ones(rows),
            open_cost_Y=cost_YS[:, self.grammar.start],
            used_YI=torch.zeros(rows, memory.column_keep_BI.shape[1], dtype=torch.bool, device=like.device),
            score_Y=score_Y,
        )

    def _advance(self, beam: _Beam, memory: Memory, cost_YS: Tensor, after_YSR: Tensor, taken: int) -> _Beam:
        """Take the next action of every hypothesis that is not finished."""
        decoder = self.model.decoder
        rows = len(beam.depth_Y)
        row_Y = torch.arange(rows, device=beam.depth_Y.device)
        top_Y = (beam.depth_Y - 1).clamp_min(0)
        state_Y = beam.open_state_YP[row_Y, top_Y]
        parent_Y = beam.open_parent_YP[row_Y, top_Y]
        known_YG = decoder.known_gates(
            beam.embedded_YTE[:, -1:], beam.embedded_YTE[row_Y, parent_Y + 1][:, None], state_Y[:, None]
        )[:, 0]
        lstm = decoder.step(known_YG, beam.hidden_YTM[row_Y, parent_Y + 1], beam.lstm, memory)
        features_Y1F = torch.cat([lstm.h_BM, lstm.z_BD], -1)[:, None]
        scores = decoder.log_probabilities(features_Y1F, state_Y[:, None], beam.used_YI[:, None], memory)
        top_cost_Y = cost_YS[row_Y, state_Y]
        room_Y = self.limit - taken - 1 - (beam.open_cost_Y - top_cost_Y)
        fits_YR = after_YSR[row_Y, state_Y] <= room_Y[:, None]
        choice_Y = self._choice_S[state_Y]
        score_YA = torch.cat(
            [
                table.masked_fill(~(allowed & (choice_Y == kind)[:, None]), _IMPOSSIBLE)
                for kind, table, allowed in (
                    (Choice.RULE, scores.rule_BSR[:, 0], fits_YR),
                    (Choice.COLUMN, scores.column_BSI[:, 0], is_possible(scores.column_BSI[:, 0])),
                    (Choice.VALUE, scores.value_BSV[:, 0], is_possible(scores.value_BSV[:, 0])),
                )
            ],
            -1,
        )
        finished_Y = beam.depth_Y == 0
        score_YA = score_YA.masked_fill(finished_Y[:, None], _IMPOSSIBLE)
        score_YA[:, 0] = torch.where(finished_Y, 0.0, score_YA[:, 0])  # finished hypotheses stay as they are
        total_YA = (score_YA + beam.score_Y[:, None]).clamp_min(_IMPOSSIBLE)
        actions = total_YA.shape[1]
        score_BK, best_BK = total_YA.view(-1, self.beam * actions).topk(self.beam, -1)
        from_Y = (best_BK // actions + row_Y.view(-1, self.beam)[:, :1]).flatten()
        beam = replace(beam, lstm=lstm).rows(from_Y)
        beam = replace(beam, score_Y=score_BK.flatten())
        # If fewer than K actions are possible, the other rows of the beam are empty and must not grow.
        ended_Y = finished_Y[from_Y] | (beam.score_Y < _IMPOSSIBLE / 2)
        return self._take(beam, memory, best_BK.flatten() % actions, state_Y[from_Y], ended_Y, cost_YS, taken)

    def _take(
        self,
        beam: _Beam,
        memory: Memory,
        action_Y: Tensor,
        state_Y: Tensor,
        finished_Y: Tensor,
        cost_YS: Tensor,
        taken: int,
    ) -> _Beam:
        """The beam after one action of every hypothesis: its children are open, the action is recorded."""
        rules, items = self._children_SRC.shape[1], memory.column_keep_BI.shape[1]
        choice_Y = (action_Y >= rules).long() + (action_Y >= rules + items).long()
        index_Y = action_Y - torch.where(choice_Y == 0, 0, torch.where(choice_Y == 1, rules, rules + items))
        is_rule_Y = (choice_Y == Choice.RULE) & ~finished_Y
        child_YC = self._children_SRC[state_Y, torch.where(is_rule_Y, index_Y, 0)].masked_fill(~is_rule_Y[:, None], -1)
        count_Y = (child_YC >= 0).sum(1)
        depth_Y = torch.where(finished_Y, 0, beam.depth_Y - 1)
        order_C = torch.arange(child_YC.shape[1], device=child_YC.device)
        place_YC = depth_Y[:, None] + count_Y[:, None] - 1 - order_C  # the first child lies on top
        place_YC = torch.where(child_YC >= 0, place_YC, self.limit)  # the last place is never read
        row_Y = torch.arange(len(depth_Y), device=depth_Y.device)
        opened_Y = torch.where(child_YC >= 0, cost_YS[row_Y[:, None], child_YC.clamp_min(0)], 0).sum(1)
        is_column_Y = (choice_Y == Choice.COLUMN) & ~finished_Y
        is_chosen_YI = index_Y[:, None] == torch.arange(items, device=index_Y.device)
        embedded_YE = self.model.decoder.embed(memory, choice_Y[:, None], index_Y[:, None])
        code_Y = torch.where(finished_Y, -1, choice_Y * _CODE + index_Y)
        return _Beam(
            lstm=beam.lstm,
            hidden_YTM=torch.cat([beam.hidden_YTM, beam.lstm.h_BM[:, None]], 1),
            embedded_YTE=torch.cat([beam.embedded_YTE, embedded_YE], 1),
            action_YT=torch.cat([beam.action_YT, code_Y[:, None]], 1),
            open_state_YP=beam.open_state_YP.scatter(1, place_YC, child_YC.clamp_min(0)),
            open_parent_YP=beam.open_parent_YP.scatter(1, place_YC, taken),
            depth_Y=depth_Y + count_Y,
            open_cost_Y=torch.where(finished_Y, 0, beam.open_cost_Y - cost_YS[row_Y, state_Y] + opened_Y),
            used_YI=beam.used_YI | (is_column_Y[:, None] & is_chosen_YI),
            score_Y=beam.score_Y,
        )

    def _hypotheses(self, beam: _Beam, batch: Batch) -> list[list[Hypothesis]]:
        scores, codes = beam.score_Y.tolist(), beam.action_YT.tolist()
        finished = ((beam.depth_Y == 0) & (beam.score_Y > _IMPOSSIBLE / 2)).tolist()
        return [
            [
                Hypothesis(scores[row], tuple(divmod(code, _CODE) for code in codes[row] if code >= 0))
                for row in range(question * self.beam, (question + 1) * self.beam)
                if is_real and finished[row]
            ]
            for question, is_real in enumerate(batch.keep_B.tolist())
        ]


def corpus_for(model: SqlSpModel, examples: ExampleArrays, device: torch.device | str) -> Corpus:
    """A corpus in the layout that the model reads."""
    tokens = min(model.encoder.max_tokens, MAX_TOKENS)
    return Corpus(examples, device, max_tokens=tokens, anchors=model.config.anchors)


def search_all(
    model: SqlSpModel,
    corpus: Corpus,
    examples: Array,
    *,
    beam: int,
    batch_size: int = 128,
    limit: int = STEP_LIMIT,
    progress: bool = False,
) -> list[list[Hypothesis]]:
    """The derivations of every example, in the order given; examples of similar size are searched together.

    `limit` is the largest number of steps of a derivation.
    """
    by_size = np.lexsort((examples, corpus.sizes.column("tokens")[examples]))
    search = BeamSearch(model, beam=beam, limit=limit)
    beams: list[list[Hypothesis]] = [[] for _ in examples]
    starts = range(0, len(examples), batch_size)
    with evaluation_mode(model.modules()):
        for start in track(starts, "decode", transient=True, disable=not progress):
            positions = by_size[start : start + batch_size]
            chosen = examples[positions]
            shape = replace(round_up(corpus.shape_of(chosen)), steps=1)
            batch = corpus.assemble(torch.from_numpy(chosen).to(corpus.device), shape)
            for position, hypotheses in zip(positions, search(batch), strict=True):
                beams[position] = hypotheses
    return beams
