"""Named random streams: a change in one does not move the others."""

import hashlib

import torch


def stream_seed(seed: int, name: str) -> int:
    """A seed of its own for each purpose ("data", "init", "model") of a run.

    >>> stream_seed(0, "data") == stream_seed(0, "data") != stream_seed(0, "init")
    True
    """
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def stream(seed: int, name: str) -> torch.Generator:
    """A generator for one purpose of a run."""
    return torch.Generator().manual_seed(stream_seed(seed, name))
