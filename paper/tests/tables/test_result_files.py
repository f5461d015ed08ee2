"""Results are found by what was trained, whatever a file is called."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dtfixup_paper.tables.result_files import read_results

from dtfixup.errors import DataError
from dtfixup.files import read_json
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup.training.config import from_json, to_json
from paper.tests.made_up_results import cell, reading_config, sql_config, write_result

RESULTS = Path(__file__).parents[3] / "results"


def test_runs_are_found_by_configuration_and_not_by_name(tmp_path: Path) -> None:
    config = sql_config(layers=8)
    write_result(tmp_path, config, 60.0, seed=2, file="b.json")
    write_result(tmp_path, config, 61.0, seed=1, file="z.json", state="finished")
    write_result(tmp_path, config, 99.0, seed=3, file="c.json", state="failed")
    write_result(tmp_path, sql_config(layers=4), 50.0, file="x-dt-fixup-n8-seed1.json")
    write_result(tmp_path, reading_config(), 40.0, file="reading.json")
    other = replace(config, training=replace(config.training, evaluate_every=7))
    found = read_results(tmp_path).of(cell(other))
    assert [file.name for file in found] == ["z.json", "b.json"]
    assert read_results(tmp_path).of(cell(replace(config, encoder="roberta-large"))) == []
    assert [file.name for file in read_results(tmp_path).of(cell(reading_config()))] == ["reading.json"]


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
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    results = read_results(tmp_path)
    assert results.of(cell(sql_config())) == []
    assert list(results.runs(SqlSpConfig)) == []


def test_a_state_that_there_is_not_is_no_run(tmp_path: Path) -> None:
    write_result(tmp_path, sql_config(), 70.0, file="odd.json", state=["finished"])
    results = read_results(tmp_path)
    assert results.of(cell(sql_config())) == []
    with pytest.raises(DataError, match=r"odd\.json has the state \['finished'\]"):
        list(results.runs(SqlSpConfig))


def test_of_the_published_files_training_runs_alone_are_taken() -> None:
    results = read_results(RESULTS)
    taken = {file.name: config for file, config in results.runs(SqlSpConfig)}
    assert {f"sql/minilm-seed{seed}.json" for seed in range(1, 6)} <= taken.keys()
    measured = {file.name for file in results.files if "benchmarks/" in file.content.get("command", "")}
    assert measured >= {"measurements/paper-step-seed1.json", "sql/decode-seed0.json"}
    assert taken.keys().isdisjoint({*measured, "sql/held-out-seed1.json", "spider-errors/minilm-seed1.json"})
    found = [results.of(cell(config)) for config in taken.values()]
    assert all(found)
    assert {file.name for files in found for file in files} <= taken.keys()
    step = from_json(SqlSpConfig, read_json(RESULTS / "measurements/paper-step-seed1.json")["config"])
    assert results.of(cell(step)) == []


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere is no folder"):
        read_results(tmp_path / "nowhere")
    (tmp_path / "half.json").write_text("{")
    (tmp_path / ".half.json").write_text("{")
    with pytest.raises(DataError, match=r"/half\.json is not JSON"):
        read_results(tmp_path)


def test_other_json_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "odd.json").write_text('{"config": 3, "seed": "x", "metrics": []}')
    results = read_results(tmp_path)
    assert [(file.name, file.metrics, file.encoder) for file in results.files] == [("odd.json", {}, "")]
    assert results.of(cell(sql_config())) == []
