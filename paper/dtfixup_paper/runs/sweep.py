"""Many training runs on one machine, in turn or several at once, by a process that may end at any time.

In: an ordered list of `Run`s. Out: one file for each, `<out>/<experiment>/<variant>-seed<k>.json`, written whole or not
at all: its result, or why it has none. The same call again goes on where the last one ended, however it ended: a run is
known by its configuration and data (`run_identity.py`), so what is finished is not repeated, under whatever
experiment's name or by whichever command it was trained, and what has changed is trained anew.

One process at a time: a sweep locks its folders by `flock`, so it runs on Linux and macOS, as the training engine does.
"""

import fcntl
import hashlib
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich import get_console
from rich.console import Console, JustifyMethod
from rich.live import Live
from rich.table import Table

from dtfixup.errors import ConfigError
from dtfixup.files import read_json
from dtfixup.provenance import begin
from dtfixup.training.signals import StopSignals
from dtfixup_paper.runs.mps import mps_daemon
from dtfixup_paper.runs.run_identity import (
    OUTDATED,
    SETTLED,
    Content,
    Settled,
    State,
    at_once_of,
    result_paths,
    same_run,
    state_of,
    whole_seconds,
)
from dtfixup_paper.runs.runs import Run, train_one, write_lost
from dtfixup_paper.runs.workers import Crew, Lost

__all__ = [
    "SETTLED",
    "Content",
    "Outcome",
    "Run",
    "State",
    "Sweep",
    "open_sweep",
    "read_results",
    "read_sweep",
    "result_file",
    "run_sweep",
    "same_run",
    "sweep_table",
    "train_one",
]

_LOCK = ".sweep.lock"  # stays behind, since removing it could unlock what another process has locked by then
_FRAME = 8  # lines of the screen that the live table's rows leave to its head and to what was there before
_HEARING = 0.2  # seconds between two looks at whether a stop was asked for


@dataclass(eq=False)
class Outcome:
    """A run and what has become of it."""

    run: Run
    state: State = State.WAITING
    content: Content | None = None
    """Of its file, or of another file that has the result of the same training."""
    began: float = 0.0
    """A reading of `time.monotonic()`, once it has begun in this sweep; 0 before."""

    @property
    def was_stopped(self) -> bool:
        """It had begun; one that is left because the time is short has not."""
        return self.state is State.LEFT and self.began > 0

    @property
    def seconds(self) -> float | None:
        if self.state is State.RUNNING:
            return time.monotonic() - self.began
        found = None if self.content is None else self.content.get("wall_seconds")
        return None if found is None else float(found)

    @property
    def whole_seconds(self) -> float:
        """Those before it was resumed included, where the result tells them."""
        return max(self.seconds or 0.0, 0.0 if self.content is None else whole_seconds(self.content))

    @property
    def training_seconds(self) -> float:
        """Those of its last part, where it was resumed: no more than its wall time, which is of that part alone."""
        metrics = {} if self.content is None else self.content["metrics"]
        return min(self.seconds or 0.0, float(metrics.get("train_seconds") or 0.0))

    @property
    def at_once(self) -> int:
        """How many runs shared the machine with it, itself included."""
        return 1 if self.content is None else at_once_of(self.content)

    @property
    def value(self) -> float | None:
        found = None if self.content is None else self.content["metrics"].get(self.run.metric)
        return None if found is None else float(found)


def run_sweep(
    runs: Sequence[Run],
    out: str | Path,
    *,
    work: str | Path | None = None,
    budget_seconds: float | None = None,
    at_once: int = 1,
    mps: bool = False,
    keep_weights: bool = False,
    console: Console | None = None,
    before: Sequence[Outcome] = (),
) -> list[Outcome]:
    """Train what is not finished yet, in order.

    SIGTERM and Ctrl-C end it after the current update of every run, which is saved.

    Args:
        runs: what to train.
        out: folder of the result files.
        work: folder that runs are trained in, each in one of its own; `<out>/runs` by default.
        budget_seconds: a run is not started if it would take longer than what is left of them, by what the runs before
            it took.
        at_once: how many runs share the machine; more than one are trained in worker processes, so that a run which
            ends its process has failed, and the others go on. They must be picklable, and a script that asks for it
            does so below `if __name__ == "__main__":`.
        mps: let NVIDIA's Multi-Process Service run for the time of the sweep, so that kernels of runs overlap.
        keep_weights: leave the weights of finished runs in their folders; else only logs and predictions stay.
        console: where the table is shown: a live one on a terminal, a line for each run elsewhere. rich's own console
            by default, on which progress bars of the runs stand below the table.
        before: what became of runs that were trained just before, by which the time of the first ones is told.
    """
    if at_once < 1:
        raise ConfigError(f"at_once is how many runs to train at the same time, 1 or more; got {at_once}")
    if mps and at_once == 1:
        raise ConfigError("MPS is for several runs at once: set at_once to 2 or more, or leave out mps")
    with open_sweep(runs, out, work, console, at_once=at_once, budget_seconds=budget_seconds, before=before) as sweep:
        if at_once == 1:
            _train_in_turn(sweep, keep_weights)
        else:
            _train_at_once(sweep, keep_weights, mps)
    return sweep.outcomes


def _train_in_turn(sweep: "Sweep", keep_weights: bool) -> None:
    while (outcome := sweep.next_run()) is not None:
        sweep.begin(outcome)
        sweep.end(outcome, *train_one(outcome.run, sweep.out, sweep.work / outcome.run.name, keep_weights))
        if outcome.state is State.LEFT:
            break


def _train_at_once(sweep: "Sweep", keep_weights: bool, mps: bool) -> None:
    if not sweep.waiting:
        return
    runs, size = [each.run for each in sweep.outcomes], min(sweep.at_once, len(sweep.waiting))
    with ExitStack() as stack:
        environment = stack.enter_context(mps_daemon()) if mps else None
        signals = stack.enter_context(StopSignals())
        crew = Crew(runs, sweep.out, sweep.work, size, keep_weights=keep_weights, environment=environment)
        stack.enter_context(crew)
        while crew.is_busy or (sweep.waiting and not crew.is_stopped):
            if signals.received is not None:
                crew.stop()
            elif sweep.waiting:
                crew.replace_lost()
            while crew.has_idle and (outcome := sweep.next_run()) is not None:
                sweep.begin(outcome)
                crew.give(sweep.outcomes.index(outcome))
            for place, answer in crew.answers(_HEARING):
                outcome = sweep.outcomes[place]
                if not isinstance(answer, Lost):
                    sweep.end(outcome, *answer)
                elif crew.is_stopped:
                    sweep.end(outcome, State.LEFT, None)
                else:
                    seconds = time.monotonic() - outcome.began
                    where = answer.hardware
                    content = write_lost(outcome.run, sweep.out, answer.reason, seconds, where, at_once=size)
                    sweep.end(outcome, state_of(content), content)
                if outcome.state is State.LEFT:
                    crew.stop()


@dataclass(eq=False)
class Sweep:
    """The runs of one call and what becomes of them, in folders that no other sweep has meanwhile."""

    outcomes: list[Outcome]
    out: Path
    work: Path
    console: Console
    at_once: int = 1
    ends: float = math.inf
    """A reading of `time.monotonic()`."""
    settled: Settled = field(default_factory=Settled)
    before: Sequence[Outcome] = ()

    @property
    def waiting(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.state is State.WAITING]

    @property
    def sharing(self) -> int:
        """How many runs share the machine from now on: fewer than it may have where fewer are to be trained."""
        return min(self.at_once, sum(each.state in (State.WAITING, State.RUNNING) for each in self.outcomes))

    def next_run(self) -> Outcome | None:
        """The first that is to be trained now: its result is not there, nor on its way, and it fits into the time."""
        running = {each.run.key for each in self.outcomes if each.state is State.RUNNING}
        for outcome in self.waiting:
            self.take_over(outcome)
            if outcome.state is not State.WAITING or outcome.run.key in running:
                continue
            if time.monotonic() + self.expected_seconds(outcome.run, self.sharing) < self.ends:
                return outcome
            outcome.state = State.LEFT
        return None

    def take_over(self, outcome: Outcome) -> None:
        """What is known of the run already becomes its outcome."""
        run = outcome.run
        found = self.settled.find(run.config, run.seed, metric=run.metric, data_hash=run.data_hash)
        if outcome.state is State.WAITING and found is not None:
            outcome.state, outcome.content = state_of(found), found

    def begin(self, outcome: Outcome) -> None:
        outcome.state, outcome.began = State.RUNNING, time.monotonic()

    def end(self, outcome: Outcome, state: State, content: Content | None) -> None:
        """Note how a run ended; LEFT, without content, where a stop ended it."""
        outcome.state, outcome.content = state, content
        if content is not None and state in SETTLED:
            self.settled.add(content)
        if content is not None and not self.console.is_terminal:
            place = self.outcomes.index(outcome) + 1
            _say(self.console, f"[{place}/{len(self.outcomes)}] {_line(outcome)}")

    def expected_seconds(self, run: Run, sharing: int) -> float:
        """By the slowest of the latest runs that this sweep, or the one before it, has trained, costs considered.

        The first runs of a sweep take longer than the rest, since they compile what the others find compiled.
        Before it has trained any, by the results it found: where more runs are `sharing` the machine than then, each is
        as many times slower at worst. 0 where there is nothing to go by.
        """
        known = [each for each in self.outcomes if each.state is State.FINISHED]
        trained = [each for each in (*self.before, *known) if each.began and each.state is State.FINISHED]
        here = sorted(trained, key=lambda each: each.began)[-2 * self.at_once :]
        rates = [each.whole_seconds / each.run.cost for each in here]
        if not here:
            rates = [each.whole_seconds / each.run.cost * max(1.0, sharing / each.at_once) for each in known]
        return run.cost * max(rates, default=0.0)

    def say_end(self, started: float) -> None:
        """The table, how long it took beside the runs' own training, why runs failed, and what is left."""
        self.console.print(sweep_table(self.outcomes))
        trained = [each for each in self.outcomes if each.began and each.state is State.FINISHED]
        if (own := sum(each.training_seconds for each in trained)) > 0:
            wall = time.monotonic() - started
            ratio = f"{wall / own:.2f} times"
            runs = f"{len(trained)} run{'' if len(trained) == 1 else 's'}"
            _say(self.console, f"{wall:.0f} s for {runs} that trained for {own:.0f} s: {ratio}")
        for each in self.outcomes:
            if each.state is State.FAILED and each.content is not None:
                _say(self.console, f"{each.run.name} failed: {each.content['reason']}")
        if left := [each for each in self.outcomes if each.state in (State.LEFT, State.WAITING)]:
            sharing = min(self.at_once, len(left))
            expected = sum(self.expected_seconds(each.run, sharing) for each in left) / sharing
            are, them = ("1 run is", "it") if len(left) == 1 else (f"{len(left)} runs are", "them")
            _say(self.console, f"{are} left, about {expected:.0f} s: the same command goes on with {them}")


@contextmanager
def open_sweep(
    runs: Sequence[Run],
    out: str | Path,
    work: str | Path | None,
    console: Console | None,
    *,
    at_once: int = 1,
    budget_seconds: float | None = None,
    before: Sequence[Outcome] = (),
) -> Iterator[Sweep]:
    """Lock the folders, take over what is finished and show the table, whoever does the training."""
    started, out, console = begin(), Path(out), console or get_console()
    work = out / "runs" if work is None else Path(work)
    _require_names(runs)
    with _locked(out, work):
        outcomes, settled = [Outcome(run) for run in runs], Settled(read_results(out))
        sweep = Sweep(outcomes, out, work, console, at_once, settled=settled, before=before)
        for outcome in sweep.outcomes:
            sweep.take_over(outcome)
            _set_outdated_aside(outcome, out, console)
            if outcome.state is State.WAITING and (again := _brought_back(outcome.run, out, console)) is not None:
                sweep.settled.add(again)
                sweep.take_over(outcome)
        if budget_seconds is not None:
            sweep.ends = time.monotonic() + budget_seconds
        with _live(sweep.outcomes, console):
            yield sweep
    sweep.say_end(started)


def read_results(out: str | Path) -> list[Content]:
    """The JSON objects in `result_paths`."""
    return [content for content in map(read_json, result_paths(out)) if isinstance(content, dict)]


def read_sweep(out: str | Path) -> list[Content]:
    """Those of `read_results` that sweeps wrote."""
    return [each for each in read_results(out) if {"key", "state", "variant"} <= each.keys()]


def result_file(out: str | Path, content: Content) -> Path:
    """Where a run's content stands."""
    return Path(out) / content["experiment"] / f"{content['variant']}-seed{content['seed']}.json"


def sweep_table(outcomes: Sequence[Outcome], room: int | None = None) -> Table:
    """Variant, seed, state, metric and seconds; `room` is for how many rows, those around the running one.

    Where there are runs of several experiments, each row names its own.
    """
    table = Table(title=_counts(outcomes), title_justify="left")
    for heading in ("variant", "seed", "state", "metric", "seconds"):
        justify: JustifyMethod = "left" if heading in ("variant", "state") else "right"
        table.add_column(heading, justify=justify, overflow="fold")
    shown, is_one = list(outcomes), len({each.run.experiment for each in outcomes}) == 1
    if room is not None and (room := max(room, 1)) < len(shown):
        at = next((place for place, each in enumerate(shown) if each.state is State.RUNNING), len(shown))
        first = min(max(0, at - room // 2), len(shown) - room)
        shown = shown[first : first + room]
    for each in shown:
        value, seconds = (None if number is None else f"{number:.1f}" for number in (each.value, each.seconds))
        name = each.run.variant if is_one else f"{each.run.experiment} {each.run.variant}"
        table.add_row(name, str(each.run.seed), each.state.value, value, seconds)
    return table


def _require_names(runs: Sequence[Run]) -> None:
    """Runs that differ have files of their own."""
    keys: dict[str, str] = {}
    for run in runs:
        if keys.setdefault(run.name, run.key) != run.key:
            raise ConfigError(f"two runs that differ are called {run.name}: give each variant a name of its own")


@contextmanager
def _locked(*folders: Path) -> Iterator[None]:
    """Nobody else's sweep has these folders; the system unlocks them when the process ends, however it ends."""
    with ExitStack() as stack:
        for folder in dict.fromkeys(each.resolve() for each in folders):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context((folder / _LOCK).open("a"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"another process is at a sweep in {folder}: wait until it ends, or choose other folders for the "
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


def _set_outdated_aside(outcome: Outcome, out: Path, console: Console) -> None:
    """A file of a run's name that is not its result goes to another folder, so that no table takes it for one."""
    run = outcome.run
    file, name = run.file(out), run.name
    content = read_json(file) if file.exists() else {}
    known = content if isinstance(content, dict) else {}
    then = "it is trained anew" if outcome.state is State.WAITING else "another experiment has trained it since"
    if known.get("state") == State.FAILED:
        _say(console, f"{name}: it had failed ({known.get('reason')}); {then}")
    elif file.exists() and not same_run(known, run.config, run.seed, metric=run.metric, data_hash=run.data_hash):
        mark = known.get("key") or hashlib.sha256(file.read_bytes()).hexdigest()[:20]
        aside = _aside(out, name, mark)
        aside.parent.mkdir(parents=True, exist_ok=True)
        file.replace(aside)
        _say(
            console,
            f"{name}: configuration or data have changed since its result was written, which is now in {aside}; {then}",
        )


def _brought_back(run: Run, out: Path, console: Console) -> Content | None:
    """The result of a run that was set aside while its name had another configuration or data, in its old place."""
    aside, file = _aside(out, run.name, run.key), run.file(out)
    if file.exists() or not aside.is_file():
        return None
    aside.replace(file)
    _say(console, f"{run.name}: its result was set aside before, and stands in its place again")
    content: Content = read_json(file)
    return content


def _aside(out: Path, name: str, mark: str) -> Path:
    return out / OUTDATED / f"{name}-{mark}.json"


def _counts(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(each.state for each in outcomes)
    return ", ".join(f"{counts[state]} {state}" for state in State if counts[state])


def _line(outcome: Outcome) -> str:
    value = "" if outcome.value is None else f"  {outcome.run.metric} {outcome.value:.2f}"
    reason = "" if outcome.content is None else outcome.content.get("reason", "")
    return f"{outcome.run.name}: {outcome.state}{value}  {outcome.seconds or 0:.1f} s  {reason}".rstrip()


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
