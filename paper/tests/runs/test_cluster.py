"""Sweeps on a Ray cluster of two nodes with one core each, on this machine."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from dtfixup_paper.runs.cluster import run_on_ray
from dtfixup_paper.runs.run import Run, State
from dtfixup_paper.runs.sweep import Outcome, run_sweep
from rich.console import Console

from dtfixup.errors import ConfigError
from dtfixup.files import read_json
from paper.tests import toy_runs

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def ray_installed() -> None:
    if find_spec("ray") is None:
        reason = "Ray is not installed: pip install 'dtfixup[cluster]'"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def cluster(ray_installed: None) -> Iterator[str]:
    """Its address. The nodes find `cluster_toys.py`."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # 15 by default: beside other tests it would starve
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            made.add_node(num_cpus=1)
            yield made.address
        finally:
            made.shutdown()


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(HERE)
    import cluster_toys

    return cluster_toys


def sweep(
    toys: ModuleType, runs: list[Run], out: Path, address: str, notes: Path | None = None, **how: Any
) -> tuple[list[Outcome], str]:
    return toy_runs.sweep(runs, toys.ClusterToys(notes or out), out, run_on_ray, address=address, **how)


def began(out: Path) -> list[str]:
    lines = [line.split() for line in (out / "notes.txt").read_text().splitlines()]
    return sorted(number for what, number in lines if what == "began")


def test_two_workers_train_at_the_same_time_and_write_the_same_files(
    cluster: str, toys: ModuleType, tmp_path: Path
) -> None:
    kinds = ("friendly", "friendly", "diverging", "plain")
    runs = [toys.toy_run(kind, number) for number, kind in enumerate(kinds, 1)]
    run_sweep(runs[3:], toys.ClusterToys(tmp_path), tmp_path, console=Console(quiet=True))
    before, on_ctrl_c = read_json(runs[3].file(tmp_path)), signal.getsignal(signal.SIGINT)
    outcomes, shown = sweep(toys, runs, tmp_path, cluster)
    assert [each.state for each in outcomes] == [State.FINISHED] * 2 + [State.DIVERGED, State.FINISHED]
    assert [each.value for each in outcomes] == [10.0, 20.0, None, 40.0]
    assert began(tmp_path) == ["1", "2", "3", "4"], "what was there is not trained"
    assert read_json(runs[3].file(tmp_path)) == before
    contents = [read_json(run.file(tmp_path)) for run in runs[:2]]
    assert contents == [each.content for each in outcomes[:2]]
    assert contents[0]["pid"] != contents[1]["pid"]
    assert contents[0].keys() == before.keys()
    assert "3 finished, 1 diverged" in shown
    assert signal.getsignal(signal.SIGINT) is on_ctrl_c, "Ray listens no longer"
    outcomes, _ = sweep(toys, runs, tmp_path, cluster)
    assert [each.value for each in outcomes] == [10.0, 20.0, None, 40.0]
    assert len(began(tmp_path)) == 4, "nothing is repeated"


def test_a_run_that_ends_its_process_has_failed_and_the_others_go_on(
    cluster: str, toys: ModuleType, tmp_path: Path
) -> None:
    runs = [toys.toy_run("killed", 1), toys.toy_run("plain", 2)]
    outcomes, shown = sweep(toys, runs, tmp_path, cluster)
    assert [each.state for each in outcomes] == [State.FAILED, State.FINISHED]
    assert "its trial ended without a result; a file error.txt in WORK/ray says more" in shown
    assert read_json(runs[0].file(tmp_path))["state"] == "failed"
    assert "The actor died" in next((tmp_path / "runs" / "ray").rglob("error.txt")).read_text()
    outcomes, _ = sweep(toys, runs, tmp_path, cluster)
    assert [each.state for each in outcomes] == [State.FINISHED] * 2
    assert "resumed 1" in (tmp_path / "notes.txt").read_text(), "from its checkpoint"


def test_ctrl_c_ends_it_and_the_next_call_goes_on(cluster: str, toys: ModuleType, tmp_path: Path) -> None:
    """Two are trained when it comes and one waits: a cluster of two has two places."""
    kinds = ("loading", "plain", "loading", "loading")
    runs = [toys.toy_run(kind, number) for number, kind in enumerate(kinds, 1)]

    def press() -> None:
        toys.wait_for(runs[1].file(tmp_path).exists)
        toys.wait_for(lambda: len(list(tmp_path.glob("ready-*"))) == 2)
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    outcomes, shown = sweep(toys, runs, tmp_path, cluster)
    pressing.join()
    assert [each.state for each in outcomes[:3]] == [State.LEFT, State.FINISHED, State.LEFT]
    assert outcomes[3].state in (State.LEFT, State.WAITING)
    assert "3 runs are left" in shown
    (tmp_path / "heard").touch()
    outcomes, _ = sweep(toys, runs, tmp_path, cluster)
    assert [each.state for each in outcomes] == [State.FINISHED] * 4


def test_more_than_the_cluster_has_is_an_error(cluster: str, toys: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"asks for 0\.5 GPU and the cluster has 0 in all"):
        sweep(toys, [toys.toy_run("plain")], tmp_path, cluster, gpus=0.5)


def test_relative_names_are_those_of_the_program(cluster: str, toys: ModuleType, tmp_path: Path) -> None:
    outcomes, shown = sweep(toys, [toys.toy_run("plain")], tmp_path, cluster, Path(os.path.relpath(tmp_path)))
    assert outcomes[0].state is State.FINISHED, shown


def test_without_ray_the_error_says_what_to_install(tmp_path: Path) -> None:
    text = "import sys\nsys.modules['ray'] = None\nfrom dtfixup_paper.runs.cluster import run_on_ray\n"
    text += "try:\n    run_on_ray([], None, sys.argv[1])\n"
    text += "except Exception as error:\n    print(type(error).__name__, error)\n"
    done = subprocess.run([sys.executable, "-c", text, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "ConfigError runs on a cluster need Ray Tune" in done.stdout
    assert "pip install 'dtfixup[cluster]'" in done.stdout


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_cluster_that_does_not_answer_is_an_error(
    address: str, ray_installed: None, toys: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no Ray cluster answers at"):
        sweep(toys, [toys.toy_run("plain")], tmp_path, address)
