"""Templates that imply a column: words stay, and only a column of the same name can replace it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest

from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import Example
from dtfixup.sql.database.schema import Schema, Table, assemble
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database
from dtfixup.sql.synthesis.templates.implied_columns import ImplyingMaker, select_evoking
from dtfixup.sql.synthesis.templates.maker import make_template
from dtfixup.sql.synthesis.templates.template import Template
from dtfixup.sql.synthesis.templates.wording import UnusableError
from tests.sql.pets import NUMBER, TEXT, fill_file, fill_often, parent_and_child, template_text


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


def implying(question: str, query: str, database: DatabaseInputs) -> Template:
    example = Example(database.schema.database, question, query)
    return make_template(example, 0, database, SqlReader(database.schema), ImplyingMaker)


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
    assert template_text(lambda: template) == expected
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
        ("What are the ages of nice people?", "SELECT age FROM rider WHERE sex = 'F'", "value not in the question"),
        ("Which riders are not Boris?", "SELECT age FROM rider WHERE name != 'Boris'", "all but one name"),
        ("How old is the youngest?", "SELECT age FROM rider ORDER BY age LIMIT 1", "nothing that changes"),
        ("Which ages live in Oslo?", "SELECT age FROM rider WHERE city = 'Oslo'", "words left"),
    ],
)
def test_words_that_imply_no_column_give_no_template(
    question: str, query: str, reason: str, describe: Describe
) -> None:
    schema = people("riding", "rider", ("horse", "horse"), ("color", "color"))
    assert template_text(lambda: implying(question, query, describe(schema))) == reason


def test_only_a_column_of_the_same_name_is_implied(describe: Describe) -> None:
    made = fill_often(implying(*OLD, describe(people("riding", "rider"))), describe(people("chess", "player")))
    question = "How old is the youngest player?"
    assert made == {Example("chess", question, "SELECT age FROM player ORDER BY age ASC LIMIT 1")}


def test_names_beside_an_implied_one_stay(describe: Describe) -> None:
    more = (("first_name", "first name"), ("last_name", "last name"), ("horse", "horse"))
    template = implying(
        "List the first and last names of riders.",
        "SELECT first_name, last_name FROM rider",
        describe(people("riding", "rider", *more)),
    )
    made = fill_often(template, describe(people("chess", "player", *more)))
    assert {example.question for example in made} == {"List the first and last names of players."}


def test_a_value_in_other_words_must_be_stored(describe: Describe) -> None:
    template = implying(*FEMALE, describe(people("riding", "rider")))
    assert fill_often(template, describe(people("chess", "player")))
    assert not fill_often(template, describe(people("golf", "golfer"), ("f", "m")))


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
    assert fill_often(template, kennels)
    assert not fill_often(template, library)
    question, query = asked("author", "book")
    with pytest.raises(UnusableError, match="two columns of one name"):
        implying(question, query, library)
    template = implying(question.replace("from Oslo", "Oslo"), query, library)  # the table beside it decides
    assert template_text(lambda: template) == "Show the [column] of each [table] with an [table] [value]."
    assert fill_often(template, library)


def test_people_live_and_things_do_not(describe: Describe) -> None:
    template = implying(*LIVE, describe(people("riding", "rider")))
    columns = [("bridge_id", "bridge id", NUMBER), ("name", "name", TEXT), ("length", "length", NUMBER)]
    columns += [("height", "height", NUMBER), ("color", "color", TEXT), ("city", "city", TEXT)]
    bridges = assemble("bridges", [Table("bridge", "bridge")], [columns], [["bridge_id"]], [])
    assert fill_often(template, describe(people("chess", "player")))
    assert not fill_often(template, describe(bridges))


def test_a_word_that_stays_must_not_name_something_else(describe: Describe) -> None:
    template = implying(*LIVE, describe(people("riding", "rider")))
    assert not fill_often(template, describe(people("chess", "player", ("live_show", "live show"))))


def test_words_that_stay_are_said_in_several_databases(describe: Describe) -> None:
    def templates(question: str, query: str, count: int) -> list[list[Template]]:
        made = []
        for number, table in enumerate(["rider", "player", "singer", "golfer"][:count]):
            database = describe(people(f"{table}s{number}{len(question)}", table))
            template = implying(question.replace("rider", table), query.replace("rider", table), database)
            made.append([template])
        return made

    names = [frozenset([("age",), ("city",)])] * 2
    few, many = templates(*LIVE, 3), templates(LIVE[0] + "?", LIVE[1], 4)
    assert select_evoking(few, names, frozenset()) == []
    assert select_evoking(many, names, frozenset()) == [part[0] for part in many]
    assert select_evoking(many, names, frozenset(["live"])) == []
    old = templates(*OLD, 1)
    assert select_evoking(old, names, frozenset()) == old[0]  # `old` is known to ask for an age
    assert select_evoking(old, names[:1], frozenset()) == []
