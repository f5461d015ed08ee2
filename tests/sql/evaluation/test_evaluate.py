"""Verdicts, their summary and the files they come from, and agreement with the official script on the real data."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dtfixup.errors import DataError, SqlError
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble
from dtfixup.sql.evaluation.evaluate import evaluate_pairs, judge, read_predictions, show_summary, summarise
from dtfixup.sql.evaluation.exact_match import Component, Hardness

_SCHEMA = assemble(
    "shop",
    [Table("item", "item"), Table("value_log", "value log")],
    [
        [("item_id", "item id", ColumnType.NUMBER), ("label", "label", ColumnType.TEXT)],
        [("entry", "entry", ColumnType.NUMBER), ("label", "label", ColumnType.TEXT)],
    ],
    [["item_id"], ["entry"]],
    [],
)
_GOLD = "SELECT label FROM item WHERE item_id = 3"


def test_an_unreadable_prediction_is_an_empty_query() -> None:
    verdict = judge(_GOLD, "SELECT colour FROM item", _SCHEMA)
    assert not verdict.parsed
    assert not verdict.exact
    assert verdict.hardness is Hardness.EASY
    wrong = {"select", "select(no AGG)", "where", "where(no OP)", "keywords"}
    assert {name for name, score in verdict.partial.items() if score == 0} == wrong
    assert list(verdict.partial) == [component.value for component in Component]


def test_the_official_script_reads_value_as_one() -> None:
    assert judge(_GOLD, "SELECT label FROM item WHERE item_id = value", _SCHEMA).exact
    assert not judge(_GOLD, "SELECT label FROM item WHERE item_id = value", _SCHEMA, official=False).parsed
    gold = "SELECT label FROM value_log"
    assert not judge(gold, gold, _SCHEMA).parsed
    assert judge(gold, gold, _SCHEMA, official=False).exact
    assert judge(gold, "SELECT label FROM VALUE_log", _SCHEMA).exact, "only lower case is replaced"


def test_a_prediction_that_stops_the_script_is_unreadable() -> None:
    text = "SELECT label FROM item WHERE item_id = 3 label = 'a' AND item_id = 4"
    assert not judge(_GOLD, text, _SCHEMA).parsed
    with pytest.raises(SqlError, match="gold query over shop"):
        judge(text, _GOLD, _SCHEMA)


def test_a_gold_query_must_be_readable() -> None:
    with pytest.raises(SqlError, match=r"gold query over shop cannot be read: 'colour'.*SELECT colour FROM item"):
        judge("SELECT colour FROM item", _GOLD, _SCHEMA)


def _summary_of(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(json.dumps(summarise(judge(*pair, _SCHEMA) for pair in pairs).to_json()))
    return content


def test_summary_by_hardness() -> None:
    plain, ordered = "SELECT label FROM item", "SELECT label FROM item ORDER BY label LIMIT 1"
    content = _summary_of([(_GOLD, _GOLD), (_GOLD, plain), (plain, _GOLD), (ordered, ordered), (plain, "SELECT")])
    assert list(content) == ["easy", "medium", "hard", "extra", "all"]
    assert [content[level]["count"] for level in content] == [4, 1, 0, 0, 5]
    assert [content[level]["exact"] for level in content] == [1, 1, 0, 0, 2]
    assert [content[level]["parsed"] for level in content] == [3, 1, 0, 0, 4]
    assert content["easy"]["exact_match"] == 0.25
    assert content["hard"]["exact_match"] == 0
    where = content["all"]["components"]["where"]
    assert where == {"accuracy": 1 / 2, "recall": 1 / 2, "f1": 1 / 2}, "two predictions and two golds have WHERE"
    assert content["easy"]["components"]["select"] == {"accuracy": 1.0, "recall": 0.75, "f1": pytest.approx(6 / 7)}
    assert content["all"]["components"]["IUEN"] == {"accuracy": 0.0, "recall": 0.0, "f1": 1.0}


def test_the_table_on_screen() -> None:
    console = Console(file=StringIO(), width=100)
    show_summary(
        summarise([judge(_GOLD, _GOLD, _SCHEMA), judge(_GOLD, "SELECT", _SCHEMA)] * 2 + [judge(_GOLD, _GOLD, _SCHEMA)]),
        console,
    )
    assert isinstance(console.file, StringIO)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in console.file.getvalue().splitlines()]
    assert ["queries", "5", "0", "0", "0", "5"] in rows
    assert ["unreadable predictions", "2", "0", "0", "0", "2"] in rows
    assert ["exact match", "60.0", "-", "-", "-", "60.0"] in rows
    assert ["where F1", "75.0", "-", "-", "-", "75.0"] in rows


def test_predictions_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "predictions.sql"
    path.write_text("SELECT 1\tshop\n\nSELECT '\u2028' \r\n\n\n", encoding="utf-8")
    assert read_predictions(path, 3) == ["SELECT 1", "", "SELECT '\u2028'"]
    assert read_predictions(path, 5)[3:] == ["", ""]
    for count in (2, 6):
        with pytest.raises(DataError, match=rf"predictions\.sql has \d predictions, and there are {count} questions"):
            read_predictions(path, count)
    path.write_text("")
    assert read_predictions(path, 0) == []
    with pytest.raises(DataError, match="has 0 predictions, and there are 1 questions"):
        read_predictions(path, 1)
    with pytest.raises(DataError, match="does not exist"):
        read_predictions(tmp_path / "other.sql", 1)


def test_pairs_come_back_in_order_with_their_verdicts(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"db_id": "shop", "gold": _GOLD, "pred": "SELECT", "id": 7, "exact": "old"},
        {"db_id": "shop", "gold": _GOLD, "pred": _GOLD, "note": "é"},
    ]
    (tmp_path / "in.jsonl").write_text("\n\n".join(map(json.dumps, rows)))
    summary = evaluate_pairs(tmp_path / "in.jsonl", tmp_path / "out.jsonl", {"shop": _SCHEMA})
    assert summary.levels["all"].exact == 1
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["exact"] for row in written] == [0, 1]
    assert written[0] == rows[0] | judge(_GOLD, "SELECT", _SCHEMA).to_json()
    assert written[1] == rows[1] | judge(_GOLD, _GOLD, _SCHEMA).to_json()
    assert written[1]["parsed"] is True
    assert written[1]["hardness"] == "easy"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: expected an object, got list"),
        ('{"db_id": "shop", "gold": "x"}', "line 2: key 'pred' is missing"),
        ('{"db_id": "shop", "gold": 3, "pred": "x"}', "line 2: key 'gold': expected text, got 3"),
        ('{"db_id": "shelf", "gold": "x", "pred": "x"}', "line 2: key 'db_id': 'shelf' is not in"),
        ('{"db_id": "shop", "gold": "x", "pred": "x"}', "line 2: key 'gold': gold query over shop cannot be read"),
    ],
)
def test_a_malformed_pair_says_where_and_nothing_is_written(tmp_path: Path, line: str, message: str) -> None:
    good = json.dumps({"db_id": "shop", "gold": _GOLD, "pred": _GOLD})
    (tmp_path / "in.jsonl").write_text(f"{good}\n{line}\n")
    with pytest.raises((DataError, SqlError), match=message):
        evaluate_pairs(tmp_path / "in.jsonl", tmp_path / "out.jsonl", {"shop": _SCHEMA})
    assert not (tmp_path / "out.jsonl").exists()


@pytest.fixture(scope="module")
def spider_schemas(spider_folder: Path) -> dict[str, Schema]:
    return dict(open_dataset(spider_folder).schemas)


def test_agrees_with_the_official_script(data_folder: Path, spider_schemas: dict[str, Schema]) -> None:
    path = data_folder / "spider_verdicts" / "dev_mutations.jsonl"
    if not path.exists():
        pytest.skip(f"{path} does not exist")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 4000
    for row in rows:
        verdict = judge(row["gold"], row["pred"], spider_schemas[row["db_id"]]).to_json()
        assert verdict == {key: row[key] for key in verdict}, row


def test_gold_against_gold(spider_folder: Path) -> None:
    dataset = open_dataset(spider_folder)
    golds = dataset.split("dev")
    summary = summarise(judge(example.query, example.query, dataset.schemas[example.database]) for example in golds)
    assert [level.count for level in summary.levels.values()] == [248, 446, 174, 166, 1034]
    assert [level.exact for level in summary.levels.values()] == [248, 446, 174, 166, 1034]
