"""Precision of matrix products."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import torch


class Precision(StrEnum):
    """Precision of matrix products; weights, gradients and moments are always fp32."""

    FP32 = "fp32"
    """fp32 throughout."""
    TF32 = "tf32"
    """fp32, with TF32 products where the GPU has them."""
    BF16 = "bf16"
    """bf16 by autocast; the rest as in tf32."""


@contextmanager
def float32_products(precision: Precision) -> Iterator[None]:
    """Set the precision of fp32 matrix products, and restore the old one afterwards."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    exact = precision == Precision.FP32
    torch.set_float32_matmul_precision("highest" if exact else "high")
    torch.backends.cudnn.allow_tf32 = not exact
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """Autocast for bf16; enter it for every pass, so that a CUDA graph holds the casts of the weights."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == Precision.BF16)


def fast_precision(device: torch.device) -> Precision:
    """The fastest precision for use: bf16 on a CPU with instructions for it, else fp32."""
    able: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)() if device.type == "cpu" else {}
    return Precision.BF16 if able.get("avx512_bf16") or able.get("amx_bf16") else Precision.FP32
