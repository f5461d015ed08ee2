"""Synthetic examples are of their databases only, and question and query fit each other."""

import json
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from dtfixup.errors import ConfigError, DataError
from dtfixup.sql.database.dataset import Dataset, Example
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.synthesis.templates import Synthetic, examples, synthesise, write_examples
from dtfixup.sql.synthesis.templates.columns import plural
from dtfixup.sql.synthesis.templates.examples import share_of


@pytest.fixture(scope="module")
def made(dataset: Dataset) -> list[Synthetic]:
    return synthesise(dataset, count=40, seed=3, workers=1, show_progress=False)


def test_every_example_is_of_its_database(made: list[Synthetic], dataset: Dataset) -> None:
    assert len(made) == 40
    assert {synthetic.example.database for synthetic in made} == {"kennels", "library"}
    for synthetic in made:
        example = synthetic.example
        words = example.question.lower()
        foreign = ("dog", "owner", "breed") if example.database == "library" else ("book", "author", "genre")
        assert not any(word in words for word in foreign), example.question
        assert SqlReader(dataset.schemas[example.database]).read(example.query)
        with closing(sqlite3.connect(dataset.database_file(example.database))) as connection:
            connection.execute(example.query).fetchall()


def test_question_and_query_say_the_same(made: list[Synthetic]) -> None:
    averages = [synthetic.example for synthetic in made if synthetic.source == 2]
    assert Example("library", "What is the average price of all books?", "SELECT avg(price) FROM book") in averages
    for synthetic in made:
        if synthetic.source == 0:
            column = synthetic.example.query.split()[1]
            assert synthetic.example.question.startswith(f"What are the {plural(column)} of ")


def test_implied_columns_are_a_part_of_what_is_made(made: list[Synthetic]) -> None:
    asked = {synthetic.example.question for synthetic in made if synthetic.source == 8}
    assert "Find the names of authors from Milan." in asked
    assert any(" with " in question for question in asked)


def test_a_template_comes_a_few_times_per_database(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "_REPEATS", 1)
    found = synthesise(dataset, count=15, seed=3, workers=1, show_progress=False)
    uses = Counter((synthetic.example.database, synthetic.source) for synthetic in found)
    assert max(uses.values()) <= 2  # one that implies its column, and one that names it


def test_joined_tables_stay_joined(made: list[Synthetic]) -> None:
    joined = {synthetic.example.query for synthetic in made if synthetic.source == 4}
    assert any("FROM author AS T1 JOIN book AS T2 ON T1.author_id = T2.author_id" in query for query in joined)
    assert all("HAVING count(*) > " in query for query in joined)


def test_the_many_are_not_asked_for_where_the_one_is(made: list[Synthetic]) -> None:
    """A foreign key has a direction: owners have dogs, and no dog has more than two owners."""
    asked = [synthetic.example.question for synthetic in made if synthetic.source in (4, 5)]
    assert asked
    for question in asked:
        parent, _, child = question.partition(" that ")
        assert ("owners" in parent and "dog" in child) or ("authors" in parent and "book" in child), question


def test_nothing_twice_and_nothing_real(made: list[Synthetic], dataset: Dataset) -> None:
    asked = [(synthetic.example.database, synthetic.example.question) for synthetic in made]
    assert len(set(asked)) == len(asked)
    assert set(asked).isdisjoint((example.database, example.question) for example in dataset.split("train"))


def test_the_same_whatever_the_number_of_workers(made: list[Synthetic], dataset: Dataset) -> None:
    assert synthesise(dataset, count=40, seed=3, workers=2, show_progress=False) == made


def test_the_seed_changes_what_is_made(dataset: Dataset) -> None:
    first, second = (
        {
            synthetic.example.question
            for synthetic in synthesise(dataset, count=60, seed=seed, workers=1, show_progress=False)
        }
        for seed in (1, 2)
    )
    assert first != second


def test_what_cannot_be_made_is_refused(dataset: Dataset) -> None:
    with pytest.raises(DataError, match="ask for no more than that"):
        synthesise(dataset, count=5000, seed=1, workers=1, show_progress=False)
    with pytest.raises(ConfigError, match="at least 1"):
        synthesise(dataset, count=0, seed=1, show_progress=False)


def test_written_examples_are_a_split(made: list[Synthetic], dataset: Dataset) -> None:
    path = write_examples(dataset.folder / "more.json", made)
    assert dataset.split("more") == [synthetic.example for synthetic in made]
    assert [row["source"] for row in json.loads(path.read_text())] == [synthetic.source for synthetic in made]


def test_a_share_is_more_than_a_part() -> None:
    assert share_of(100, 10, 1.5) == 16
    assert share_of(100, 0, 1.5) > 100, "an empty split is refused when nothing comes of it"
