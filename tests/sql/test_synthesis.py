"""Synthetic examples: templates say nothing of their source, and what fills them fits in question and query."""

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import ConfigError, DataError
from dtfixup.sql.content import open_content
from dtfixup.sql.dataset import Dataset, Example, open_dataset
from dtfixup.sql.grammar import ValueKind
from dtfixup.sql.inputs import DatabaseInputs, describe_database
from dtfixup.sql.schema import ColumnType, Schema, Table, assemble, write_tables_json
from dtfixup.sql.sql_reader import SqlReader
from dtfixup.sql.synthesis import Synthetic, making_examples, synthesise, write_examples
from dtfixup.sql.synthesis.columns import Trait, inflected, is_plain_name, plural, singular, title_of, traits_of
from dtfixup.sql.synthesis.implied_columns import evoked, make_implying_template
from dtfixup.sql.synthesis.template_filling import Filler
from dtfixup.sql.synthesis.template_making import Unusable, make_template
from dtfixup.sql.synthesis.templates import Form, Slot, Template, ValueNeed
from dtfixup.sql.synthesis.value_choice import choose_value
from dtfixup.sql.tree import Literal

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
    ("kennels", "Find the names of owners from Oslo.", "SELECT name FROM owner WHERE city = 'Oslo'"),
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


def people(database: str, table: str, *more: tuple[str, str]) -> Schema:
    """One table of people; `more` are names of columns with their natural names."""
    columns = [
        (f"{table}_id", f"{table} id", NUMBER),
        ("name", "name", TEXT),
        ("age", f"{table} age", NUMBER),
        ("height", "height", NUMBER),
        ("sex", "sex", TEXT),
        ("city", "city", TEXT),
        *((name, natural, TEXT) for name, natural in more),
    ]
    return assemble(database, [Table(table, table)], [columns], [[f"{table}_id"]], [])


Describe: TypeAlias = Callable[..., DatabaseInputs]


@pytest.fixture
def describe(tmp_path: Path) -> Describe:
    """Schemas of `people` with rows; two codes are what the column `sex` holds."""

    def described(schema: Schema, codes: tuple[str, str] = ("F", "M")) -> DatabaseInputs:
        path = tmp_path / f"{schema.database}.sqlite"
        table = schema.tables[0].name
        names = [schema.columns[column].name for column in schema.columns_of[0][1:]]
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"CREATE TABLE {table} ({', '.join(names)})")
            for row in range(8):
                person = ["Anna Reed", "Boris", "Clara"][row % 3]
                values = [row, person, 20 + row, 150 + 5 * row, codes[row % 2], ["Oslo", "Turin"][row // 4]]
                values += ["red"] * (len(names) - len(values))
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", values)
            connection.commit()
        return describe_database(schema, open_content(schema, path, use_cache=False))

    return described


def implying(question: str, query: str, database: DatabaseInputs) -> Template | Unusable:
    example = Example(database.schema.database, question, query)
    return make_implying_template(example, 0, database, SqlReader(database.schema))


def filled(template: Template | Unusable, database: DatabaseInputs) -> set[Example]:
    """What many attempts make of a template."""
    assert isinstance(template, Template)
    filler = Filler(database, frozenset(range(len(database.schema.tables))))
    chance = random.Random(5)
    return {example for _ in range(60) if (example := filler.fill(template, chance)) is not None}


OLD = ("How old is the youngest rider?", "SELECT age FROM rider ORDER BY age LIMIT 1")
LIVE = ("Which riders live in Oslo?", "SELECT name FROM rider WHERE city = 'Oslo'")
FEMALE = ("How many female riders are there?", "SELECT count(*) FROM rider WHERE sex = 'F'")


@pytest.mark.parametrize(
    ("question", "query", "expected", "names", "kept"),
    [
        (*OLD, "How old is the youngest [table]?", [("age",)], ["old", "young"]),
        (*LIVE, "Which [table s] live in [value]?", [("city",)], ["live"]),
        (*FEMALE, "How many female [table s] are there?", [("sex",)], []),
        (
            "What is the age of the rider named 'Anna Reed'?",
            "SELECT age FROM rider WHERE name = 'Anna Reed'",
            "What is the [column] of the [table] named '[value]'?",
            [("name",)],
            [],
        ),
        (
            "What is the city of the highest rider?",
            "SELECT city FROM rider ORDER BY height DESC LIMIT 1",
            "What is the [column] of the highest [table]?",
            [("height",)],
            ["high"],
        ),
        (
            "How many Oslo riders are there?",
            "SELECT count(*) FROM rider WHERE city = 'Oslo'",
            "How many [value] [table s] are there?",
            [("city",)],
            [],
        ),
    ],
)
def test_an_implied_column_leaves_the_words_as_they_are(
    question: str, query: str, expected: str, names: list[tuple[str, ...]], kept: list[str], describe: Describe
) -> None:
    template = implying(question, query, describe(people("riding", "rider")))
    assert shown(template) == expected
    assert isinstance(template, Template)
    assert list(template.implied_names) == names
    assert list(template.kept) == kept


@pytest.mark.parametrize(
    ("question", "query", "reason"),
    [
        ("How many riders are there?", "SELECT avg(height) FROM rider", "column not implied"),
        ("What are the ages of riders?", "SELECT age FROM rider", "no column implied"),
        ("How old is each rider of a horse?", "SELECT age FROM rider", "word of another name: horse"),
        ("How old are riders called Boris in red?", "SELECT age FROM rider WHERE name = 'Boris'", "a value left: red"),
        ("How terribly dreadfully old is some poor rider?", "SELECT age FROM rider", "words left"),
        ("What are the ages of nice people?", "SELECT age FROM rider WHERE sex = 'F'", "value not said"),
        ("Which riders are not Boris?", "SELECT age FROM rider WHERE name != 'Boris'", "all but one name"),
        ("How old is the youngest?", "SELECT age FROM rider ORDER BY age LIMIT 1", "nothing that changes"),
        ("Which ages live in Oslo?", "SELECT age FROM rider WHERE city = 'Oslo'", "words left"),
    ],
)
def test_words_that_imply_no_column_give_no_template(
    question: str, query: str, reason: str, describe: Describe
) -> None:
    schema = people("riding", "rider", ("horse", "horse"), ("color", "color"))
    assert shown(implying(question, query, describe(schema))) == reason


def test_only_a_column_of_the_same_name_is_implied(describe: Describe) -> None:
    made = filled(implying(*OLD, describe(people("riding", "rider"))), describe(people("chess", "player")))
    question = "How old is the youngest player?"
    assert made == {Example("chess", question, "SELECT age FROM player ORDER BY age ASC LIMIT 1")}


def test_names_beside_an_implied_one_stay(describe: Describe) -> None:
    more = (("first_name", "first name"), ("last_name", "last name"), ("horse", "horse"))
    template = implying(
        "List the first and last names of riders.",
        "SELECT first_name, last_name FROM rider",
        describe(people("riding", "rider", *more)),
    )
    made = filled(template, describe(people("chess", "player", *more)))
    assert {example.question for example in made} == {"List the first and last names of players."}


def test_a_value_in_other_words_must_be_stored(describe: Describe) -> None:
    template = implying(*FEMALE, describe(people("riding", "rider")))
    assert filled(template, describe(people("chess", "player")))
    need = ValueNeed(Literal("F", ValueKind.TEXT), Form.CONSTANT, 0)
    assert choose_value(need, ["M", "F"], random.Random(1)) == need.literal
    assert choose_value(need, ["m", "f"], random.Random(1)) is None


def test_an_implied_column_is_the_only_one_of_its_name(tmp_path: Path, kennels: DatabaseInputs) -> None:
    def two_cities(*names: str) -> DatabaseInputs:
        schema = parent_and_child(*names, ("city", "price", "language"))
        path = tmp_path / names[0] / "file.sqlite"
        fill_file(schema, path)
        return describe_database(schema, open_content(schema, path, use_cache=False))

    def asked(parent: str, child: str) -> tuple[str, str]:
        column = "weight" if child == "dog" else "price"
        return (
            f"Show the {column} of each {child} with an {parent} from Oslo.",
            f"SELECT T2.{column} FROM {parent} AS T1 JOIN {child} AS T2 ON T1.{parent}_id = T2.{parent}_id "
            "WHERE T1.city = 'Oslo'",
        )

    library = two_cities("library", "author", "book")
    template = implying(*asked("owner", "dog"), kennels)
    assert filled(template, kennels)
    assert not filled(template, library)
    assert shown(implying(*asked("author", "book"), library)) == "two columns of one name"
    question, query = asked("author", "book")
    told = implying(question.replace("from Oslo", "Oslo"), query, library)  # the table beside it tells which
    assert shown(told) == "Show the [column] of each [table] with an [table] [value]."
    assert filled(told, library)


def test_people_live_and_things_do_not(describe: Describe) -> None:
    template = implying(*LIVE, describe(people("riding", "rider")))
    columns = [("bridge_id", "bridge id", NUMBER), ("name", "name", TEXT), ("length", "length", NUMBER)]
    columns += [("height", "height", NUMBER), ("color", "color", TEXT), ("city", "city", TEXT)]
    bridges = assemble("bridges", [Table("bridge", "bridge")], [columns], [["bridge_id"]], [])
    assert filled(template, describe(people("chess", "player")))
    assert not filled(template, describe(bridges))


def test_a_word_that_stays_must_not_name_something_else(describe: Describe) -> None:
    template = implying(*LIVE, describe(people("riding", "rider")))
    assert not filled(template, describe(people("chess", "player", ("live_show", "live show"))))


def test_words_that_stay_are_said_in_several_databases(describe: Describe) -> None:
    def templates(question: str, query: str, count: int) -> list[list[Template]]:
        made = []
        for number, table in enumerate(["rider", "player", "singer", "golfer"][:count]):
            database = describe(people(f"{table}s{number}{len(question)}", table))
            template = implying(question.replace("rider", table), query.replace("rider", table), database)
            assert isinstance(template, Template)
            made.append([template])
        return made

    names = [frozenset([("age",), ("city",)])] * 2
    few, many = templates(*LIVE, 3), templates(LIVE[0] + "?", LIVE[1], 4)
    assert evoked(few, names, frozenset()) == []
    assert evoked(many, names, frozenset()) == [part[0] for part in many]
    assert evoked(many, names, frozenset(["live"])) == []
    old = templates(*OLD, 1)
    assert evoked(old, names, frozenset()) == old[0]  # `old` is known to ask for an age
    assert evoked(old, names[:1], frozenset()) == []


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


def test_what_is_said_of_rows_that_refer(made: list[Synthetic], dataset: Dataset, kennels: DatabaseInputs) -> None:
    """A dog has the city of its owner, but not the name."""
    query = "SELECT T1.city FROM owner AS T1 JOIN dog AS T2 ON T1.owner_id = T2.owner_id"
    schema = dataset.schemas["library"]
    library = describe_database(schema, open_content(schema, dataset.database_file("library"), use_cache=False))
    examples = filled(template_of("What are the cities of dogs?", query, kennels), library)
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
