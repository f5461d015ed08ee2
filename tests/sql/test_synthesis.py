"""Synthetic examples: templates say nothing of their source, and what fills them fits in question and query."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import ConfigError, DataError
from dtfixup.sql.content import open_content
from dtfixup.sql.dataset import Dataset, Example, open_dataset
from dtfixup.sql.inputs import DatabaseInputs, describe_database
from dtfixup.sql.schema import ColumnType, Schema, Table, assemble, write_tables_json
from dtfixup.sql.sql_reader import SqlReader
from dtfixup.sql.synthesis import Synthetic, synthesise, write_examples
from dtfixup.sql.synthesis.columns import Trait, inflected, is_plain_name, plural, singular, title_of, traits_of
from dtfixup.sql.synthesis.template_making import Unusable, make_template
from dtfixup.sql.synthesis.templates import Slot, Template

NUMBER, TEXT = ColumnType.NUMBER, ColumnType.TEXT


def parent_and_child(database: str, parent: str, child: str, words: tuple[str, str, str]) -> Schema:
    """Two tables, the second of which points at the first; `words` are names of columns of the second."""
    text, number, other = words
    return assemble(
        database,
        [Table(parent, parent), Table(child, child)],
        [
            [(f"{parent}_id", f"{parent} id", NUMBER), ("name", "name", TEXT), ("city", "city", TEXT)],
            [
                (f"{child}_id", f"{child} id", NUMBER),
                (text, text, TEXT),
                (number, number, NUMBER),
                (other, other, TEXT),
                (f"{parent}_id", f"{parent} id", NUMBER),
            ],
        ],
        [[f"{parent}_id"], [f"{child}_id"]],
        [((1, [f"{parent}_id"]), (0, [f"{parent}_id"]))],
    )


SCHEMAS = [
    parent_and_child("kennels", "owner", "dog", ("breed", "weight", "color")),
    parent_and_child("library", "author", "book", ("genre", "price", "language")),
]
ROWS = {
    "kennels": (["Anna Reed", "Boris"], ["Oslo", "Bergen"], ["poodle", "collie"], ["white", "brown"]),
    "library": (["Clara Holm", "Dario"], ["Turin", "Milan"], ["drama", "travel"], ["Italian", "Danish"]),
}
EXAMPLES = [
    ("kennels", "What are the colors of dogs with weight above 20?", "SELECT color FROM dog WHERE weight > 20"),
    ("kennels", "How many dogs have the breed 'poodle'?", "SELECT count(*) FROM dog WHERE breed = 'poodle'"),
    ("kennels", "What is the average weight of all dogs?", "SELECT avg(weight) FROM dog"),
    ("kennels", "Show each breed and the number of dogs.", "SELECT breed, count(*) FROM dog GROUP BY breed"),
    (
        "kennels",
        "Find the names of owners who have more than 2 dogs.",
        "SELECT T1.name FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id "
        "GROUP BY T1.owner_id HAVING count(*) > 2",
    ),
    (
        "kennels",
        "Find the names of owners who do not have any dog.",
        "SELECT name FROM owner WHERE owner_id NOT IN (SELECT owner_id FROM dog)",
    ),
    ("library", "What are the genres of all books?", "SELECT genre FROM book"),
    ("library", "List the names of authors in alphabetical order.", "SELECT name FROM author ORDER BY name"),
]


def fill_file(schema: Schema, path: Path) -> None:
    path.parent.mkdir(parents=True)
    names, cities, texts, others = ROWS[schema.database]
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in zip(schema.tables, schema.columns_of, strict=True):
            connection.execute(f"CREATE TABLE {table.name} ({', '.join(schema.columns[c].name for c in columns[1:])})")
        parent, child = (table.name for table in schema.tables)
        for row in range(8):
            connection.execute(f"INSERT INTO {parent} VALUES (?, ?, ?)", (row, names[row % 2], cities[row % 2]))
            values = (row, texts[row % 2], 12 + 7 * (row % 4), others[row // 2 % 2], row % 3)
            connection.execute(f"INSERT INTO {child} VALUES (?, ?, ?, ?, ?)", values)
        connection.commit()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("pets")
    write_tables_json(SCHEMAS, folder / "tables.json")
    for schema in SCHEMAS:
        fill_file(schema, folder / "database" / schema.database / f"{schema.database}.sqlite")
    rows = [{"db_id": database, "question": question, "query": query} for database, question, query in EXAMPLES]
    (folder / "train.json").write_text(json.dumps(rows))
    return open_dataset(folder)


@pytest.fixture(scope="module")
def kennels(dataset: Dataset) -> DatabaseInputs:
    schema = dataset.schemas["kennels"]
    return describe_database(schema, open_content(schema, dataset.database_file("kennels"), use_cache=False))


@pytest.fixture(scope="module")
def made(dataset: Dataset) -> list[Synthetic]:
    return synthesise(dataset, count=40, seed=3, workers=1, show_progress=False)


def template_of(question: str, query: str, database: DatabaseInputs) -> Template | Unusable:
    return make_template(Example("kennels", question, query), 0, database, SqlReader(database.schema))


def shown(template: Template | Unusable) -> str:
    if isinstance(template, Unusable):
        return template.reason
    marks = (
        piece if isinstance(piece, str) else f"{piece.lead}[{piece.part}{' s' if piece.is_plural else ''}]"
        for piece in template.question
    )
    return "".join(marks)


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
