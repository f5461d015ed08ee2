"""The verbs of `dtfixup sql`: each is a typed function, and jsonargparse makes its options and help."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from dtfixup.errors import ConfigError
from dtfixup.files import write_json

if TYPE_CHECKING:
    from dtfixup.sql.preparation.prepare import PrepareReport

_console = Console()


def link(question: str, database: str, names: Path | None = None, json: bool = False) -> None:
    """Show which words of a question name tables and columns, and which say values.

    Args:
        question: The question; `dtfixup sql link "..."` may leave the option's name out.
        database: SQLite file, a URL such as postgresql://user@host/name, or a bundled database such as
            sample:river_ferry.
        names: YAML file with natural names of tables, columns and abbreviations.
        json: Print JSON instead of colours.
    """
    from dtfixup.sql.database.content import open_content
    from dtfixup.sql.database.location import Location
    from dtfixup.sql.database.names import read_names
    from dtfixup.sql.database.reflection import reflect
    from dtfixup.sql.linking.inputs import describe_database, describe_question
    from dtfixup.sql.linking.view import links_json, render

    location = Location.of(database)
    schema = reflect(location, names=None if names is None else read_names(names))
    inputs = describe_question(question, describe_database(schema, open_content(schema, location)))
    if json:
        sys.stdout.write(links_json(question, inputs.words, inputs.links, schema) + "\n")
    else:
        _console.print(render(question, inputs.words, inputs.links, schema))


def evaluate(
    data: Path,
    split: str = "dev",
    predictions: Path | None = None,
    pairs: Path | None = None,
    out: Path | None = None,
    execution: bool = True,
    variants: int = 3,
    json: Path | None = None,
) -> None:
    """Score predicted queries: Spider's exact match by hardness and component, and execution accuracy.

    Args:
        data: Folder in the layout of the Spider download.
        split: Split that the predictions are for.
        predictions: File with one query a line, as Spider's official script takes it.
        pairs: JSON lines with db_id, gold and pred, instead of a split and predictions; exact match only.
        out: JSON lines for the verdicts of --pairs, in the same order.
        execution: Also run every query, read-only, and compare the rows.
        variants: How many times to compare on randomised content too: an empty result proves nothing.
        json: File for the summary.
    """
    from dtfixup.sql.database.dataset import open_dataset
    from dtfixup.sql.evaluation.evaluate import evaluate_pairs, judge, read_predictions, show, summarise
    from dtfixup.sql.evaluation.execution_accuracy import Pair, evaluate_execution, show_execution, summarise_execution

    dataset = open_dataset(data)
    if pairs is not None:
        if out is None or predictions is not None:
            raise ConfigError("--pairs IN.jsonl needs --out OUT.jsonl, and takes no --predictions")
        summary = evaluate_pairs(pairs, out, dataset.schemas)
        show(summary, _console)
        _console.print(f"verdicts: {out}")
        result: dict[str, Any] = {"exact": summary.to_json()}
    elif predictions is None:
        raise ConfigError("give --predictions FILE with one query a line, or --pairs IN.jsonl with --out OUT.jsonl")
    else:
        examples = dataset.split(split)
        queries = read_predictions(predictions, len(examples))
        judged = [
            judge(example.query, query, dataset.schemas[example.database])
            for example, query in zip(examples, queries, strict=True)
        ]
        summary = summarise(judged)
        show(summary, _console)
        result = {"exact": summary.to_json()}
        if execution:
            both = zip(examples, queries, strict=True)
            run = [Pair(example.database, example.query, query) for example, query in both]
            executed = summarise_execution(evaluate_execution(run, dataset, variants=variants))
            show_execution(executed, _console)
            result["execution"] = executed.to_json()
    if json is not None:
        _console.print(f"summary: {write_json(json, result)}")


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
    """Parse, link, and cut into subwords a whole dataset, for training.

    Args:
        data: Folder in the layout of the Spider download.
        out: Folder for the prepared dataset.
        encoder: Encoder by name or folder.
        splits: Splits, separated by commas.
        synthetic: How many examples to make up of the training questions, by asking them over other databases.
        phrases: How many more to make up over the training databases, in the words of the phrase book.
        workers: Processes; one per core if not given.
        report: JSON file for figures: round trips, literal coverage, links, random walks. Takes minutes.
        verdicts: File of official verdicts to compare our evaluator with, in the report.
        walks: How many random derivations the report tries.
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
    data: Path, out: Path, count: int = 1000, split: str = "train", seed: int = 0, phrases: bool = False
) -> None:
    """Make up training examples: the questions of a split, asked over its other databases.

    Args:
        data: Folder in the layout of the Spider download.
        out: JSON file in the layout of a split.
        count: How many.
        split: The split whose questions and databases are used.
        seed: Of the choice.
        phrases: Use the words of the phrase book instead of the questions.
    """
    from dtfixup.sql.database.dataset import open_dataset

    dataset = open_dataset(data)
    if phrases:
        from dtfixup.sql.synthesis.phrases import make_phrases, write_phrases

        phrased = make_phrases(dataset, split, count=count, seed=seed)
        examples = [found.example for found in phrased.examples]
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
