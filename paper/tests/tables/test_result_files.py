"""Result files of a folder are found by their paths."""

import json
from pathlib import Path
from typing import Any

import pytest
from dtfixup_paper.tables.result_files import read_results

from dtfixup.errors import DataError
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.training.config import to_json
from paper.tests.made_up_results import cell, path_of, reading_config, sql_config, write_result

RESULTS = Path(__file__).parents[3] / "results"


def test_the_runs_of_a_cell_are_those_of_its_path(tmp_path: Path) -> None:
    config = sql_config(layers=8)
    for seed in (10, 2, 1):
        write_result(tmp_path, config, 60.0, seed=seed)
    write_result(tmp_path, config, 99.0, seed=3, state="failed")
    write_result(tmp_path, config, 50.0, file=f"{path_of(config)}-other-seed1.json")
    write_result(tmp_path, config, 50.0, file=f"another/{path_of(config)}-seed1.json")
    results = read_results(tmp_path)
    assert [file.seed for file in results.of(cell(config))] == [1, 2, 10]
    assert [file.seed for file in results.failed(cell(config))] == [3]
    assert results.of(cell(sql_config(layers=4))) == []


def test_runs_with_another_configuration_are_named(tmp_path: Path) -> None:
    config = sql_config(layers=8)
    write_result(tmp_path, config, 60.0, seed=1)
    write_result(tmp_path, sql_config(layers=8, epochs=17), 60.0, file=f"{path_of(config)}-seed2.json", seed=2)
    assert read_results(tmp_path).unfit(cell(config)) == [2]


def test_runs_of_plain_training_count(tmp_path: Path) -> None:
    path = write_result(tmp_path, sql_config(), 70.0)
    path.write_text(path.read_text().replace('"state": "finished"', '"other": 1'))
    assert len(read_results(tmp_path).of(cell(sql_config()))) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"metrics": {"steps": 100, "highest_growth": 1.5}},
        {"state": "failed"},
        {"config": {"beam": 5, "preset": "minilm"}},
        {"config": None, "run": {"config": to_json(sql_config())}},
    ],
    ids=["benchmark", "failed", "measurement", "errors"],
)
def test_what_is_no_run_is_not_taken_for_one(fields: dict[str, Any], tmp_path: Path) -> None:
    path = write_result(tmp_path, sql_config(), 70.0)
    assert len(list(read_results(tmp_path).runs(SqlSpConfig))) == 1
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    assert list(read_results(tmp_path).runs(SqlSpConfig)) == []


def test_of_the_published_files_training_runs_alone_are_taken() -> None:
    results = read_results(RESULTS)
    taken = {file.name for file, _ in results.runs(SqlSpConfig)}
    assert {f"sql/minilm-seed{seed}.json" for seed in range(1, 6)} <= taken
    measured = {file.name for file in results.files if "benchmarks/" in file.content.get("command", "")}
    assert measured >= {"measurements/paper-step-seed1.json", "sql/decode-seed0.json"}
    assert taken.isdisjoint({*measured, "sql/held-out-seed1.json", "spider-errors/minilm-seed1.json"})
    assert not any("by-rate" in file.name for file in results.files), "no table shows settings that lost"


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere is no folder"):
        read_results(tmp_path / "nowhere")
    write_result(tmp_path, sql_config(), 70.0, file="odd-seed1.json", state=["finished"])
    with pytest.raises(DataError, match=r"odd-seed1\.json has the state \['finished'\]"):
        list(read_results(tmp_path).runs(SqlSpConfig))
    (tmp_path / "half.json").write_text("{")
    (tmp_path / ".half.json").write_text("{")
    with pytest.raises(DataError, match=r"/half\.json is not JSON"):
        read_results(tmp_path)


def test_other_json_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "odd.json").write_text('{"config": 3, "seed": "x", "metrics": []}')
    results = read_results(tmp_path)
    assert [(file.name, file.metrics, file.encoder) for file in results.files] == [("odd.json", {}, "")]
    assert results.of(cell(reading_config())) == []
