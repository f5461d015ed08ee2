"""SQL-SP (section 5.1): a pre-trained encoder, N relation-aware layers, a grammar-guided decoder.

In: a `Batch`. Out: the loss of each example, or the decoder's memory for a search. All sizes come from the
configuration and the grammar, never from a dataset, so any trained model reads any schema.

A question word is the mean of its subwords' encoder states, over all windows, projected to the stack's width. A schema
item is the mean state + final state of a BiLSTM over its words. Legend: as in `batches.py` and `decoder.py`; A width of
the encoder, Q = W + I J word slots.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtfixup.encoders import Encoder, LeanEncoder
from dtfixup.sql.grammar.rules import VALUE_KINDS, Choice, Grammar, sql_grammar
from dtfixup.sql.linking.relations import Relation
from dtfixup.sql.model.batches import TABLE_KIND, Batch
from dtfixup.sql.model.decoder import Decoder, DecoderConfig, LogProbabilities, Memory, is_possible
from dtfixup.sql.model.items import ItemReader
from dtfixup.transformer import Kernel, StackConfig, TransformerStack

SOURCES = 16
"""Rows for the sources of literal candidates; more than there are, so that a new source does not change the shape."""


@dataclass(frozen=True)
class ModelConfig:
    """Shape of SQL-SP; sizes are the paper's, dropout is the bundled encoder's."""

    REMOVED: ClassVar[Mapping[str, Any]] = MappingProxyType({"added_limit": 0.0})

    layers: int = 24
    """Number of new layers, N."""
    strategy: str = "dt-fixup"
    """Initialisation of the new layers."""
    dim: int = 256
    """Width of the new layers."""
    heads: int = 8
    """Attention heads of the new layers."""
    mlp_dim: int = 1024
    """Inner width of the new layers' MLP."""
    input_dropout: float = 0.3
    """Dropout on the stack's input."""
    stream_limit: float = 0.0
    """Largest norm of a vector between two new layers, as a multiple of mu; 0 sets no limit."""
    kernel: Kernel = Kernel.AUTO
    """Implementation of relation attention and of the decoder's recurrence; all give the same result."""
    anchors: bool = True
    """Let the encoder read, after a column's name, a value of it that the question contains."""
    relevance_weight: float = 0.0
    """Weight of a second loss: which columns and tables the query uses."""
    freeze_embeddings: bool = True
    """Freeze the encoder's embedding tables."""
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    """Shape of the decoder."""


class SqlSpModel(nn.Module):
    """Encoder, stack and decoder."""

    def __init__(self, config: ModelConfig, encoder: Encoder | LeanEncoder, grammar: Grammar | None = None) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        if config.freeze_embeddings:
            for module in encoder.model.modules():
                if isinstance(module, nn.Embedding):
                    module.requires_grad_(False)
        self.project_words = nn.Linear(encoder.dim, config.dim)
        self.items = ItemReader(encoder.dim, config.dim)
        self.item_kinds = nn.Embedding(TABLE_KIND + 1, config.dim)
        self.stack = TransformerStack(
            StackConfig(
                layers=config.layers,
                dim=config.dim,
                heads=config.heads,
                mlp_dim=config.mlp_dim,
                relations=len(Relation),
                input_dropout=config.input_dropout,
                stream_limit=config.stream_limit,
                kernel=config.kernel,
            ),
            config.strategy,
        )
        self.value_text = nn.Linear(encoder.dim, config.dim)
        self.value_kinds = nn.Embedding(len(VALUE_KINDS), config.dim)
        self.value_sources = nn.Embedding(SOURCES, config.dim)
        self.value_mix = nn.Linear(3 * config.dim, config.dim)
        self.decoder = Decoder(config.decoder, config.dim, grammar or sql_grammar())
        self.relevance = nn.Linear(config.dim, 1) if config.relevance_weight else None

    def forward(self, batch: Batch) -> Tensor:
        """[B]: the loss of each example; 0 for rows of padding."""
        y_BND = self.encode(batch)
        memory = self.memory_of(batch, y_BND)
        features_BSF = self.decode(batch, memory)
        used_BSI = used_before(batch.choice_BS, batch.index_BS, memory.column_keep_BI.shape[1])
        scores = self.decoder.log_probabilities(features_BSF, batch.state_BS, used_BSI, memory)
        loss_B = self.loss_of(scores, batch)
        if self.relevance is not None and self.training:
            loss_B = loss_B + self.config.relevance_weight * self._relevance_loss(batch, self.relevance(y_BND)[..., 0])
        return loss_B

    def stack_input(self, batch: Batch) -> Tensor:
        """x [B, N, D], before dropout."""
        word_BQA = self._word_states(batch)
        words = batch.words
        x_BWD = self.project_words(word_BQA[:, :words])
        item_BIJA = word_BQA[:, words:].unflatten(1, batch.item_word_keep_BIJ.shape[1:])
        x_BID = self.items(item_BIJA, batch.item_word_keep_BIJ) + self.item_kinds(batch.item_kind_BI)
        return torch.cat([x_BWD, x_BID], 1)

    def encode(self, batch: Batch) -> Tensor:
        """y [B, N, D]: the stack's outputs."""
        y_BND: Tensor = self.stack(self.stack_input(batch), batch.keep_BN, batch.relation_BNN)
        return y_BND

    def remember(self, batch: Batch) -> Memory:
        """Encode a batch for the decoder."""
        return self.memory_of(batch, self.encode(batch))

    def memory_of(self, batch: Batch, y_BND: Tensor) -> Memory:
        """The decoder's memory of the stack's outputs."""
        return self.decoder.remember(
            y_BND,
            batch.keep_BN,
            batch.words,
            batch.item_kind_BI,
            batch.column_keep_BI,
            self._values(batch, y_BND),
            batch.value_kind_BV,
            batch.value_keep_BV,
        )

    def decode(self, batch: Batch, memory: Memory) -> Tensor:
        """[B, S, F]: the features of every step of the gold derivation."""
        decoder = self.decoder
        action_BSE = decoder.embed(memory, batch.choice_BS, batch.index_BS)
        start_B1E = decoder.start_embedding(action_BSE.shape[0])[:, None]
        before_BSE = torch.cat([start_B1E, action_BSE], 1)  # a_{t-1} at position t, the start at position 0
        parent_BSE = before_BSE.gather(1, (batch.parent_BS + 1)[..., None].expand_as(action_BSE))
        known_BSG = decoder.known_gates(before_BSE[:, :-1], parent_BSE, batch.state_BS)
        drop_BSD = None
        rate = decoder.config.dropout
        if self.training and rate:
            drop_BSD = torch.empty(*batch.parent_BS.shape, decoder.dim, device=known_BSG.device)
            drop_BSD = drop_BSD.bernoulli_(1 - rate).div_(1 - rate)
        return decoder.run(known_BSG, batch.parent_BS, memory, drop_BSD, plain=self.config.kernel is Kernel.PLAIN)

    def loss_of(self, scores: LogProbabilities, batch: Batch) -> Tensor:
        """[B]: negative log-likelihood, columns smoothed; a literal that is not a candidate costs nothing."""
        keep_BS = batch.step_keep_BS & (batch.index_BS >= 0)
        index_BS1 = batch.index_BS.clamp_min(0)[..., None]

        def chosen(table_BSX: Tensor, kind: Choice) -> tuple[Tensor, Tensor]:
            is_kind_BS = keep_BS & (batch.choice_BS == kind)
            own_index_BS1 = torch.where(is_kind_BS[..., None], index_BS1, 0)
            return table_BSX.gather(-1, own_index_BS1)[..., 0], is_kind_BS

        rule_BS, is_rule_BS = chosen(scores.rule_BSR, Choice.RULE)
        column_BS, is_column_BS = chosen(scores.column_BSI, Choice.COLUMN)
        value_BS, is_value_BS = chosen(scores.value_BSV, Choice.VALUE)
        smoothing = self.decoder.config.label_smoothing
        if smoothing:
            legal_BSI = is_possible(scores.column_BSI)
            mean_BS = torch.where(legal_BSI, scores.column_BSI, 0.0).sum(-1) / legal_BSI.sum(-1).clamp_min(1)
            column_BS = (1 - smoothing) * column_BS + smoothing * mean_BS
        none = rule_BS.new_zeros(())
        loss_BS = torch.where(is_rule_BS, rule_BS, none) + torch.where(is_column_BS, column_BS, none)
        return -(loss_BS + torch.where(is_value_BS, value_BS, none)).sum(1)

    def _relevance_loss(self, batch: Batch, score_BN: Tensor) -> Tensor:
        """[B]: the log-loss of which columns and tables the query uses, summed."""
        score_BI = score_BN[:, batch.words :].float()
        keep_BI = batch.keep_BN[:, batch.words :]
        loss_BI = F.binary_cross_entropy_with_logits(score_BI, batch.item_used_BI.float(), reduction="none")
        return torch.where(keep_BI, loss_BI, 0.0).sum(1)

    def _word_states(self, batch: Batch) -> Tensor:
        """[B, Q, A]: the mean state of each word's subwords, over all windows."""
        state_XTA = self.encoder(batch.token_BKT.flatten(0, 1), batch.token_keep_BKT.flatten(0, 1))  # X = B x K
        state_BPA = state_XTA.unflatten(0, batch.token_BKT.shape[:2]).flatten(1, 2)
        slots = batch.words + batch.item_word_keep_BIJ.shape[1] * batch.item_word_keep_BIJ.shape[2]
        slot_Q = torch.arange(slots, device=state_BPA.device)
        member_BQP = (batch.slot_BKT.flatten(1)[:, None] == slot_Q[:, None]).to(state_BPA.dtype)
        return member_BQP @ state_BPA / member_BQP.sum(-1, keepdim=True).clamp_min(1)

    def _values(self, batch: Batch, y_BND: Tensor) -> Tensor:
        """[B, V, D]: candidates, from their text, their words in the question and the column they are linked to."""
        token_BVUA = self.encoder.model.get_input_embeddings()(batch.value_token_BVU)
        share_BVU = batch.value_token_keep_BVU.to(token_BVUA.dtype)
        share_BVU = share_BVU / share_BVU.sum(-1, keepdim=True).clamp_min(1)
        text_BVD = self.value_text((token_BVUA * share_BVU[..., None]).sum(2))
        position_N = torch.arange(y_BND.shape[1], device=y_BND.device)
        first_BV1, last_BV1 = batch.value_first_BV[..., None], batch.value_last_BV[..., None]
        word_BVN = ((position_N >= first_BV1) & (position_N < last_BV1)).to(y_BND.dtype)
        word_BVN = word_BVN / word_BVN.sum(-1, keepdim=True).clamp_min(1)
        column_BV1 = batch.value_column_BV[..., None]
        linked_BVN = (position_N == column_BV1 + batch.words) & (column_BV1 >= 0) & batch.keep_BN[:, None]
        words_BVD, linked_BVD = (torch.cat([word_BVN, linked_BVN.to(y_BND.dtype)], 1) @ y_BND).chunk(2, 1)
        mixed_BVD = self.value_mix(torch.cat([text_BVD, words_BVD, linked_BVD], -1))
        return mixed_BVD + self.value_kinds(batch.value_kind_BV) + self.value_sources(batch.value_source_BV)


def used_before(choice_BS: Tensor, index_BS: Tensor, items: int) -> Tensor:
    """[B, S, I]: the columns that a derivation chose before each step."""
    item_I = torch.arange(items, device=index_BS.device)
    chosen_BSI = (index_BS[..., None] == item_I) & (choice_BS == Choice.COLUMN)[..., None]
    return (chosen_BSI.cumsum(1) - chosen_BSI.long()) > 0
