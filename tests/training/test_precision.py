"""Precision of products: set for a while, and chosen by what the device can do."""

import pytest
import torch

from dtfixup.training.precision import Precision, autocast, fast_precision, float32_products

CPU = torch.device("cpu")


@pytest.mark.parametrize("before", ["highest", "medium"])
@pytest.mark.parametrize(
    ("precision", "inside"), [("fp32", ("highest", False)), ("tf32", ("high", True)), ("bf16", ("high", True))]
)
def test_a_precision_holds_inside_and_the_old_one_afterwards(
    precision: str, inside: tuple[str, bool], before: str
) -> None:
    torch.set_float32_matmul_precision(before)
    try:
        with float32_products(Precision(precision)), autocast(Precision(precision), CPU):
            assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == inside
            assert torch.is_autocast_enabled("cpu") is (precision == "bf16")
            assert torch.get_autocast_dtype("cpu") is torch.bfloat16
        assert torch.get_float32_matmul_precision() == before
        assert torch.backends.cudnn.allow_tf32
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, Precision.BF16),
        ({"avx512_bf16": False, "amx_bf16": True}, Precision.BF16),
        ({"avx512_f": True}, Precision.FP32),
        ({}, Precision.FP32),
        (None, Precision.FP32),  # an older torch does not say
    ],
)
def test_bf16_is_fast_on_a_cpu_with_instructions_for_it(
    capabilities: dict[str, bool] | None, expected: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    if capabilities is None:
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    else:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert fast_precision(CPU) is expected
    assert fast_precision(torch.device("cuda")) is Precision.FP32
