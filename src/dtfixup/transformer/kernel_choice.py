"""Which form of attention can compute an input.

In: what an input and a layer are like, and the GPU they are on. Out: the kernels that can be asked for, and what keeps
the fused one from being used.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import torch


class Kernel(StrEnum):
    """How attention is computed; the result is the same. Without relations there are two ways: plain, and PyTorch's
    fused attention for all others."""

    AUTO = "auto"
    """Fused where it can be used, else tables."""
    PLAIN = "plain"
    """The textbook form, on any device."""
    TABLES = "tables"
    """One product per relation id, on any device."""
    FUSED = "fused"
    """Triton's kernels, on a GPU."""


IDS_MOST = 256  # relation ids go to the GPU as bytes
ROW_MOST = 16 * 1024  # keys times heads: what the registers of one block hold without too much of it spilling
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Gpu:
    """What a block of threads may use on a GPU."""

    capability: tuple[int, int]
    shared_memory: int
    """Bytes of a block's own fast memory."""


@lru_cache
def gpu_of(device: torch.device) -> Gpu:
    properties = torch.cuda.get_device_properties(device)
    # Only NVIDIA's properties tell what a block gets that asks for more than the usual.
    shared = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
    return Gpu((properties.major, properties.minor), int(shared))


def power_of_two(size: int, least: int = 16) -> int:
    """The next power of two, which is what a Triton block can hold; 16 is the smallest side of a matrix unit.

    >>> power_of_two(100), power_of_two(128), power_of_two(8), power_of_two(5, least=1)
    (128, 128, 16, 8)
    """
    return max(least, 1 << (size - 1).bit_length())


def block_of_heads(heads: int) -> int:
    """Rows of a block that holds all heads: a matrix unit takes eight."""
    return power_of_two(heads, least=8)


def shared_memory_of_a_row(length: int, heads: int, relations: int, dtype: torch.dtype) -> int:
    """Bytes on their way to the matrix units: the weights of a row and the one-hot matrix of its relations."""
    return power_of_two(length) * (block_of_heads(heads) + power_of_two(relations)) * dtype.itemsize


def obstacle_to_fusing(length: int, heads: int, relations: int, dtype: torch.dtype, gpu: Gpu | None) -> str | None:
    """Why the fused kernel cannot compute rows of this size and type here; None where it can."""
    if gpu is None or gpu.capability < (8, 0):
        return "it needs a GPU of compute capability 8.0 or newer"
    if dtype not in _DTYPES:
        return f"it does not compute in {dtype}"
    if relations > IDS_MOST:
        return f"it knows at most {IDS_MOST} relations, not {relations}"
    needed = shared_memory_of_a_row(length, heads, relations, dtype)
    if power_of_two(length) * block_of_heads(heads) > ROW_MOST or needed > gpu.shared_memory:
        return f"{length} keys with {heads} heads and {relations} relations are too many for one block"
    return None
