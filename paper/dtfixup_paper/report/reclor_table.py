"""Result files of the ReClor runs → tables and pictures.

In: a folder of files that `sweep.run_sweep` wrote. Out: for each strategy and depth mean and standard deviation over
the seeds, and how many runs failed to leave chance; for tuning each setting's held-out accuracy; as tables for the
screen, as Markdown, and as pictures.

Which runs have failed to leave chance, `chance.py` says. One that diverged has failed too, and counts as chance in the
mean.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from rich.console import Console
from rich.table import Table

from dtfixup.errors import DataError
from dtfixup.files import write_atomically
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.training.config import from_json
from dtfixup_paper.report.curves import DepthLine, draw_depths, draw_panels
from dtfixup_paper.runs.run_identity import known_by
from dtfixup_paper.runs.sweep import Content, State, read_sweep, result_file
from dtfixup_paper.tables.chance import ERRORS, chance_limit, is_at_chance
from dtfixup_paper.tables.reclor import DEPTH, MAIN, TUNE
from dtfixup_paper.tables.settings import NO_LAYERS

_ORDER = (NO_LAYERS, "standard", "pre-ln", "admin", "deepnorm", "dt-fixup")
_HEADINGS = ("new layers", "strategy", "accuracy, %", "new contexts", "at chance", "s", "rate", "dropout", "warm-up")
_ON_SCREEN = 6  # columns that eighty letters have room for


@dataclass(frozen=True)
class Cell:
    """The runs of one strategy at one depth."""

    strategy: str
    layers: int
    accuracies: tuple[float, ...]
    """At the end of each run, in percent; chance for one that diverged."""
    new_contexts: tuple[float, ...]
    """The same over questions whose context no training example has."""
    at_chance: int
    """Runs that failed to leave chance."""
    seconds: float
    """Of training, the median."""
    config: Mapping[str, Any]

    @property
    def row(self) -> tuple[str, ...]:
        training = self.config["training"]
        return (
            str(self.layers),
            self.strategy if self.layers else "",
            _mean_and_deviation(self.accuracies),
            _mean_and_deviation(self.new_contexts),
            f"{self.at_chance} of {len(self.accuracies)}",
            f"{self.seconds:.0f}",
            f"{training['update']['learning_rate']:g}",
            f"{self.config['model']['input_dropout']:g}" if self.layers else "",
            str(training["warmup"]),
        )


@dataclass(frozen=True)
class Summary:
    """All cells, those of few layers first."""

    cells: tuple[Cell, ...]
    chance: float
    limit: float
    """The highest accuracy that is taken for chance."""
    questions: int
    encoder: str
    epochs: int

    @property
    def caption(self) -> str:
        return (
            f"Encoder {self.encoder}, {self.epochs} epochs, {self.questions} questions of val, after the last epoch; "
            f"mean ± standard deviation over the seeds. At chance: not above {self.limit:.1f} %, which is chance "
            f"({self.chance:.0f} %) and {ERRORS:.0f} standard errors, or the loss of equal probabilities, or "
            "diverged, which counts as chance in the mean. New contexts: over questions whose passage is in no "
            "training example. s: seconds of training."
        )

    def table(self) -> Table:
        """For the screen."""
        table = Table(title="ReClor", title_justify="left", caption=self.caption, caption_justify="left")
        for heading in _HEADINGS[:_ON_SCREEN]:
            table.add_column(heading, justify="left" if heading == "strategy" else "right")
        for cell in self.cells:
            table.add_row(*cell.row[:_ON_SCREEN])
        return table

    def markdown(self) -> str:
        return _markdown(_HEADINGS, [cell.row for cell in self.cells]) + f"\n{self.caption}\n"

    def draw(self, out: Path) -> Path:
        """Accuracy against depth, a line for each strategy."""
        lines = [
            DepthLine(strategy, {cell.layers: cell.accuracies for cell in self.cells if cell.strategy == strategy})
            for strategy in _ORDER[1:]
        ]
        baseline = [value for cell in self.cells if not cell.layers for value in cell.accuracies]
        return draw_depths(
            [line for line in lines if line.values],
            out,
            ylabel="ReClor val: accuracy, %",
            baseline=(NO_LAYERS, baseline) if baseline else None,
            chance=self.chance,
        )


def summarise(contents: Iterable[Content]) -> Summary:
    """The cells of all runs of `main` and `depth`."""
    runs = _unique(contents, (MAIN, DEPTH))
    finished = [run for run in runs if run["state"] == State.FINISHED]
    if not finished:
        raise DataError("there is no finished run of main or depth here: train some with dtfixup reading depth")
    metrics = finished[0]["metrics"]
    chance, questions = metrics["chance"], metrics["evaluated_examples"]
    limit = chance_limit(chance, questions)
    groups: dict[tuple[int, int], list[Content]] = {}
    for run in runs:
        groups.setdefault((run["config"]["model"]["layers"], _ORDER.index(_strategy(run))), []).append(run)
    cells = tuple(_cell(groups[key], chance) for key in sorted(groups))
    config = finished[0]["config"]
    return Summary(cells, chance, limit, questions, config["encoder"], config["training"]["epochs"])


def tune_rows(contents: Iterable[Content]) -> list[tuple[str, ...]]:
    """Depth, strategy, settings and held-out accuracy of every run of `tune`, the best of its kind first."""
    runs = _unique(contents, (TUNE,))

    def rank(run: Content) -> tuple[int, int, bool, float]:
        failed = run["state"] != State.FINISHED or is_at_chance(run["metrics"], "held_out")
        return run["config"]["model"]["layers"], _ORDER.index(_strategy(run)), failed, -_held_out(run)

    return [
        (
            str(layers := run["config"]["model"]["layers"]),
            _strategy(run) if layers else "",
            f"{run['config']['training']['update']['learning_rate']:g}",
            f"{run['config']['training']['update']['learning_rate'] * run['config']['encoder_factor']:.2g}",
            f"{run['config']['model']['input_dropout']:g}" if layers else "",
            str(run["config"]["training"]["warmup"]),
            str(run["seed"]),
            _told(run),
        )
        for run in sorted(runs, key=rank)
    ]


TUNE_HEADINGS = ("new layers", "strategy", "rate", "encoder rate", "dropout", "warm-up", "seed", "held out, %")


def tune_table(contents: Iterable[Content]) -> Table:
    """`tune_rows` for the screen."""
    table = Table(title="ReClor, tuning on held-out training examples", title_justify="left")
    for heading in TUNE_HEADINGS:
        table.add_column(heading, justify="left" if heading == "strategy" else "right")
    for row in tune_rows(contents):
        table.add_row(*row)
    return table


def show_tables(contents: Sequence[Content], console: Console) -> None:
    """All tables there are results for."""
    if any(each["state"] == State.FINISHED for each in _unique(contents, (MAIN, DEPTH))):
        console.print(summarise(contents).table())
    if _unique(contents, (TUNE,)):
        console.print(tune_table(contents))


def write_markdown(results: str | Path, out: Path) -> Path:
    """All tables of a folder of results."""
    contents = read_sweep(results)
    rows = tune_rows(contents)
    parts = [] if rows and not _unique(contents, (MAIN, DEPTH)) else [summarise(contents).markdown()]
    if rows:
        parts.append("Tuning, on held-out training examples:\n\n" + _markdown(TUNE_HEADINGS, rows))
    text = "\n".join(parts)
    return write_atomically(out, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def draw_training(results: str | Path, out: Path) -> Path:
    """Accuracy on val against the epoch, of all finished runs of `main` and `depth`: a panel for each depth."""
    contents = read_sweep(results)
    runs = [run for run in _unique(contents, (MAIN, DEPTH)) if run["state"] == State.FINISHED]
    lines: dict[tuple[int, str], list[Path]] = {}
    for run in sorted(runs, key=lambda run: (_ORDER.index(_strategy(run)), run["seed"])):
        lines.setdefault((run["config"]["model"]["layers"], _strategy(run)), []).append(result_file(results, run))
    panels = {
        f"{depth} new layers": {name: files for (layers, name), files in lines.items() if layers in (0, depth)}
        for depth in sorted({layers for layers, _ in lines if layers})
    }
    return draw_panels(
        panels, out, metric="accuracy", ylabel="ReClor val: accuracy, %", level=summarise(contents).chance
    )


def _unique(contents: Iterable[Content], experiments: Sequence[str]) -> list[Content]:
    """Runs that settled, each once, whatever experiments it stands for."""
    found = {
        each["key"]: each for each in contents if each["experiment"] in experiments and each["state"] != State.FAILED
    }
    return list(found.values())


def _cell(runs: Sequence[Content], chance: float) -> Cell:
    settings = {known_by(from_json(ReadingRunConfig, run["config"])): run for run in runs}
    if len(settings) > 1:
        one, other, *_ = (f"{run['experiment']}-{run['variant']}-seed{run['seed']}.json" for run in settings.values())
        raise DataError(f"{one} and {other} differ by more than their seed: run the sweep again, or remove the older")
    values = tuple(run["metrics"].get("val_accuracy", chance) for run in runs)
    new = tuple(run["metrics"].get("val_accuracy_new_contexts", chance) for run in runs)
    config = runs[0]["config"]
    return Cell(
        _strategy(runs[0]),
        config["model"]["layers"],
        values,
        new,
        sum(run["state"] != State.FINISHED or is_at_chance(run["metrics"], "val") for run in runs),
        median(run["metrics"].get("train_seconds", run["wall_seconds"]) for run in runs),
        config,
    )


def _strategy(run: Content) -> str:
    model = run["config"]["model"]
    return str(model["strategy"]) if model["layers"] else NO_LAYERS


def _held_out(run: Content) -> float:
    return float(run["metrics"].get("held_out_accuracy", 0.0))


def _told(run: Content) -> str:
    """Accuracy, and what makes it worth nothing."""
    if run["state"] != State.FINISHED:
        return str(run["state"])
    return f"{_held_out(run):.1f}" + (" at chance" if is_at_chance(run["metrics"], "held_out") else "")


def _mean_and_deviation(values: Sequence[float]) -> str:
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def _markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
