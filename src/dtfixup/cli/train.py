"""The verbs `dtfixup sql train` and `dtfixup sql predict`: typed functions, and jsonargparse makes their options."""

from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import track

from dtfixup.cli.options import POOL, exit_if_stopped, settings_from, show_result, this_command
from dtfixup.files import write_atomically

_console = Console()


def train(
    data: Path,
    out: Path,
    preset: str = "minilm",
    fields: Path | None = None,
    layers: int | None = None,
    strategy: str | None = None,
    encoder: str | None = None,
    encoder_factor: float | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    accumulate: int | None = None,
    learning_rate: float | None = None,
    warmup: int | None = None,
    dropout: float | None = None,
    precision: str | None = None,
    kernel: str | None = None,
    splits: str | None = None,
    synthetic: float | None = None,
    hold_out: int | None = None,
    beam: int | None = None,
    seed: int | None = None,
    resume: bool = False,
    result: Path | None = None,
) -> None:
    """Train SQL-SP, and score it with a beam search.

    Args:
        data: Folder in the layout of the Spider download, or one that `dtfixup sql prepare` made.
        out: Folder for logs, checkpoints and weights.
        preset: paper, minilm or smoke.
        fields: YAML or JSON file with fields of the configuration that differ from the preset; also --config.
        layers: Number of new layers.
        strategy: How the new layers are made trainable, such as dt-fixup, standard, pre-ln.
        encoder: Encoder by name or folder.
        encoder_factor: The encoder's learning rate, as a multiple of the run's; 0 leaves it as it is.
        epochs: Passes over the training examples.
        batch_size: Examples of a batch.
        accumulate: Batches per update.
        learning_rate: Of the new layers.
        warmup: Updates in which the rate rises.
        dropout: On the stack's input and on the decoder's context.
        precision: fp32, tf32 or bf16.
        kernel: auto, or plain for the textbook form.
        splits: Splits to train on, separated by commas.
        synthetic: Made-up examples in every epoch, as a multiple of the others; 0 for none.
        hold_out: Databases of the training splits to keep apart and evaluate on.
        beam: Hypotheses of the search at the end.
        seed: Of weights, order of examples and dropout.
        resume: Go on with the run in the folder.
        result: File for the result, beside the one in the folder.
    """
    from dtfixup.sql.database.dataset import split_names
    from dtfixup.sql.model.config import PRESETS
    from dtfixup.sql.model.train import train_sql
    from dtfixup.sql.preparation.splits import open_or_prepare

    chosen: dict[str, Any] = {
        "encoder": encoder,
        "encoder_factor": encoder_factor,
        "splits": splits,
        "synthetic": synthetic,
        "hold_out": hold_out,
        "beam": beam,
        "model": {
            "layers": layers,
            "strategy": strategy,
            "input_dropout": dropout,
            "kernel": kernel,
            "decoder": {"dropout": dropout},
        },
        "training": {
            "epochs": epochs,
            "batch_size": batch_size,
            "accumulate": accumulate,
            "warmup": warmup,
            "precision": precision,
            "seed": seed,
            "update": {"learning_rate": learning_rate},
        },
    }
    settings = settings_from(PRESETS, preset, fields, chosen)
    needed = [*split_names(settings.splits), *(() if settings.hold_out else ("dev",))]
    prepared = open_or_prepare(data, settings.encoder, needed, synthetic=POOL if settings.synthetic else 0)
    run = train_sql(settings, prepared, out, name="sql-train", command=this_command(), resume=resume)
    exit_if_stopped(not run.metrics)
    show_result(run.metrics, out, result)


def predict(
    data: Path,
    out: Path,
    model: Path | None = None,
    split: str = "dev",
    beam: int = 5,
    pick: Literal["likely", "executable"] = "likely",
    beams: Path | None = None,
) -> None:
    """Write a query for every question of a split, one a line, as Spider's official script takes them.

    Args:
        data: Folder in the layout of the Spider download, or one that `dtfixup sql prepare` made.
        out: File for the queries.
        model: Folder of a finished run, or a file of weights; the shipped model if not given.
        split: Split to answer.
        beam: Hypotheses of the search.
        pick: The likeliest query, or the likeliest that the database runs; that needs the Spider layout.
        beams: File for all hypotheses, as JSON lines with scores.
    """
    from dtfixup.sql.ask.parser import default_model
    from dtfixup.sql.database.dataset import open_dataset
    from dtfixup.sql.execution.run import first_that_runs
    from dtfixup.sql.model.predictions import likeliest, write_beams
    from dtfixup.sql.preparation.splits import answer_split

    prepared, examples, found = answer_split(model or default_model(), data, split, beam)
    if pick == "executable":
        dataset = open_dataset(data)
        both = track(list(zip(examples, found, strict=True)), "run queries", transient=True)
        files = (dataset.database_file(prepared.schema_of(example).database) for example in examples)
        queries = [
            first_that_runs([query.sql for query in each], file) for (_, each), file in zip(both, files, strict=True)
        ]
    else:
        queries = likeliest(found)
    write_atomically(out, lambda path: path.write_text("".join(f"{query}\n" for query in queries), encoding="utf-8"))
    if beams is not None:
        write_beams(beams, examples, found)
    _console.print(f"{len(queries):,} queries: {out}")
