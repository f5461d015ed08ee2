"""One transformer layer: attention with skip, two-layer ReLU MLP with skip (Eq. 3-4).

The strategy decides where it normalises and how branches join the stream; relations in the
configuration make it relation-aware. Legend: B batch, L length, D width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError
from dtfixup.fixup import LayerWeights, Strategy
from dtfixup.transformer.attention import Attention
from dtfixup.transformer.kernel_choice import Kernel
from dtfixup.transformer.relation_attention import RelationAttention, compute_dtype, has_hooks, is_plain_linear


@dataclass(frozen=True)
class StackConfig:
    """Shape of a stack; the defaults are the paper's text-to-SQL stack (appendix C.5)."""

    layers: int
    """Number of transformer layers, N."""
    dim: int = 256
    """Width of the residual stream."""
    heads: int = 8
    """Attention heads."""
    mlp_dim: int = 1024
    """Inner width of the MLP."""
    relations: int = 0
    """Number of relation ids; 0 builds vanilla layers."""
    bias: bool = False
    """Biases in the linear layers. The paper's equations have none, and its theorem does not cover them."""
    dropout: float = 0.0
    """Dropout on each branch. The paper uses none inside the stack."""
    input_dropout: float = 0.0
    """Dropout on the stack's input."""
    stream_limit: float = 0.0
    """Largest norm of a vector between two layers, as a multiple of mu, for strategies that measure mu; 0 for none."""
    kernel: Kernel = Kernel.AUTO
    """Implementation of attention, all with the same result: "plain" is the textbook form, "auto" the fastest."""

    def __post_init__(self) -> None:
        if min(self.layers, self.dim, self.heads, self.mlp_dim) < 1 or self.relations < 0:
            raise ConfigError(f"layers, dim, heads and mlp_dim must be at least 1, relations at least 0: got {self}")
        if self.kernel not in set(Kernel):
            raise ConfigError(f"there is no kernel {self.kernel!r}: choose one of {', '.join(Kernel)}")
        if self.stream_limit and not self.stream_limit >= 1:
            raise ConfigError(f"a stream_limit below mu would change the start; got {self.stream_limit}, 0 sets none")
        for rate in (self.dropout, self.input_dropout):
            if not 0 <= rate < 1:
                raise ConfigError(f"a dropout rate must lie in [0, 1), got {rate}")


class MLP(nn.Module):
    """Two linear layers with a ReLU between them."""

    def __init__(self, dim: int, inner: int, *, bias: bool) -> None:
        super().__init__()
        self.up = nn.Linear(dim, inner, bias=bias)
        self.down = nn.Linear(inner, dim, bias=bias)

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.down(self.up(x_BLD).relu())


class TransformerLayer(nn.Module):
    """Self-attention and MLP, each a residual branch."""

    def __init__(self, config: StackConfig, strategy: Strategy) -> None:
        super().__init__()
        self.relation_aware = config.relations > 0
        self.attention: Attention
        if self.relation_aware:
            self.attention = RelationAttention(
                config.dim, config.heads, config.relations, bias=config.bias, kernel=config.kernel
            )
        else:
            self.attention = Attention(config.dim, config.heads, bias=config.bias, kernel=config.kernel)
        self.mlp = MLP(config.dim, config.mlp_dim, bias=config.bias)
        self.attention_residual = strategy.residual(config.dim, config.layers)
        self.mlp_residual = strategy.residual(config.dim, config.layers)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x_BLD: Tensor,
        keep_BL: Tensor | None = None,
        relation_BLL: Tensor | None = None,
        *,
        checked: bool = False,
        first_only: bool = False,
    ) -> Tensor:
        """One layer; `checked` promises that the relation ids are in range.

        With `first_only` a vanilla layer computes only the y of the first x, [B, 1, D].
        """
        if self._joins_in_kernel(x_BLD):
            x_BLD = self.attention(x_BLD, keep_BL, relation_BLL, checked=checked, add_input=True)
            return self._fused_mlp(x_BLD)
        inner_BLD = self.attention_residual.enter(x_BLD)
        if self.relation_aware:
            attended_BLD = self.attention(inner_BLD, keep_BL, relation_BLL, checked=checked)
        elif first_only:
            x_BLD, attended_BLD = x_BLD[:, :1], self.attention.attend(inner_BLD[:, :1], inner_BLD, keep_BL)
        else:
            attended_BLD = self.attention(inner_BLD, keep_BL)
        x_BLD = self.attention_residual.leave(x_BLD, self.dropout(attended_BLD))  # Eq. 3
        mlp_BLD = self.mlp(self.mlp_residual.enter(x_BLD))
        return self.mlp_residual.leave(x_BLD, self.dropout(mlp_BLD))  # Eq. 4

    def _joins_in_kernel(self, x_BLD: Tensor) -> bool:
        """Whether the fused kernel can add the branches itself: the skip is plain and no hook needs a branch."""
        return (
            isinstance(self.attention, RelationAttention)
            and self.attention.kernel_for(x_BLD) is Kernel.FUSED
            and all(skip.plain and skip.norm is None for skip in (self.attention_residual, self.mlp_residual))
            and not (self.training and self.dropout.p)
            and not any(has_hooks(branch) for branch in (self.attention, self.mlp, self.dropout))
            and is_plain_linear(self.mlp.up)
            and is_plain_linear(self.mlp.down)
        )

    def _fused_mlp(self, x_BLD: Tensor) -> Tensor:
        from dtfixup.transformer.relation_kernels import MlpBranch  # Triton is installed on GPU machines only

        dtype = compute_dtype(x_BLD)
        with torch.autocast(x_BLD.device.type, enabled=False):
            joined_BLD: Tensor = MlpBranch.apply(  # type: ignore[no-untyped-call]
                x_BLD, self.mlp.up.weight, self.mlp.down.weight, dtype, True
            )
        return joined_BLD

    def fixup_weights(self) -> LayerWeights:
        return LayerWeights(
            value=[self.attention.value.weight],
            output=[self.attention.output.weight],
            mlp=[self.mlp.up.weight, self.mlp.down.weight],
            relation_value=self.attention.relation_value_weights,
            branches=[self.attention, self.mlp],
        )
