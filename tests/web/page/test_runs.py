import asyncio
import json
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import gradio as gr
import pytest
from fastapi.testclient import TestClient

from dtfixup.demo import side_by_side
from dtfixup.demo.training import DemoConfig, RunResult
from dtfixup.errors import ConfigError
from dtfixup.web.page import runs as reading
from dtfixup.web.page.run_lines import curve_lines, depth_lines
from dtfixup.web.page.runs import RunFolder, read_runs
from dtfixup.web.page.runs_tab import _checks, _shown, draw
from dtfixup.web.server import build_site
from dtfixup.web.settings import Settings
from dtfixup.web.store.catalogue import Catalogue
from tests.sql.asked import tiny_parser


def log_run(folder: Path, strategy: str, layers: int, seed: int, accuracies: list[float], *, done: bool = True) -> None:
    folder.mkdir(parents=True)
    steps = [{"step": 5 * e, "epoch": float(e), "loss": 1.0 / e, "gradient_norm": 2.0} for e in (1, 2, 3)]
    evaluations = [{"step": 5 * e, "epoch": e, "accuracy": value} for e, value in enumerate(accuracies, 1)]
    (folder / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in steps) + '{"step": 20, "ep')
    (folder / "evaluations.jsonl").write_text("".join(json.dumps(row) + "\n" for row in evaluations))
    alert = {"step": 7, "assumption": "input norm", "message": "input norm 2.3 × μ", "value": 2.3, "limit": 2}
    (folder / "alerts.jsonl").write_text(json.dumps(alert) + "\n")
    config = {"model": {"strategy": strategy, "layers": layers}, "training": {"seed": seed}}
    if done:
        (folder / "result.json").write_text(json.dumps({"config": config, "metrics": {"highest_growth": 1.5}}))
    else:
        started = {"config": config["training"], "fingerprint": {"model": config["model"]}}
        (folder / "config.json").write_text(json.dumps(started))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log_run(tmp_path / "a", "dt-fixup", 4, 1, [20.0, 40.0])
    log_run(tmp_path / "sweep" / "b", "dt-fixup", 24, 1, [30.0, 70.0])
    log_run(tmp_path / "sweep" / "c", "dt-fixup", 24, 2, [30.0, 60.0], done=False)
    log_run(tmp_path / "sweep" / "d", "standard", 4, 1, [10.0, 35.0])
    curve = [{"step": 1, "epoch": 1, "accuracy": 50.0}]
    (tmp_path / "table.json").write_text(
        json.dumps({"config": {"model": {"strategy": "pre-ln", "layers": 8}}, "curve": curve, "metrics": {}})
    )
    rows = [
        {"stack": "vanilla", "strategy": "dt-fixup", "optimizer": "adam", "depth": depth, "update": 10.0 * depth}
        for depth in (2, 4)
    ]
    slopes = [{"stack": "vanilla", "strategy": "dt-fixup", "optimizer": "adam", "update": 0.04}]
    (tmp_path / "check.json").write_text(json.dumps({"rows": rows, "slopes": slopes}))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text("[1]")
    return tmp_path


def test_all_runs_below_a_folder_are_found(folder: Path) -> None:
    runs = read_runs(folder)
    assert {run.name: (run.strategy, run.layers) for run in runs.runs} == {
        "a": ("dt-fixup", 4),
        "sweep/b": ("dt-fixup", 24),
        "sweep/c": ("dt-fixup", 24),
        "sweep/d": ("standard", 4),
        "table": ("pre-ln", 8),
    }
    assert runs.measures() == ["accuracy", "training loss", "gradient norm"]
    assert list(runs.depth_checks) == ["check"]


def test_what_cannot_be_read_is_told_without_its_place(folder: Path) -> None:
    [problem] = read_runs(folder).problems
    assert problem.startswith("broken.json is not JSON: ")


def test_curves_and_depths(folder: Path) -> None:
    runs = {run.name: run for run in read_runs(folder).runs}
    [line] = curve_lines([runs["a"]], "accuracy")
    assert (line.label, line.points, line.remark) == ("a (dt-fixup, 4 layers)", ((1.0, 20.0), (2.0, 40.0)), "40")
    assert curve_lines([runs["a"]], "training loss")[0].points[0] == (1.0, 1.0)
    assert curve_lines([runs["table"]], "training loss")[0].remark == "nothing yet"
    depths = {line.label: line.points for line in depth_lines(list(runs.values()), "accuracy")}
    assert depths["dt-fixup"] == ((4.0, 40.0), (24.0, 65.0))
    assert depths["standard"] == ((4.0, 35.0),)


def test_the_tab_draws_the_chosen_runs(folder: Path) -> None:
    runs = read_runs(folder)
    curves, depths, report = draw(runs, ["a", "sweep/b"], "accuracy")
    assert "a (dt-fixup, 4 layers)" in curves
    assert "standard" not in curves
    assert "Depth comparison" in depths
    assert "DT-Fixup report" in report
    assert "input norm 2.3 × μ" in report
    assert "1.5" in report
    assert "highest growth" in report
    assert "highest gradient norm" not in report, "a column in which no run has anything"
    assert draw(runs, [], "accuracy") == draw(runs, None, None) == ["", "", ""]
    assert draw(runs, ["a"], "accuracy")[1] == ""
    assert "slope +0.04" in _checks(runs)


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        read_runs(tmp_path / "nothing")
    assert read_runs(tmp_path).runs == ()


ODD = {
    "a list": "[1]",
    "text": '"dt-fixup"',
    "nothing": "null",
    "parts that are none": '{"fingerprint": {"model": [24]}, "config": 3, "metrics": [1]}',
    "huge numbers": json.dumps({"config": {"model": {"layers": 10**400}}, "metrics": {"highest_growth": 10**400}}),
    "deep": "[" * 100_000,
    "not UTF-8": "\udcff",
}


@pytest.mark.parametrize("file", ["config.json", "result.json"])
@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_a_run_with_an_odd_file_is_shown_with_the_others(folder: Path, file: str, content: str) -> None:
    (folder / "a" / file).write_text(content, errors="surrogateescape")
    found = read_runs(folder)
    assert len(found.runs) == 5
    told = [problem for problem in found.problems if problem.startswith(f"a/{file} ")]
    assert len(told) == (not content.startswith("{"))
    assert "70" in "".join(map(str, _shown(found)))


@pytest.mark.parametrize("file", ["steps.jsonl", "evaluations.jsonl", "alerts.jsonl"])
@pytest.mark.parametrize("line", [b"[1]", b"7", b"{", b"[" * 100_000, b"\xff"])
def test_a_line_that_is_no_row_is_told_and_the_rest_is_shown(folder: Path, file: str, line: bytes) -> None:
    path = folder / "a" / file
    path.write_bytes(path.read_bytes().rpartition(b"\n")[0] + b"\n" + line + b"\n")
    found = read_runs(folder)
    number = len(path.read_bytes().splitlines())
    assert f"a/{file}, line {number}, is not an object of JSON: restore the file, or delete it" in found.problems
    assert len(found.runs) == 5
    assert "a (dt-fixup, 4 layers)" in str(_shown(found))


@pytest.mark.parametrize(
    "content",
    [
        {"curve": [1]},
        {"rows": [], "slopes": [1]},
        {"rows": [{}], "slopes": [{"stack": "vanilla", "strategy": "dt-fixup", "optimizer": "adam"}]},
        {"name": "kinship-demo"},
        {"name": "kinship-demo", "config": {"train": 0, "batch_size": 32}, "runs": []},
    ],
)
def test_an_odd_result_file_is_told(folder: Path, content: dict[str, object]) -> None:
    (folder / "odd.json").write_text(json.dumps(content))
    found = read_runs(folder)
    [problem] = [problem for problem in found.problems if problem.startswith("odd.json ")]
    assert "has not the shape of a result file" in problem
    assert len(found.runs) == 5


def test_a_long_log_is_thinned_and_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_LARGEST", 100_000)
    log_run(tmp_path / "long", "dt-fixup", 4, 1, [20.0])
    log_run(tmp_path / "short", "dt-fixup", 4, 1, [20.0])
    count = 30_004
    rows = ({"step": step, "epoch": step / 1000, "loss": 1.0} for step in range(count))
    (tmp_path / "long" / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_runs(tmp_path)
    points = {run.name: run.points("training loss") for run in found.runs}
    assert len(points["short"]) == 3
    assert 1000 <= len(points["long"]) <= 2000
    steps = [round(1000 * epoch) for epoch, _ in points["long"]]
    assert (steps[0], steps[-1]) == (0, count - 1)
    *gaps, _ = (later - step for step, later in pairwise(steps))
    assert set(gaps) == {16}
    assert found.problems == ("some lines of long logs are shown, evenly spread over them: long",)


def test_a_line_without_end_is_not_read_whole(tmp_path: Path) -> None:
    log_run(tmp_path / "run", "dt-fixup", 4, 1, [20.0])
    (tmp_path / "run" / "steps.jsonl").write_bytes(b" " * (3 * 2**20))
    [problem] = read_runs(tmp_path).problems
    assert problem.startswith("run/steps.jsonl, line 1, is too long")


def test_a_result_file_of_a_hundred_megabytes_is_told(folder: Path) -> None:
    with (folder / "table.json").open("r+b") as file:
        file.truncate(100 * 2**20)
    assert "table.json has more than 64 MiB, and is left out" in read_runs(folder).problems


def test_a_folder_that_cannot_be_listed_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Path.iterdir

    def listed(path: Path) -> object:
        if path.name == "sweep":
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path)

    monkeypatch.setattr(Path, "iterdir", listed)
    found = read_runs(folder)
    assert "sweep cannot be read: Permission denied" in found.problems
    assert [run.name for run in found.runs] == ["table", "a"]


def test_more_runs_than_can_be_shown_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_RUNS", 5)
    assert not any("more than" in problem for problem in read_runs(folder).problems)
    monkeypatch.setattr(reading, "_MOST_RUNS", 4)
    found = read_runs(folder)
    assert "there are more than 4 runs; the others are left out" in found.problems
    assert len(found.runs) == 4


def test_the_demo_is_read_as_it_writes_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = RunResult("dt-fixup", 3e-3, 0, 1, 8.5, (94, 188), (40.0, 90.0), {2: 90.0}, ("input norm 2.3 × μ",), 1.0)
    config = DemoConfig(train=6016, batch_size=32, story_steps=(2,))
    monkeypatch.setattr(side_by_side, "prepare", lambda _: None)
    monkeypatch.setattr(side_by_side, "data_hash", lambda _: "")
    monkeypatch.setattr(side_by_side, "train_side_by_side", lambda *_: [result])
    side_by_side.show_demo(config, tmp_path)
    found = read_runs(tmp_path)
    [run] = found.runs
    assert run.title == "demo/dt-fixup (dt-fixup, 24 layers)"
    assert run.points("accuracy") == ((0.5, 40.0), (1.0, 90.0))
    report = draw(found, [run.name], "accuracy")[2]
    assert "<li>demo/dt-fixup: input norm 2.3 × μ</li>" in report


def test_alerts_are_escaped(folder: Path) -> None:
    alert = {"step": "<img src=x>", "message": "<img src=y>"}
    (folder / "a" / "alerts.jsonl").write_text(json.dumps(alert) + "\n")
    report = draw(read_runs(folder), ["a"], "accuracy")[2]
    assert "src=y" in report
    assert "<img" not in report


def test_what_has_not_changed_is_read_once_for_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(reader: Callable[[Path], object]) -> Callable[[Path], object]:
        def one(path: Path) -> object:
            read.append(str(path.relative_to(folder)))
            time.sleep(0.005)  # for visitors to meet
            return reader(path)

        return one

    monkeypatch.setattr(reading, "_rows", counted(reading._rows))
    monkeypatch.setattr(reading, "_content", counted(reading._content))
    shared = RunFolder(folder)
    visitors = [threading.Thread(target=shared.read) for _ in range(4)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    assert "a/steps.jsonl" in read
    assert len(read) == len(set(read))
    read.clear()
    with (folder / "a" / "evaluations.jsonl").open("a") as log:
        log.write(json.dumps({"step": 15, "epoch": 3, "accuracy": 55.0}) + "\n")
    (folder / "table.json").unlink()
    again = {run.name: run for run in shared.read().runs}
    assert {name.partition("/")[0] for name in read} == {"a"}
    assert again["a"].points("accuracy")[-1] == (3.0, 55.0)
    assert "table" not in again


def test_the_tab_waits_in_the_line_of_the_desk(folder: Path, catalogue: Catalogue) -> None:
    site = build_site(tiny_parser(), catalogue, Settings(workers=1, waiting=0), runs=folder)
    gate, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        gate.wait(20.0)

    with TestClient(site.app, base_url="http://127.0.0.1") as client:
        functions = client.get("/config").json()["dependencies"]
        opened = next(each["id"] for each in functions if each["targets"][0][1] == "select")

        def look() -> str:
            body = {"fn_index": opened, "session_hash": "me", "data": [[], None, None]}
            assert client.post("/gradio_api/queue/join", json=body).status_code == 200
            with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": "me"}) as lines:
                return next(line for line in lines.iter_lines() if "process_completed" in line)

        holding = threading.Thread(target=lambda: asyncio.run(site.desk.do(hold)))
        holding.start()
        assert begun.wait(20.0)
        assert "1 requests are being answered or wait already" in look()
        gate.set()
        holding.join()
        assert "a (dt-fixup, 4 layers)" in look()
    site.close()


def test_what_can_stay_as_it_was_chosen_is_not_set_again(folder: Path) -> None:
    """Whoever chose something else while this was drawn would lose the choice."""
    found = RunFolder(folder).read()
    names = [run.name for run in found.runs]
    measures = found.measures(names)
    (runs, kept), (first, other) = (_shown(found, *asked)[:2] for asked in ((names, measures[-1]), (["gone"], "none")))
    assert kept["choices"] == measures
    assert "value" not in kept
    assert "value" not in runs
    assert first["value"] == names
    assert other["value"] == measures[0]


def test_runs_that_were_taken_away_stay_away(folder: Path) -> None:
    found = RunFolder(folder).read()
    runs, measure, _, *drawn, _, _ = _shown(found, [], found.measures()[0], was_opened=True)
    assert "value" not in runs
    assert measure == gr.skip()
    assert drawn == ["", "", ""]
