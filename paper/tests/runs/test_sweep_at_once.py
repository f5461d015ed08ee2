"""Sweeps in worker processes: what runs at the same time, and what is left of it when processes end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from dtfixup_paper.runs.sweep import Outcome, Run, State, Sweep, read_sweep, run_sweep
from rich.console import Console

from dtfixup.errors import ConfigError, WorkerStartError
from dtfixup.files import read_json
from paper.tests import noted_runs

HERE = Path(__file__).parents[1]
sweep = partial(noted_runs.sweep, at_once=2)


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`toy_runs.py` as a module that other processes find by its name."""
    monkeypatch.syspath_prepend(HERE)
    import toy_runs

    return toy_runs


def notes(out: Path) -> list[tuple[str, str, int]]:
    """Layers, what happened and the process, in order."""
    file = out / "notes.txt"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [(layers, what, int(process)) for layers, what, process in lines]


def is_alive(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@contextmanager
def program(out: Path, *kinds: str) -> Iterator["subprocess.Popen[str]"]:
    """A sweep in a process of its own, in a session of its own."""
    command = [sys.executable, str(HERE / "toy_runs.py"), str(out), *kinds]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_two_runs_are_trained_at_the_same_time_by_processes_that_stay(toys: ModuleType, tmp_path: Path) -> None:
    runs = [toys.toy_run("friendly", tmp_path, 1), toys.toy_run("friendly", tmp_path, 2)]
    runs += [toys.toy_run("plain", tmp_path, layers) for layers in (3, 4, 5)]
    data = toys.Data(tmp_path)
    runs = [replace(run, train=replace(run.train, data=data)) for run in runs]
    outcomes, shown = sweep([*runs, toys.toy_run("diverging", tmp_path, 6)], tmp_path)
    assert [each.state for each in outcomes] == [State.FINISHED] * 5 + [State.DIVERGED]
    assert [each.value for each in outcomes] == [10.0, 20.0, 30.0, 40.0, 50.0, None]
    assert "toy-friendly-n2-seed1: finished  accuracy 20.00" in shown
    assert "5 finished, 1 diverged" in shown
    processes = {process for _, _, process in notes(tmp_path)}
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert not any(map(is_alive, processes))
    opened = (tmp_path / "opened.txt").read_text().split()
    assert sorted(map(int, opened)) == sorted(processes), "each opens what runs share once"
    content = read_json(tmp_path / "toy" / "plain-n5-seed1.json")
    assert content == outcomes[4].content
    before = notes(tmp_path)
    outcomes, _ = sweep(runs, tmp_path)
    assert [each.value for each in outcomes] == [10.0, 20.0, 30.0, 40.0, 50.0]
    assert notes(tmp_path) == before, "nothing is repeated"


def test_what_comes_to_the_same_is_trained_once(toys: ModuleType, tmp_path: Path) -> None:
    main = toys.toy_run("slow", tmp_path, 1, experiment="main")
    other = toys.toy_run("slow", tmp_path, 2)
    outcomes, _ = sweep([main, replace(main, experiment="depth"), other], tmp_path)
    assert [each.value for each in outcomes] == [10.0, 10.0, 20.0]
    assert sorted(layers for layers, what, _ in notes(tmp_path) if what == "began") == ["1", "2"]
    assert {file.name for file in tmp_path.glob("*.json")} == {"main-slow-n1-seed1.json", "toy-slow-n2-seed1.json"}


def test_a_run_that_ends_its_process_has_failed_and_the_others_go_on(toys: ModuleType, tmp_path: Path) -> None:
    kinds = ("killed", "crashing", "quitting", "plain", "plain")
    runs = [toys.toy_run(kind, tmp_path, layers) for layers, kind in enumerate(kinds, 1)]
    outcomes, shown = sweep(runs, tmp_path)
    assert [each.state for each in outcomes] == [State.FAILED] * 3 + [State.FINISHED] * 2
    reasons = [read_json(tmp_path / f"{run.name}.json")["reason"] for run in runs[:3]]
    assert "its process was ended by SIGKILL, as the system does when memory runs out; WORK/worker-" in reasons[0]
    assert "its process was ended by SIGSEGV" in reasons[1]
    assert "its process ended with exit code 3" in reasons[2]
    assert f"{runs[0].name} failed: its process was ended by SIGKILL" in shown
    files = [read_json(tmp_path / f"{run.name}.json") for run in runs]
    assert {"config", "commit", "hardware", "wall_seconds", "key"} <= files[0].keys()
    assert [file["at_once"] for file in files] == [2] * 5
    logs = "".join(log.read_text() for log in (tmp_path / "runs").glob("worker-*.log"))
    assert "said before it quit" in logs
    assert "Segmentation fault" in logs
    outcomes, _ = sweep(runs[:1], tmp_path)
    assert outcomes[0].state is State.FINISHED
    assert [what for layers, what, _ in notes(tmp_path) if layers == "1"] == ["began", "resumed", "ended"]


def test_a_stop_reaches_every_run_and_the_next_call_goes_on(toys: ModuleType, tmp_path: Path) -> None:
    kinds = ("stoppable", "loading", "plain")
    with program(tmp_path, *kinds) as process:
        toys.wait_until_ready(tmp_path, 2)
        groups = {os.getpgid(each) for _, _, each in notes(tmp_path)}
        assert os.getpgid(process.pid) not in groups, "Ctrl-C on a terminal is heard by the sweep alone"
        process.terminate()
        shown, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "3 runs are left" in shown
    assert errors.count("Stopping: the step is finished and saved first") == 1
    assert sorted(what for _, what, _ in notes(tmp_path)) == ["began", "began", "stopped"]
    assert not any(is_alive(each) for _, _, each in notes(tmp_path))
    assert read_sweep(tmp_path) == []
    (tmp_path / "heard").touch()
    outcomes, _ = sweep([toys.toy_run(kind, tmp_path, layers) for layers, kind in enumerate(kinds, 1)], tmp_path)
    assert [each.state for each in outcomes] == [State.FINISHED] * 3
    assert [layers for layers, what, _ in notes(tmp_path) if what == "resumed"] == ["1"]


def test_a_second_ctrl_c_ends_what_does_not_stop(toys: ModuleType, tmp_path: Path) -> None:
    with program(tmp_path, "deaf", "deaf") as process:
        toys.wait_until_ready(tmp_path, 2)
        process.send_signal(signal.SIGINT)
        time.sleep(1.0)
        assert process.poll() is None, "it waits for the runs"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert not any(is_alive(each) for _, _, each in notes(tmp_path))


def test_nobody_is_left_behind_when_the_sweep_is_killed(toys: ModuleType, tmp_path: Path) -> None:
    with program(tmp_path, "deaf", "deaf", "plain") as process:
        toys.wait_until_ready(tmp_path, 2)
        process.kill()
        process.wait()
        toys.wait_for(lambda: not any(is_alive(each) for _, _, each in notes(tmp_path)))
    (tmp_path / "heard").touch()
    kinds = ("deaf", "deaf", "plain")
    outcomes, _ = sweep([toys.toy_run(kind, tmp_path, layers) for layers, kind in enumerate(kinds, 1)], tmp_path)
    assert [each.state for each in outcomes] == [State.FINISHED] * 3, "the folders are free"


def test_what_cannot_be_sent_is_said(toys: ModuleType, tmp_path: Path) -> None:
    run = replace(toys.toy_run("plain", tmp_path), train=lambda folder, resume: None)
    with pytest.raises(ConfigError, match=r"these cannot be sent there: .*lambda.* an instance of a class there"):
        sweep([run], tmp_path)


class Undeliverable:
    """Ends the process that unpickles it."""

    def __call__(self, folder: Path, resume: bool) -> None: ...

    def __reduce__(self) -> Any:
        return sys.exit, ("no such thing here",)


def test_workers_that_cannot_start_are_an_error(toys: ModuleType, tmp_path: Path) -> None:
    run = replace(toys.toy_run("plain", tmp_path), train=Undeliverable())
    with pytest.raises(WorkerStartError, match="one ended with exit code 1 and said 'no such thing here', see"):
        sweep([run, toys.toy_run("plain", tmp_path, 3)], tmp_path)


@pytest.mark.parametrize(("how", "message"), [({"at_once": 0}, "1 or more; got 0"), ({"mps": True}, "several runs")])
def test_settings_that_cannot_be_are_refused(how: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        run_sweep([], tmp_path, **how)


def outcome(run: Run, state: State, seconds: float, *, here: bool, **metrics: float) -> Outcome:
    return Outcome(run, state, {"wall_seconds": seconds, "metrics": metrics}, began=time.monotonic() if here else 0.0)


def test_the_time_a_run_takes_is_known_from_this_sweep(toys: ModuleType, tmp_path: Path) -> None:
    run = toys.toy_run("plain", tmp_path, cost=2.0)
    found = outcome(run, State.FINISHED, 100.0, here=False)
    broken = outcome(run, State.DIVERGED, 900.0, here=True)

    def sweep_of(*outcomes: Outcome, before: Sequence[Outcome] = ()) -> Sweep:
        return Sweep(list(outcomes), tmp_path, tmp_path, Console(quiet=True), at_once=3, before=before)

    twice = replace(run, cost=4.0)
    assert sweep_of(broken).expected_seconds(twice, 3) == 0.0
    assert sweep_of(found, broken).expected_seconds(twice, 3) == 600.0, "three share what one had"
    assert sweep_of(found, broken).expected_seconds(twice, 1) == 200.0, "the last one shares it with nobody"
    for others, expected in ((2, 300.0), (3, 200.0), (6, 200.0)):
        shared = replace(found, content={"wall_seconds": 100.0, "at_once": others, "metrics": {}})
        assert sweep_of(shared).expected_seconds(twice, 3) == expected, "nobody is taken to be faster"
    trained = outcome(run, State.FINISHED, 120.0, here=True)
    assert sweep_of(found, broken, trained).expected_seconds(twice, 3) == 240.0
    resumed = outcome(run, State.FINISHED, 3.0, here=True, train_seconds=150.0)
    assert sweep_of(found, broken, trained, resumed).expected_seconds(twice, 3) == 300.0
    later = [outcome(run, State.FINISHED, 50.0, here=True) for _ in range(6)]
    assert sweep_of(found, trained, *later[:5]).expected_seconds(twice, 3) == 240.0
    assert sweep_of(found, trained, *later).expected_seconds(twice, 3) == 100.0, "the first ones are not the measure"
    assert sweep_of(found, before=[trained, broken]).expected_seconds(twice, 3) == 240.0, "by the sweep before it"
    assert sweep_of(before=[found]).expected_seconds(twice, 3) == 0.0, "that was trained elsewhere"


@pytest.mark.parametrize(("waiting", "begins"), [(1, True), (2, False)])
def test_the_last_run_has_the_machine_to_itself(waiting: int, begins: bool, toys: ModuleType, tmp_path: Path) -> None:
    found = outcome(toys.toy_run("plain", tmp_path, 1), State.FINISHED, 100.0, here=False)
    left = [Outcome(toys.toy_run("plain", tmp_path, 2 + place)) for place in range(waiting)]
    ends = time.monotonic() + 150.0
    whole = Sweep([found, *left], tmp_path, tmp_path, Console(quiet=True), at_once=3, ends=ends)
    assert (whole.next_run() is left[0]) == begins


def test_no_run_is_started_that_would_not_end_in_time(toys: ModuleType, tmp_path: Path) -> None:
    runs = [toys.toy_run("slow", tmp_path, layers, cost=cost) for layers, cost in ((1, 1.0), (2, 1.0), (3, 600.0))]
    outcomes, shown = sweep([*runs, toys.toy_run("plain", tmp_path, 4)], tmp_path, budget_seconds=500.0)
    assert [each.state for each in outcomes] == [State.FINISHED, State.FINISHED, State.LEFT, State.FINISHED]
    assert "1 run is left, about 600 s" in shown, "nobody shares the time that it takes"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of NVIDIA's program, one that notes what it is asked; it has no GPU to share."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-cuda-mps-control"
    said = tmp_path / "said.txt"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -d ] && words=start || read words\n'
        f'[ -d "$CUDA_MPS_PIPE_DIRECTORY" ] && [ -d "$CUDA_MPS_LOG_DIRECTORY" ] || exit 1\n'
        f'echo "$words $CUDA_MPS_PIPE_DIRECTORY" >> {said}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return said


def test_the_service_runs_for_the_time_of_the_sweep(service: Path, toys: ModuleType, tmp_path: Path) -> None:
    outcomes, _ = sweep([toys.toy_run("mps", tmp_path), toys.toy_run("plain", tmp_path)], tmp_path, mps=True)
    assert [each.state for each in outcomes] == [State.FINISHED] * 2
    (start, pipe), (quit_, same) = (line.split() for line in service.read_text().splitlines())
    assert (start, quit_, pipe) == ("start", "quit", same)
    assert (tmp_path / "pipe.txt").read_text() == pipe, "the workers use it"
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ, "and nobody else does"
    assert not Path(pipe).exists()


def test_the_service_is_told_to_quit_when_the_sweep_is_killed(service: Path, toys: ModuleType, tmp_path: Path) -> None:
    text = "import os, signal\nfrom dtfixup_paper.runs.mps import mps_daemon\n"
    text += "with mps_daemon():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == -signal.SIGKILL
    toys.wait_for(lambda: "quit" in service.read_text())


def test_a_service_that_does_not_start_is_said(service: Path, toys: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "bin" / "nvidia-cuda-mps-control").write_text("#!/bin/sh\necho no device here\nexit 1\n")
    with pytest.raises(WorkerStartError, match="nvidia-cuda-mps-control did not start: no device here"):
        sweep([toys.toy_run("plain", tmp_path)], tmp_path, mps=True)


def test_without_the_service_mps_is_refused(toys: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="nvidia-cuda-mps-control is not on the path"):
        sweep([toys.toy_run("plain", tmp_path)], tmp_path, mps=True)
