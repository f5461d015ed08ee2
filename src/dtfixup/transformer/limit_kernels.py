"""`StreamLimit` on a GPU: one Triton kernel forward and one backward, where PyTorch's own operations take a dozen.

`LimitRows`, y = s x with a share s for each vector: where s < 1, dx = s (g - y (y g) / longest^2). `LimitSteps` limits
what a layer adds, d = y - x, first: z = x + r d, out = s z. From dz, made as dx above, dy = r (dz - d (d dz) / |d|^2)
and dx = dz - dy where r < 1, else dy = dz and dx = 0. Backward needs what comes out, which the next layer keeps anyway,
and in the second case y. Equal to `StreamLimit` in value and gradient; tests hold it to that.
Legend: B batch, L length, D width, X = B L.
"""

# Triton's language has no types that mypy knows, and Triton is there on GPU machines alone.
# mypy: disable-error-code="no-untyped-call,no-untyped-def,misc,untyped-decorator,import-not-found,import-untyped"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from dtfixup.transformer.kernel_choice import power_of_two

_BLOCK = 2048  # numbers of a block


@triton.jit
def _share_of(vector, most):
    """What is left of a vector, 1 where it is short enough: a GPU's most / most may be less than that."""
    length = tl.sqrt(tl.sum(vector * vector, 1))
    return tl.where(length > most, most / tl.maximum(length, most), 1.0)


@triton.jit
def _gradient_of(gradient, shortened, share, most):
    """Of the vector before it was shortened."""
    along = tl.where(share < 1, tl.sum(gradient * shortened, 1) / most / most, 0.0)
    return share[:, None] * (gradient - along[:, None] * shortened)


@triton.jit
def _shorten(x, y, share, longest, X, D, ROWS: tl.constexpr, DP: tl.constexpr):
    row, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DP)
    real = (row < X)[:, None] & (d < D)[None, :]
    place = row.to(tl.int64)[:, None] * D + d[None, :]
    vector = tl.load(x + place, mask=real, other=0.0).to(tl.float32)
    s = _share_of(vector, tl.load(longest))
    tl.store(share + row, s, mask=row < X)
    tl.store(y + place, (vector * s[:, None]).to(y.dtype.element_ty), mask=real)


@triton.jit
def _shorten_backward(g, y, share, longest, dx, X, D, ROWS: tl.constexpr, DP: tl.constexpr):
    row, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DP)
    real = (row < X)[:, None] & (d < D)[None, :]
    place = row.to(tl.int64)[:, None] * D + d[None, :]
    gradient = tl.load(g + place, mask=real, other=0.0).to(tl.float32)
    vector = tl.load(y + place, mask=real, other=0.0).to(tl.float32)
    s = tl.load(share + row, mask=row < X, other=1.0)
    tl.store(dx + place, _gradient_of(gradient, vector, s, tl.load(longest)).to(dx.dtype.element_ty), mask=real)


@triton.jit
def _step(x, y, out, moved, share, most_added, longest, X, D, LIMITED: tl.constexpr, ROWS: tl.constexpr,
          DP: tl.constexpr):  # fmt: skip
    row, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DP)
    real = (row < X)[:, None] & (d < D)[None, :]
    place = row.to(tl.int64)[:, None] * D + d[None, :]
    before = tl.load(x + place, mask=real, other=0.0).to(tl.float32)
    after = tl.load(y + place, mask=real, other=0.0).to(tl.float32)
    r = _share_of(after - before, tl.load(most_added))
    vector = tl.where((r < 1)[:, None], before + r[:, None] * (after - before), after)
    tl.store(moved + row, r, mask=row < X)
    if LIMITED:
        s = _share_of(vector, tl.load(longest))
        tl.store(share + row, s, mask=row < X)
        vector = vector * s[:, None]
    tl.store(out + place, vector.to(out.dtype.element_ty), mask=real)


@triton.jit
def _step_backward(g, x, y, out, moved, share, most_added, longest, dx, dy, X, D, LIMITED: tl.constexpr,
                   ROWS: tl.constexpr, DP: tl.constexpr):  # fmt: skip
    row, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DP)
    real = (row < X)[:, None] & (d < D)[None, :]
    place = row.to(tl.int64)[:, None] * D + d[None, :]
    gradient = tl.load(g + place, mask=real, other=0.0).to(tl.float32)
    if LIMITED:
        vector = tl.load(out + place, mask=real, other=0.0).to(tl.float32)
        s = tl.load(share + row, mask=row < X, other=1.0)
        gradient = _gradient_of(gradient, vector, s, tl.load(longest))
    before = tl.load(x + place, mask=real, other=0.0).to(tl.float32)
    added = tl.load(y + place, mask=real, other=0.0).to(tl.float32) - before
    r = tl.load(moved + row, mask=row < X, other=1.0)
    part = _gradient_of(gradient, r[:, None] * added, r, tl.load(most_added))
    tl.store(dy + place, part.to(dy.dtype.element_ty), mask=real)
    tl.store(dx + place, (gradient - part).to(dx.dtype.element_ty), mask=real)


class LimitRows(torch.autograd.Function):
    """x → x, where it is longer than `longest` shortened to it."""

    @staticmethod
    def forward(ctx: Any, x_BLD: Tensor, longest: Tensor) -> Tensor:
        x_BLD = x_BLD.contiguous()
        y_BLD = torch.empty_like(x_BLD)
        share_X = torch.empty(x_BLD.shape[:-1].numel(), device=x_BLD.device)
        _launch(_shorten, x_BLD, y_BLD, share_X, longest, shape=x_BLD.shape)
        ctx.save_for_backward(y_BLD, share_X, longest)
        return y_BLD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        y_BLD, share_X, longest = ctx.saved_tensors
        dx_BLD = torch.empty_like(y_BLD)
        _launch(_shorten_backward, gradients[0].contiguous(), y_BLD, share_X, longest, dx_BLD, shape=y_BLD.shape)
        return dx_BLD, None


class LimitSteps(torch.autograd.Function):
    """x that goes into a layer, y that comes out → y, no further from x than `added`, and no longer than `longest`."""

    @staticmethod
    def forward(ctx: Any, x_BLD: Tensor, y_BLD: Tensor, added: Tensor, longest: Tensor | None) -> Tensor:
        x_BLD, y_BLD = x_BLD.contiguous(), y_BLD.contiguous()
        out_BLD = torch.empty_like(y_BLD)
        moved_X, share_X = torch.empty(2, y_BLD.shape[:-1].numel(), device=y_BLD.device)
        ctx.is_limited = longest is not None
        longest = added if longest is None else longest  # a place that is not looked at
        places = (moved_X, share_X, added, longest)
        _launch(_step, x_BLD, y_BLD, out_BLD, *places, shape=y_BLD.shape, LIMITED=ctx.is_limited)
        ctx.save_for_backward(x_BLD, y_BLD, out_BLD, *places)
        return out_BLD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x_BLD, y_BLD, *kept = ctx.saved_tensors
        dx_BLD, dy_BLD = torch.empty_like(x_BLD), torch.empty_like(y_BLD)
        tensors = (gradients[0].contiguous(), x_BLD, y_BLD, *kept, dx_BLD, dy_BLD)
        _launch(_step_backward, *tensors, shape=y_BLD.shape, LIMITED=ctx.is_limited)
        return dx_BLD, dy_BLD, None, None


def _launch(kernel: Any, *tensors: Tensor, shape: torch.Size, **constants: bool) -> None:
    width = power_of_two(shape[-1])
    rows, count = max(1, _BLOCK // width), shape[:-1].numel()
    if count:
        kernel[(triton.cdiv(count, rows),)](*tensors, count, shape[-1], **constants, ROWS=rows, DP=width)
