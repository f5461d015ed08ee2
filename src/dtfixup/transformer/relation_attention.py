"""Relation-aware self-attention, Eq. 5.

r^k_ij and r^v_ij are looked up by relation id and shared over heads. `attend_by_pairs` is the textbook
form with tensors of [B, L, L, Z]: the oracle. `attend_by_tables` computes the same from one product
per relation id, with tensors of [B, H, L, R] and [B, H, L, L]; `relation_kernels.py` does so on a GPU
with one kernel per row. Tests compare them in value and gradient.
Legend: B batch, H heads, L length (i the query, j the key), D width, Z width of a head, R relations.
"""

import importlib.util
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError, RelationError
from dtfixup.fixup import Weight
from dtfixup.transformer.attention import Attention, masked_softmax
from dtfixup.transformer.kernel_choice import Kernel, gpu_of, obstacle_to_fusing


@lru_cache(maxsize=1)
def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


class RelationAttention(Attention):
    """Attention whose keys and values also depend on how two inputs are related."""

    def __init__(
        self, dim: int, heads: int, relations: int, *, bias: bool = False, kernel: Kernel = Kernel.AUTO
    ) -> None:
        super().__init__(dim, heads, bias=bias, kernel=kernel)
        if relations < 1:
            raise ConfigError(f"relation-aware attention needs at least one relation, got {relations}")
        self.relation_key_RZ = nn.Parameter(torch.empty(relations, dim // heads))
        self.relation_value_RZ = nn.Parameter(torch.empty(relations, dim // heads))
        for table in (self.relation_key_RZ, self.relation_value_RZ):
            nn.init.xavier_uniform_(table)

    @property
    def relation_value_weights(self) -> Sequence[Weight]:
        return (self.relation_value_RZ,)

    def forward(
        self,
        x_BLD: Tensor,
        keep_BL: Tensor | None = None,
        relation_BLL: Tensor | None = None,
        *,
        checked: bool = False,
        add_input: bool = False,
    ) -> Tensor:
        """z w, with z from Eq. 5; no vector attends to positions with keep False.

        `checked` promises that the ids are in range, because checking them makes a GPU wait. `add_input` gives x + z w.
        """
        kernel = self.kernel_for(x_BLD)
        relation_BLL = require_relations(x_BLD, relation_BLL, len(self.relation_key_RZ), checked=checked)
        if kernel is Kernel.FUSED:
            return self._fused(x_BLD, keep_BL, relation_BLL, add_input)
        q_BHLZ, k_BHLZ, v_BHLZ = (self.split(project(x_BLD)) for project in (self.query, self.key, self.value))
        attend = attend_by_pairs if kernel is Kernel.PLAIN else attend_by_tables
        tables = (self.relation_key_RZ, self.relation_value_RZ)
        z_BHLZ = attend(q_BHLZ, k_BHLZ, v_BHLZ, *tables, relation_BLL.long(), keep_BL)
        branch_BLD = self.output(self.merge(z_BHLZ))
        return x_BLD + branch_BLD if add_input else branch_BLD

    def kernel_for(self, x_BLD: Tensor) -> Kernel:
        """The kernel for this input; never auto."""
        if self.kernel in (Kernel.PLAIN, Kernel.TABLES):
            return self.kernel
        obstacle = self._obstacle_to_fusing(x_BLD)
        if obstacle is None:
            return Kernel.FUSED
        if self.kernel is Kernel.FUSED:
            raise ConfigError(f'the kernel "fused" cannot be used here: {obstacle}; choose kernel="auto" or "tables"')
        return Kernel.TABLES

    def _obstacle_to_fusing(self, x_BLD: Tensor) -> str | None:
        projections = (self.query, self.key, self.value, self.output)
        if any(project.bias is not None for project in projections):
            return "it computes no biases"
        if not all(is_plain_linear(project) for project in projections):
            return "it does not call the layer's linear modules, but one was replaced or has a hook"
        if not has_triton():
            return "it needs the package triton"
        gpu = gpu_of(x_BLD.device) if x_BLD.is_cuda else None
        return obstacle_to_fusing(x_BLD.shape[1], self.heads, len(self.relation_key_RZ), compute_dtype(x_BLD), gpu)

    def _fused(self, x_BLD: Tensor, keep_BL: Tensor | None, relation_BLL: Tensor, add_input: bool) -> Tensor:
        from dtfixup.transformer.relation_kernels import RelationBranch  # Triton is installed on GPU machines only

        dtype = compute_dtype(x_BLD)
        with torch.autocast(x_BLD.device.type, enabled=False):
            branch_BLD: Tensor = RelationBranch.apply(  # type: ignore[no-untyped-call]
                x_BLD,
                self.query.weight,
                self.key.weight,
                self.value.weight,
                self.output.weight,
                self.relation_key_RZ,
                self.relation_value_RZ,
                relation_BLL.to(torch.uint8).contiguous(),
                None if keep_BL is None else keep_BL.bool().contiguous(),
                self.heads,
                dtype,
                add_input,
            )
        return branch_BLD


def compute_dtype(x: Tensor) -> torch.dtype:
    """The type for matrix products: autocast's, if it is on and the input is not double."""
    kind = x.device.type
    narrowed = torch.is_autocast_enabled(kind) and x.dtype is not torch.float64
    return torch.get_autocast_dtype(kind) if narrowed else x.dtype


def is_plain_linear(module: nn.Module) -> bool:
    """Whether calling the module only multiplies by its weight."""
    return type(module) is nn.Linear and not has_hooks(module)


def has_hooks(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def require_relations(x_BLD: Tensor, relation_BLL: Tensor | None, relations: int, *, checked: bool) -> Tensor:
    """The relation ids, or an error that says what is wrong with them."""
    batch, length = x_BLD.shape[:2]
    if relation_BLL is None:
        raise RelationError("a relation-aware layer needs relation ids: pass relation_BLL, shape [B, L, L]")
    if tuple(relation_BLL.shape) != (batch, length, length):
        raise RelationError(
            f"relation ids have shape {tuple(relation_BLL.shape)}, expected {(batch, length, length)} for this input"
        )
    if relation_BLL.is_floating_point():
        raise RelationError(f"relation ids must be integers, got {relation_BLL.dtype}")
    if checked or not relation_BLL.numel():
        return relation_BLL
    low, high = int(relation_BLL.min()), int(relation_BLL.max())
    if low < 0 or high >= relations:
        raise RelationError(
            f"relation ids run from {low} to {high}, but this layer has 0 to {relations - 1}: "
            "build the stack with as many relations as the data has"
        )
    return relation_BLL


def attend_by_pairs(
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
