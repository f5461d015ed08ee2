"""The verbs `dtfixup sql errors` and `dtfixup sql curves`, on result files of training runs."""

from pathlib import Path

from rich.console import Console

from dtfixup.errors import ConfigError

_console = Console()


def errors(
    beams: Path,
    data: Path,
    out: Path,
    result: Path | None = None,
    model: Path | None = None,
    split: str = "dev",
    beam: int = 5,
    variants: int = 10,
) -> None:
    """Say what kind each error of a run or of a model is: false negative of exact match, column, sketch, or both.

    Args:
        beams: The run's beams.jsonl. Without a result, a file to write: the queries of the model, which answers the
            split first.
        data: Folder in the layout of the Spider download.
        out: JSON file for the kind of every error and for the counts; it holds no text of the dataset.
        result: The run's result.json, or a copy of it.
        model: Folder of a finished run, or a file of weights, instead of a result; by default the shipped model.
        split: Split that the run was evaluated on, or that the model is to answer.
        beam: Hypotheses of the model's search; a result has its own.
        variants: Comparisons on randomised content, so that luck does not count.
    """
    from dtfixup.provenance import begin
    from dtfixup.sql.ask.parser import default_model
    from dtfixup.sql.database.dataset import open_dataset
    from dtfixup.sql.model.predictions import write_beams
    from dtfixup_paper.tables.spider_errors import analyse_queries, analyse_run, run_of, show_errors, write_errors

    started, dataset = begin(), open_dataset(data)
    options = {"beams": beams.name, "data": "DIR", "out": out.name, "split": split, "variants": variants}
    if result is not None:
        if model is not None:
            raise ConfigError("give either --result or --model")
        options = {"result": result.name, **options}
        analysis = analyse_run(result, beams, dataset, split, variants=variants)
    else:
        if beams.exists():
            raise ConfigError(
                f"{beams} exists: give --result, the result file of the run that wrote it, or another file for "
                "the queries of the model"
            )
        from dtfixup.sql.preparation.splits import answer_split

        path = model or default_model()
        options = {"model": path.name, "beam": beam, **options}
        run = run_of(path, beam)
        _, examples, queries = answer_split(path, data, split, beam)
        _console.print(f"queries: {write_beams(beams, examples, queries)}")
        analysis = analyse_queries(beams, dataset, split, run=run, variants=variants)
    command = " ".join(f"--{name} {value}" for name, value in options.items())
    show_errors(analysis, _console)
    _console.print(f"errors: {write_errors(out, analysis, f'dtfixup sql errors {command}', started)}")


def curves(results: tuple[Path, ...], out: Path, metric: str = "exact", title: str | None = None) -> None:
    """Draw validation against the epoch; runs that differ only in their seed become one line with a band.

    Args:
        results: Result files of training runs.
        out: PNG file for the picture.
        metric: Metric of the evaluations during training, such as exact or exact_hard.
        title: Title of the picture.
    """
    from dtfixup_paper.report.curves import draw_curves

    _console.print(f"picture: {draw_curves(list(results), out, metric=metric, title=title)}")
