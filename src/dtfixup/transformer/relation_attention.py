"""Relation-aware self-attention, Eq. 5.

r^k_ij and r^v_ij are looked up by relation id and shared over heads. `attend_plain` is the textbook
form with tensors of [B, L, L, Z]: the oracle. `attend_by_tables` computes the same from one product
per relation id, with tensors of [B, H, L, R] and [B, H, L, L]; a test holds the two equal in value
and gradient.
Legend: B batch, H heads, L length (i the query, j the key), D width, Z width of a head, R relations.
"""

from collections.abc import Sequence
from enum import StrEnum

import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError, RelationError
from dtfixup.fixup import Weight
from dtfixup.transformer.attention import Attention, masked_softmax


class Kernel(StrEnum):
    """How attention is computed; the result is the same."""

    PLAIN = "plain"
    TABLES = "tables"


class RelationAttention(Attention):
    """Attention whose keys and values also depend on how two inputs are related."""

    def __init__(
        self, dim: int, heads: int, relations: int, *, bias: bool = False, kernel: Kernel = Kernel.TABLES
    ) -> None:
        super().__init__(dim, heads, bias=bias)
        if relations < 1:
            raise ConfigError(f"relation-aware attention needs at least one relation, got {relations}")
        self.kernel = Kernel(kernel)
        self.relation_key_RZ = nn.Parameter(torch.empty(relations, dim // heads))
        self.relation_value_RZ = nn.Parameter(torch.empty(relations, dim // heads))
        for table in (self.relation_key_RZ, self.relation_value_RZ):
            nn.init.xavier_uniform_(table)

    @property
    def relation_value_weights(self) -> Sequence[Weight]:
        return (self.relation_value_RZ,)

    def forward(self, x_BLD: Tensor, keep_BL: Tensor | None = None, relation_BLL: Tensor | None = None) -> Tensor:
        """z w, with z from Eq. 5; positions with keep False are attended to by nobody."""
        relation_BLL = self._require_relations(x_BLD, relation_BLL)
        q_BHLZ, k_BHLZ, v_BHLZ = (self.split(project(x_BLD)) for project in (self.query, self.key, self.value))
        attend = attend_plain if self.kernel is Kernel.PLAIN else attend_by_tables
        z_BHLZ = attend(q_BHLZ, k_BHLZ, v_BHLZ, self.relation_key_RZ, self.relation_value_RZ, relation_BLL, keep_BL)
        return self.output(self.merge(z_BHLZ))

    def _require_relations(self, x_BLD: Tensor, relation_BLL: Tensor | None) -> Tensor:
        batch, length, relations = x_BLD.shape[0], x_BLD.shape[1], len(self.relation_key_RZ)
        if relation_BLL is None:
            raise RelationError("a relation-aware layer needs relation ids: pass relation_BLL, shape [B, L, L]")
        if tuple(relation_BLL.shape) != (batch, length, length):
            raise RelationError(
                f"relation ids have shape {tuple(relation_BLL.shape)}, expected {(batch, length, length)} "
                "for this input"
            )
        if relation_BLL.is_floating_point():
            raise RelationError(f"relation ids must be integers, got {relation_BLL.dtype}")
        if not relation_BLL.numel():
            return relation_BLL.long()
        low, high = int(relation_BLL.min()), int(relation_BLL.max())
        if low < 0 or high >= relations:
            raise RelationError(
                f"relation ids run from {low} to {high}, but this layer knows 0 to {relations - 1}: "
                "build the stack with as many relations as the data has"
            )
        return relation_BLL.long()


def attend_plain(
    q_BHLZ: Tensor,
    k_BHLZ: Tensor,
    v_BHLZ: Tensor,
    relation_key_RZ: Tensor,
    relation_value_RZ: Tensor,
    relation_BLL: Tensor,
    keep_BL: Tensor | None,
) -> Tensor:
    """z of Eq. 5, written as the equation is."""
    rk_BLLZ, rv_BLLZ = relation_key_RZ[relation_BLL], relation_value_RZ[relation_BLL]
    logits_BHLL = q_BHLZ @ k_BHLZ.mT + torch.einsum("bhiz,bijz->bhij", q_BHLZ, rk_BLLZ)
    weights_BHLL = masked_softmax(logits_BHLL / q_BHLZ.shape[-1] ** 0.5, keep_BL)  # Eq. 5, first line
    return weights_BHLL @ v_BHLZ + torch.einsum("bhij,bijz->bhiz", weights_BHLL, rv_BLLZ)  # second line


def attend_by_tables(
    q_BHLZ: Tensor,
    k_BHLZ: Tensor,
    v_BHLZ: Tensor,
    relation_key_RZ: Tensor,
    relation_value_RZ: Tensor,
    relation_BLL: Tensor,
    keep_BL: Tensor | None,
) -> Tensor:
    """z of Eq. 5 without [B, L, L, Z]: q r^k per relation id and gathered; attention summed per id, times r^v."""
    heads = q_BHLZ.shape[1]
    relation_BHLL = relation_BLL[:, None].expand(-1, heads, -1, -1)
    relation_logits_BHLR = q_BHLZ @ relation_key_RZ.T
    logits_BHLL = q_BHLZ @ k_BHLZ.mT + relation_logits_BHLR.gather(-1, relation_BHLL)
    weights_BHLL = masked_softmax(logits_BHLL / q_BHLZ.shape[-1] ** 0.5, keep_BL)  # Eq. 5, first line
    mass_BHLR = torch.zeros_like(relation_logits_BHLR).scatter_add(-1, relation_BHLL, weights_BHLL)
    return weights_BHLL @ v_BHLZ + mass_BHLR @ relation_value_RZ  # Eq. 5, second line
