"""The verbs of reading comprehension: `dtfixup reading train`, `evaluate`, `predict` and `answer`."""

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dtfixup.cli.options import exit_if_stopped, show_result, this_command
from dtfixup.cli.parse import Settings
from dtfixup.errors import ConfigError
from dtfixup.files import read_json, write_atomically, write_json
from dtfixup.reading.presets import PRESETS, ReadingRunConfig

if TYPE_CHECKING:
    from dtfixup.reading.answers import Reader
    from dtfixup.reading.examples import ReadingExample

_console = Console()


def train(
    data: Path,
    out: Path,
    resume: bool = False,
    save: Path | None = None,
    *,
    settings: Annotated[ReadingRunConfig, Settings(PRESETS)],
) -> None:
    """Train the reading model on multiple-choice questions, and evaluate it.

    Args:
        data: Folder with train and val as .json (ReClor's), .jsonl or .csv; or one such file, with --hold-out.
        out: Folder for logs, checkpoints and weights.
        resume: Go on with the run in the folder.
        save: JSON file for the result, beside the one in the folder.
    """
    from dtfixup.reading.train import train_reading

    run = train_reading(settings, data, out, name="reading-train", command=this_command(), resume=resume)
    exit_if_stopped(not run.metrics)
    show_result(run.metrics, out, save)


def evaluate(model: Path, data: Path, split: str = "val", save: Path | None = None) -> None:
    """Print the accuracy of a trained model on examples with labels.

    Args:
        model: Folder of a finished run, or a file of weights.
        data: Folder that holds the split, or one file of examples.
        split: Split to evaluate.
        save: JSON file for the numbers.
    """
    import numpy as np

    from dtfixup.reading.scoring import metrics_of

    reader = _reader(model, "fp32")
    examples = _examples(data, split, need_labels=True)
    label_N = np.array([example.label for example in examples])
    metrics = metrics_of(reader.answer_all(examples, progress=True), label_N)
    _console.print(f"{len(examples):,} examples: accuracy {metrics['accuracy']:.2f} %, loss {metrics['loss']:.4f}")
    if save is not None:
        _console.print(f"numbers: {write_json(save, {'examples': len(examples), **metrics})}")


def predict(model: Path, data: Path, out: Path, split: str = "test", probabilities: Path | None = None) -> None:
    """Write the number of the likeliest option of every example, as ReClor's leaderboard takes it: a .npy file.

    Args:
        model: Folder of a finished run, or a file of weights.
        data: Folder that holds the split, or one file of examples; labels are ignored.
        out: File for the numbers, such as test_preds.npy.
        split: Split to answer.
        probabilities: File for the probabilities of all options, as JSON lines.
    """
    import numpy as np

    from dtfixup.reading.scoring import choices, write_probabilities

    if out.suffix != ".npy":
        raise ConfigError(f"the submission is a .npy file: write it to {out.with_suffix('.npy')}")
    examples = _examples(data, split, need_labels=False)
    results = _reader(model, "fp32").answer_all(examples, progress=True)
    write_atomically(out, lambda path: np.save(path, choices(results), allow_pickle=False))
    if probabilities is not None:
        write_probabilities(probabilities, [example.name for example in examples], results)
    _console.print(f"{len(results):,} answers: {out}")


def answer(
    model: Path,
    *,
    file: Path | None = None,
    context: str | None = None,
    question: str | None = None,
    options: tuple[str, ...] = (),
    precision: Literal["fp32", "bf16"] | None = None,
    json: bool = False,
) -> None:
    """Answer a question about a passage: every option with its probability, the likeliest first.

    Args:
        model: Folder of a finished run, or a file of weights.
        file: JSON file with context, question and options, instead of the next three options.
        context: The passage.
        question: The question.
        options: Two to ten options to choose from.
        precision: By default bf16 on a CPU that has instructions for it: about 0.6 of the time, and probabilities that
            differ a little.
        json: Print JSON.
    """
    from dtfixup.reading.examples import example_from

    typed = {"context": context, "question": question, "options": list(options)}
    if (file is None) == (not any(typed.values())):
        raise ConfigError("give either --file, or --context, --question and --options")
    example = example_from(typed, "the question") if file is None else example_from(read_json(file), str(file))
    reader = _reader(model, precision)
    probabilities = reader.answer_all([example])[0]
    ranked = sorted(zip(probabilities, example.answers, strict=True), key=lambda pair: -pair[0])
    if json:
        rows = [{"option": option, "probability": round(value, 6)} for value, option in ranked]
        print(json_text.dumps(rows, ensure_ascii=False, indent=1))
        return
    note = "" if reader.precision == "fp32" else f"computed in {reader.precision}; exact: --precision fp32"
    table = Table(title=escape(example.question), title_justify="left", caption=note, caption_justify="left")
    table.add_column("probability", justify="right")
    table.add_column("option")
    for value, option in ranked:
        table.add_row(f"{100 * value:.1f} %", escape(option))
    _console.print(table)


def _reader(model: Path, precision: str | None) -> "Reader":
    import torch

    from dtfixup.reading.answers import Reader

    return Reader.load(model, "cuda" if torch.cuda.is_available() else "cpu", precision)


def _examples(data: Path, split: str, *, need_labels: bool) -> "tuple[ReadingExample, ...]":
    from dtfixup.reading.examples import read_examples, split_file

    return read_examples(data if data.is_file() else split_file(data, split), need_labels=need_labels)
