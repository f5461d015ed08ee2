"""The fused limit against `StreamLimit`, in value and gradient; on a GPU, or in Triton's interpreter.

Legend: B batch, L length, D width.
"""

from unittest.mock import patch

import pytest
import torch

from dtfixup.fixup import StreamLimit, dt_fixup_
from dtfixup.transformer import Kernel, StackConfig, TransformerStack
from tests.interpreter import DEVICE, GPU, needs_interpreter, run_interpreted, runs_kernels


@needs_interpreter
def test_without_a_gpu_tritons_interpreter_runs_these_tests() -> None:
    run_interpreted(__file__)


@runs_kernels
@pytest.mark.parametrize("shape", [(2, 9, 16), (1, 1, 40), (3, 70, 256), (1, 2, 3000), (0, 4, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_it_is_equal_to_the_plain_form(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    from dtfixup.transformer.stream_limit_kernels import LimitRows

    torch.manual_seed(0)
    x_BLD = torch.randn(shape, device=DEVICE) * torch.rand(shape[:2], device=DEVICE)[..., None] * 4
    x_BLD[:, -1] = 0
    limit = StreamLimit(1.0).to(DEVICE)
    limit.set_(1.5 * shape[-1] ** 0.5)
    length_BL = x_BLD.norm(dim=-1)
    if length_BL.numel() > 10:
        assert (length_BL > limit.longest).any()
        assert (length_BL < limit.longest).any()
    gradient_BLD = torch.randn_like(x_BLD)
    plain, fused = (x_BLD.clone().to(each).requires_grad_() for each in (torch.float32, dtype))
    expected = limit(plain)
    found = LimitRows.apply(fused, limit.longest)
    assert found.dtype is dtype
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 5e-3, "atol": 5e-3}
    torch.testing.assert_close(found.float(), expected, **tolerance)
    expected.backward(gradient_BLD)
    found.backward(gradient_BLD.to(dtype))
    assert fused.grad is not None
    assert plain.grad is not None
    torch.testing.assert_close(fused.grad.float(), plain.grad, **tolerance)


@runs_kernels
def test_what_is_short_enough_stays_as_it_is_whatever_the_limit() -> None:
    """Division on a GPU is not exact: a limit over itself may be less than 1, and must not count as shortened."""
    from dtfixup.transformer.stream_limit_kernels import LimitRows

    torch.manual_seed(0)
    x_BLD, gradient_BLD = torch.randn(2, 1, 4, 8, device=DEVICE)
    for longest in torch.empty(300 if GPU else 20, device=DEVICE).uniform_(20, 80):
        x = x_BLD.clone().requires_grad_()
        y = LimitRows.apply(x, longest)
        assert torch.equal(y, x)
        y.backward(gradient_BLD)
        assert torch.equal(x.grad, gradient_BLD)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_a_stack_uses_it_on_a_gpu_and_not_where_the_textbook_is_asked_for() -> None:
    from dtfixup.transformer.stream_limit_kernels import LimitRows

    x_BLD = torch.randn(2, 5, 8, device=DEVICE)
    outputs = {}
    for kernel, calls in ((Kernel.AUTO, 4), (Kernel.PLAIN, 0)):
        config = StackConfig(layers=3, dim=8, heads=2, mlp_dim=16, stream_limit=1.0, kernel=kernel)
        stack = TransformerStack(config).to(DEVICE)
        dt_fixup_(stack, 1.0, generator=torch.Generator(DEVICE).manual_seed(0))
        with patch.object(LimitRows, "apply", wraps=LimitRows.apply) as apply:
            outputs[kernel] = stack(x_BLD)
        assert apply.call_count == calls
    torch.testing.assert_close(outputs[Kernel.AUTO], outputs[Kernel.PLAIN], rtol=1e-3, atol=1e-3)
