"""What sweeps leave in their folders, keep off, and say of them."""

from pathlib import Path
from typing import Any

import pytest
from dtfixup_paper.runs.sweep import State, read_sweep

from dtfixup.errors import CheckpointError, ConfigError, DivergedError, TrainingError
from dtfixup.files import read_json
from dtfixup.training.checkpoint import Checkpoints
from paper.tests.noted_runs import Trained, fail, result, sweep


@pytest.fixture
def trained() -> Trained:
    return Trained()


def test_weights_go_when_a_run_is_finished_and_logs_stay(trained: Trained, tmp_path: Path) -> None:
    def train(folder: Path, resume: bool) -> Any:
        (folder / "checkpoints").mkdir()
        for name in ("checkpoints/step-00000007.safetensors", "last.safetensors", "best.safetensors", "steps.jsonl"):
            (folder / name).write_text("x")
        return result(1.0)

    sweep([trained.run(2, train=train)], tmp_path, work=tmp_path / "work")
    left = {file.name for file in (tmp_path / "work" / "toy-n2-seed1").rglob("*")}
    assert left == {"steps.jsonl", "sweep.json"}
    sweep([trained.run(4, train=train)], tmp_path, keep_weights=True)
    assert (tmp_path / "runs" / "toy-n4-seed1" / "last.safetensors").exists()


def test_other_files_in_the_folder_are_left_alone(trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "other.json").write_text('{"metrics": {}}')
    sweep([trained.run(2)], tmp_path)
    assert len(read_sweep(tmp_path)) == 1
    assert {file.name for file in tmp_path.glob("*.json")} == {"list.json", "other.json"}
    assert [file.name for file in tmp_path.glob(".*")] == [".sweep.lock"], "nothing temporary is left"


@pytest.mark.parametrize("complete", [False, True])
def test_what_a_kill_left_of_a_file_is_no_result(complete: bool, trained: Trained, tmp_path: Path) -> None:
    run = trained.run(2)
    sweep([run], tmp_path)
    text = run.file(tmp_path).read_text()
    run.file(tmp_path).unlink()
    run.file(tmp_path).with_name(".n2-seed1-a1b2c3d4.json").write_text(text if complete else "")
    assert read_sweep(tmp_path) == []
    outcomes, _ = sweep([run], tmp_path)
    assert trained.names == [run.name] * 2
    assert outcomes[0].state is State.FINISHED
    assert len(read_sweep(tmp_path)) == 1


@pytest.mark.parametrize(("out", "work"), [("a", "b"), ("a", "c"), ("c", "b")])
def test_a_second_sweep_keeps_off_the_folders_of_the_first(
    out: str, work: str, trained: Trained, tmp_path: Path
) -> None:
    def train(folder: Path, resume: bool) -> Any:
        (folder / "half").touch()
        with pytest.raises(ConfigError, match=r"another process is at a sweep in .*: wait until it ends, or choose"):
            sweep([trained.run(2)], tmp_path / out, work=tmp_path / work)
        assert (folder / "half").exists()
        return result(1.0)

    outcomes, shown = sweep([trained.run(2, train=train)], tmp_path / "a", work=tmp_path / "b")
    assert outcomes[0].state is State.FINISHED, shown
    assert trained.names == ["toy-n2-seed1"]
    sweep([trained.run(4)], tmp_path / out, work=tmp_path / work)
    assert trained.names == ["toy-n2-seed1", "toy-n4-seed1"], "the lock is gone"


def test_results_and_work_may_share_a_folder(trained: Trained, tmp_path: Path) -> None:
    outcomes, _ = sweep([trained.run(2)], tmp_path, work=tmp_path / "elsewhere" / "..")
    assert outcomes[0].state is State.FINISHED


def test_a_folder_that_cannot_be_locked_is_said(trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file cannot be locked: .*Choose a folder that is yours"):
        sweep([trained.run(2)], tmp_path / "file")


@pytest.mark.parametrize("relative", [False, True])
def test_a_reason_names_no_folder_of_this_machine(
    relative: bool, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "linked").symlink_to(tmp_path / "work", target_is_directory=True)
    (tmp_path / "work").mkdir()
    out, work = Path("out"), Path("linked")

    def train(folder: Path, resume: bool) -> None:
        where = (folder / "x", folder.resolve(), folder.parent / "y", out.absolute(), tmp_path / "home" / "z")
        raise CheckpointError(
            f"{', '.join(map(str, where))}, {out.absolute()}-2, /mnt{tmp_path / 'home'}. Memory ran out"
        )

    start = Path() if relative else tmp_path
    outcomes, _ = sweep([trained.run(2, train=train)], start / out, work=start / work)
    assert outcomes[0].content is not None
    kept = f"{tmp_path}/out-2, /mnt{tmp_path}/home. Memory ran out"
    assert outcomes[0].content["reason"] == f"CheckpointError: RUN/x, RUN, WORK/y, OUT, ~/z, {kept}"


def test_a_root_for_a_home_is_not_cut_out(trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    outcomes, _ = sweep([trained.run(2, train=fail(TrainingError("1 / 0 in /etc/x")))], tmp_path)
    assert outcomes[0].content is not None
    assert outcomes[0].content["reason"] == "TrainingError: 1 / 0 in /etc/x"


@pytest.mark.parametrize("keep_weights", [False, True])
def test_advice_goes_with_the_checkpoint_that_it_is_about(keep_weights: bool, trained: Trained, tmp_path: Path) -> None:
    def train(folder: Path, resume: bool) -> None:
        checkpoints = Checkpoints(folder)
        checkpoints.folder.mkdir()
        (checkpoints.folder / "step-00000007.safetensors").touch()
        raise DivergedError(f"Lower the learning rate. {checkpoints.advice()}")

    sweep([trained.run(2, train=train)], tmp_path, keep_weights=keep_weights)
    advice = " The last checkpoint is intact: RUN/checkpoints/step-00000007.safetensors; go on from it with --resume"
    reason = read_json(tmp_path / "toy" / "n2-seed1.json")["reason"]
    assert reason == "Lower the learning rate." + (advice if keep_weights else "")
