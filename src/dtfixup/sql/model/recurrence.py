"""The decoder's recurrence along a given derivation in Triton kernels, as one autograd function.

Forward, a step is three matrix products and three small kernels. Backward, the gradient of a weight is one product over
all steps at the end, and the gradients of a parent's state from its children are summed in one buffer. Tests compare
values and gradients with `Decoder.run_plain`. It needs a GPU, and widths that are powers of two.
Legend: S steps, B batch, D width of the stack, M width of the LSTM, G = 4 M, H heads, Z = D / H, N keys, X = D + 2 M:
the recurrent input [z | h of the parent | h]. Step t reads row t of the states and writes row t + 1.
"""

# Triton's language has no types that mypy knows.
# mypy: disable-error-code="no-untyped-call,no-untyped-def,misc,untyped-decorator,import-not-found,import-untyped"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dtfixup.transformer.kernel_choice import power_of_two


@triton.jit(do_not_specialize=["t", "steps", "B"])
def _cell(
    known, gates, cell, hidden, acts, inputs, parent, t, steps, B,
    D: tl.constexpr, M: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """The LSTM cell of step t, and h of the next step's input."""
    b, column = tl.program_id(0), tl.program_id(1) * W + tl.arange(0, W)
    row = (b * steps + t).to(tl.int64) * 4 * M + column
    raw = b * 4 * M + column
    enter = tl.sigmoid(tl.load(known + row) + tl.load(gates + raw))
    forget = tl.sigmoid(tl.load(known + row + M) + tl.load(gates + raw + M))
    new = 2 * tl.sigmoid(2 * (tl.load(known + row + 2 * M) + tl.load(gates + raw + 2 * M))) - 1
    leave = tl.sigmoid(tl.load(known + row + 3 * M) + tl.load(gates + raw + 3 * M))
    place = (t * B + b).to(tl.int64)
    m = forget * tl.load(cell + place * M + column) + enter * new
    h = leave * (2 * tl.sigmoid(2 * m) - 1)
    saved = acts + place * 4 * M + column
    tl.store(saved, enter)
    tl.store(saved + M, forget)
    tl.store(saved + 2 * M, new)
    tl.store(saved + 3 * M, leave)
    tl.store(cell + (place + B) * M + column, m)
    tl.store(hidden + (place + B) * M + column, h)
    if t + 1 < steps:
        above = tl.load(parent + b * steps + t + 1)  # -1 is row 0, which is zero
        earlier = tl.load(
            hidden + ((above + 1) * B + b).to(tl.int64) * M + column, mask=column * 0 + above < t, other=0.0
        )
        following = inputs + (place + B) * (D + 2 * M) + D + column
        tl.store(following, tl.where(above == t, h, earlier))
        tl.store(following + M, h)


@triton.jit(do_not_specialize=["t", "B"])
def _attend(
    query, key, value, keep, weights, context, N, scale, t, B,
    H: tl.constexpr, Z: tl.constexpr, NP: tl.constexpr,
):  # fmt: skip
    """The context of one head at step t."""
    b, h = tl.program_id(0) // H, tl.program_id(0) % H
    n, z = tl.arange(0, NP), tl.arange(0, Z)
    place = (t * B + b).to(tl.int64)
    real = n < N
    at = ((b * H + h) * N + n).to(tl.int64)[:, None] * Z + z[None, :]
    q = tl.load(query + place * H * Z + h * Z + z)
    k = tl.load(key + at, mask=real[:, None], other=0.0)
    kept = tl.load(keep + b * N + n, mask=real, other=0)
    x = tl.sum(k * q[None, :], 1) * scale
    x = tl.where(kept != 0, x, -1e9)
    x = tl.where(real, x, -float("inf"))
    p = tl.exp(x - tl.max(x, 0))
    p = p / tl.sum(p, 0)
    tl.store(weights + (place * H + h) * N + n, p, mask=real)
    v = tl.load(value + at, mask=real[:, None], other=0.0)
    tl.store(context + place * H * Z + h * Z + z, tl.sum(v * p[:, None], 0))


@triton.jit(do_not_specialize=["t", "steps", "B"])
def _drop(
    output, drop, dropped, inputs, t, steps, B,
    D: tl.constexpr, M: tl.constexpr, HAS_DROP: tl.constexpr,
):  # fmt: skip
    """Apply dropout to z, keep it, and copy it to the next step's input."""
    b, d = tl.program_id(0), tl.arange(0, D)
    z = tl.load(output + b * D + d)
    if HAS_DROP:
        z *= tl.load(drop + (b * steps + t).to(tl.int64) * D + d)
    place = (t * B + b).to(tl.int64)
    tl.store(dropped + place * D + d, z)
    if t + 1 < steps:
        tl.store(inputs + (place + B) * (D + 2 * M) + d, z)


@triton.jit(do_not_specialize=["t", "steps", "B"])
def _drop_backward(
    d_features, d_inputs, drop, parent, d_output, d_children, t, steps, B,
    D: tl.constexpr, M: tl.constexpr, HAS_DROP: tl.constexpr,
):  # fmt: skip
    """The gradient of z before dropout, and the gradient of the parent's state from step t + 1."""
    b, d, column = tl.program_id(0), tl.arange(0, D), tl.arange(0, M)
    place = (t * B + b).to(tl.int64)
    row = (b * steps + t).to(tl.int64)
    g = tl.load(d_features + row * (M + D) + M + d)
    if t + 1 < steps:
        following = d_inputs + (place + B) * (D + 2 * M)
        g += tl.load(following + d)
        above = tl.load(parent + b * steps + t + 1)
        child = d_children + ((above + 1) * B + b).to(tl.int64) * M + column
        tl.store(child, tl.load(child) + tl.load(following + D + column))
    if HAS_DROP:
        g *= tl.load(drop + row * D + d)
    tl.store(d_output + place * D + d, g)


@triton.jit(do_not_specialize=["t", "B"])
def _attend_backward(
    key, value, weights, d_context, d_weights, d_query, N, scale, t, B,
    H: tl.constexpr, Z: tl.constexpr, NP: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0) // H, tl.program_id(0) % H
    n, z = tl.arange(0, NP), tl.arange(0, Z)
    place = (t * B + b).to(tl.int64)
    real = n < N
    at = ((b * H + h) * N + n).to(tl.int64)[:, None] * Z + z[None, :]
    g = tl.load(d_context + place * H * Z + h * Z + z)
    p = tl.load(weights + (place * H + h) * N + n, mask=real, other=0.0)
    v = tl.load(value + at, mask=real[:, None], other=0.0)
    d = tl.sum(v * g[None, :], 1)
    d = p * (d - tl.sum(p * d, 0)) * scale
    tl.store(d_weights + (place * H + h) * N + n, d, mask=real)
    k = tl.load(key + at, mask=real[:, None], other=0.0)
    tl.store(d_query + place * H * Z + h * Z + z, tl.sum(k * d[:, None], 0))


@triton.jit(do_not_specialize=["t", "steps", "B"])
def _cell_backward(
    d_features, d_hidden, d_inputs, d_children, d_cell, acts, cell, d_gates, t, steps, B,
    D: tl.constexpr, M: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    b, column = tl.program_id(0), tl.program_id(1) * W + tl.arange(0, W)
    place = (t * B + b).to(tl.int64)
    g = tl.load(d_features + (b * steps + t).to(tl.int64) * (M + D) + column)
    g += tl.load(d_hidden + b * M + column) + tl.load(d_children + (place + B) * M + column)
    if t + 1 < steps:
        g += tl.load(d_inputs + (place + B) * (D + 2 * M) + D + M + column)
    saved = acts + place * 4 * M + column
    enter, forget, new, leave = tl.load(saved), tl.load(saved + M), tl.load(saved + 2 * M), tl.load(saved + 3 * M)
    squashed = 2 * tl.sigmoid(2 * tl.load(cell + (place + B) * M + column)) - 1
    carried = d_cell + b * M + column
    dm = tl.load(carried) + g * leave * (1 - squashed * squashed)
    tl.store(carried, dm * forget)
    out = d_gates + place * 4 * M + column
    tl.store(out, dm * new * enter * (1 - enter))
    tl.store(out + M, dm * tl.load(cell + place * M + column) * forget * (1 - forget))
    tl.store(out + 2 * M, dm * enter * (1 - new * new))
    tl.store(out + 3 * M, g * squashed * leave * (1 - leave))


class Recurrence(torch.autograd.Function):
    """(known gates, parents, memory, weights) → [B, S, M + D]: h and z of every step."""

    @staticmethod
    def forward(
        ctx: Any,
        known_BSG: Tensor,
        key_BHNZ: Tensor,
        value_BHNZ: Tensor,
        recurrent_GX: Tensor,
        query_DM: Tensor,
        query_bias_D: Tensor,
        output_DD: Tensor,
        output_bias_D: Tensor,
        parent_BS: Tensor,
        keep_BN: Tensor,
        drop_BSD: Tensor | None,
    ) -> Tensor:
        B, S, G = known_BSG.shape
        H, N, Z = key_BHNZ.shape[1:]
        M, D = G // 4, H * Z
        new = known_BSG.new_empty
        inputs_SBX, hidden_SBM = new(S, B, D + 2 * M), new(S + 1, B, M)
        cell_SBM, acts_SBG = new(S + 1, B, M), new(S, B, G)
        inputs_SBX[0].zero_(), hidden_SBM[0].zero_(), cell_SBM[0].zero_()
        query_SBD, weights_SBHN, context_SBD, z_SBD = new(S, B, D), new(S, B, H, N), new(S, B, D), new(S, B, D)
        gates_BG, output_BD = new(B, G), new(B, D)
        width = min(M, 256)
        drop = known_BSG if drop_BSD is None else drop_BSD
        heads = {"H": H, "Z": Z, "NP": power_of_two(N)}
        for t in range(S):
            torch.mm(inputs_SBX[t], recurrent_GX.T, out=gates_BG)
            _cell[(B, M // width)](
                known_BSG, gates_BG, cell_SBM, hidden_SBM, acts_SBG, inputs_SBX, parent_BS, t, S, B, D=D, M=M, W=width
            )
            torch.addmm(query_bias_D, hidden_SBM[t + 1], query_DM.T, out=query_SBD[t])
            _attend[(B * H,)](
                query_SBD, key_BHNZ, value_BHNZ, keep_BN, weights_SBHN, context_SBD, N, Z**-0.5, t, B, **heads
            )
            torch.addmm(output_bias_D, context_SBD[t], output_DD.T, out=output_BD)
            _drop[(B,)](output_BD, drop, z_SBD, inputs_SBX, t, S, B, D=D, M=M, HAS_DROP=drop_BSD is not None)
        ctx.save_for_backward(
            key_BHNZ, value_BHNZ, recurrent_GX, query_DM, output_DD, parent_BS, drop_BSD,
            inputs_SBX, hidden_SBM, cell_SBM, acts_SBG, query_SBD, weights_SBHN, context_SBD,
        )  # fmt: skip
        return torch.cat([hidden_SBM[1:], z_SBD], -1).transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (
            key, value, recurrent_GX, query_DM, output_DD, parent_BS, drop_BSD,
            inputs_SBX, hidden_SBM, cell_SBM, acts_SBG, query_SBD, weights_SBHN, context_SBD,
        ) = ctx.saved_tensors  # fmt: skip
        d_features_BSF = gradients[0].contiguous()
        S, B, G = acts_SBG.shape
        H, N, Z = key.shape[1:]
        M, D = G // 4, H * Z
        new = acts_SBG.new_empty
        d_inputs_SBX, d_gates_SBG, d_output_SBD = new(S, B, D + 2 * M), new(S, B, G), new(S, B, D)
        d_context_SBD, d_weights_SBHN, d_query_SBD = new(S, B, D), new(S, B, H, N), new(S, B, D)
        d_children_SBM, d_cell_BM, d_hidden_BM = acts_SBG.new_zeros(S + 1, B, M), acts_SBG.new_zeros(B, M), new(B, M)
        width = min(M, 256)
        drop = acts_SBG if drop_BSD is None else drop_BSD
        heads = {"H": H, "Z": Z, "NP": power_of_two(N)}
        for t in reversed(range(S)):
            _drop_backward[(B,)](
                d_features_BSF, d_inputs_SBX, drop, parent_BS, d_output_SBD, d_children_SBM, t, S, B,
                D=D, M=M, HAS_DROP=drop_BSD is not None,
            )  # fmt: skip
            torch.mm(d_output_SBD[t], output_DD, out=d_context_SBD[t])
            _attend_backward[(B * H,)](
                key, value, weights_SBHN, d_context_SBD, d_weights_SBHN, d_query_SBD, N, Z**-0.5, t, B, **heads
            )
            torch.mm(d_query_SBD[t], query_DM, out=d_hidden_BM)
            _cell_backward[(B, M // width)](
                d_features_BSF, d_hidden_BM, d_inputs_SBX, d_children_SBM, d_cell_BM, acts_SBG, cell_SBM, d_gates_SBG,
                t, S, B, D=D, M=M, W=width,
            )  # fmt: skip
            torch.mm(d_gates_SBG[t], recurrent_GX, out=d_inputs_SBX[t])
        d_query = d_query_SBD.view(S * B, D)
        d_output = d_output_SBD.view(S * B, D)
        by_head = (S, B * H, Z)
        return (
            d_gates_SBG.transpose(0, 1),
            _sum_outer(d_weights_SBHN.view(S, B * H, N), query_SBD.view(by_head)).view_as(key),
            _sum_outer(weights_SBHN.view(S, B * H, N), d_context_SBD.view(by_head)).view_as(value),
            d_gates_SBG.view(S * B, G).T @ inputs_SBX.view(S * B, -1),
            d_query.T @ hidden_SBM[1:].reshape(S * B, M),
            d_query.sum(0),
            d_output.T @ context_SBD.view(S * B, D),
            d_output.sum(0),
            None,
            None,
            None,
        )


def _sum_outer(left_SYN: Tensor, right_SYZ: Tensor) -> Tensor:
    """[Y, N, Z]: over all steps, the sum of outer products."""
    return torch.bmm(left_SYN.permute(1, 2, 0), right_SYZ.transpose(0, 1))
