"""Many training runs on one machine, one after another, by a process that may end at any time.

In: an ordered list of `Run`s and the `Trainer` of all of them. Out: a result file for each. The same call again goes on
where the last one ended: a run whose file is there is done, and one that was interrupted is resumed. A file whose
configuration, data or encoder are not those of its run is an error, before anything is trained.

A sweep locks its folders by `flock`, so that there is one at a time; it runs on Linux and macOS.
"""

import fcntl
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich import get_console
from rich.console import Console, JustifyMethod
from rich.live import Live
from rich.table import Table

from dtfixup.errors import ConfigError
from dtfixup_paper.runs.run import (
    SETTLED,
    Content,
    Run,
    State,
    Trainer,
    differences,
    hash_differences,
    read_run,
    train_one,
    whole_seconds,
)

_LOCK = ".sweep.lock"  # stays behind: removing it could unlock what another process has locked by then
_FRAME = 8  # lines of the screen that the live table leaves to its head and to what was there before
_SHOWN = 3  # files that a message names


@dataclass(eq=False)
class Outcome:
    """A run and what has become of it."""

    run: Run
    state: State = State.WAITING
    content: Content | None = None
    """Of its file."""
    began: float = 0.0
    """A reading of `time.monotonic()`; 0 if it has not begun in this sweep."""

    @property
    def was_stopped(self) -> bool:
        """It had begun, unlike one that is left because the time is short."""
        return self.state is State.LEFT and self.began > 0

    @property
    def seconds(self) -> float | None:
        if self.state is State.RUNNING:
            return time.monotonic() - self.began
        return None if self.content is None else self.content.get("wall_seconds")

    @property
    def value(self) -> float | None:
        return None if self.content is None else self.content["metrics"].get(self.run.metric)


def run_sweep(
    runs: Sequence[Run],
    trainer: Trainer,
    out: str | Path,
    *,
    work: str | Path | None = None,
    budget_seconds: float | None = None,
    keep_weights: bool = False,
    console: Console | None = None,
) -> list[Outcome]:
    """Train the runs that have no result, in order.

    SIGTERM and Ctrl-C end the sweep after the current update, which is saved.

    Args:
        runs: what to train.
        trainer: trains each of them.
        out: folder of the result files.
        work: folder that runs are trained in, each in its own; `<out>/runs` by default.
        budget_seconds: start no run that would not end within so many seconds, judged by the runs before it.
        keep_weights: leave the weights of finished runs in their folders; else only logs and predictions stay.
        console: where the table is shown: live on a terminal, a line for each run elsewhere; rich's own by default.
    """
    with open_sweep(runs, trainer, out, work, console) as sweep:
        ends = math.inf if budget_seconds is None else time.monotonic() + budget_seconds
        for outcome in sweep.waiting:
            if time.monotonic() + sweep.expected_seconds(outcome.run) >= ends:
                outcome.state = State.LEFT
                continue
            sweep.begin(outcome)
            folder = sweep.work / outcome.run.name
            sweep.end(outcome, *train_one(outcome.run, trainer, sweep.out, folder, keep_weights))
            if outcome.state is State.LEFT:
                break
    return sweep.outcomes


@dataclass(eq=False)
class Sweep:
    """The runs of one call and what becomes of them, in folders that no other sweep has meanwhile."""

    outcomes: list[Outcome]
    out: Path
    work: Path
    console: Console

    @property
    def waiting(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.state is State.WAITING]

    def begin(self, outcome: Outcome) -> None:
        outcome.state, outcome.began = State.RUNNING, time.monotonic()

    def end(self, outcome: Outcome, state: State, content: Content | None) -> None:
        """Note how a run ended; LEFT, without content, where a stop ended it."""
        outcome.state, outcome.content = state, content
        if content is not None and not self.console.is_terminal:
            place = self.outcomes.index(outcome) + 1
            _say(self.console, f"[{place}/{len(self.outcomes)}] {_line(outcome)}")

    def expected_seconds(self, run: Run) -> float:
        """Estimate a run's time from the slower of the last two that this sweep has trained, scaled by cost.

        The first runs of a sweep take longer, since they compile what the others find compiled. Before any is trained,
        the results that were there count; without any, 0.
        """
        finished = [outcome for outcome in self.outcomes if outcome.state is State.FINISHED]
        trained = sorted((outcome for outcome in finished if outcome.began), key=lambda outcome: outcome.began)
        rates = [whole_seconds(each.content or {}) / each.run.cost for each in trained[-2:] or finished]
        return run.cost * max(rates, default=0.0)

    def say_end(self) -> None:
        """Print the table, why runs failed, and what is left."""
        self.console.print(sweep_table(self.outcomes))
        for outcome in self.outcomes:
            if outcome.state is State.FAILED and outcome.content is not None:
                _say(self.console, f"{outcome.run.name} failed: {outcome.content['reason']}")
        if left := [outcome for outcome in self.outcomes if outcome.state in (State.LEFT, State.WAITING)]:
            expected = sum(self.expected_seconds(outcome.run) for outcome in left)
            are, them = ("1 run is", "it") if len(left) == 1 else (f"{len(left)} runs are", "them")
            _say(self.console, f"{are} left, about {expected:.0f} s: the same command goes on with {them}")


@contextmanager
def open_sweep(
    runs: Sequence[Run], trainer: Trainer, out: str | Path, work: str | Path | None, console: Console | None
) -> Iterator[Sweep]:
    """Lock the folders, read the results that are there, and show the table, whoever does the training."""
    out, console = Path(out), console or get_console()
    work = out / "runs" if work is None else Path(work)
    if repeated := [path for path, count in Counter(run.file(out) for run in runs).items() if count > 1]:
        raise ConfigError(f"two runs have the result file {repeated[0]}: give each variant a name of its own")
    with _locked(out, work):
        outcomes = [Outcome(run, *read_run(run, out)) for run in runs]
        for outcome in outcomes:
            if outcome.content is not None and outcome.state not in SETTLED:
                reason = outcome.content.get("reason")
                _say(console, f"{outcome.run.name}: it had failed ({reason}); it is trained again")
                outcome.state, outcome.content = State.WAITING, None
        _require_same(outcomes, trainer, out)
        sweep = Sweep(outcomes, out, work, console)
        with _live(outcomes, console):
            yield sweep
    sweep.say_end()


def sweep_table(outcomes: Sequence[Outcome], room: int | None = None) -> Table:
    """Variant, seed, state, metric and seconds; `room` limits the rows to those around the running one.

    Where there are runs of several experiments, each row names its own.
    """
    counts = Counter(outcome.state for outcome in outcomes)
    title = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
    table = Table(title=title, title_justify="left")
    for heading in ("variant", "seed", "state", "metric", "seconds"):
        justify: JustifyMethod = "left" if heading in ("variant", "state") else "right"
        table.add_column(heading, justify=justify, overflow="fold")
    rows, is_one = list(outcomes), len({outcome.run.experiment for outcome in outcomes}) == 1
    if room is not None and (room := max(room, 1)) < len(rows):
        running = next((place for place, row in enumerate(rows) if row.state is State.RUNNING), len(rows))
        first = min(max(0, running - room // 2), len(rows) - room)
        rows = rows[first : first + room]
    for row in rows:
        value, seconds = (None if number is None else f"{number:.1f}" for number in (row.value, row.seconds))
        name = row.run.variant if is_one else f"{row.run.experiment} {row.run.variant}"
        table.add_row(name, str(row.run.seed), row.state.value, value, seconds)
    return table


def _require_same(outcomes: Sequence[Outcome], trainer: Trainer, out: Path) -> None:
    """The results that are there were trained as their runs would be."""
    found = []
    for outcome in outcomes:
        if (content := outcome.content) is not None:
            fields = [*differences(outcome.run.config, content), *hash_differences(outcome.run, content, trainer)]
            found += [f"{outcome.run.file(out)}: {'; '.join(fields)}"] if fields else []
    if found:
        more = f"\nand {len(found) - _SHOWN} more files" if len(found) > _SHOWN else ""
        raise ConfigError(
            "results that are there were trained otherwise than these runs would be. Delete the files to train the "
            "runs again, or give another --settings or --out.\n" + "\n".join(found[:_SHOWN]) + more
        )


@contextmanager
def _locked(*folders: Path) -> Iterator[None]:
    """No other sweep has these folders; the system unlocks them when the process ends, however it ends."""
    with ExitStack() as stack:
        for folder in dict.fromkeys(path.resolve() for path in folders):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context((folder / _LOCK).open("a"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"another process runs a sweep in {folder}: wait until it ends, or choose other folders for the "
                    "results and for the work"
                ) from None
            except OSError as error:
                raise ConfigError(
                    f"{folder} cannot be locked: {error}. Choose a folder that is yours, on a file system with locks"
                ) from error
        yield


def _live(outcomes: Sequence[Outcome], console: Console) -> AbstractContextManager[object]:
    """The table, drawn again and again; nothing where there is no terminal."""
    if not console.is_terminal:
        return nullcontext()
    draw = partial(sweep_table, outcomes, console.height - _FRAME)
    return Live(get_renderable=draw, console=console, transient=True, refresh_per_second=2)


def _line(outcome: Outcome) -> str:
    value = "" if outcome.value is None else f"  {outcome.run.metric} {outcome.value:.2f}"
    reason = "" if outcome.content is None else outcome.content.get("reason", "")
    return f"{outcome.run.name}: {outcome.state}{value}  {outcome.seconds or 0:.1f} s  {reason}".rstrip()


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
