"""What the model is told of a database and a question."""

import sqlite3
from pathlib import Path

import pytest

from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.reflection import reflect
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.grammar.rules import ColumnKind
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database, describe_question
from dtfixup.sql.linking.relations import Match, schema_relations


@pytest.fixture
def shop(tmp_path: Path) -> DatabaseInputs:

    file = tmp_path / "shop.sqlite"
    with sqlite3.connect(file) as connection:
        connection.executescript(
            """
            CREATE TABLE sale (sale_id INTEGER PRIMARY KEY, buyer TEXT, amount TEXT, length TEXT, note TEXT, day DATE);
            INSERT INTO sale VALUES (1, 'Ann', '12', '4:30', NULL, '2020-01-02'), (2, 'Bo', 'none', '5:10', NULL, NULL);
            """
        )
    schema = reflect(file)
    return describe_database(schema, open_content(schema, file))


def test_kinds_follow_what_columns_hold(shop: DatabaseInputs) -> None:
    kinds = dict(zip([column.name for column in shop.schema.columns], shop.kinds, strict=True))
    assert kinds == {
        "*": ColumnKind.STAR,
        "sale_id": ColumnKind.NUMBER,
        "buyer": ColumnKind.WORDS,
        "amount": ColumnKind.TEXT,  # some are numbers
        "length": ColumnKind.TEXT,  # times can be averaged
        "note": ColumnKind.TEXT,  # nothing is known
        "day": ColumnKind.TIME,
    }


def test_without_content_text_may_be_anything(shop: DatabaseInputs) -> None:
    bare = describe_database(shop.schema, None)
    assert ColumnKind.WORDS not in bare.kinds
    assert describe_question("Who is Ann?", bare).links.values == ()


def test_items_are_columns_then_tables_and_a_star_has_its_tables_name() -> None:
    schema = open_dataset(sample_folder()).schemas["clinic"]
    inputs = describe_database(schema, None)
    assert len(inputs.item_words) == len(schema.columns) + len(schema.tables)
    for table, star in enumerate(schema.stars):
        assert inputs.item_words[star][0] == "*"
        assert inputs.item_words[star][1:] == inputs.item_words[len(schema.columns) + table]
    assert (inputs.relations == schema_relations(schema)).all()


def test_a_star_is_linked_as_its_table(shop: DatabaseInputs) -> None:
    question = describe_question("Which sales did Ann make?", shop)
    words = [word.text for word in question.words]
    table = len(shop.schema.columns)
    assert question.codes.shape == (len(words), table + 1)
    assert question.codes[words.index("sales"), table] == Match.EXACT
    assert question.codes[words.index("sales"), 0] == Match.EXACT
    buyer = [column.name for column in shop.schema.columns].index("buyer")
    assert question.codes[words.index("Ann"), buyer] == Match.VALUE
    assert "Ann" in [candidate.text for candidate in question.candidates]


def test_a_question_of_nothing(shop: DatabaseInputs) -> None:
    question = describe_question("", shop)
    assert question.words == ()
    assert question.codes.shape == (0, len(shop.schema.columns) + 1)
    assert len(question.candidates) > 0, "LIMIT needs a number to choose"
