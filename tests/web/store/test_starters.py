"""The page's first questions, asked of the model that comes with the package."""

import pytest

from dtfixup.files import read_json
from dtfixup.sql.ask.answers import Verdict
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.execution.run import run_query
from dtfixup.web.store.catalogue import open_catalogue
from dtfixup.web.store.starters import STARTERS


@pytest.fixture(scope="module")
def parser() -> TextToSql:
    return TextToSql.load()


def test_every_sample_has_four() -> None:
    entries = open_catalogue().entries
    assert {name: entry.examples for name, entry in entries.items()} == STARTERS
    assert {len(set(questions)) for questions in STARTERS.values()} == {4}


def test_none_is_of_the_acceptance_set() -> None:
    asked = [row["question"] for split in ("dev", "train") for row in read_json(sample_folder() / f"{split}.json")]
    assert len(asked) == 240
    known = {_plain(question) for question in asked}
    assert [question for questions in STARTERS.values() for question in questions if _plain(question) in known] == []


@pytest.mark.parametrize("name", STARTERS)
def test_each_is_answered_surely_and_has_rows(name: str, parser: TextToSql) -> None:
    database = open_catalogue().find(name).database
    for question in STARTERS[name]:
        answer = parser.ask(question, database)
        assert answer.verdict is Verdict.SURE, (question, answer.alternatives[:2])
        assert answer.sql is not None
        assert run_query(database.location, answer.sql).rows, (question, answer.sql)


def _plain(question: str) -> str:
    return " ".join("".join(sign if sign.isalnum() else " " for sign in question.lower()).split())
