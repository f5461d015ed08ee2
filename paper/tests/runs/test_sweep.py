"""Sweeps: what is trained, what is not trained again, and what is left behind when something ends early."""

import io
import json
import math
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from dtfixup_paper.runs.runs import write_lost
from dtfixup_paper.runs.sweep import Outcome, Run, State, read_sweep, run_sweep, sweep_table
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dtfixup.errors import ConfigError, DivergedError, TrainingError
from dtfixup.files import read_json, write_json
from dtfixup.reading.presets import smoke
from paper.tests.noted_runs import Toy, Trained, fail, result, sweep


@pytest.fixture
def trained() -> Trained:
    return Trained()


def test_every_run_gets_a_file_in_order(trained: Trained, tmp_path: Path) -> None:
    runs = [trained.run(layers, seed) for seed in (1, 2) for layers in (4, 2)]
    outcomes, shown = sweep(runs, tmp_path)
    assert trained.names == ["toy-n4-seed1", "toy-n2-seed1", "toy-n4-seed2", "toy-n2-seed2"]
    assert [each.state for each in outcomes] == [State.FINISHED] * 4
    content = read_json(tmp_path / "toy" / "n4-seed2.json")
    assert content["metrics"] == {"accuracy": 40.0}
    assert (content["experiment"], content["variant"], content["state"]) == ("toy", "n4", "finished")
    assert content == outcomes[2].content
    assert "[2/4] toy-n2-seed1: finished  accuracy 20.00  1.0 s" in shown, "without a terminal, a line for each run"
    assert "4 finished" in shown


def test_finished_runs_are_not_repeated(trained: Trained, tmp_path: Path) -> None:
    sweep([trained.run(2)], tmp_path)
    before = (tmp_path / "toy" / "n2-seed1.json").stat().st_mtime_ns
    outcomes, _ = sweep([trained.run(4), trained.run(2)], tmp_path)
    assert trained.names == ["toy-n2-seed1", "toy-n4-seed1"]
    assert [each.value for each in outcomes] == [40.0, 20.0]
    assert (tmp_path / "toy" / "n2-seed1.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("changes", [{"data_hash": "other"}, {"config": Toy(layers=3)}, {"seed": 7}])
def test_a_changed_run_has_another_key(changes: dict[str, Any], trained: Trained) -> None:
    run = trained.run()
    assert replace(run, **changes).key != run.key
    assert replace(run, experiment="other", variant="other", cost=9.0).key == run.key


def test_runs_that_differ_have_names_that_differ(trained: Trained, tmp_path: Path) -> None:
    run = trained.run(2)
    sweep([run, run], tmp_path)
    assert trained.names == ["toy-n2-seed1"]
    with pytest.raises(ConfigError, match=r"two runs that differ are called toy-n2-seed1: give each variant a name"):
        sweep([run, replace(run, config=Toy(layers=3))], tmp_path)


def test_a_changed_configuration_is_trained_anew_and_said(trained: Trained, tmp_path: Path) -> None:
    sweep([trained.run(2)], tmp_path)
    changed = replace(trained.run(2), config=Toy(layers=3))
    _, shown = sweep([changed], tmp_path)
    assert trained.names == ["toy-n2-seed1"] * 2
    assert "toy-n2-seed1: configuration or data have changed since its result was written" in shown
    assert "it is trained anew" in shown
    assert read_json(tmp_path / "toy" / "n2-seed1.json")["key"] == changed.key
    sweep([replace(changed, config=Toy(layers=5))], tmp_path)
    for older in (trained.run(2), changed):
        aside = read_json(tmp_path / "outdated" / f"toy-n2-seed1-{older.key}.json")
        assert aside["key"] == older.key, "nothing is lost"


def test_a_run_of_another_experiment_is_reused(trained: Trained, tmp_path: Path) -> None:
    sweep([trained.run(2, experiment="main")], tmp_path)
    stale = tmp_path / "depth" / "n2-seed1.json"
    write_json(stale, {"key": "older", "state": "finished", "variant": "n2", "experiment": "depth"})
    outcomes, shown = sweep(
        [trained.run(2, experiment="depth"), trained.run(4), trained.run(4, experiment="again")], tmp_path
    )
    assert trained.names == ["main-n2-seed1", "toy-n4-seed1"]
    assert [each.value for each in outcomes] == [20.0, 40.0, 40.0]
    assert not stale.exists(), "its numbers are of another configuration"
    assert "another experiment has trained it since" in shown
    assert len(read_sweep(tmp_path)) == 2


def test_the_result_of_plain_training_is_reused(trained: Trained, tmp_path: Path) -> None:
    plain = {"config": {"layers": 2}, "seed": 1, "data_hash": "data", "metrics": {"accuracy": 7.0}, "wall_seconds": 3.0}
    write_json(tmp_path / "by-hand.json", plain)
    outcomes, shown = sweep([trained.run(2), trained.run(3), trained.run(2, seed=2)], tmp_path)
    assert trained.names == ["toy-n3-seed1", "toy-n2-seed2"]
    assert (outcomes[0].state, outcomes[0].value, outcomes[0].seconds) == (State.FINISHED, 7.0, 3.0)
    assert "3 finished" in shown
    assert read_json(tmp_path / "by-hand.json") == plain
    assert len(read_sweep(tmp_path)) == 2, "no sweep wrote it"


def test_who_goes_back_to_the_data_of_before_has_their_results_again(trained: Trained, tmp_path: Path) -> None:
    before, after = trained.run(2, data_hash="one"), trained.run(2, data_hash="other")
    for run in (before, after):
        sweep([run], tmp_path)
    outcomes, shown = sweep([before], tmp_path)
    assert len(trained.names) == 2, "nothing is trained a third time"
    assert outcomes[0].state is State.FINISHED
    assert "its result was set aside before, and stands in its place again" in shown
    assert read_json(tmp_path / "toy" / "n2-seed1.json")["data_hash"] == "one"
    sweep([after], tmp_path)
    assert len(trained.names) == 2


def test_a_field_added_with_a_default_trains_nothing_anew(trained: Trained, tmp_path: Path) -> None:
    sweep([trained.run(2), trained.run(4)], tmp_path)

    @dataclass(frozen=True)
    class Newer(Toy):
        heads: int = 8

    later = [replace(trained.run(layers), config=Newer(layers, 1, heads)) for layers, heads in ((2, 8), (4, 16))]
    outcomes, shown = sweep(later, tmp_path)
    assert trained.names == ["toy-n2-seed1", "toy-n4-seed1", "toy-n4-seed1"]
    assert [each.value for each in outcomes] == [20.0, 40.0]
    assert "toy-n4-seed1: configuration or data have changed" in shown
    assert "toy-n2-seed1: configuration or data have changed" not in shown


def test_data_that_change_during_a_sweep_are_no_result(trained: Trained, tmp_path: Path) -> None:
    changed = trained.run(2, train=lambda folder, resume: {**result(1.0), "data_hash": "other"})
    outcomes, shown = sweep([changed], tmp_path)
    assert outcomes[0].state is State.FAILED
    assert "the data are others than when the sweep began" in shown


def test_a_run_that_diverged_is_a_result(trained: Trained, tmp_path: Path) -> None:
    broken = trained.run(2, train=fail(DivergedError("20 updates in a row were skipped")))
    outcomes, _ = sweep([broken, trained.run(4)], tmp_path)
    assert [each.state for each in outcomes] == [State.DIVERGED, State.FINISHED]
    content = read_json(tmp_path / "toy" / "n2-seed1.json")
    assert content["reason"] == "20 updates in a row were skipped"
    assert (content["metrics"], content["config"]) == ({}, {"layers": 2, "seed": 1})
    assert {"commit", "hardware", "wall_seconds", "data_hash", "command", "seed"} <= content.keys()
    sweep([broken], tmp_path)
    assert trained.names == ["toy-n2-seed1", "toy-n4-seed1"]


@pytest.mark.parametrize("error", [TrainingError("out of memory"), KeyError("a mistake")])
def test_a_run_that_failed_otherwise_is_told_and_tried_again(
    error: Exception, trained: Trained, tmp_path: Path
) -> None:
    outcomes, shown = sweep([trained.run(2, train=fail(error)), trained.run(4)], tmp_path)
    assert [each.state for each in outcomes] == [State.FAILED, State.FINISHED]
    reason = f"{type(error).__name__}: {error}"
    assert read_json(tmp_path / "toy" / "n2-seed1.json")["reason"] == reason
    assert f"toy-n2-seed1 failed: {reason}" in shown
    outcomes, shown = sweep([trained.run(2), trained.run(4)], tmp_path)
    assert [each.state for each in outcomes] == [State.FINISHED] * 2
    assert trained.names == ["toy-n2-seed1", "toy-n4-seed1", "toy-n2-seed1"]
    assert f"it had failed ({reason}); it is trained anew" in shown


def test_a_process_that_dies_after_its_run_takes_no_result_with_it(trained: Trained, tmp_path: Path) -> None:
    run = trained.run(2)
    sweep([run], tmp_path)
    before = read_json(tmp_path / "toy" / "n2-seed1.json")
    assert (
        write_lost(run, tmp_path, "it was killed", 1.0, "here")
        == before
        == read_json(tmp_path / "toy" / "n2-seed1.json")
    )
    other = replace(run, config=Toy(layers=3))
    assert write_lost(other, tmp_path, "it was killed", 1.0, "here")["state"] == "failed", "the file is of another run"


def test_the_end_says_what_a_sweep_takes_beside_its_training(trained: Trained, tmp_path: Path) -> None:
    found = result(2, seconds=1e6)
    found["metrics"]["train_seconds"] = 3e6  # two thirds before it was resumed
    long = replace(trained.run(2), train=lambda folder, resume: found)
    _, shown = sweep([long, trained.run(4)], tmp_path)
    assert "s for 2 runs that trained for 1000000 s: 0.00 times" in " ".join(shown.split())
    _, again = sweep([long], tmp_path)
    assert "that trained for" not in again, "nothing was trained"


def test_a_stop_ends_the_sweep_and_says_what_is_left(trained: Trained, tmp_path: Path) -> None:
    stopped = trained.run(4, train=lambda folder, resume: None)
    outcomes, shown = sweep([trained.run(2, seconds=20.0), stopped, trained.run(8, cost=3.0)], tmp_path)
    assert [each.state for each in outcomes] == [State.FINISHED, State.LEFT, State.WAITING]
    assert [each.was_stopped for each in outcomes] == [False, True, False]
    assert not (tmp_path / "toy" / "n4-seed1.json").exists()
    assert "2 runs are left, about 80 s: the same command goes on with them" in shown


def test_what_does_not_fit_into_the_time_is_not_started(trained: Trained, tmp_path: Path) -> None:
    runs = [
        trained.run(2, seconds=40.0, cost=4.0),
        trained.run(4, seconds=90.0, cost=9.0),
        trained.run(8, cost=20.0),
        trained.run(16, cost=5.0),
    ]
    outcomes, shown = sweep(runs, tmp_path, budget_seconds=100.0)
    assert [each.state for each in outcomes] == [State.FINISHED, State.FINISHED, State.LEFT, State.FINISHED]
    assert "1 run is left, about 200 s" in shown
    outcomes, _ = sweep(runs, tmp_path, budget_seconds=0.0)
    assert outcomes[2].state is State.LEFT
    assert not outcomes[2].was_stopped
    outcomes, _ = sweep(runs, tmp_path)
    assert outcomes[2].state is State.FINISHED


def test_a_checkpoint_of_another_folder_of_the_encoder_is_not_gone_on_from(trained: Trained, tmp_path: Path) -> None:
    seen: list[bool] = []

    def stop(folder: Path, resume: bool) -> None:
        seen.append(resume)
        (folder / "checkpoints").mkdir(exist_ok=True)
        (folder / "checkpoints" / "step-00000007.safetensors").touch()

    start = trained.run(2, train=stop)
    for encoder in ("a/tiny", "a/tiny", "b/tiny"):
        sweep([replace(start, config=replace(smoke(), encoder=encoder))], tmp_path)
    assert seen == [False, True, False], "it would be refused for ever: weights of another file may be others"


def test_a_checkpoint_is_gone_on_from_if_it_is_of_this_run(trained: Trained, tmp_path: Path) -> None:
    resumed: list[bool] = []

    def stop(folder: Path, resume: bool) -> None:
        resumed.append(resume)
        if not resume:
            assert not (folder / "rubbish").exists()
            (folder / "rubbish").touch()
        (folder / "checkpoints").mkdir(exist_ok=True)
        (folder / "checkpoints" / "step-00000007.safetensors").touch()

    run = trained.run(2, train=stop)
    for each in (run, run, replace(run, config=Toy(layers=5))):
        sweep([each], tmp_path)
    assert resumed == [False, True, False]
    (tmp_path / "runs" / "toy-n2-seed1" / "checkpoints" / "step-00000007.safetensors").unlink()
    sweep([replace(run, config=Toy(layers=5))], tmp_path)
    assert resumed == [False, True, False, False], "there is nothing to go on from"


def test_a_sweep_survives_being_killed(tmp_path: Path) -> None:
    """The second run kills its process once; what was finished before stays, and no file is half written."""
    program = textwrap.dedent(
        """
        import os, signal, sys
        from dataclasses import dataclass
        from pathlib import Path
        from dtfixup_paper.runs.sweep import Run, run_sweep

        @dataclass(frozen=True)
        class Toy:
            seed: int

        out = Path(sys.argv[1])

        def run(seed):
            def train(folder, resume):
                with (out / "trained.txt").open("a") as file:
                    file.write(f"{seed}\\n")
                if seed == 2 and not (out / "killed").exists():
                    (out / "killed").touch()
                    (folder / "half").write_text("written")
                    os.kill(os.getpid(), signal.SIGKILL)
                assert not (folder / "half").exists()
                return {"seed": seed, "wall_seconds": 1.0, "metrics": {"m": 1.0}}
            return Run("toy", "v", seed, Toy(seed), "data", train, "m")

        run_sweep([run(seed) for seed in (1, 2, 3)], out)
        """
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert first.returncode == -signal.SIGKILL
    assert [each["seed"] for each in read_sweep(tmp_path)] == [1]
    second = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "3 finished" in second.stdout
    assert (tmp_path / "trained.txt").read_text().split() == ["1", "2", "2", "3"]


@given(
    states=st.lists(st.sampled_from([State.FINISHED, State.WAITING]), min_size=1, max_size=30),
    room=st.integers(-3, 40),
    data=st.data(),
)
def test_the_live_table_shows_the_running_row_whatever_the_room(
    states: list[State], room: int, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(states) - 1))
    outcomes = [
        Outcome(Run("e", f"v{place}", 1, Toy(), "", fail(KeyError()), "m"), state) for place, state in enumerate(states)
    ]
    outcomes[at].state, outcomes[at].began = State.RUNNING, time.monotonic()
    shown = sweep_table(outcomes, room)
    assert f"v{at}" in list(shown.columns[0].cells)
    assert shown.row_count == min(len(states), max(room, 1))


def test_rows_of_several_experiments_name_their_own(trained: Trained) -> None:
    one, other = trained.run(2), replace(trained.run(4), experiment="other")
    for runs, names in (([one], ["n2"]), ([one, other], ["toy n2", "other n4"])):
        table = sweep_table([Outcome(run) for run in runs])
        assert list(table.columns[0].cells) == names


def test_on_a_terminal_the_table_is_live(trained: Trained, tmp_path: Path) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, height=40)

    def train(folder: Path, resume: bool) -> Any:
        ends = time.monotonic() + 60.0
        while "running" not in screen.getvalue() and time.monotonic() < ends:
            time.sleep(0.02)
        return result(33.3)

    run_sweep([trained.run(2, train=train)], tmp_path, console=console)
    assert "running" in screen.getvalue()
    assert "33.3" in screen.getvalue()


def test_a_sweep_adds_what_a_result_does_not_say(trained: Trained, tmp_path: Path) -> None:
    run = trained.run(2, seed=3, train=lambda folder, resume: {"metrics": {"accuracy": 5.0}, "command": "its own"})
    outcomes, shown = sweep([run], tmp_path)
    assert "toy-n2-seed3: finished  accuracy 5.00" in shown
    content = read_json(tmp_path / "toy" / "n2-seed3.json")
    assert (content["seed"], content["config"], content["curve"]) == (3, {"layers": 2, "seed": 3}, [])
    assert (content["data_hash"], content["command"]) == ("data", "its own")
    assert content["wall_seconds"] == outcomes[0].seconds


@pytest.mark.parametrize(
    "found", [{}, {"metrics": None}, {"metrics": {"loss": 1.0}}, {"metrics": {"accuracy": math.nan}}]
)
def test_what_is_no_result_fails_before_it_is_written(found: dict[str, Any], trained: Trained, tmp_path: Path) -> None:
    outcomes, _ = sweep([trained.run(2, train=lambda folder, resume: found), trained.run(4)], tmp_path)
    assert [each.state for each in outcomes] == [State.FAILED, State.FINISHED]
    content = json.loads((tmp_path / "toy" / "n2-seed1.json").read_text())
    assert content["metrics"] == {}
    assert "no accuracy in its metrics" in content["reason"] or "not JSON compliant" in content["reason"]
