"""The runs of a sweep on a Ray cluster: one Ray Tune trial for each.

In: the same runs and folders as `sweep.run_sweep` has. Out: the same files, written by the same function; what is
finished is not repeated, whoever trained it. Every machine of the cluster must have this package and see the folders of
results, work and data under the same names. Ray is the extra `cluster`; nothing else here needs it.
"""

import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from dtfixup.errors import ConfigError
from dtfixup.files import read_json
from dtfixup_paper.runs.run_identity import Settled, State, state_of
from dtfixup_paper.runs.runs import Run, train_one, write_lost
from dtfixup_paper.runs.sweep import Outcome, Sweep, open_sweep, read_results

_STORAGE = "ray"  # folder of Ray's own files, in that of the work
_HOST_AND_PORT = re.compile(r"(?:ray://)?(?P<host>[^:/]+):(?P<port>\d+)")
_PATIENCE = 10.0  # seconds


def run_on_ray(
    runs: Sequence[Run],
    out: str | Path,
    *,
    work: str | Path | None = None,
    cpus: float = 1.0,
    gpus: float | None = None,
    address: str | None = None,
    keep_weights: bool = False,
    console: Console | None = None,
) -> list[Outcome]:
    """Train what is not finished yet, as many at once as the cluster has room for.

    Ctrl-C ends it: runs that are not finished go on from their newest checkpoint with the next call.

    Args:
        runs: what to train.
        out: folder of the result files, which all machines see.
        work: folder that runs are trained in, each in one of its own, which all machines see; `<out>/runs` by default.
        cpus: CPU cores for a run.
        gpus: GPUs for a run, such as 0.5 for two runs on each; by default 1 if the cluster has any, else none.
        address: of the cluster, "auto" for the one on this machine; by default that of `RAY_ADDRESS`, else this machine
            is the cluster. A program that is connected already stays so.
        keep_weights: leave the weights of finished runs in their folders; else only logs and predictions stay.
        console: where the table is shown; as in `run_sweep`.
    """
    with _connected(address) as ray, open_sweep(runs, out, work, console) as sweep:
        first = {outcome.run.key: outcome for outcome in reversed(sweep.waiting)}  # what comes to the same, once
        places = [place for place, each in enumerate(sweep.outcomes) if first.get(each.run.key) is each]
        if places:
            there = ray.cluster_resources()
            if gpus is None:
                gpus = float(there.get("GPU", 0) > 0)
            for name, asked in (("CPU", cpus), ("GPU", gpus)):
                if asked > there.get(name, 0):
                    raise ConfigError(
                        f"a run asks for {asked:g} {name} and the cluster has {there.get(name, 0):g} in all, so none "
                        "would ever begin: ask for less, or start Ray with more (without GPUs leave out at_once)"
                    )
            _tune(sweep, places, {"cpu": cpus, "gpu": gpus}, keep_weights)
            sweep.settled = Settled(read_results(sweep.out))  # with what ended when Ray did not listen any more
        for outcome in sweep.outcomes:
            began = outcome.state is State.RUNNING
            outcome.state = State.WAITING if began else outcome.state
            sweep.take_over(outcome)
            if began and outcome.state is State.WAITING:
                outcome.state = State.LEFT
    return sweep.outcomes


def _tune(sweep: Sweep, places: Sequence[int], resources: dict[str, float], keep_weights: bool) -> None:
    """A trial for each of these runs."""
    from ray import tune

    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")  # runs have logs of their own, and Ray's are
    logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.ERROR)  # not to be missed aloud
    out, work = sweep.out.absolute(), sweep.work.absolute()
    given = {"runs": [each.run for each in sweep.outcomes], "out": out, "work": work, "keep_weights": keep_weights}
    given["at_once"] = round(1 / resources["gpu"]) if 0 < resources["gpu"] < 1 else 1
    trial = tune.with_parameters(_trial, **given, here=Path.cwd())
    tuner = tune.Tuner(
        tune.with_resources(trial, resources),
        param_space={"place": tune.grid_search(list(places))},
        tune_config=tune.TuneConfig(reuse_actors=True),
        run_config=tune.RunConfig(
            name="sweep", storage_path=str(work / _STORAGE), callbacks=[_follower(sweep)], verbose=0
        ),
    )
    with _ctrl_c_as_before():
        tuner.fit()


def _trial(
    config: dict[str, int],
    runs: Sequence[Run],
    out: Path,
    work: Path,
    keep_weights: bool,
    at_once: int,
    here: Path,
) -> None:
    """In a process of the cluster: train one run."""
    from ray import tune

    os.chdir(here)  # relative names, such as that of an encoder's folder, mean the same there
    run = runs[config["place"]]
    state, _ = train_one(run, out, work / run.name, keep_weights, at_once=at_once)
    tune.report({"state": state.value})


def _follower(sweep: Sweep) -> Any:
    """Keeps the sweep's table up to date."""
    from ray import tune

    class Follower(tune.Callback):  # type: ignore[misc]  # Ray's types are not looked at, see pyproject.toml
        def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            sweep.begin(sweep.outcomes[trial.config["place"]])

        def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            outcome = sweep.outcomes[trial.config["place"]]
            if trial.last_result.get("state") == State.LEFT:
                sweep.end(outcome, State.LEFT, None)
            else:
                content = read_json(outcome.run.file(sweep.out))
                sweep.end(outcome, state_of(content), content)

        def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            outcome = sweep.outcomes[trial.config["place"]]
            reason = f"its trial ended without a result; a file error.txt in WORK/{_STORAGE} says more"
            content = write_lost(outcome.run, sweep.out, reason, outcome.seconds or 0.0, "unknown")
            sweep.end(outcome, state_of(content), content)

        def __reduce__(self) -> tuple[Any, ...]:
            return tune.Callback, ()  # Ray saves callbacks, to go on by itself; a sweep goes on by its result files

    return Follower()


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to its cluster; one that is started here sends no usage statistics to anybody."""
    try:
        import ray
        import ray.tune
    except ImportError as error:
        raise ConfigError(
            f"runs on a cluster need Ray Tune ({error}): pip install 'dtfixup[cluster]', or train them on this machine"
        ) from error
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = address or os.environ.get("RAY_ADDRESS")
    try:
        if address and (found := _HOST_AND_PORT.fullmatch(address)):
            socket.create_connection((found["host"], int(found["port"])), _PATIENCE).close()  # Ray tries for minutes
        ray.init(address=address, log_to_driver=False)
    except OSError as error:
        raise ConfigError(
            f"no Ray cluster answers at {address}: {error}. Start one by `ray start --head`, and name its address"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _ctrl_c_as_before() -> Iterator[None]:
    """Ray Tune listens to Ctrl-C, and goes on doing so when it is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
