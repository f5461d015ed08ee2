"""The verbs that work on result files of training runs: typed functions, and jsonargparse makes their options."""

from pathlib import Path

from rich.console import Console

_console = Console()


def score(result: Path, beams: Path, data: Path, split: str = "dev", variants: int = 3) -> None:
    """Add execution accuracy to the result file of a run, for the likeliest query and for the likeliest that runs.

    Args:
        result: The run's result.json, or a copy of it; it is completed.
        beams: The run's beams.jsonl.
        data: Folder in the layout of the Spider download.
        split: Split that the run was evaluated on.
        variants: How many times to compare on randomised content too: an empty result proves nothing.
    """
    from dtfixup.experiments.sql_score import score_run, show_score
    from dtfixup.sql.dataset import open_dataset

    show_score(score_run(result, beams, open_dataset(data), split, variants=variants), _console)
    _console.print(f"completed: {result}")


def errors(result: Path, beams: Path, data: Path, out: Path, split: str = "dev", variants: int = 10) -> None:
    """Say what kind each error of a run is: false negative of exact match, column, sketch, or both.

    Args:
        result: The run's result.json, or a copy of it.
        beams: The run's beams.jsonl.
        data: Folder in the layout of the Spider download.
        out: JSON file for the kind of every error and for the counts; it holds no text of the dataset.
        split: Split that the run was evaluated on.
        variants: How many times to compare on randomised content too, so that luck does not count.
    """
    from dtfixup.experiments.provenance import begin
    from dtfixup.experiments.spider_errors import analyse_run, show_errors, write_errors
    from dtfixup.sql.dataset import open_dataset

    started = begin()
    found = analyse_run(result, beams, open_dataset(data), split, variants=variants)
    options = {"result": result.name, "beams": beams.name, "data": "DIR", "out": out.name, "split": split}
    command = " ".join(f"--{name} {value}" for name, value in {**options, "variants": variants}.items())
    show_errors(found, _console)
    _console.print(f"errors: {write_errors(out, found, f'dtfixup sql errors {command}', started)}")


def curves(results: list[Path], out: Path, metric: str = "exact", title: str | None = None) -> None:
    """Draw validation against the epoch; runs that differ by their seed alone become one line with a band.

    Args:
        results: Result files of training runs.
        out: PNG file for the picture.
        metric: Metric of the evaluations during training, such as exact or exact_hard.
        title: Title of the picture.
    """
    from dtfixup.experiments.curves import draw_curves

    _console.print(f"picture: {draw_curves(results, out, metric=metric, title=title)}")
