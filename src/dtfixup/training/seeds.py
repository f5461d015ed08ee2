"""Named random streams: a change in one does not move the others."""

import hashlib

import torch


def stream_seed(seed: int, name: str) -> int:
    """The seed of one purpose of a run, such as "data", "init" or "model".

    >>> stream_seed(0, "data") == stream_seed(0, "data") != stream_seed(0, "init")
    True
    """
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def stream(seed: int, name: str) -> torch.Generator:
    """The generator of one purpose of a run."""
    return torch.Generator().manual_seed(stream_seed(seed, name))
