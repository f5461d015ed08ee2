"""The verbs of `dtfixup reading`: typed functions, and jsonargparse makes their options."""

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dtfixup.cli.options import exit_if_failed, exit_if_stopped, settings_from, show_result, this_command
from dtfixup.errors import ConfigError
from dtfixup.files import read_json, write_atomically, write_json

if TYPE_CHECKING:
    from dtfixup.reading.answers import Reader
    from dtfixup.reading.examples import ReadingExample

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
    max_tokens: int | None = None,
    precision: str | None = None,
    kernel: str | None = None,
    hold_out: float | None = None,
    seed: int | None = None,
    resume: bool = False,
    result: Path | None = None,
) -> None:
    """Train the reading model on multiple-choice questions, and evaluate it.

    Args:
        data: Folder with train and val as .json (ReClor's), .jsonl or .csv; or one such file, with hold_out.
        out: Folder for logs, checkpoints and weights.
        preset: paper, minilm or smoke.
        fields: YAML or JSON file with fields of the configuration that differ from the preset; also --config.
        layers: Number of new layers; 0 for none.
        strategy: How the new layers are made trainable, such as dt-fixup, standard, pre-ln.
        encoder: Encoder by name or folder.
        encoder_factor: The encoder's learning rate, as a multiple of the run's; 0 leaves it as it is.
        epochs: Passes over the training examples.
        batch_size: Examples of a batch.
        accumulate: Batches per update.
        learning_rate: Of the new layers.
        warmup: Updates in which the rate rises.
        dropout: On the stack's input.
        max_tokens: Longest sequence of context, question and option; a longer context loses its end.
        precision: fp32, tf32 or bf16.
        kernel: auto, or plain for the textbook form.
        hold_out: Share of the training examples to keep apart and evaluate on, instead of val.
        seed: Of weights, order of examples and dropout.
        resume: Go on with the run in the folder.
        result: File for the result, beside the one in the folder.
    """
    from dtfixup.reading.presets import PRESETS
    from dtfixup.reading.train import train_reading

    chosen: dict[str, Any] = {
        "encoder": encoder,
        "encoder_factor": encoder_factor,
        "hold_out": hold_out,
        "model": {
            "layers": layers,
            "strategy": strategy,
            "input_dropout": dropout,
            "max_tokens": max_tokens,
            "kernel": kernel,
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
    run = train_reading(settings, data, out, name="reading-train", command=this_command(), resume=resume)
    exit_if_stopped(not run.metrics)
    show_result(run.metrics, out, result)


def evaluate(model: Path, data: Path, split: str = "val", json: Path | None = None) -> None:
    """Print the accuracy of a trained model on examples with labels.

    Args:
        model: Folder of a finished run, or a file of weights.
        data: Folder that holds the split, or one file of examples.
        split: Split to evaluate.
        json: File for the numbers.
    """
    import numpy as np

    from dtfixup.reading.scoring import metrics_of

    reader = _reader(model, "fp32")
    examples = _examples(data, split, need_labels=True)
    label_N = np.array([example.label for example in examples])
    metrics = metrics_of(reader.answer_all(examples, progress=True), label_N)
    _console.print(f"{len(examples):,} examples: accuracy {metrics['accuracy']:.2f} %, loss {metrics['loss']:.4f}")
    if json is not None:
        _console.print(f"numbers: {write_json(json, {'examples': len(examples), **metrics})}")


def predict(model: Path, data: Path, out: Path, split: str = "test", probabilities: Path | None = None) -> None:
    """Write the number of the likeliest option of every example: ReClor's submission, a .npy file of integers.

    Args:
        model: Folder of a finished run, or a file of weights.
        data: Folder that holds the split, or one file of examples; labels are not looked at.
        out: File for the numbers, such as test_preds.npy.
        split: Split to answer.
        probabilities: File for the probabilities of all options, as JSON lines.
    """
    import numpy as np

    from dtfixup.reading.scoring import choices, write_probabilities

    if out.suffix != ".npy":
        raise ConfigError(f"the submission is a .npy file: write it to {out.with_suffix('.npy')}")
    examples = _examples(data, split, need_labels=False)
    found = _reader(model, "fp32").answer_all(examples, progress=True)
    write_atomically(out, lambda path: np.save(path, choices(found), allow_pickle=False))
    if probabilities is not None:
        write_probabilities(probabilities, [example.name for example in examples], found)
    _console.print(f"{len(found):,} answers: {out}")


def answer(
    model: Path,
    file: Path | None = None,
    context: str | None = None,
    question: str | None = None,
    options: list[str] | None = None,
    precision: str | None = None,
    json: bool = False,
) -> None:
    """Answer a question about a passage: every option with its probability, the likeliest first.

    Args:
        model: Folder of a finished run, or a file of weights.
        file: JSON file with context, question and options, instead of the next three.
        context: The passage.
        question: What is asked.
        options: Two to ten options to choose from.
        precision: fp32 or bf16. By default bf16 on a CPU that has instructions for it: about 0.6 of the time, and
            probabilities that differ a little.
        json: Print JSON.
    """
    from dtfixup.reading.examples import example_from

    typed = {"context": context, "question": question, "options": options or []}
    if (file is None) == (not any(typed.values())):
        raise ConfigError("give a file, or a context, a question and options: one of both")
    example = example_from(typed, "the question") if file is None else example_from(read_json(file), str(file))
    reader = _reader(model, precision)
    found = reader.answer_all([example])[0]
    ranked = sorted(zip(found, example.answers, strict=True), key=lambda row: -row[0])
    if json:
        rows = [{"option": option, "probability": round(value, 6)} for value, option in ranked]
        print(json_text.dumps(rows, ensure_ascii=False, indent=1))
        return
    rough = (
        "" if reader.precision == "fp32" else f"computed in {reader.precision}; the same everywhere: --precision fp32"
    )
    table = Table(title=escape(example.question), title_justify="left", caption=rough, caption_justify="left")
    table.add_column("probability", justify="right")
    table.add_column("option")
    for value, option in ranked:
        table.add_row(f"{100 * value:.1f} %", escape(option))
    _console.print(table)


def depth(
    data: Path,
    out: Path,
    part: str = "all",
    budget_seconds: float | None = None,
    seeds: int | None = None,
    preset: str = "minilm",
    fields: Path | None = None,
    work: Path | None = None,
    keep_weights: bool = False,
) -> None:
    """Train the runs of the ReClor experiments that have no result yet, one after the other, and show their table.

    The same command goes on after any end. What is tuned is not taken from the preset: it is what won the tuning in the
    folder for the result files, where that is whole, and else what won with MiniLM.

    Args:
        data: Folder with train and val, such as ReClor's.
        out: Folder for the result files, one for each run.
        part: main (no, standard and DT-Fixup layers), depth (4 to 24 layers), all (both), or tune (held-out examples).
        budget_seconds: Start no run that would not end within so many seconds.
        seeds: Seeds of every variant, instead of 5 in main, 3 in depth (pre-LN 2) and 1 in tune.
        preset: paper, minilm or smoke.
        fields: YAML or JSON file with fields of the configuration that differ from the preset; also --config.
        work: Folder to train in; by default runs in the folder for the results.
        keep_weights: Keep the weights of finished runs.
    """
    from dtfixup_paper.report.reclor_table import show_tables
    from dtfixup_paper.runs.run_identity import State
    from dtfixup_paper.runs.sweep import read_results, read_sweep, run_sweep
    from dtfixup_paper.tables.cells import Budget
    from dtfixup_paper.tables.reclor import Part, runs_of
    from dtfixup_paper.tables.tuning import plan_of, told

    from dtfixup.reading.presets import PRESETS
    from dtfixup.reading.train import ReadingSource

    if part not in set(Part):
        raise ConfigError(f"there is no part {part!r}: choose one of {', '.join(Part)}")
    base = settings_from(PRESETS, preset, fields, {})
    plan = plan_of(Budget.GPU, read_results(out), base.encoder)
    if text := told(plan, base.encoder):
        _console.print(text, soft_wrap=True, highlight=False)
    runs = runs_of(part, ReadingSource(data), base=base, choices=plan.reclor, seeds=seeds, command=this_command())
    outcomes = run_sweep(runs, out, work=work, budget_seconds=budget_seconds, keep_weights=keep_weights)
    show_tables(read_sweep(out), _console)
    exit_if_stopped(any(each.was_stopped for each in outcomes))
    exit_if_failed(any(each.state is State.FAILED for each in outcomes))


def table(results: Path, png: Path | None = None, curves: Path | None = None, markdown: Path | None = None) -> None:
    """Show what the runs of the ReClor experiments have come to.

    Args:
        results: Folder of the result files.
        png: PNG file for a picture of accuracy against depth.
        curves: PNG file for a picture of accuracy during training.
        markdown: File for the tables as Markdown.
    """
    from dtfixup_paper.report.reclor_table import draw_training, show_tables, summarise, write_markdown
    from dtfixup_paper.runs.sweep import read_sweep

    found = read_sweep(results)
    if not found:
        raise ConfigError(
            f"{results} has no results of the ReClor experiments: run dtfixup reading depth --out {results}"
        )
    show_tables(found, _console)
    if png is not None:
        _console.print(f"picture: {summarise(found).draw(png)}")
    if curves is not None:
        _console.print(f"picture: {draw_training(results, curves)}")
    if markdown is not None:
        _console.print(f"tables: {write_markdown(results, markdown)}")


def _reader(model: Path, precision: str | None) -> "Reader":
    import torch

    from dtfixup.reading.answers import Reader
    from dtfixup.training.precision import Precision

    if precision is not None and precision not in set(Precision):
        raise ConfigError(f"precision is one of {', '.join(Precision)}, got {precision!r}")
    return Reader.load(model, "cuda" if torch.cuda.is_available() else "cpu", precision)


def _examples(data: Path, split: str, *, need_labels: bool) -> "tuple[ReadingExample, ...]":
    from dtfixup.reading.examples import read_examples, split_file

    return read_examples(data if data.is_file() else split_file(data, split), need_labels=need_labels)
