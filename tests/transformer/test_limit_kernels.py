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
    from dtfixup.transformer.limit_kernels import LimitRows

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
    from dtfixup.transformer.limit_kernels import LimitRows, LimitSteps

    torch.manual_seed(0)
    x_BLD, y_BLD, gradient_BLD = torch.randn(3, 1, 4, 8, device=DEVICE)
    for longest in torch.empty(300 if GPU else 20, device=DEVICE).uniform_(20, 80):
        x, y = (each.clone().requires_grad_() for each in (x_BLD, y_BLD))
        shortened, joined = LimitRows.apply(y, longest), LimitSteps.apply(x, y, longest, longest)
        assert torch.equal(shortened, y)
        assert torch.equal(joined, y)
        (shortened + joined).backward(gradient_BLD)
        assert torch.equal(x.grad, torch.zeros_like(x))
        assert torch.equal(y.grad, 2 * gradient_BLD)


@runs_kernels
def test_what_goes_into_the_layer_may_be_a_part_of_something_and_need_no_gradient() -> None:
    from dtfixup.transformer.limit_kernels import LimitSteps

    torch.manual_seed(0)
    x_BLD, y_BLD = torch.randn(2, 5, 8, device=DEVICE)[:, :1], torch.randn(2, 1, 8, device=DEVICE, requires_grad=True)
    added = StreamLimit(1.0).to(DEVICE)
    added.set_(0.5)
    found = LimitSteps.apply(x_BLD, y_BLD, added.longest, None)
    torch.testing.assert_close(found, added.keep_near(x_BLD, y_BLD), rtol=1e-5, atol=1e-5)
    found.sum().backward()
    assert y_BLD.grad is not None


@runs_kernels
@pytest.mark.parametrize("shape", [(2, 9, 16), (1, 1, 40), (3, 70, 256), (0, 4, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("is_limited", [True, False])
def test_limited_additions_are_equal_to_the_plain_form(
    shape: tuple[int, int, int], dtype: torch.dtype, is_limited: bool
) -> None:
    from dtfixup.transformer.limit_kernels import LimitSteps

    torch.manual_seed(0)
    x_BLD = torch.randn(shape, device=DEVICE)
    y_BLD = x_BLD + torch.randn(shape, device=DEVICE) * torch.rand(shape[:2], device=DEVICE)[..., None] * 4
    y_BLD[:, -1] = x_BLD[:, -1]
    added, limit = StreamLimit(1.0).to(DEVICE), StreamLimit(1.0).to(DEVICE)
    for each, length in ((added, 1.5), (limit, 1.6)):
        each.set_(length * shape[-1] ** 0.5)
    if y_BLD.numel() > 100:
        for vector_BLD, each in ((y_BLD - x_BLD, added), (added.keep_near(x_BLD, y_BLD), limit)):
            length_BL = vector_BLD.norm(dim=-1)
            assert (length_BL > each.longest).any()
            assert (length_BL < each.longest).any()
    gradient_BLD = torch.randn_like(x_BLD)
    plain, fused = ([v.clone().to(each).requires_grad_() for v in (x_BLD, y_BLD)] for each in (torch.float32, dtype))
    expected = added.keep_near(*plain)
    expected = limit(expected) if is_limited else expected
    found = LimitSteps.apply(*fused, added.longest, limit.longest if is_limited else None)
    assert found.dtype is dtype
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 1e-2, "atol": 1e-2}
    torch.testing.assert_close(found.float(), expected, **tolerance)
    expected.backward(gradient_BLD)
    found.backward(gradient_BLD.to(dtype))
    for one, other in zip(fused, plain, strict=True):
        torch.testing.assert_close(one.grad.float(), other.grad, **tolerance)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_a_stack_that_limits_additions_uses_one_kernel_a_layer() -> None:
    from dtfixup.transformer.limit_kernels import LimitSteps

    x_BLD = torch.randn(2, 5, 8, device=DEVICE)
    outputs = {}
    for kernel, calls in ((Kernel.AUTO, 3), (Kernel.PLAIN, 0)):
        config = StackConfig(3, dim=8, heads=2, mlp_dim=16, stream_limit=1.0, added_limit=0.5, kernel=kernel)
        stack = TransformerStack(config).to(DEVICE)
        dt_fixup_(stack, 1.0, generator=torch.Generator(DEVICE).manual_seed(0))
        with torch.no_grad():
            for parameter in stack.parameters():
                parameter.mul_(30)
        with patch.object(LimitSteps, "apply", wraps=LimitSteps.apply) as apply:
            outputs[kernel] = stack(x_BLD)
        assert apply.call_count == calls
    torch.testing.assert_close(outputs[Kernel.AUTO], outputs[Kernel.PLAIN], rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_a_stack_uses_it_on_a_gpu_and_not_where_the_textbook_is_asked_for() -> None:
    from dtfixup.transformer.limit_kernels import LimitRows

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
