"""Question/SQL pairs in Spider's layout: splits, and what malformed files are told."""

import json
from pathlib import Path
from typing import Any

import pytest

from dtfixup.errors import DataError
from dtfixup.sql.database.dataset import Dataset, Example, open_dataset

_TABLES = [
    {
        "db_id": "concerts",
        "table_names": ["singer"],
        "table_names_original": ["Singer"],
        "column_names": [[-1, "*"], [0, "name"]],
        "column_names_original": [[-1, "*"], [0, "Name"]],
        "column_types": ["text", "text"],
        "primary_keys": [],
        "foreign_keys": [],
    }
]
_GOOD = {"db_id": "concerts", "question": "Who sings?", "query": "SELECT Name FROM Singer"}


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    (tmp_path / "tables.json").write_text(json.dumps(_TABLES))
    return open_dataset(tmp_path)


def _write(dataset: Dataset, name: str, rows: Any) -> None:
    (dataset.folder / name).write_text(json.dumps(rows))


def test_splits_by_their_names_in_the_download(dataset: Dataset) -> None:
    _write(dataset, "train.json", [{**_GOOD, "query": "SELECT 1"}])
    assert [example.query for example in dataset.split("train")] == ["SELECT 1"]
    _write(dataset, "train_spider.json", [{**_GOOD, "query": "SELECT 2"}])
    assert [example.query for example in dataset.split("train")] == ["SELECT 2"]
    _write(dataset, "mine.json", [{**_GOOD, "sql": {"from": []}, "question_toks": ["Who"]}])
    assert dataset.split("mine") == [Example("concerts", "Who sings?", "SELECT Name FROM Singer")]
    with pytest.raises(DataError, match=r"has no split 'dev': looked for dev\.json"):
        dataset.split("dev")
    (dataset.folder / "dev.json").mkdir()
    with pytest.raises(DataError, match="has no split 'dev'"):
        dataset.split("dev")


MALFORMED = {
    "not an object": ("SELECT 1", "example 1: expected an object, got str"),
    "no question": ({"db_id": "concerts", "query": "SELECT 1"}, "example 1: key 'question' is missing"),
    "no database": ({"question": "Who?", "query": "SELECT 1"}, "example 1: key 'db_id' is missing"),
    "query null": ({**_GOOD, "query": None}, "example 1: key 'query': expected text, got None"),
    "question blank": ({**_GOOD, "question": " \n"}, "example 1: key 'question': expected text"),
    "unknown database": ({**_GOOD, "db_id": "pets"}, "example 1: key 'db_id': 'pets' is not in tables.json"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_examples_give_file_index_and_key(dataset: Dataset, case: str) -> None:
    row, words = MALFORMED[case]
    _write(dataset, "dev.json", [_GOOD, row])
    with pytest.raises(DataError) as caught:
        dataset.split("dev")
    assert str(caught.value).startswith(f"{dataset.folder / 'dev.json'}: {words}")


def test_files_of_another_form_are_refused(dataset: Dataset, tmp_path: Path) -> None:
    _write(dataset, "dev.json", {"data": []})
    with pytest.raises(DataError, match=r"dev\.json: expected a list of examples, got dict"):
        dataset.split("dev")
    (tmp_path / "dev.json").write_text('[{"db_id": "concerts",]')
    with pytest.raises(DataError, match=r"dev\.json is not JSON: .* line 1"):
        dataset.split("dev")
    with pytest.raises(DataError, match="is not a folder"):
        open_dataset(tmp_path / "tables.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"tables\.json does not exist"):
        open_dataset(tmp_path / "empty")


def test_where_rows_are(dataset: Dataset) -> None:
    with pytest.raises(DataError, match=r"concerts\.sqlite does not exist"):
        dataset.database_file("concerts")
    file = dataset.folder / "database" / "concerts" / "concerts.sqlite"
    file.parent.mkdir(parents=True)
    file.touch()
    assert dataset.database_file("concerts") == file


@pytest.mark.parametrize("name", ["../secret", "..", "", "/etc/passwd", "a\\b", "a\0"])
def test_no_name_leads_out_of_the_folder(dataset: Dataset, name: str) -> None:
    (dataset.folder.parent / "secret.json").write_text(json.dumps([_GOOD]))
    with pytest.raises(DataError, match="is not the name of a split"):
        dataset.split(name)
    with pytest.raises(DataError, match="is not a plain name"):
        dataset.database_file(name)


def test_spider(spider_folder: Path) -> None:
    spider = open_dataset(spider_folder)
    train, dev = spider.split("train"), spider.split("dev")
    assert [len(train), len(spider.split("train_others")), len(dev)] == [7000, 1659, 1034]
    databases = {example.database for example in train}, {example.database for example in dev}
    assert [len(own) for own in databases] == [140, 20]
    assert not databases[0] & databases[1]
    assert all(spider.database_file(database).is_file() for database in spider.schemas)
    assert dev[0] == Example("concert_singer", "How many singers do we have?", "SELECT count(*) FROM singer")
