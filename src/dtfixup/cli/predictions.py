"""The verbs that write and score queries: `dtfixup sql predict`, `evaluate`, `score` and `acceptance`."""

import sys
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import track

from dtfixup.errors import ConfigError
from dtfixup.files import write_atomically, write_json

_console = Console()


def predict(
    data: Path,
    out: Path,
    model: Path | None = None,
    split: str = "dev",
    beam: int = 5,
    pick: Literal["likely", "executable"] = "likely",
    beams: Path | None = None,
) -> None:
    """Write a query for every question of a split, one on each line, as Spider's official script takes them.

    Args:
        data: Folder in the layout of the Spider download, or one that `dtfixup sql prepare` made.
        out: File for the queries.
        model: Folder of a finished run, or a file of weights; the shipped model if not given.
        split: Split to answer.
        beam: Hypotheses of the search.
        pick: The likeliest query, or the likeliest that the database runs; the second needs the Spider layout.
        beams: File for all hypotheses, as JSON lines with scores.
    """
    from dtfixup.sql.ask.parser import default_model
    from dtfixup.sql.database.dataset import open_dataset
    from dtfixup.sql.execution.run import first_that_runs
    from dtfixup.sql.model.predictions import likeliest, write_beams
    from dtfixup.sql.preparation.splits import answer_split

    prepared, examples, results = answer_split(model or default_model(), data, split, beam)
    if pick == "executable":
        dataset = open_dataset(data)
        queries = []
        for example, beam_of_one in track(list(zip(examples, results, strict=True)), "run queries", transient=True):
            file = dataset.database_file(prepared.schema_of(example).database)
            queries.append(first_that_runs([query.sql for query in beam_of_one], file))
    else:
        queries = likeliest(results)
    write_atomically(out, lambda path: path.write_text("".join(f"{query}\n" for query in queries), encoding="utf-8"))
    if beams is not None:
        write_beams(beams, examples, results)
    _console.print(f"{len(queries):,} queries: {out}")


def evaluate(
    data: Path,
    split: str = "dev",
    predictions: Path | None = None,
    pairs: Path | None = None,
    out: Path | None = None,
    execution: bool = True,
    variants: int = 3,
    save: Path | None = None,
) -> None:
    """Score predicted queries: Spider's exact match by hardness and component, and execution accuracy.

    Args:
        data: Folder in the layout of the Spider download.
        split: Split that the predictions are for.
        predictions: File with one query on each line, as Spider's official script takes it.
        pairs: JSON lines with db_id, gold and pred, instead of a split and predictions; exact match only.
        out: JSON lines for the verdicts of --pairs, in the same order.
        execution: Run every query, read-only, and compare the rows.
        variants: Comparisons on randomised content, since an empty result proves nothing.
        save: JSON file for the summary.
    """
    from dtfixup.sql.database.dataset import open_dataset
    from dtfixup.sql.evaluation.evaluate import evaluate_pairs, judge, read_predictions, show_summary, summarise
    from dtfixup.sql.evaluation.execution_accuracy import Pair, evaluate_execution, show_execution, summarise_execution

    dataset = open_dataset(data)
    if pairs is not None:
        if out is None or predictions is not None:
            raise ConfigError("--pairs IN.jsonl needs --out OUT.jsonl, and takes no --predictions")
        summary = evaluate_pairs(pairs, out, dataset.schemas)
        show_summary(summary, _console)
        _console.print(f"verdicts: {out}")
        result: dict[str, Any] = {"exact": summary.to_json()}
    elif predictions is None:
        raise ConfigError("give --predictions FILE, one query on each line, or --pairs IN.jsonl with --out OUT.jsonl")
    else:
        examples = dataset.split(split)
        queries = read_predictions(predictions, len(examples))
        judged = [
            judge(example.query, query, dataset.schemas[example.database])
            for example, query in zip(examples, queries, strict=True)
        ]
        summary = summarise(judged)
        show_summary(summary, _console)
        result = {"exact": summary.to_json()}
        if execution:
            both = zip(examples, queries, strict=True)
            run = [Pair(example.database, example.query, query) for example, query in both]
            executed = summarise_execution(evaluate_execution(run, dataset, variants=variants))
            show_execution(executed, _console)
            result["execution"] = executed.to_json()
    if save is not None:
        _console.print(f"summary: {write_json(save, result)}")


def score(result: Path, beams: Path, data: Path, split: str = "dev", variants: int = 3) -> None:
    """Add execution accuracy to the result file of a run, for the likeliest query and for the likeliest that runs.

    Args:
        result: The run's result.json, or a copy of it; it is completed.
        beams: The run's beams.jsonl.
        data: Folder in the layout of the Spider download.
        split: Split that the run was evaluated on.
        variants: Comparisons on randomised content, since an empty result proves nothing.
    """
    from dtfixup.sql.database.dataset import open_dataset
    from dtfixup.sql.evaluation.score import score_run, show_score

    show_score(score_run(result, beams, open_dataset(data), split, variants=variants), _console)
    _console.print(f"completed: {result}")


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
