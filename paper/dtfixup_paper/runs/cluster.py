"""The runs of a sweep on a Ray cluster: one Ray Tune trial for each.

In and out: the same as for `sweep.run_sweep`. Every machine of the cluster must have this package and see the folders
of results, work and data under the same names. Ray is the extra `cluster`; nothing else needs it.
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
from dtfixup_paper.runs.run import SETTLED, Run, State, Trainer, read_run, train_one, write_lost
from dtfixup_paper.runs.sweep import Outcome, Sweep, open_sweep

_STORAGE = "ray"  # folder of Ray's own files, in that of the work
_HOST_AND_PORT = re.compile(r"(?:ray://)?(?P<host>[^:/]+):(?P<port>\d+)")
_PATIENCE = 10.0  # seconds


def run_on_ray(
    runs: Sequence[Run],
    trainer: Trainer,
    out: str | Path,
    *,
    work: str | Path | None = None,
    gpus: float | None = None,
    address: str | None = None,
    keep_weights: bool = False,
    console: Console | None = None,
) -> list[Outcome]:
    """Train the runs that have no result, as many at once as the cluster has room for.

    Ctrl-C ends it: unfinished runs go on from their newest checkpoint with the next call.

    Args:
        runs: what to train.
        trainer: trains each of them.
        out: folder of the result files, which all machines see.
        work: folder that runs are trained in, each in its own, which all machines see; `<out>/runs` by default.
        gpus: GPUs for a run, such as 0.5 for two runs on each; by default 1 if the cluster has any, else none.
        address: of the cluster, "auto" for the one on this machine; by default that of `RAY_ADDRESS`, else this machine
            is the cluster. A program that is connected already stays so.
        keep_weights: leave the weights of finished runs in their folders; else only logs and predictions stay.
        console: where the table is shown; as in `run_sweep`.
    """
    with _connected(address) as ray, open_sweep(runs, trainer, out, work, console) as sweep:
        places = [place for place, outcome in enumerate(sweep.outcomes) if outcome.state is State.WAITING]
        if places:
            resources = ray.cluster_resources()
            if gpus is None:
                gpus = float(resources.get("GPU", 0) > 0)
            for name, asked in (("CPU", 1), ("GPU", gpus)):
                if asked > resources.get(name, 0):
                    raise ConfigError(
                        f"a run asks for {asked:g} {name} and the cluster has {resources.get(name, 0):g} in all, so "
                        "none would ever begin: ask for less, or start Ray with more (without GPUs leave out at_once)"
                    )
            _tune(sweep, trainer, places, {"cpu": 1, "gpu": gpus}, keep_weights)
        for outcome in sweep.outcomes:
            if outcome.state is State.RUNNING:  # Ray listened no more, but the run may have ended since
                state, content = read_run(outcome.run, sweep.out)
                is_settled = state in SETTLED
                outcome.state, outcome.content = (state, content) if is_settled else (State.LEFT, None)
    return sweep.outcomes


def _tune(
    sweep: Sweep, trainer: Trainer, places: Sequence[int], resources: dict[str, float], keep_weights: bool
) -> None:
    """Run a trial for each of these runs."""
    from ray import tune

    # Silence Ray's loggers; runs write their own.
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.ERROR)
    work = sweep.work.absolute()
    trial = tune.with_parameters(
        _trial,
        runs=[outcome.run for outcome in sweep.outcomes],
        trainer=trainer,
        out=sweep.out.absolute(),
        work=work,
        keep_weights=keep_weights,
        at_once=round(1 / resources["gpu"]) if 0 < resources["gpu"] < 1 else 1,
        here=Path.cwd(),
    )
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
    trainer: Trainer,
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
    state, _ = train_one(run, trainer, out, work / run.name, keep_weights, at_once=at_once)
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
                sweep.end(outcome, *read_run(outcome.run, sweep.out))

        def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            outcome = sweep.outcomes[trial.config["place"]]
            reason = f"its trial ended without a result; a file error.txt in WORK/{_STORAGE} says more"
            write_lost(outcome.run, sweep.out, reason, outcome.seconds or 0.0)
            sweep.end(outcome, *read_run(outcome.run, sweep.out))

        def __reduce__(self) -> tuple[Any, ...]:
            return tune.Callback, ()  # Ray saves callbacks to resume by itself; a sweep resumes by its result files

    return Follower()


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to its cluster; one that is started here sends no usage statistics."""
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
    """Restore the handler of Ctrl-C, which Ray Tune keeps."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
