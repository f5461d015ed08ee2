"""`StreamLimit` on a GPU: one Triton kernel forward and one backward instead of a dozen operations of PyTorch.

Forward, y = s x with a share s for each vector. Backward, dx = s (g - y (y g) / longest^2) where s < 1, else dx = g; it
needs only the output, which the next layer keeps anyway. Tests compare value and gradient with `StreamLimit`.
Legend: B batch, L length, D width, X = B L.
"""

# mypy knows no types of Triton's language, and Triton is installed on GPU machines only.
# mypy: disable-error-code="no-untyped-call,no-untyped-def,misc,untyped-decorator,import-not-found,import-untyped"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from dtfixup.transformer.kernel_choice import power_of_two

_BLOCK = 2048  # numbers per block


@triton.jit
def _shorten(x, y, share, longest, X, D, ROWS: tl.constexpr, DP: tl.constexpr):
    row, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DP)
    real = (row < X)[:, None] & (d < D)[None, :]
    place = row.to(tl.int64)[:, None] * D + d[None, :]
    vector = tl.load(x + place, mask=real, other=0.0).to(tl.float32)
    length, most = tl.sqrt(tl.sum(vector * vector, 1)), tl.load(longest)
    s = tl.where(length > most, most / tl.maximum(length, most), 1.0)  # a GPU's most / most may be less than 1
    tl.store(share + row, s, mask=row < X)
    tl.store(y + place, (vector * s[:, None]).to(y.dtype.element_ty), mask=real)


@triton.jit
def _shorten_backward(g, y, share, longest, dx, X, D, ROWS: tl.constexpr, DP: tl.constexpr):
    row, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DP)
    real = (row < X)[:, None] & (d < D)[None, :]
    place = row.to(tl.int64)[:, None] * D + d[None, :]
    gradient = tl.load(g + place, mask=real, other=0.0).to(tl.float32)
    vector = tl.load(y + place, mask=real, other=0.0).to(tl.float32)
    s, most = tl.load(share + row, mask=row < X, other=1.0), tl.load(longest)
    along = tl.where(s < 1, tl.sum(gradient * vector, 1) / most / most, 0.0)
    tl.store(dx + place, (s[:, None] * (gradient - along[:, None] * vector)).to(dx.dtype.element_ty), mask=real)


class LimitRows(torch.autograd.Function):
    """Shorten vectors that are longer than `longest` to that length."""

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


def _launch(kernel: Any, *tensors: Tensor, shape: torch.Size) -> None:
    width = power_of_two(shape[-1])
    rows, count = max(1, _BLOCK // width), shape[:-1].numel()
    if count:
        kernel[(triton.cdiv(count, rows),)](*tensors, count, shape[-1], ROWS=rows, DP=width)
