"""Exact match over any schema: what the official script says of queries it can read, and sense for the others."""

from itertools import pairwise

import pytest

from dtfixup.errors import SqlError
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.evaluation.evaluate import judge
from dtfixup.sql.evaluation.exact_match import Hardness
from dtfixup.sql.evaluation.neutral import judge_any, neutral_text


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return open_dataset(sample_folder())


def test_every_bundled_query_is_its_own_match(dataset: Dataset) -> None:
    for example in (*dataset.split("train"), *dataset.split("dev")):
        assert judge_any(example.query, example.query, dataset.schemas[example.database]).exact, example.query


def test_verdicts_are_the_scripts_where_it_can_read(dataset: Dataset) -> None:
    """Every query against the one before it over the same database, so that nearly all of them differ."""
    examples = dataset.split("train")
    compared = 0
    for one, other in pairwise(examples):
        schema = dataset.schemas[one.database]
        if one.database != other.database:
            continue
        try:
            expected = judge(one.query, other.query, schema)
            judge(other.query, other.query, schema)
        except SqlError:
            continue
        found = judge_any(one.query, other.query, schema)
        assert (found.exact, found.hardness, found.partial) == (expected.exact, expected.hardness, expected.partial)
        compared += 1
    assert compared > 80


def test_names_that_are_keywords_and_nulls_are_compared(dataset: Dataset) -> None:
    garden = dataset.schemas["community_garden"]
    gold = "SELECT \"group\" FROM gardener WHERE name = 'Anna'"
    with pytest.raises(SqlError):
        judge(gold, gold, garden)
    assert judge_any(gold, 'SELECT "group" FROM "gardener" WHERE "name" = \'Bert\'', garden).exact
    assert not judge_any(gold, 'SELECT "name" FROM "gardener"', garden).exact
    free = "SELECT label FROM plot WHERE gardener_id IS NULL"
    assert judge_any(free, 'SELECT "label" FROM "plot" WHERE "gardener_id" IS NULL', garden).exact
    assert not judge_any(free, 'SELECT "label" FROM "plot" WHERE "gardener_id" IS NOT NULL', garden).exact
    assert judge_any(free, free, garden).hardness is Hardness.EASY
    assert not judge_any(free, "SELECT label FROM plot WHERE gardener_id = 'x'", garden).exact
    assert not judge_any("SELECT label FROM plot WHERE gardener_id != 'x'", free.replace("IS", "IS NOT"), garden).exact
    apostrophe = "SELECT label FROM plot WHERE label = 'it''s so '' x'"
    assert judge_any(apostrophe, "SELECT label FROM plot WHERE label = 'A'", garden).exact
    assert judge_any("SELECT label FROM plot WHERE label = 'A'", apostrophe, garden).exact


def test_no_query_and_an_unreadable_one_are_empty(dataset: Dataset) -> None:
    ferry = dataset.schemas["river_ferry"]
    for predicted in (None, "", "SELECT nothing FROM nowhere", "DROP TABLE pier"):
        verdict = judge_any("SELECT name FROM pier", predicted, ferry)
        assert (verdict.exact, verdict.parsed) == (False, False)
    with pytest.raises(SqlError, match="gold query over river_ferry cannot be read"):
        judge_any("SELECT nothing FROM nowhere", None, ferry)


def test_joins_are_those_of_the_schema_itself(dataset: Dataset) -> None:
    garden = dataset.schemas["community_garden"]
    sql = "SELECT T1.name FROM gardener AS T1 JOIN plot AS T2 ON T1.gardener_id = T2.gardener_id WHERE T2.label = 'A'"
    assert neutral_text(sql, garden).count(" JOIN ") == 1


def test_columns_of_one_name_keep_one(dataset: Dataset) -> None:
    """The script compares GROUP BY by the names of columns, whatever their tables."""
    ferry = dataset.schemas["river_ferry"]
    gold, predicted = (
        "SELECT count(*) FROM pier AS T1 JOIN vessel AS T2 ON T1.pier_id = T2.home_pier_id GROUP BY " + column
        for column in ("T1.name", "T2.name")
    )
    expected, found = judge(gold, predicted, ferry), judge_any(gold, predicted, ferry)
    assert not found.exact
    assert found.partial == expected.partial
    assert found.partial["group(no Having)"] == 1
