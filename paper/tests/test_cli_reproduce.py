"""The verb `dtfixup reproduce`: every experiment runs by it, once, and it says what does not fit."""

import json
import shutil
import time
from pathlib import Path

import pytest
import torch
from dtfixup_paper.reproduce import EXPERIMENTS, plan
from dtfixup_paper.runs import sweep as sweep_module
from dtfixup_paper.runs.run import SETTLED, read_run
from dtfixup_paper.tables.cells import Budget, Setup
from dtfixup_paper.tables.settings import published_settings, write_settings
from dtfixup_paper.tables.smoke import ENCODER, small_encoder
from dtfixup_paper.tables.spider_errors import read_errors

from dtfixup.cli.main import main
from dtfixup.files import read_json, write_json
from tests.sql.tiny_model import prepared_sample


def test_every_experiment_runs_on_a_cpu_and_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All names together take less than four minutes of one core, and a second call trains nothing."""
    out, started = tmp_path / "out", time.process_time()
    command = ["reproduce", "all", "--budget", "smoke", "--out", str(out)]
    runs = plan(["all"], Setup(Budget.SMOKE, ENCODER))
    main([*command, "--budget-seconds", "0"])
    assert f"{len(runs)} runs are left" in capsys.readouterr().out
    main(command)
    assert time.process_time() - started < 4 * 60
    assert f"{len(runs)} finished" in capsys.readouterr().out
    for run in runs:
        state, content = read_run(run, out)
        assert state in SETTLED, run.path
        assert str(tmp_path) not in json.dumps(content), "local paths are masked"
    errors = sorted(out.glob("spider-errors*/*.json"))
    assert [read_errors(file).run["seed"] for file in errors] == [1, 1, 1]
    files = {file: file.stat().st_mtime_ns for file in out.glob("*/*.json")}
    assert len(files) == len(runs) + 3
    for name in EXPERIMENTS:
        main(["reproduce", name, *command[2:]])
    assert {file: file.stat().st_mtime_ns for file in out.glob("*/*.json")} == files
    capsys.readouterr()
    main(["reproduce", "list", *command[2:]])
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "│ all" in line]
    runs_there_minutes_left = [part.strip() for part in row.split("│")[3:7]]
    assert runs_there_minutes_left[:2] == [str(len(runs))] * 2
    assert runs_there_minutes_left[3] == "0"


def test_the_list_counts_the_seeds_that_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["reproduce", "list", "--seeds", "7", "--out", str(tmp_path)])
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "│ reclor-main" in line]
    assert row.split("│")[3].strip() == "21", "three cells"


def test_a_result_that_does_not_fit_is_listed_and_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    options = ["--budget", "smoke", "--out", str(out)]
    main(["reproduce", "reclor-main", *options])
    file = out / f"reclor-main-smoke-{ENCODER}" / "dt-fixup-n4-seed1.json"
    content = read_json(file)
    content["config"]["training"]["epochs"] = 7
    write_json(file, content)
    before = file.read_bytes()
    capsys.readouterr()
    main(["reproduce", "list", *options])
    listed = capsys.readouterr().out
    assert f"{file} was trained otherwise: training.epochs is 7 there and 1 here" in listed
    (row,) = [line for line in listed.splitlines() if "│ reclor-main" in line]
    assert [part.strip() for part in row.split("│")[3:5]] == ["3", "2"]
    with pytest.raises(SystemExit):
        main(["reproduce", "reclor-main", *options])
    refused = " ".join(capsys.readouterr().err.split())
    assert "Delete the files to train the runs again, or give another --settings or --out." in refused
    assert "training.epochs is 7 there and 1 here" in refused
    assert file.read_bytes() == before
    file.unlink()
    main(["reproduce", "reclor-main", *options])
    assert read_json(file)["config"]["training"]["epochs"] == 1


def test_another_encoder_of_the_same_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["reproduce", "reclor-main", "--budget", "smoke", "--out", str(tmp_path / "out")]
    main(options)
    file = tmp_path / "out" / f"reclor-main-smoke-{ENCODER}" / "dt-fixup-n4-seed1.json"
    write_json(file, {**read_json(file), "encoder_sha256": "other"})
    with pytest.raises(SystemExit):
        main([*options, "--encoder", str(small_encoder())])
    assert "another encoder of the same name" in " ".join(capsys.readouterr().err.split())


def test_runs_have_the_settings_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = write_settings(tmp_path / "mine.yaml", published_settings(), "").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace("dropout: 0.4", "dropout: 0.2"))
    options = ["reproduce", "reclor-main", "--budget", "smoke", "--out", str(tmp_path / "out")]
    main([*options, "--settings", str(tmp_path / "mine.yaml")])
    file = tmp_path / "out" / f"reclor-main-smoke-{ENCODER}" / "dt-fixup-n4-seed1.json"
    assert read_json(file)["config"]["model"]["input_dropout"] == 0.2
    with pytest.raises(SystemExit):
        main(options)
    assert "model.input_dropout is 0.2 there and 0.4 here" in " ".join(capsys.readouterr().err.split())


def test_small_runs_take_one_thread_and_leave_the_others_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr(sweep_module, "run_sweep", lambda *_, **__: threads.append(torch.get_num_threads()) or [])
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    main(["reproduce", "reclor-main", "--budget", "smoke", "--out", str(tmp_path)])
    assert (threads, torch.get_num_threads()) == ([1], 2)
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "name the experiments to train; dtfixup reproduce list shows them"),
        (["spider-main"], "spider-main: give --data"),
        (["reclor-main", "--data", "x"], "reclor-main: give --reclor"),
        (["nothing"], "no experiment 'nothing'"),
        (["spider-main", "--budget", "large"], "choose one of smoke, gpu, paper"),
        (["spider-main", "--seeds", "0"], "1 or more"),
        (["spider-main", "--settings", "nowhere.yaml"], "the settings cannot be read"),
        (["spider-main", "--at-once", "2"], "at_once is for ray"),
        (["spider-main", "--engine", "ray", "--budget-seconds", "5"], "for the local engine"),
    ],
)
def test_bad_options_say_what_to_do(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", *options])
    assert message in " ".join(capsys.readouterr().err.split())


def test_errors_are_not_classified_without_the_databases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--budget", "smoke", "--out", str(tmp_path), "--budget-seconds", "0"]
    main(["reproduce", "spider-errors", *options, "--data", str(prepared_sample().folder)])
    assert "give --data with Spider's databases" in " ".join(capsys.readouterr().out.split())


def test_a_run_that_failed_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(small_encoder(), tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"half")
    options = ["--budget", "smoke", "--encoder", str(tmp_path / "broken"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "reclor-main", *options])
    assert ended.value.code == 1
    assert "3 failed" in capsys.readouterr().out
