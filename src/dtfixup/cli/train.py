"""The verbs that make a SQL model: `dtfixup sql prepare`, `synthesise`, `train` and `pack`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console

from dtfixup.cli.options import POOL, exit_if_stopped, show_result, this_command
from dtfixup.cli.parse import Settings
from dtfixup.files import write_json
from dtfixup.sql.model.config import PRESETS, SqlSpConfig

if TYPE_CHECKING:
    from dtfixup.sql.preparation.prepare import PrepareReport

_console = Console()
_WORST_SHOWN = 5
"""Tensors that lose most, named at the end of packing."""


def prepare(
    data: Path,
    out: Path,
    encoder: str = "minilm",
    splits: str = "train,dev",
    synthetic: int = 0,
    phrases: int = 0,
    workers: int | None = None,
    report: Path | None = None,
    verdicts: Path | None = None,
    walks: int = 10_000,
) -> None:
    """Parse and link a whole dataset and cut it into subwords, for training.

    Args:
        data: Folder in the layout of the Spider download.
        out: Folder for the prepared dataset.
        encoder: Encoder by name or folder.
        splits: Splits, separated by commas.
        synthetic: Examples to make up by asking the training questions over other databases.
        phrases: Examples to make up in the words of the phrase book.
        workers: Processes; one per core by default.
        report: JSON file for figures: round trips, literal coverage, links, random walks. This takes minutes.
        verdicts: File of official verdicts to compare our evaluator with, in the report.
        walks: Random derivations that the report tries.
    """
    from dtfixup.sql.database.dataset import split_names
    from dtfixup.sql.preparation.prepare import prepare as run

    chosen = split_names(splits)
    started = time.monotonic()
    done = run(data, out, encoder=encoder, splits=chosen, synthetic=synthetic, phrases=phrases, workers=workers)
    seconds = time.monotonic() - started
    counts = ", ".join(f"{count:,} {split}" for split, count in done.examples.items())
    if done.was_there:
        _console.print(f"{out} is up to date: {counts}")
    else:
        _console.print(f"{out}: {counts} in {seconds:.0f} s")
    uncovered = ", ".join(f"{count} {split}" for split, count in done.uncovered.items())
    _console.print(
        f"queries outside the grammar: {len(done.unreadable)}; with a literal that is no candidate: {uncovered}"
    )
    if report is not None:
        _write_figures(report, data, chosen, encoder, workers, verdicts, walks, done, seconds)


def synthesise(
    data: Path, out: Path, count: int = 1000, split: str = "train", seed: int = 0, phrase_book: bool = False
) -> None:
    """Make up training examples: the questions of a split, asked over its other databases.

    Args:
        data: Folder in the layout of the Spider download.
        out: JSON file in the layout of a split.
        count: Number of examples.
        split: Split whose questions and databases are used.
        seed: Seed of the choice.
        phrase_book: Use the words of the phrase book instead of the questions.
    """
    from dtfixup.sql.database.dataset import open_dataset

    dataset = open_dataset(data)
    if phrase_book:
        from dtfixup.sql.synthesis.phrases import make_phrases, write_phrases

        phrased = make_phrases(dataset, split, count=count, seed=seed)
        examples = [phrased_example.example for phrased_example in phrased.examples]
        written = write_phrases(out, phrased.examples)
        for what, counted in (("made", phrased.constructs()), ("rejected", phrased.rejected)):
            _console.print(f"{what}: " + ", ".join(f"{number:,} {name}" for name, number in counted.most_common()))
    else:
        from dtfixup.sql.synthesis.templates import synthesise as make
        from dtfixup.sql.synthesis.templates import write_examples

        made = make(dataset, split, count=count, seed=seed)
        examples = [synthetic.example for synthetic in made]
        written = write_examples(out, made)
    for example in examples[:5]:
        _console.print(f"{example.question}\n    {example.query}", highlight=False, markup=False)
    _console.print(f"{len(examples):,} examples: {written}")


def train(
    data: Path,
    out: Path,
    resume: bool = False,
    save: Path | None = None,
    *,
    settings: Annotated[SqlSpConfig, Settings(PRESETS)],
) -> None:
    """Train SQL-SP, and score it with a beam search.

    Args:
        data: Folder in the layout of the Spider download, or one that `dtfixup sql prepare` made.
        out: Folder for logs, checkpoints and weights.
        resume: Go on with the run in the folder.
        save: JSON file for the result, beside the one in the folder.
    """
    from dtfixup.sql.database.dataset import split_names
    from dtfixup.sql.model.train import train_sql
    from dtfixup.sql.preparation.splits import open_or_prepare

    needed = [*split_names(settings.splits), *(() if settings.hold_out else ("dev",))]
    prepared = open_or_prepare(data, settings.encoder, needed, synthetic=POOL if settings.synthetic else 0)
    run = train_sql(settings, prepared, out, name="sql-train", command=this_command(), resume=resume)
    exit_if_stopped(not run.metrics)
    show_result(run.metrics, out, save)


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
    worst = sorted(done.errors, key=lambda name: (-done.errors[name], name))[:_WORST_SHOWN]
    shares = ", ".join(f"{name} {100 * done.errors[name]:.2f} %" for name in worst)
    _console.print(f"lost most, of their norm: {shares}", soft_wrap=True, highlight=False)


def _write_figures(
    report: Path,
    data: Path,
    splits: list[str],
    encoder: str,
    workers: int | None,
    verdicts: Path | None,
    walks: int,
    done: "PrepareReport",
    seconds: float,
) -> None:
    from dtfixup.encoders import encoder_identity
    from dtfixup.files import read_json
    from dtfixup.provenance import begin, peak_memory_gib, provenance
    from dtfixup.sql.evaluation.figures import flat_metrics, measure

    peak = peak_memory_gib(workers)
    started = begin()
    figures = measure(data, splits, verdicts=verdicts, walks=walks, workers=workers)
    command = f"dtfixup sql prepare --data DIR --out DIR --encoder {encoder} --splits {','.join(splits)} --report FILE"
    command += f" --walks {walks}" + (" --verdicts FILE" if verdicts is not None else "")
    record = provenance(
        "sql-prepare",
        command,
        started,
        seed=0,
        encoder=encoder_identity(encoder),
        data_hash=read_json(done.folder / "index.json")["data_hash"],
    )
    metrics = flat_metrics(figures)
    if not done.was_there:
        metrics |= {"prepare_seconds": round(seconds, 1), "prepare_peak_gib": round(peak, 2)}
    _console.print(f"figures: {write_json(report, {**record, 'metrics': metrics, **figures})}")
