"""The reading model (section 4.2): a pre-trained encoder, N vanilla layers, a linear layer on the first token's state.

In: a `ReadingBatch`. Out: the loss of each example, or a score for each of its choices. An option of a question is one
sequence, with context and question, and gets one score. A text to classify is one sequence and gets a score per class.
The stack runs over all tokens.
Legend: as in `tokens.py`; X sequences, C classes, D width of the stack or, without one, of the encoder.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dtfixup.encoders import Encoder
from dtfixup.errors import ConfigError
from dtfixup.reading.tokens import ReadingBatch
from dtfixup.transformer import Kernel, StackConfig, TransformerStack


@dataclass(frozen=True)
class ReadingConfig:
    """Shape of the model; the defaults are the paper's, with the width of the bundled encoder."""

    layers: int = 4
    """Number of new layers, N; 0 puts the linear layer on the encoder."""
    strategy: str = "dt-fixup"
    """Initialisation of the new layers."""
    dim: int = 384
    """Width of the new layers; encoder states of another width are projected."""
    heads: int = 8
    """Attention heads of the new layers."""
    mlp_dim: int = 2048
    """Inner width of the new layers' MLP."""
    input_dropout: float = 0.4
    """Dropout on the stack's input."""
    dropout: float = 0.1
    """Dropout before the linear layer."""
    kernel: Kernel = Kernel.AUTO
    """Implementation of attention; all give the same result."""
    max_tokens: int = 256
    """Longest sequence of context, question and option; longer contexts are cut."""

    def __post_init__(self) -> None:
        if self.layers < 0:
            raise ConfigError(f"layers cannot be negative, got {self.layers}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"a dropout rate must lie in [0, 1), got {self.dropout}")
        if self.max_tokens < 8:
            raise ConfigError(f"max_tokens must leave room for context, question and option, got {self.max_tokens}")


class ReadingModel(nn.Module):
    """Encoder, stack and a linear layer.

    Args:
        config: its shape.
        encoder: the pre-trained part.
        classes: number of scores per sequence: 1 for an option of a question, else the classes of a text.
    """

    def __init__(self, config: ReadingConfig, encoder: Encoder, classes: int = 1) -> None:
        super().__init__()
        if config.max_tokens > encoder.max_tokens:
            raise ConfigError(f"max_tokens is {config.max_tokens}, but {encoder.name} takes {encoder.max_tokens}")
        self.config, self.encoder = config, encoder
        self.project = nn.Linear(encoder.dim, config.dim) if config.layers and config.dim != encoder.dim else None
        self.stack = _stack(config) if config.layers else None
        self.dropout = nn.Dropout(config.dropout)
        self.score = nn.Linear(config.dim if config.layers else encoder.dim, classes)
        self._two_types = getattr(encoder.model.config, "type_vocab_size", 0) > 1  # RoBERTa has one

    def forward(self, batch: ReadingBatch) -> Tensor:
        """[B]: the cross entropy of each example; 0 for empty rows."""
        log_BO = self.scores(batch).log_softmax(1)
        return -torch.where(batch.keep_B, log_BO.gather(1, batch.label_B[:, None])[:, 0], 0.0)

    def scores(self, batch: ReadingBatch) -> Tensor:
        """[B, O], or [B, C] for texts to classify: a score per choice, the lowest number for missing options."""
        sequences = (batch.token_BOT, batch.token_keep_BOT, batch.second_BOT)
        # In training the monitor needs the whole output of every layer.
        state_XTD = self.read(*(part_BOT.flatten(0, 1) for part_BOT in sequences), first_only=not self.training)
        first_XD = self.dropout(state_XTD[:, 0])
        with torch.autocast(first_XD.device.type, enabled=False):
            score_XC = self.score(first_XD.float())
        score_BOC = score_XC.unflatten(0, batch.option_keep_BO.shape)
        hidden_BO1 = ~batch.option_keep_BO[..., None]
        return score_BOC.masked_fill(hidden_BO1, torch.finfo(score_BOC.dtype).min).flatten(1)

    def read(self, token_XT: Tensor, keep_XT: Tensor, second_XT: Tensor, *, first_only: bool = False) -> Tensor:
        """[X, T, D]: the stack's outputs; with `first_only`, [X, 1, D] for the first token alone."""
        state_XTD: Tensor = self.encoder(token_XT, keep_XT, second_XT.long() if self._two_types else None)
        if self.project is not None:
            state_XTD = self.project(state_XTD)
        return state_XTD if self.stack is None else self.stack(state_XTD, keep_XT, first_only=first_only)


def _stack(config: ReadingConfig) -> TransformerStack:
    return TransformerStack(
        StackConfig(
            layers=config.layers,
            dim=config.dim,
            heads=config.heads,
            mlp_dim=config.mlp_dim,
            input_dropout=config.input_dropout,
            kernel=config.kernel,
        ),
        config.strategy,
    )
