"""The provenance of a number: command, commit, seed, encoder, data and hardware, for every result file."""

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

RESULT = "result.json"
"""The result file in a run's folder."""


def provenance(
    name: str, command: str, started: float, *, seed: int, encoder: Mapping[str, str], data_hash: str = ""
) -> dict[str, Any]:
    """The fields of every result file; `started` comes from `begin`, `encoder` from `encoder_identity`."""
    return {
        "name": name,
        "command": command,
        "commit": commit(),
        "seed": seed,
        **encoder,
        "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "data_hash": data_hash,
        "hardware": hardware(),
        "wall_seconds": round(time.monotonic() - started, 1),
    }


def begin() -> float:
    """Read the clock and the commit, for `provenance`; a commit made while the command runs does not count."""
    commit()
    return time.monotonic()


@cache
def commit() -> str:
    """The commit of this source tree, "-dirty" if it has changes, "unknown" outside a checkout; read once."""
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "..", ":/benchmarks", ":/examples")
        return git("rev-parse", "--short=12", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def hardware() -> str:
    """Processor or GPU, cores and the version of torch."""
    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"{_processor()}, {os.cpu_count()} cores, torch {torch.__version__}"


def peak_memory_gib(workers: int | None = None) -> float:
    """An upper bound on the memory of this process and its workers, each counted as the largest."""
    unit = 2**30 if sys.platform == "darwin" else 2**20  # bytes there, KiB elsewhere
    own, worker = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return (own + (workers or os.cpu_count() or 1) * worker) / unit


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
