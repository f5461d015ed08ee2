"""Which form of attention can compute an input.

In: sizes and type of an input, and its GPU. Out: the kernels to choose from, and the reason why the fused one cannot be
used.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import torch


class Kernel(StrEnum):
    """Implementation of attention; all give the same result.

    Without relations there are two: plain, and PyTorch's fused attention for all other values.
    """

    AUTO = "auto"
    """Fused if possible, else tables."""
    PLAIN = "plain"
    """The textbook form, on any device."""
    TABLES = "tables"
    """One product per relation id, on any device."""
    FUSED = "fused"
    """Triton's kernels, on a GPU."""


IDS_MOST = 256  # relation ids go to the GPU as bytes
ROW_MOST = 16 * 1024  # keys times heads that fit the registers of one block without much spilling
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Gpu:
    """The resources of a block of threads on a GPU."""

    capability: tuple[int, int]
    shared_memory: int
    """Bytes of a block's own fast memory."""


@lru_cache
def gpu_of(device: torch.device) -> Gpu:
    properties = torch.cuda.get_device_properties(device)
    # Only NVIDIA's properties have the memory of a block that asks for more than the default.
    shared = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
    return Gpu((properties.major, properties.minor), int(shared))


def power_of_two(size: int, least: int = 16) -> int:
    """The next power of two, as a Triton block needs; 16 is the smallest side of a matrix unit.

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
    """Why the fused kernel cannot compute rows of this size and type here; None if it can."""
    if gpu is None or gpu.capability < (8, 0):
        return "it needs a GPU of compute capability 8.0 or newer"
    if dtype not in _DTYPES:
        return f"it does not compute in {dtype}"
    if relations > IDS_MOST:
        return f"it takes at most {IDS_MOST} relations, not {relations}"
    needed = shared_memory_of_a_row(length, heads, relations, dtype)
    if power_of_two(length) * block_of_heads(heads) > ROW_MOST or needed > gpu.shared_memory:
        return f"{length} keys with {heads} heads and {relations} relations are too many for one block"
    return None
