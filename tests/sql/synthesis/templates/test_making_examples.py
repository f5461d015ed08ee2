"""Synthetic examples: templates say nothing of their source, and what fills them fits in question and query."""

import json
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import ConfigError, DataError
from dtfixup.sql.database.dataset import Dataset, Example
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.linking.inputs import DatabaseInputs
from dtfixup.sql.synthesis.templates import Synthetic, making_examples, synthesise, write_examples
from dtfixup.sql.synthesis.templates.columns import (
    Trait,
    inflected,
    is_plain_name,
    plural,
    singular,
    title_of,
    traits_of,
)
from dtfixup.sql.synthesis.templates.making import Unusable, make_template
from dtfixup.sql.synthesis.templates.template import Slot, Template
from tests.sql.described import described
from tests.sql.pets import EXAMPLES, filled, make_dataset, shown


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return make_dataset(tmp_path_factory.mktemp("pets"))


@pytest.fixture(scope="module")
def kennels(dataset: Dataset) -> DatabaseInputs:
    return described(dataset, "kennels")


@pytest.fixture(scope="module")
def made(dataset: Dataset) -> list[Synthetic]:
    return synthesise(dataset, count=40, seed=3, workers=1, show_progress=False)


def template_of(question: str, query: str, database: DatabaseInputs) -> Template | Unusable:
    return make_template(Example("kennels", question, query), 0, database, SqlReader(database.schema))


@pytest.mark.parametrize(
    ("question", "query", "expected"),
    [
        (
            "What are the colors of dogs with weight above 20?",
            "SELECT color FROM dog WHERE weight > 20",
            "What are the [column s] of [table s] with [column] above [value]?",
        ),
        (
            "Find the city of the owner named 'Boris'.",
            "SELECT city FROM owner WHERE name = 'Boris'",
            "Find the [column] of the [table] with [column] '[value]'.",
        ),
        (
            "How many owners from Oslo are there?",
            "SELECT count(*) FROM owner WHERE city = 'Oslo'",
            "How many [table s] with [column] [value] are there?",
        ),
        (
            "How many white dogs are there?",
            "SELECT count(*) FROM dog WHERE color = 'white'",
            "How many [table s] with [column] [value] are there?",
        ),
        (
            "Which owners own dogs?",
            "SELECT DISTINCT T1.name FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id",
            "word left: own",
        ),
        (
            "Show the names of owners who feed dogs.",
            "SELECT DISTINCT T1.name FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id",
            "Show the [column s] of [table s] that have [table s].",
        ),
        (
            "What are the cities of dogs?",
            "SELECT T1.city FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id",
            "What are the [column s] of [table s]?",
        ),
        (
            "What are the colors of owners?",
            "SELECT T2.color FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id",
            "column of a table that is not named",
        ),
        (
            "Show the name and id of each owner and the number of dogs.",
            "SELECT T1.name, T2.owner_id, count(*) FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id "
            "GROUP BY T2.owner_id",
            "Show the [column] and [column] of each [table] and the number of [table s].",
        ),
        ("What is the weight of each hairy dog?", "SELECT weight FROM dog", "word left: hairy"),
        ("What is the first weight of dogs?", "SELECT weight FROM dog", "word left: first"),
        ("How many dogs are there?", "SELECT color FROM dog", "column not named"),
        ("How many dogs have the breed 'pug'?", "SELECT count(*) FROM dog WHERE breed = 'poodle'", "value not said"),
        ("Show the name.", "SELECT nothing FROM dog", "query outside the grammar"),
    ],
)
def test_a_template_has_slots_for_all_that_is_named(
    question: str, query: str, expected: str, kennels: DatabaseInputs
) -> None:
    assert shown(template_of(question, query, kennels)) == expected


def test_keys_of_a_join_need_no_name(kennels: DatabaseInputs) -> None:
    _, question, query = EXAMPLES[4]
    template = template_of(question, query, kennels)
    assert isinstance(template, Template)
    assert template.links == ((1, 0),)
    assert [need.is_named for need in template.columns if need.is_key] == [False]
    assert sum(isinstance(piece, Slot) for piece in template.question) == 4


def test_traits_tell_what_a_column_is_like(kennels: DatabaseInputs) -> None:
    schema = kennels.schema
    found = {schema.qualified(column): traits_of(column, kennels) for column in range(len(schema.columns))}
    assert found["owner.owner_id"] == {Trait.LABEL, Trait.PRIMARY}
    assert found["dog.owner_id"] == {Trait.LABEL, Trait.FOREIGN}
    assert found["dog.weight"] == {Trait.NUMBER}
    assert found["dog.breed"] == {Trait.TEXT}
    assert title_of(0, schema) == schema.find_column(0, "name")
    assert title_of(1, schema) is None


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
    monkeypatch.setattr(making_examples, "_REPEATS", 1)
    found = synthesise(dataset, count=15, seed=3, workers=1, show_progress=False)
    uses = Counter((synthetic.example.database, synthetic.source) for synthetic in found)
    assert max(uses.values()) <= 2  # one that implies its column, and one that names it


def test_what_is_said_of_rows_that_refer(dataset: Dataset, kennels: DatabaseInputs) -> None:
    """A dog has the city of its owner, but not the name."""
    query = "SELECT T1.city FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id"
    examples = filled(template_of("What are the cities of dogs?", query, kennels), described(dataset, "library"))
    assert {example.question for example in examples} == {"What are the cities of books?"}


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


@given(st.sampled_from(["city", "dog", "branch", "person", "box", "day", "class", "status", "child", "name", "price"]))
def test_the_singular_of_a_plural_is_the_word(word: str) -> None:
    assert plural(word) != word
    assert singular(plural(word)) == word
    assert plural(plural(word)) == plural(word)


def test_names_as_people_say_them() -> None:
    assert inflected("Date of Birth", is_plural=True) == "dates of birth"
    assert inflected("total points", is_plural=False, is_measure=True) == "total points"
    assert inflected("headquarters", is_plural=True) == "headquarters"
    assert is_plain_name("first name")
    assert not any(map(is_plain_name, ["organized by", "opened", "from", "attr 3", "", "xqzt"]))
