"""Sweeps: what is trained, what is not trained again, and what is left behind when something ends early."""

import io
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dtfixup_paper.runs.run import State
from dtfixup_paper.runs.sweep import Outcome, Sweep, run_sweep, sweep_table
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dtfixup.errors import ConfigError, DivergedError, TrainingError
from dtfixup.files import read_json, write_json
from paper.tests.toy_runs import Toy, Toys, failing, result, save, sweep, toy_run


@pytest.fixture
def toys() -> Toys:
    return Toys()


def test_every_run_gets_a_file_in_order(toys: Toys, tmp_path: Path) -> None:
    runs = [toy_run(layers, seed) for seed in (1, 2) for layers in (4, 2)]
    outcomes, shown = sweep(runs, toys, tmp_path)
    assert toys.names == ["toy-n4-seed1", "toy-n2-seed1", "toy-n4-seed2", "toy-n2-seed2"]
    assert [each.state for each in outcomes] == [State.FINISHED] * 4
    assert [read_json(run.file(tmp_path)) for run in runs] == [each.content for each in outcomes]
    assert "[2/4] toy-n2-seed1: finished  accuracy 20.00  1.0 s" in shown, "without a terminal, a line for each run"
    assert "4 finished" in shown


def test_a_result_that_is_there_is_done(toys: Toys, tmp_path: Path) -> None:
    sweep([toy_run(2)], toys, tmp_path)
    before = toy_run(2).file(tmp_path).stat().st_mtime_ns
    outcomes, _ = sweep([toy_run(4), toy_run(2)], toys, tmp_path)
    assert toys.names == ["toy-n2-seed1", "toy-n4-seed1"]
    assert [each.value for each in outcomes] == [40.0, 20.0]
    assert toy_run(2).file(tmp_path).stat().st_mtime_ns == before
    toy_run(2).file(tmp_path).unlink()
    sweep([toy_run(2)], toys, tmp_path)
    assert toys.names[-1] == "toy-n2-seed1", "deleting the file has it trained again"


def test_two_runs_of_one_file_are_refused(toys: Toys, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"two runs have the result file .*toy/n2-seed1\.json: give each variant"):
        sweep([toy_run(2), toy_run(2)], toys, tmp_path)


@pytest.mark.parametrize(
    ("config", "trainer", "field"),
    [
        (Toy(3), Toys(), "layers is 2 there and 3 here"),
        (Toy(2), Toys(data="other"), "data_hash"),
        (Toy(2), Toys(weights="other"), "encoder_sha256"),
    ],
)
def test_a_result_that_was_trained_otherwise_is_refused_and_kept(
    config: Toy, trainer: Toys, field: str, tmp_path: Path
) -> None:
    file = toy_run().file(tmp_path)
    made = lambda folder, resume: {**result(1.0), "encoder": "tiny", "encoder_sha256": "weights"}  # noqa: E731
    sweep([toy_run()], Toys({"n2": made}), tmp_path)
    before = file.read_bytes()
    with pytest.raises(ConfigError, match=r"Delete the files .* give another --settings or --out") as refused:
        sweep([toy_run(4), replace(toy_run(), config=config)], trainer, tmp_path)
    assert f"{file}: " in str(refused.value)
    assert field in str(refused.value)
    assert (file.read_bytes(), trainer.names) == (before, []), "nothing is trained before all is clear"
    file.unlink()
    outcomes, _ = sweep([replace(toy_run(), config=config)], trainer, tmp_path)
    assert outcomes[0].state is State.FINISHED


def test_a_refusal_names_the_first_files_and_counts_the_others(toys: Toys, tmp_path: Path) -> None:
    runs = [toy_run(2, seed) for seed in range(1, 6)]
    sweep(runs, toys, tmp_path)
    with pytest.raises(ConfigError, match=r"n2-seed3\.json: .*\nand 2 more files$"):
        sweep([replace(run, config=Toy(3)) for run in runs], toys, tmp_path)


def test_a_run_that_diverged_is_a_result(toys: Toys, tmp_path: Path) -> None:
    toys.how = {"n2": failing(DivergedError("20 updates in a row were skipped"))}
    outcomes, _ = sweep([toy_run(2), toy_run(4)], toys, tmp_path)
    assert [each.state for each in outcomes] == [State.DIVERGED, State.FINISHED]
    content = read_json(toy_run(2).file(tmp_path))
    assert (content["reason"], content["metrics"]) == ("20 updates in a row were skipped", {})
    outcomes, _ = sweep([toy_run(2)], toys, tmp_path)
    assert (outcomes[0].state, len(toys.names)) == (State.DIVERGED, 2)


@pytest.mark.parametrize("error", [TrainingError("out of memory"), KeyError("a mistake")])
def test_a_run_that_failed_otherwise_is_tried_again(error: Exception, toys: Toys, tmp_path: Path) -> None:
    toys.how = {"n2": failing(error)}
    outcomes, shown = sweep([toy_run(2), toy_run(4)], toys, tmp_path)
    assert [each.state for each in outcomes] == [State.FAILED, State.FINISHED]
    reason = f"{type(error).__name__}: {error}"
    assert read_json(toy_run(2).file(tmp_path))["reason"] == reason
    assert f"toy-n2-seed1 failed: {reason}" in shown
    toys.how = {}
    outcomes, shown = sweep([toy_run(2), toy_run(4)], toys, tmp_path)
    assert [each.state for each in outcomes] == [State.FINISHED] * 2
    assert toys.names == ["toy-n2-seed1", "toy-n4-seed1", "toy-n2-seed1"]
    assert f"it had failed ({reason}); it is trained again" in shown


def test_a_stop_ends_the_sweep_and_the_next_call_resumes(toys: Toys, tmp_path: Path) -> None:
    def stop_once(folder: Path, resume: bool) -> Any:
        save(folder)
        return result(40.0) if resume else None

    toys.how = {"n2": lambda folder, resume: result(20.0, seconds=20.0), "n4": stop_once}
    runs = [toy_run(2), toy_run(4), toy_run(8, cost=3.0)]
    outcomes, shown = sweep(runs, toys, tmp_path)
    assert [each.state for each in outcomes] == [State.FINISHED, State.LEFT, State.WAITING]
    assert [each.was_stopped for each in outcomes] == [False, True, False]
    assert not runs[1].file(tmp_path).exists()
    assert "2 runs are left, about 80 s: the same command goes on with them" in shown
    outcomes, _ = sweep(runs, toys, tmp_path)
    assert [each.value for each in outcomes] == [20.0, 40.0, 80.0]


def test_what_does_not_fit_into_the_time_is_not_started(toys: Toys, tmp_path: Path) -> None:
    toys.how = {f"n{layers}": lambda folder, resume, s=s: result(1.0, s) for layers, s in ((2, 40.0), (4, 90.0))}
    runs = [toy_run(layers, cost=cost) for layers, cost in ((2, 4.0), (4, 9.0), (8, 20.0), (16, 5.0))]
    outcomes, shown = sweep(runs, toys, tmp_path, budget_seconds=100.0)
    assert [each.state for each in outcomes] == [State.FINISHED, State.FINISHED, State.LEFT, State.FINISHED]
    assert "1 run is left, about 200 s" in shown
    outcomes, _ = sweep(runs, toys, tmp_path, budget_seconds=0.0)
    assert outcomes[2].state is State.LEFT
    assert not outcomes[2].was_stopped
    outcomes, _ = sweep(runs, toys, tmp_path)
    assert outcomes[2].state is State.FINISHED


def test_the_time_of_a_run_is_estimated_from_the_last_ones(tmp_path: Path) -> None:
    def outcome(state: State, seconds: float, *, here: bool = True, **metrics: float) -> Outcome:
        content = {"wall_seconds": seconds, "metrics": metrics}
        return Outcome(toy_run(cost=2.0), state, content, began=time.monotonic() if here else 0.0)

    def expected(*outcomes: Outcome) -> float:
        return Sweep(list(outcomes), tmp_path, tmp_path, Console(quiet=True)).expected_seconds(toy_run(cost=4.0))

    before, broken = outcome(State.FINISHED, 100.0, here=False), outcome(State.DIVERGED, 900.0)
    assert expected(broken) == 0.0, "there is nothing to go by"
    assert expected(before, broken) == 200.0, "by the results that were there"
    trained = outcome(State.FINISHED, 120.0)
    assert expected(before, broken, trained) == 240.0, "by what this sweep has trained"
    resumed = outcome(State.FINISHED, 3.0, train_seconds=150.0)
    assert expected(before, trained, resumed) == 300.0, "its wall time is that of the last part"
    later = [outcome(State.FINISHED, 50.0), outcome(State.FINISHED, 40.0)]
    assert expected(trained, *later) == 100.0, "the first ones compile"


def test_a_sweep_survives_being_killed(tmp_path: Path) -> None:
    """The second run kills its process once; what was finished before stays, and no file is half written."""
    program = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from dtfixup_paper.runs.sweep import run_sweep
        from paper.tests.toy_runs import Toys, result, toy_run

        out = Path(sys.argv[1])

        def die(folder, resume):
            if not (out / "killed").exists():
                (out / "killed").touch()
                (folder / "half").write_text("written")
                os.kill(os.getpid(), signal.SIGKILL)
            assert not (folder / "half").exists()
            return result(1.0)

        toys = Toys({"n2": die})
        run_sweep([toy_run(layers) for layers in (1, 2, 3)], toys, out)
        print(*toys.names)
        """
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    root = Path(__file__).parents[3]
    first = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert [file.name for file in tmp_path.glob("toy/*")] == ["n1-seed1.json"]
    second = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert "3 finished" in second.stdout
    assert second.stdout.endswith("toy-n2-seed1 toy-n3-seed1\n")


@pytest.mark.parametrize("text", ["", "{}"])
def test_what_a_kill_left_of_a_file_is_no_result(text: str, toys: Toys, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / ".n2-seed1-a1b2c3d4.json").write_text(text)
    outcomes, _ = sweep([toy_run(2)], toys, tmp_path)
    assert (outcomes[0].state, toys.names) == (State.FINISHED, ["toy-n2-seed1"])


@pytest.mark.parametrize(("out", "work"), [("a", "b"), ("a", "c"), ("c", "b")])
def test_a_second_sweep_keeps_off_the_folders_of_the_first(out: str, work: str, toys: Toys, tmp_path: Path) -> None:
    def train(folder: Path, resume: bool) -> Any:
        (folder / "half").touch()
        with pytest.raises(ConfigError, match=r"another process runs a sweep in .*: wait until it ends, or choose"):
            sweep([toy_run(2)], toys, tmp_path / out, work=tmp_path / work)
        assert (folder / "half").exists()
        return result(1.0)

    toys.how = {"n2": train}
    outcomes, shown = sweep([toy_run(2)], toys, tmp_path / "a", work=tmp_path / "b")
    assert outcomes[0].state is State.FINISHED, shown
    sweep([toy_run(4)], toys, tmp_path / out, work=tmp_path / work)
    assert toys.names == ["toy-n2-seed1", "toy-n4-seed1"], "the lock is gone"


def test_results_and_work_may_share_a_folder(toys: Toys, tmp_path: Path) -> None:
    outcomes, _ = sweep([toy_run(2)], toys, tmp_path, work=tmp_path / "elsewhere" / "..")
    assert outcomes[0].state is State.FINISHED
    assert [file.name for file in tmp_path.glob(".*")] == [".sweep.lock"], "nothing temporary is left"


def test_a_folder_that_cannot_be_locked_is_an_error(toys: Toys, tmp_path: Path) -> None:
    write_json(tmp_path / "file", {})
    with pytest.raises(ConfigError, match=r"file cannot be locked: .*Choose a folder that is yours"):
        sweep([toy_run(2)], toys, tmp_path / "file")


@given(
    states=st.lists(st.sampled_from([State.FINISHED, State.WAITING]), min_size=1, max_size=30),
    room=st.integers(-3, 40),
    data=st.data(),
)
def test_the_live_table_shows_the_running_row_whatever_the_room(
    states: list[State], room: int, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(states) - 1))
    outcomes = [Outcome(toy_run(place), state) for place, state in enumerate(states)]
    outcomes[at].state, outcomes[at].began = State.RUNNING, time.monotonic()
    shown = sweep_table(outcomes, room)
    assert f"n{at}" in list(shown.columns[0].cells)
    assert shown.row_count == min(len(states), max(room, 1))


def test_rows_of_several_experiments_name_their_own() -> None:
    one, other = toy_run(2), toy_run(4, experiment="other")
    for runs, names in (([one], ["n2"]), ([one, other], ["toy n2", "other n4"])):
        table = sweep_table([Outcome(run) for run in runs])
        assert list(table.columns[0].cells) == names


def test_on_a_terminal_the_table_is_live(toys: Toys, tmp_path: Path) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, height=40)

    def train(folder: Path, resume: bool) -> Any:
        ends = time.monotonic() + 60.0
        while "running" not in screen.getvalue() and time.monotonic() < ends:
            time.sleep(0.02)
        return result(33.3)

    toys.how = {"n2": train}
    run_sweep([toy_run(2)], toys, tmp_path, console=console)
    assert "running" in screen.getvalue()
    assert "33.3" in screen.getvalue()
