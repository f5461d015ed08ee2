"""The fast form of relation-aware attention on a GPU: matrix products around one Triton kernel per query row.

Keys are extended by the relation keys, values by the relation values: one product gives the logits of every key and the
table q r^k of every relation id side by side, [L | R]; the kernel adds to each logit the entry its relation names,
takes the softmax, and sums the weights per relation (a product with a one-hot matrix); one product with the extended
values gives z. Backward mirrors this. Both kernels work in place, so one tensor of [H B, L, M] per layer is kept.
Tests compare value and gradient with `attend_by_pairs`.
Legend: B batch, H heads, L length (i the query, j the key), D width, Z width of a head, R relations, M = L + R rounded
up to a multiple of 8, E = 3 D, X = B L, Y = H B, I inner width of the MLP.
"""

# mypy knows no types of Triton's language, and Triton is installed on GPU machines only.
# mypy: disable-error-code="no-untyped-call,no-untyped-def,misc,untyped-decorator,import-not-found,import-untyped"

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from dtfixup.transformer.kernel_choice import block_of_heads, power_of_two

_ALIGNED = 8  # products are slow unless rows begin at a multiple of so many two-byte numbers


@triton.jit
def _softmax_row(
    score, relation, keep, L, M, B, scale,
    H: tl.constexpr, HP: tl.constexpr, R: tl.constexpr, RP: tl.constexpr, J: tl.constexpr,
    HAS_KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """[logits | table] of one query, all heads → [weights | weights summed per relation]."""
    row = tl.program_id(0)  # b L + i
    b, i = row // L, row % L
    h, j, r = tl.arange(0, HP), tl.arange(0, J), tl.arange(0, RP)
    start = ((h * B + b) * L + i).to(tl.int64) * M
    real_h, real_j = h < H, j < L
    real = real_h[:, None] & real_j[None, :]
    place = score + start[:, None] + j[None, :]
    related = tl.load(relation + row.to(tl.int64) * L + j, mask=real_j, other=0).to(tl.int32)
    x = tl.load(place, mask=real, other=0.0).to(tl.float32)
    x += tl.load(score + start[:, None] + L + related[None, :], mask=real, other=0.0).to(tl.float32)
    x *= scale
    if HAS_KEEP:
        kept = tl.load(keep + b * L + j, mask=real_j, other=0)
        x = tl.where(kept[None, :] != 0, x, -1e30)
    x = tl.where(real_j[None, :], x, -float("inf"))
    p = tl.exp(x - tl.max(x, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    weight = p.to(score.dtype.element_ty)
    hit = (related[:, None] == r[None, :]) & real_j[:, None]
    mass = tl.dot(weight, hit.to(score.dtype.element_ty), input_precision=PRECISION)
    tl.debug_barrier()  # all threads read the table before it is overwritten
    tl.store(place, weight, mask=real)
    real_r = real_h[:, None] & (r < R)[None, :]
    tl.store(score + start[:, None] + L + r[None, :], mass.to(score.dtype.element_ty), mask=real_r)


@triton.jit
def _softmax_row_backward(
    weight, gradient, relation, keep, L, M, B, scale,
    H: tl.constexpr, HP: tl.constexpr, R: tl.constexpr, RP: tl.constexpr, J: tl.constexpr,
    HAS_KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of [weights | sums] → gradients of [logits | table], in place."""
    row = tl.program_id(0)
    b, i = row // L, row % L
    h, j, r = tl.arange(0, HP), tl.arange(0, J), tl.arange(0, RP)
    start = ((h * B + b) * L + i).to(tl.int64) * M
    real_h, real_j = h < H, j < L
    real = real_h[:, None] & real_j[None, :]
    place = start[:, None] + j[None, :]
    related = tl.load(relation + row.to(tl.int64) * L + j, mask=real_j, other=0).to(tl.int32)
    p = tl.load(weight + place, mask=real, other=0.0).to(tl.float32)
    d = tl.load(gradient + place, mask=real, other=0.0).to(tl.float32)
    d += tl.load(gradient + start[:, None] + L + related[None, :], mask=real, other=0.0).to(tl.float32)
    d = p * (d - tl.sum(p * d, 1)[:, None]) * scale
    if HAS_KEEP:  # if no key is kept, the weights are not zero, but do not depend on the logits
        kept = tl.load(keep + b * L + j, mask=real_j, other=0)
        d = tl.where(kept[None, :] != 0, d, 0.0)
    change = d.to(gradient.dtype.element_ty)
    hit = (related[:, None] == r[None, :]) & real_j[:, None]
    table = tl.dot(change, hit.to(gradient.dtype.element_ty), input_precision=PRECISION)
    tl.debug_barrier()
    tl.store(gradient + place, change, mask=real)
    real_r = real_h[:, None] & (r < R)[None, :]
    tl.store(gradient + start[:, None] + L + r[None, :], table.to(gradient.dtype.element_ty), mask=real_r)


@triton.jit
def _sum_over_heads(
    extended, table, M, L, relations, Y: tl.constexpr, Z: tl.constexpr, ZP: tl.constexpr, YB: tl.constexpr
):
    """Row r of a table's gradient: the sum over heads and batch of row L + r."""
    which, r = tl.program_id(0), tl.program_id(1)
    y, z = tl.arange(0, YB), tl.arange(0, ZP)
    total = tl.zeros([ZP], tl.float32)
    for first in range(0, Y, YB):
        row = ((which * Y + first + y).to(tl.int64) * M + L + r) * Z
        real = (first + y < Y)[:, None] & (z < Z)[None, :]
        part = tl.load(extended + row[:, None] + z[None, :], mask=real, other=0.0)
        total += tl.sum(part.to(tl.float32), 0)
    tl.store(table + (which * relations + r) * Z + z, total, mask=z < Z)


def _launch_sizes(length: int) -> dict[str, int]:
    keys = power_of_two(length)
    return {"J": keys, "num_warps": 4 if keys <= 512 else 8}  # the fastest on an H200


def _precision(dtype: torch.dtype) -> str:
    exact = dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    return "ieee" if exact else "tf32"


@lru_cache
def _second_stream(device: torch.device, main: int) -> torch.cuda.Stream:
    """The second stream of a main one; each has its own, so that main streams never share memory unnoticed."""
    return torch.cuda.Stream(device)


class _Beside:
    """Two streams of a pass: the caller's, and a second one for work that nothing needs before `meet`.

    The gradients of weights are half of a backward pass, and few of its products fill a GPU. Leaving the block always
    joins the streams, so memory that was allocated in it may be freed.
    """

    def __init__(self, device: torch.device) -> None:
        self._main = torch.cuda.current_stream(device) if device.type == "cuda" else None
        if self._main is not None:
            self._second = _second_stream(device, self._main.stream_id)

    def __enter__(self) -> "_Beside":
        return self

    def __exit__(self, *error: object) -> None:
        self.meet()

    @contextmanager
    def fork(self) -> Iterator[None]:
        """Kernels launched inside run beside those launched afterwards."""
        if self._main is None:
            yield
            return
        self._second.wait_stream(self._main)
        with torch.cuda.stream(self._second):
            yield

    def meet(self) -> None:
        """Wait for everything that was launched inside `fork`."""
        if self._main is not None:
            self._main.wait_stream(self._second)


def _join(stream_BLD: Tensor, left_XI: Tensor, right_ID: Tensor, add: bool) -> Tensor:
    """A product in the stream's shape and type, added to the stream if `add`, in as few kernels as possible."""
    if add and left_XI.dtype == stream_BLD.dtype:
        return torch.addmm(stream_BLD.flatten(0, 1), left_XI, right_ID).view_as(stream_BLD)
    product_BLD = (left_XI @ right_ID).view_as(stream_BLD)
    return stream_BLD + product_BLD if add else product_BLD.to(stream_BLD.dtype)


def _project_heads(x_XD: Tensor, weight_ED: Tensor, heads: int) -> Tensor:
    """[heads, X, Z]: x times the transpose of each head's part of the weight."""
    return torch.bmm(x_XD.expand(heads, -1, -1), weight_ED.reshape(heads, -1, x_XD.shape[1]).mT)


class RelationBranch(torch.autograd.Function):
    """x → z w, or x + z w with `add_input`; the products run in `dtype`."""

    @staticmethod
    def forward(
        ctx: Any,
        x_BLD: Tensor,
        query_DD: Tensor,
        key_DD: Tensor,
        value_DD: Tensor,
        output_DD: Tensor,
        relation_key_RZ: Tensor,
        relation_value_RZ: Tensor,
        relation_BLL: Tensor,
        keep_BL: Tensor | None,
        heads: int,
        dtype: torch.dtype,
        add_input: bool,
    ) -> Tensor:
        B, L, D = x_BLD.shape
        Z, R = D // heads, len(relation_key_RZ)
        flat_XD = x_BLD.reshape(B * L, D)
        x_XD = flat_XD.to(dtype)
        project_ED = torch.cat([query_DD, key_DD, value_DD]).to(dtype)
        out_DD = output_DD.to(dtype)
        table_2RZ = torch.stack([relation_key_RZ, relation_value_RZ]).to(dtype)
        filling = -(L + R) % _ALIGNED
        if filling:
            table_2RZ = torch.nn.functional.pad(table_2RZ, (0, 0, 0, filling))
        M = L + R + filling
        # Heads come first: heads and batch are one dimension of every product.
        qkv_EXZ = _project_heads(x_XD, project_ED, 3 * heads)
        q_YLZ = qkv_EXZ[:heads].view(heads * B, L, Z)
        extended_2YMZ = torch.cat(
            [qkv_EXZ[heads:].view(2, heads * B, L, Z), table_2RZ[:, None].expand(-1, heads * B, -1, -1)], 2
        )
        weight_YLM = torch.bmm(q_YLZ, extended_2YMZ[0].mT)
        sizes: dict[str, Any] = {
            "H": heads,
            "HP": block_of_heads(heads),
            "R": R,
            "RP": power_of_two(R),
            "HAS_KEEP": keep_BL is not None,
            "PRECISION": _precision(dtype),
            **_launch_sizes(L),
        }
        keep = relation_BLL if keep_BL is None else keep_BL
        _softmax_row[(B * L,)](weight_YLM, relation_BLL, keep, L, M, B, Z**-0.5, **sizes)
        z_YLZ = torch.bmm(weight_YLM, extended_2YMZ[1])
        z_XD = z_YLZ.view(heads, B, L, Z).permute(1, 2, 0, 3).reshape(B * L, D)
        ctx.save_for_backward(x_XD, project_ED, out_DD, extended_2YMZ, weight_YLM, z_XD, relation_BLL, keep)
        ctx.heads, ctx.sizes, ctx.relations, ctx.add_input = heads, sizes, R, add_input
        ctx.weight_dtype, ctx.table_dtype = query_DD.dtype, relation_key_RZ.dtype
        return _join(x_BLD, z_XD, out_DD.T, add_input)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient_BLD,) = gradients
        x_XD, project_ED, out_DD, extended_2YMZ, weight_YLM, z_XD, relation_BLL, keep = ctx.saved_tensors
        heads, R = ctx.heads, ctx.relations
        B, L, D = gradient_BLD.shape
        Z, M = D // heads, extended_2YMZ.shape[2]
        flat_XD = gradient_BLD.reshape(B * L, D)
        g_XD = flat_XD.to(x_XD.dtype)
        device = x_XD.device
        with _Beside(device) as beside:
            with beside.fork():
                d_output_DD = g_XD.T @ z_XD
                q_YLZ = _project_heads(x_XD, project_ED[:D], heads).view(heads * B, L, Z)  # cheaper than to keep it
            dz_YLZ = _project_heads(g_XD, out_DD.T, heads).view(heads * B, L, Z)
            d_extended_2YMZ = torch.empty_like(extended_2YMZ)
            with beside.fork():
                torch.bmm(weight_YLM.mT, dz_YLZ, out=d_extended_2YMZ[1])
            d_weight_YLM = torch.bmm(dz_YLZ, extended_2YMZ[1].mT)
            _softmax_row_backward[(B * L,)](weight_YLM, d_weight_YLM, relation_BLL, keep, L, M, B, Z**-0.5, **ctx.sizes)
            with beside.fork():
                torch.bmm(d_weight_YLM.mT, q_YLZ, out=d_extended_2YMZ[0])
            dq_YLZ = torch.bmm(d_weight_YLM, extended_2YMZ[0])
            beside.meet()
            d_qkv_XE = torch.empty(B * L, 3 * D, dtype=x_XD.dtype, device=device)
            d_qkv_BL3HZ = d_qkv_XE.view(B, L, 3, heads, Z)
            d_qkv_BL3HZ[:, :, 0].copy_(dq_YLZ.view(heads, B, L, Z).permute(1, 2, 0, 3))
            d_qkv_BL3HZ[:, :, 1:].copy_(d_extended_2YMZ[:, :, :L].unflatten(1, (heads, B)).permute(2, 3, 0, 1, 4))
            with beside.fork():
                d_project_ED = d_qkv_XE.T @ x_XD
                d_table_2RZ = torch.empty(2, R, Z, device=device)
                sizes = {"Y": heads * B, "Z": Z, "ZP": power_of_two(Z), "YB": 128}
                _sum_over_heads[(2, R)](d_extended_2YMZ, d_table_2RZ, M, L, R, **sizes)
            dx_BLD = _join(gradient_BLD, d_qkv_XE, project_ED, ctx.add_input)
        weights = (*d_project_ED.to(ctx.weight_dtype).chunk(3), d_output_DD.to(ctx.weight_dtype))
        return (dx_BLD, *weights, *d_table_2RZ.to(ctx.table_dtype), *(None,) * 5)


class MlpBranch(torch.autograd.Function):
    """x → relu(x up) down, or x + relu(x up) down with `add_input`; the products run in `dtype`."""

    @staticmethod
    def forward(ctx: Any, x_BLD: Tensor, up_ID: Tensor, down_DI: Tensor, dtype: torch.dtype, add_input: bool) -> Tensor:
        flat_XD = x_BLD.flatten(0, 1)
        x_XD, up, down = flat_XD.to(dtype), up_ID.to(dtype), down_DI.to(dtype)
        inner_XI = (x_XD @ up.T).relu_()
        ctx.save_for_backward(x_XD, up, down, inner_XI)
        ctx.add_input, ctx.weight_dtype = add_input, up_ID.dtype
        return _join(x_BLD, inner_XI, down.T, add_input)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient_BLD,) = gradients
        x_XD, up, down, inner_XI = ctx.saved_tensors
        flat_XD = gradient_BLD.flatten(0, 1)
        g_XD = flat_XD.to(x_XD.dtype)
        with _Beside(x_XD.device) as beside:
            with beside.fork():
                d_down = g_XD.T @ inner_XI
            d_inner_XI = torch.ops.aten.threshold_backward(g_XD @ down, inner_XI, 0)
            with beside.fork():
                d_up = d_inner_XI.T @ x_XD
            dx_BLD = _join(gradient_BLD, d_inner_XI, up, ctx.add_input)
        return dx_BLD, d_up.to(ctx.weight_dtype), d_down.to(ctx.weight_dtype), None, None
