"""The experiments of the paper: which runs they become, what those cost, and that all of them run by the command."""

import json
import pickle
import shutil
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from dtfixup_paper.reproduce import EXPERIMENTS, Sources, cost_of, needs, planned, runs_of
from dtfixup_paper.runs import sweep as sweep_module
from dtfixup_paper.runs.run_identity import Settled
from dtfixup_paper.runs.sweep import read_results
from dtfixup_paper.tables.cells import Budget, Plan, layers_at, metric_of
from dtfixup_paper.tables.cost import expected_seconds
from dtfixup_paper.tables.smoke import ENCODER, small_encoder, small_reclor, small_spider
from dtfixup_paper.tables.spider_errors import read_errors

from dtfixup.cli.main import main
from dtfixup.encoders import encoder_sha256
from dtfixup.errors import ConfigError
from dtfixup.files import read_json
from dtfixup.reading.examples import read_data
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.training.config import from_json, to_json
from tests.reading.tiny_reading import made_up
from tests.sql.tiny_model import prepared_sample

RESULTS = Path(__file__).parents[2] / "results"
NAMES = {
    "spider-main", "spider-hardness", "reclor-main", "spider-depth", "reclor-depth", "spider-curves", "spider-batch",
    "spider-errors", "init-peers", "mu-choice", "limits", "spider-tune", "reclor-tune",
}  # fmt: skip


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    folder = tmp_path_factory.mktemp("reclor")
    for split, count in (("train", 20), ("val", 9)):
        (folder / f"{split}.json").write_text(json.dumps([asdict(example) for example in made_up(count)]))
    return Sources(prepared_sample().folder, folder)


@pytest.mark.parametrize("budget", Budget)
def test_every_cell_has_a_place_and_a_name_of_its_own(budget: Budget) -> None:
    assert set(EXPERIMENTS) == NAMES
    for name, experiment in EXPERIMENTS.items():
        found = experiment.cells(Plan(budget))
        assert len({(cell.row, cell.column) for cell in found}) == len(found) > 0, name
        assert len({cell.variant for cell in found}) == len(found), name
        assert experiment.name == name
        assert all(cell.seeds >= 1 and cell.config.training.seed == 1 for cell in found)
    names = Counter((name, cell.variant, seed) for seed, name, cell in planned(["all"], Plan(budget)))
    assert set(names.values()) == {1}, "no two runs are written to one file"


def test_a_run_of_several_experiments_is_one_run(sources: Sources) -> None:
    curves, errors = (runs_of([name], Plan(Budget.GPU), sources) for name in ("spider-curves", "spider-errors"))
    depth = {run.key: run for run in runs_of(["spider-depth"], Plan(Budget.GPU), sources)}
    for run in (*curves, *errors):
        assert (run.name, run.config) == (depth[run.key].name, depth[run.key].config)
        assert run.name.startswith("spider-depth-")
    everything = runs_of(["all"], Plan(Budget.GPU), sources)
    assert len({run.key for run in everything}) == len({run.name for run in everything}) == len(everything)
    assert {run.key for run in curves} <= {run.key for run in everything}
    (alone,) = [run for run in runs_of(["mu-choice"], Plan(Budget.GPU), sources, seeds=1) if run.key in depth]
    assert alone.config.training.evaluate_every == 2, "as for the curves, though this experiment draws none"


def test_first_seeds_come_first(sources: Sources) -> None:
    runs = runs_of(["spider-main", "reclor-main"], Plan(Budget.GPU), sources)
    seeds = [run.seed for run in runs]
    assert seeds == sorted(seeds)
    assert {run.config.training.seed == run.seed for run in runs} == {True}
    assert {run.experiment for run in runs[:9]} == {"spider-depth", "spider-main", "reclor-main"}
    assert Counter(run.seed for run in runs_of(["spider-main"], Plan(Budget.GPU), sources, seeds=2)) == {1: 6, 2: 6}


def test_budgets_and_encoders_have_files_of_their_own(sources: Sources) -> None:
    names = {
        run.name
        for budget in Budget
        for encoder in (None, "folder/other")
        for run in runs_of(["spider-depth"], Plan(budget), replace(sources, encoder=encoder), seeds=1)
    }
    assert len(names) == 2 * (10 + 12 + 12), "in the smoke budget N = 2 and 4 come to the same"
    (run, *_) = runs_of(["spider-depth"], Plan(Budget.GPU), replace(sources, encoder="a/minilm-fp16"), seeds=1)
    assert run.name == "spider-depth-standard-n2-seed1"
    assert run.config.encoder == "a/minilm-fp16"


def test_runs_can_be_sent_to_other_processes(sources: Sources) -> None:
    runs = runs_of(["reclor-main", "spider-main"], Plan(Budget.SMOKE), sources)
    again = pickle.loads(pickle.dumps(runs))
    assert [run.key for run in again] == [run.key for run in runs]
    assert again[-1].train == runs[-1].train


def test_what_is_not_there_is_an_error(sources: Sources) -> None:
    with pytest.raises(ConfigError, match=r"no experiment 'spider'.*spider-depth, spider-main.*or all"):
        runs_of(["spider-main", "spider"], Plan(Budget.GPU), sources)
    with pytest.raises(ConfigError, match="need Spider"):
        runs_of(["spider-main"], Plan(Budget.GPU), replace(sources, spider=None))
    with pytest.raises(ConfigError, match="need ReClor"):
        runs_of(["init-peers"], Plan(Budget.GPU), replace(sources, reclor=None))
    assert needs(["reclor-main"], Budget.GPU) == (False, True)
    assert needs(["spider-main"], Budget.GPU) == (True, False)
    assert needs(["init-peers"], Budget.GPU) == (True, True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sql/batch16-seed1", SqlSpConfig),
        ("reclor-main/dt-fixup-n4-seed5", ReadingRunConfig),
        ("reclor-depth/dt-fixup-n8-seed2", ReadingRunConfig),
    ],
)
def test_the_cost_is_what_was_measured(name: str, kind: type[SqlSpConfig | ReadingRunConfig]) -> None:
    """Within a fifth, for runs that had the GPU for themselves, at least most of the time."""
    measured = read_json(RESULTS / f"{name}.json")
    assert expected_seconds(from_json(kind, measured["config"])) == pytest.approx(measured["wall_seconds"], rel=0.2)


def test_the_cost_of_what_is_there_is_not_left(sources: Sources) -> None:
    run, *others = runs_of(["spider-batch"], Plan(Budget.GPU), sources)
    content = {"config": to_json(run.config), "seed": 1, "metrics": {"dev_exact": 1.0}, "wall_seconds": 1000.0}
    before, after = (cost_of(["spider-batch"], Plan(Budget.GPU), found) for found in ([], [content]))
    assert (before.runs, before.there, after.there) == (len(others) + 1, 0, 1)
    expected = expected_seconds(run.config)
    assert after.seconds == pytest.approx(before.seconds - expected + 1000)
    assert after.seconds_left == pytest.approx(before.seconds - expected)
    assert cost_of(["spider-batch"], Plan(Budget.GPU), [], seeds=7).runs == 7 * len(
        EXPERIMENTS["spider-batch"].cells(Plan(Budget.GPU))
    )
    shared = cost_of(["spider-batch"], Plan(Budget.GPU), [{**content, "at_once": 4}])
    assert shared.seconds == pytest.approx(after.seconds - 750)


def test_the_list_counts_the_seeds_that_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["reproduce", "list", "--seeds", "7", "--out", str(tmp_path)])
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "│ reclor-main" in line]
    assert row.split("│")[3].strip() == "21", "three cells"


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
        ([], "say which experiments to train; dtfixup reproduce list shows them"),
        (["spider-main"], "spider-main: give --data"),
        (["reclor-main", "--data", "x"], "reclor-main: give --reclor"),
        (["nothing"], "no experiment 'nothing'"),
        (["spider-main", "--budget", "large"], "choose one of smoke, gpu, paper"),
        (["spider-main", "--seeds", "0"], "1 or more"),
    ],
)
def test_bad_options_say_what_to_do(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", *options])
    assert message in " ".join(capsys.readouterr().err.split())


def test_errors_are_not_classified_without_the_databases(
    sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--budget", "smoke", "--out", str(tmp_path), "--budget-seconds", "0", "--data", str(sources.spider)]
    main(["reproduce", "spider-errors", *options])
    assert "give --data with Spider's databases" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main(["reproduce", "spider-errors", *options, "--engine", "ray"])
    assert "for the local engine" in " ".join(capsys.readouterr().err.split())


def test_a_run_that_failed_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(small_encoder(), tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"half")
    options = ["--budget", "smoke", "--encoder", str(tmp_path / "broken"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "reclor-main", *options])
    assert ended.value.code == 1
    assert "3 failed" in capsys.readouterr().out


def test_another_encoder_of_the_same_name_is_refused(
    sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, words = tmp_path / "out", ["reproduce", "reclor-main", "--budget", "smoke", "--budget-seconds", "0"]
    out.mkdir()
    known = {"name": "reclor-main-x", "seed": 1, "encoder": ENCODER, "encoder_sha256": encoder_sha256(small_encoder())}
    (out / "x.json").write_text(json.dumps(known))
    main([*words, "--out", str(out), "--encoder", str(small_encoder())])
    (out / "x.json").write_text(json.dumps({**known, "encoder_sha256": "other"}))
    with pytest.raises(SystemExit):
        main([*words, "--out", str(out), "--encoder", str(small_encoder())])
    assert f"another encoder that is called {ENCODER} too (reclor-main-x-seed1.json)" in " ".join(
        capsys.readouterr().err.split()
    )


def test_small_data_are_the_first_of_the_large(sources: Sources) -> None:
    assert sources.reclor is not None
    small, large = open_dataset(small_spider(sample_folder())), open_dataset(sample_folder())
    train = small.split("train")
    assert len(train) == 24
    assert len({example.database for example in train}) == 3
    assert set(train) <= set(large.split("train"))
    assert small.database_file(train[0].database).is_file()
    assert len(small.split("dev")) == 8
    reading = read_data(small_reclor(sources.reclor))
    assert reading.train == read_data(sources.reclor).train[:16]
    for example in (*(made := read_data(small_reclor())).train, *made.val):
        thing = example.question.removeprefix("Who has the ").removesuffix("?")
        assert example.label is not None
        assert f"{example.answers[example.label]} has the {thing}." in example.context


def test_every_experiment_runs_on_a_cpu_and_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All names together take less than four minutes of one core, and a second call trains nothing."""
    out, started = tmp_path / "out", time.process_time()
    command = ["reproduce", "all", "--budget", "smoke", "--out", str(out)]
    main([*command, "--budget-seconds", "0"])
    count = len(planned(["all"], Plan(Budget.SMOKE)))
    assert f"{count} runs are left" in capsys.readouterr().out
    main(command)
    assert time.process_time() - started < 4 * 60
    assert f"{count} finished" in capsys.readouterr().out
    files = {file: file.stat().st_mtime_ns for file in out.glob("*.json")}
    settled = Settled(read_results(out))
    for name, experiment in EXPERIMENTS.items():
        for cell in experiment.cells(Plan(Budget.SMOKE)):
            config = replace(cell.config, encoder="random-bert")
            content = settled.find(config, 1, metric=metric_of(config))
            assert content is not None, f"{name} {cell.variant}"
            assert str(tmp_path) not in json.dumps(content), "no folder of this machine"
            assert content["config"]["model"]["layers"] in (0, layers_at(Budget.SMOKE, 24), 1, 2, 4, 8)
    errors = sorted(out.glob("spider-errors*/*.json"))
    assert [read_errors(file).run["seed"] for file in errors] == [1, 1, 1]
    assert len(files) == count + 3
    for name in EXPERIMENTS:
        main([*command[:1], name, *command[2:]])
    assert {file: file.stat().st_mtime_ns for file in out.glob("*.json")} == files
    main(["reproduce", "list", *command[2:]])
    last = capsys.readouterr().out.splitlines()
    (row,) = [line for line in last if "│ all" in line]
    assert row.split("│")[3:5] == [f" {count:4} ", f" {count:5} "]
    assert row.split("│")[6].strip() == "0"
