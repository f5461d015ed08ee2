"""N transformer layers on top of a pre-trained encoder: the f_G of section 3.

Legend: B batch, L length, D width.
"""

from typing import cast

import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError, RelationError
from dtfixup.fixup import NormPlacement, Strategy, StreamLimit, strategy_named
from dtfixup.transformer.kernel_choice import Kernel
from dtfixup.transformer.layer import StackConfig, TransformerLayer
from dtfixup.transformer.relation_attention import RelationAttention, has_triton, require_relations


class TransformerStack(nn.Module):
    """A stack of vanilla or relation-aware layers, built for one strategy.

    The strategy must set the weights first: `dt_fixup_(stack, mu)`, or `strategy.initialise_(stack, ...)` for any of
    them.
    """

    def __init__(self, config: StackConfig, strategy: Strategy | str = "dt-fixup") -> None:
        super().__init__()
        self.config = config
        self.strategy = strategy_named(strategy) if isinstance(strategy, str) else strategy
        self.input_dropout = nn.Dropout(config.input_dropout)
        self.layers = nn.ModuleList(TransformerLayer(config, self.strategy) for _ in range(config.layers))
        is_limited = config.stream_limit and self.strategy.needs_input_norm
        self.limit = StreamLimit(config.stream_limit) if is_limited else None
        self.final_norm = nn.LayerNorm(config.dim) if self.strategy.norm is NormPlacement.PRE else None

    def forward(
        self,
        x_BLD: Tensor,
        keep_BL: Tensor | None = None,
        relation_BLL: Tensor | None = None,
        *,
        first_only: bool = False,
    ) -> Tensor:
        """y for every x. `keep_BL` is True for real vectors, False for padding.

        With `first_only` the result is [B, 1, D], the y of the first x; a vanilla stack's last layer computes only it.
        """
        if x_BLD.ndim != 3 or x_BLD.shape[-1] != self.config.dim:
            raise ConfigError(f"the stack takes [B, L, {self.config.dim}], got {tuple(x_BLD.shape)}")
        if keep_BL is not None and keep_BL.shape != x_BLD.shape[:2]:
            raise ConfigError(f"keep_BL must be {tuple(x_BLD.shape[:2])}, got {tuple(keep_BL.shape)}")
        if relation_BLL is not None and not self.config.relations:
            raise RelationError("relation ids were given to a vanilla stack: build it with relations=")
        if self.config.relations:
            relation_BLL = self._ready_relations(x_BLD, relation_BLL)
        x_BLD = self._limited(self.input_dropout(x_BLD))
        for place, layer in enumerate(self.layers, start=1):
            first = first_only and place == len(self.layers)
            x_BLD = self._limited(layer(x_BLD, keep_BL, relation_BLL, checked=True, first_only=first))
        x_BLD = x_BLD[:, :1] if first_only else x_BLD
        return x_BLD if self.final_norm is None else self.final_norm(x_BLD)

    def _limited(self, x_BLD: Tensor) -> Tensor:
        if self.limit is None:
            return x_BLD
        if x_BLD.is_cuda and self.config.kernel is not Kernel.PLAIN and has_triton():
            from dtfixup.transformer.stream_limit_kernels import LimitRows  # Triton is installed on GPU machines only

            limited_BLD: Tensor = LimitRows.apply(x_BLD, self.limit.longest)  # type: ignore[no-untyped-call]
            return limited_BLD
        return self.limit(x_BLD)

    def _ready_relations(self, x_BLD: Tensor, relation_BLL: Tensor | None) -> Tensor:
        """Relation ids, checked and converted once for all layers."""
        capturing = x_BLD.is_cuda and torch.cuda.is_current_stream_capturing()  # a graph cannot look at numbers
        relation_BLL = require_relations(x_BLD, relation_BLL, self.config.relations, checked=capturing)
        attention = cast(RelationAttention, self.layers[0].attention)
        return relation_BLL.to(torch.uint8 if attention.kernel_for(x_BLD) is Kernel.FUSED else torch.long)
