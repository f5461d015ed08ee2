"""The verbs about the shipped model: `dtfixup sql pack` and `dtfixup sql acceptance`."""

import sys
from pathlib import Path
from typing import Literal

from rich.console import Console

from dtfixup.files import write_json

_console = Console()
_SHOWN = 5
"""Tensors that lose most, named at the end of packing."""


def pack(
    model: Path,
    out: Path,
    storage: Literal["int8", "half"] = "int8",
    megabytes: float = 45.0,
    result: Path | None = None,
    sure_above: float | None = None,
) -> None:
    """Write a model as a small file, which every verb reads like the run's own.

    Args:
        model: Folder of a finished run, or its file of weights.
        out: The file, such as sql-sp.safetensors.
        storage: int8 keeps matrices in 8 bits, and those that lose most in half precision; half keeps
            everything in half precision.
        megabytes: Largest size of the file, in units of 10^6 bytes; for int8.
        result: The run's result file; its accuracy goes into the file.
        sure_above: The probability from which an answer counts as sure.
    """
    from dtfixup.sql.model.packing import pack_model
    from dtfixup.weights.packed import Storage

    done = pack_model(model, out, keep=Storage(storage), megabytes=megabytes, result=result, sure_above=sure_above)
    if done.result_checked is False:
        text = f"{model} does not name its run: whether {result} is of the same run could not be checked"
        _console.print(text, soft_wrap=True, highlight=False, markup=False)
    counts = {storage: sum(kind is storage for kind in done.stored.values()) for storage in Storage}
    kinds = ", ".join(f"{count} {storage}" for storage, count in counts.items() if count)
    _console.print(f"{done.path}: {done.megabytes:.1f} MB of {done.bytes_before / 1e6:.1f}; tensors: {kinds}")
    worst = sorted(done.errors, key=lambda name: (-done.errors[name], name))[:_SHOWN]
    shares = ", ".join(f"{name} {100 * done.errors[name]:.2f} %" for name in worst)
    _console.print(f"lost most, of their norm: {shares}", soft_wrap=True, highlight=False)


def acceptance(
    model: Path | None = None,
    beam: int = 5,
    variants: int = 3,
    workers: int | None = None,
    failures: int = 0,
    save: Path | None = None,
) -> None:
    """Ask the bundled questions as a user does, and score the answers; exit code 1 where a query does not run.

    Args:
        model: Folder of a finished run, or a file of weights; the shipped model by default.
        beam: Queries to look for.
        variants: Comparisons on randomised content, since an empty result proves nothing.
        workers: Processes; one per core by default, at most four.
        failures: Wrong answers to show.
        save: JSON file for the result.
    """
    from dtfixup.provenance import begin
    from dtfixup.sql.ask.acceptance import accept, show_acceptance

    started = begin()
    result = accept(model, beam=beam, variants=variants, workers=workers)
    if save is not None:
        _console.print(f"result: {write_json(save, result.to_json(started))}")
    show_acceptance(result, _console, failures=failures)
    if result.failed:
        sys.exit(1)
