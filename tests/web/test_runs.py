import json
from pathlib import Path

import pytest

from dtfixup.errors import ConfigError
from dtfixup.web.page_runs import _checks, draw
from dtfixup.web.runs import curve_lines, depth_lines, read_runs


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
        (folder / "config.json").write_text(json.dumps(config))


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
    assert problem.startswith("broken.json: ")
    assert str(folder) not in problem


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
    assert draw(runs, [], "accuracy") == draw(runs, None, None) == ["", "", ""]
    assert draw(runs, ["a"], "accuracy")[1] == ""
    assert "slope +0.04" in _checks(runs)


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        read_runs(tmp_path / "nothing")
    assert read_runs(tmp_path).runs == ()
