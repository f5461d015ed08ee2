"""The verbs about the model that is shipped: typed functions, and jsonargparse makes their options."""

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
    keep: Literal["int8", "half"] = "int8",
    megabytes: float = 45.0,
    result: Path | None = None,
    sure_above: float | None = None,
) -> None:
    """Write a model as a small file that every verb reads like the run's own.

    Args:
        model: Folder of a finished run, or its file of weights.
        out: The file, such as sql-sp.safetensors.
        keep: int8 for matrices in 8 bits, those that lose most in half precision; half for everything in that.
        megabytes: The most that the file may have, of 10^6 bytes each; for int8.
        result: The run's result file, whose accuracy goes into the file.
        sure_above: The probability from which an answer counts as sure.
    """
    from dtfixup.sql.model.packing import pack_model
    from dtfixup.weights.packed import Storage

    done = pack_model(model, out, keep=Storage(keep), megabytes=megabytes, result=result, sure_above=sure_above)
    if done.result_checked is False:
        said = f"{model} does not say what run it is of: whether {result} is of the same could not be checked"
        _console.print(said, soft_wrap=True, highlight=False, markup=False)
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
    json: Path | None = None,
) -> None:
    """Ask the bundled questions as a user does, and score the answers; exit code 1 where a query does not run.

    Args:
        model: Folder of a finished run, or a file of weights; the shipped model if not given.
        beam: How many queries to look for.
        variants: How many times to compare rows on randomised content too: an empty result proves nothing.
        workers: Processes; one per core, at most four, if not given.
        failures: How many wrong answers to show.
        json: File for the result.
    """
    from dtfixup.provenance import begin
    from dtfixup.sql.ask.acceptance import accept, show_acceptance

    started = begin()
    found = accept(model, beam=beam, variants=variants, workers=workers)
    if json is not None:
        _console.print(f"result: {write_json(json, found.to_json(started))}")
    show_acceptance(found, _console, failures=failures)
    if found.failed:
        sys.exit(1)


def card(training: Path, packing: Path, acceptance: Path, out: Path = Path("docs/results/model-card.md")) -> None:
    """Write the model card from result files.

    Args:
        training: Result file of the run, completed by `dtfixup sql score`.
        packing: Result file of `benchmarks/pack_loss.py`.
        acceptance: Result file of `dtfixup sql acceptance`.
        out: Markdown file.
    """
    from tools.release.model_card import write_card

    _console.print(f"model card: {write_card(training, packing, acceptance, out)}")
