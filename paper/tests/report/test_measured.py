"""Sections that are no table of the paper."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from dtfixup_paper.report.cells import results_of
from dtfixup_paper.report.measured import (
    cost_section,
    parser_section,
    speed_section,
    stability_section,
    tried_section,
    tune_table,
)
from dtfixup_paper.tables.result_files import read_results

from paper.tests.made_up_results import cell, sql_config, write_result
from paper.tests.report_pages import rows_of


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (72.0, "71.5 ± 0.7|2 seeds · 16 epochs"),
        (None, "71.0, diverged|1 seed · 16 epochs|1 of 2 diverged"),
        (20.0, "71.0, 20.0|2 seeds · 16 epochs|1 of 2 collapsed"),
    ],
)
def test_the_parser_by_hardness_says_which_runs_failed(value: float | None, expected: str, tmp_path: Path) -> None:
    for seed, exact in ((1, 71.0), (2, value)):
        write_result(tmp_path, sql_config(), exact, seed=seed, file=f"sql/minilm-seed{seed}.json")
    assert rows_of(parser_section(read_results(tmp_path)))["DT-Fixup, N = 24: exact match"][-1] == expected


def test_stability_and_speed_say_what_is_there(tmp_path: Path) -> None:
    assert "no Spider training run" in str(stability_section(read_results(tmp_path)))
    for seed, metrics in ((1, {"skipped_steps": 3, "highest_growth": 4.25}), (2, {"skipped_steps": 4})):
        write_result(tmp_path, sql_config(), 70.0, seed=seed, metrics=metrics)
    speed = {"metrics": {"step_ms": 11.71}, "hardware": "a GPU", "command": "x"}
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql/batch16-seed1.json").write_text(json.dumps(speed))
    results = read_results(tmp_path)
    assert rows_of(stability_section(results))["DT-Fixup"] == ["24", "2 μ", "2", "0", "0", "7 of 200", "4.2", ""]
    rows = rows_of(speed_section(results))
    assert rows["a training step at batch 16"] == ["11.7 ms|a GPU", "sql/batch16-seed1.json"]
    trained = rows["training with evaluation, batch 16, 60 epochs of the 7,000 examples"]
    assert trained[0] == "missing in the file|a GPU"
    assert rows["one question, beam 5: median and 95th percentile"][0] == "not run yet"


def test_tuning_shows_the_settings_that_differ_the_best_first(tmp_path: Path) -> None:
    base = sql_config(hold_out=20)
    update = replace(base.training.update, learning_rate=8e-4)
    fast = replace(base, training=replace(base.training, update=update, warmup=350))
    write_result(tmp_path, base, 61.0, wall_seconds=90.0)
    write_result(tmp_path, fast, 64.0, wall_seconds=30.0)
    cells = [cell(config, row=str(number), seeds=1) for number, config in enumerate((base, fast))]
    lines = tune_table(results_of(cells, read_results(tmp_path)), "").splitlines()
    assert lines[0] == (
        "| strategy | N | encoder rate | learning rate | warm-up, steps | held out exact, % | minutes |"
    )
    assert lines[2:] == [
        "| DT-Fixup | 24 | 0.00016 | 0.0008 | 350 | **64.0**<br>1 seed · 16 epochs | 0.5 |",
        "| DT-Fixup | 24 | 0.0001 | 0.0005 | 0 | **61.0**<br>1 seed · 16 epochs | 1.5 |",
    ]


def test_trials_are_listed(tmp_path: Path) -> None:
    assert tried_section(read_results(tmp_path)) == []
    content = {"runs": [{"change": "a | b", "epochs": 20, "held_out_exact": 63.42}], "command": "dtfixup"}
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql/held-out-seed1.json").write_text(json.dumps(content))
    (section,) = tried_section(read_results(tmp_path))
    assert rows_of(section)["a | b"] == ["20", "63.4"]


def test_runs_of_two_tables_cost_once(tmp_path: Path) -> None:
    write_result(tmp_path, sql_config(), 70.0)
    results = results_of([cell(sql_config())], read_results(tmp_path))
    section = cost_section({"one": results, "other": results})
    assert rows_of(section) == {
        "experiment": ["runs", "minutes"],
        "one": ["1", "1.0"],
        "other": ["1", "1.0"],
        "all, each run once": ["1", "1.0"],
    }
    assert "1 older file, 1 minutes, do not say whether the GPU was shared" in str(section)
