"""The figures of the language side, on the sample dataset: right where it is known what they must be."""

import json
import shutil
from pathlib import Path

import pytest

from dtfixup.errors import DataError
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.evaluation.evaluate import judge
from dtfixup.sql.evaluation.figures import compare_verdicts, flat_metrics, measure


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two databases, and examples whose figures are known."""
    folder = tmp_path_factory.mktemp("few")
    for name in ("tables.json", "dev.json"):
        shutil.copy(sample_folder() / name, folder / name)
    shutil.copytree(sample_folder() / "database", folder / "database")
    rows = [
        {"db_id": "clinic", "question": "How many doctors are there?", "query": "SELECT count(*) FROM doc"},
        {"db_id": "clinic", "question": "Nothing about it", "query": "SELECT lst_nm FROM doc WHERE lst_nm = 'zyxwv'"},
        {"db_id": "river_ferry", "question": "Cannot be said", "query": "SELECT count(*) OVER () FROM pier"},
    ]
    (folder / "train.json").write_text(json.dumps(rows))
    return folder


def test_figures_of_known_examples(few: Path) -> None:
    report = measure(few, ["train"], walks=40, workers=2)
    train = report["train"]
    assert train["queries"] == 3
    assert train["readable"] == 2
    assert [row["index"] for row in train["unreadable"]] == [2]
    assert "OVER" not in json.dumps(report["train"]["not_exact"])
    assert train["round_trip_exact"] == train["round_trip_equal"] == train["gold_against_gold_exact"] == 2
    assert train["hardness"] == {"easy": 2}
    assert train["legal"] == train["joins_inferred"] == 2
    assert train["uncovered"] == [1]
    assert train["literals_covered_percent"] == pytest.approx(200 / 3)
    assert train["gold_returns_rows"] == 1
    assert report["walks"] == {"walks": 40, "schemas": 6, "failed": 0, "failures": []}


def test_the_sample_is_read_and_written_back_whole(few: Path) -> None:
    report = measure(few, ["dev"], walks=0, workers=2)["dev"]
    assert report["readable"] == report["round_trip_exact"] == report["round_trip_equal"] == report["legal"] == 80
    assert report["literals_covered_percent"] > 90
    assert report["links"]["tables, exact name"]["precision"] > 0.7
    assert report["links"]["columns, name or value"]["recall"] > 0.8


def test_verdicts_are_compared_key_by_key(tmp_path: Path) -> None:
    schemas = open_dataset(sample_folder()).schemas
    gold, wrong = "SELECT count(*) FROM doc", "SELECT sup_id FROM doc"
    right = judge(gold, wrong, schemas["clinic"]).to_json()
    rows = [
        {"db_id": "clinic", "gold": gold, "pred": wrong} | right,
        {"db_id": "clinic", "gold": gold, "pred": wrong} | right | {"exact": 1},
        {"db_id": "clinic", "gold": gold, "pred": wrong} | right | {"partial": right["partial"] | {"select": 1}},
    ]
    file = tmp_path / "verdicts.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert compare_verdicts(file, schemas) == {
        "rows": 3,
        "exact_agree": 2,
        "hardness_agree": 3,
        "parsed_agree": 3,
        "partial_agree": 2,
        "differing_lines": [2, 3],
    }
    file.write_text(json.dumps(rows[0] | {"db_id": "nowhere"}))
    with pytest.raises(DataError, match="line 1: key 'db_id': 'nowhere'"):
        compare_verdicts(file, schemas)


def test_metrics_are_a_flat_map_of_numbers() -> None:
    report = {"dev": {"queries": 3, "uncovered": [1, 2], "hardness": {"easy": 3}, "links": {"x": {"recall": 1.0}}}}
    assert flat_metrics(report) == {"dev_queries": 3, "dev_uncovered": 2, "dev_hardness_easy": 3}


def test_all_official_verdicts_are_ours(data_folder: Path, spider_folder: Path) -> None:
    schemas = open_dataset(spider_folder).schemas
    found = compare_verdicts(data_folder / "spider_verdicts" / "dev_mutations.jsonl", schemas)
    assert found["rows"] == 4000
    assert found["differing_lines"] == []
