"""Two small databases of parents and children, owners of dogs and authors of books, and questions about them."""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from dtfixup.sql.database.dataset import Dataset, Example, open_dataset
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble, write_tables_json
from dtfixup.sql.linking.inputs import DatabaseInputs
from dtfixup.sql.synthesis.templates.filler import Filler
from dtfixup.sql.synthesis.templates.template import Template
from dtfixup.sql.synthesis.templates.wording import UnusableError

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


def make_dataset(folder: Path) -> Dataset:
    """The databases and questions as a folder in Spider's layout."""
    write_tables_json(SCHEMAS, folder / "tables.json")
    for schema in SCHEMAS:
        fill_file(schema, folder / "database" / schema.database / f"{schema.database}.sqlite")
    rows = [{"db_id": database, "question": question, "query": query} for database, question, query in EXAMPLES]
    (folder / "train.json").write_text(json.dumps(rows))
    return open_dataset(folder)


def template_text(make: Callable[[], Template]) -> str:
    """A template's question with marks for slots, or why there is none."""
    try:
        question = make().question
    except UnusableError as error:
        return str(error)
    marks = (
        piece if isinstance(piece, str) else f"{piece.lead}[{piece.kind}{' s' if piece.is_plural else ''}]"
        for piece in question
    )
    return "".join(marks)


def fill_often(template: Template, database: DatabaseInputs) -> set[Example]:
    """The examples that many attempts make of a template."""
    filler = Filler(database, frozenset(range(len(database.schema.tables))))
    chance = random.Random(5)
    return {example for _ in range(60) if (example := filler.fill(template, chance)) is not None}
