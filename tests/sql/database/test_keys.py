"""Foreign keys by names, where a database declares none."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dtfixup.sql.database.reflection import reflect
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.joins import Joiner

ZOO = """
CREATE TABLE species (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE animals (id INTEGER PRIMARY KEY, name TEXT, species_id INTEGER, mother_id INTEGER);
CREATE TABLE feedings (id INTEGER PRIMARY KEY, animal_id INTEGER, food TEXT);
"""


def read(folder: Path, script: str) -> tuple[Schema, set[str]]:
    """The schema of a database, and its keys as `table.column > table.column`."""
    with closing(sqlite3.connect(folder / "some.sqlite")) as connection:
        connection.executescript(script)
    schema = reflect(folder / "some.sqlite")
    return schema, {f"{schema.qualified(one)} > {schema.qualified(other)}" for one, other in schema.foreign_pairs}


def test_ids_point_at_their_tables(tmp_path: Path) -> None:
    schema, keys = read(tmp_path, ZOO)
    assert keys == {"animals.species_id > species.id", "feedings.animal_id > animals.id"}
    joins = Joiner(schema).build([(schema.table_index["species"], 1), (schema.table_index["feedings"], 1)])
    assert all(join.conditions for join in joins[1:])


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            "CREATE TABLE team (team_id INTEGER PRIMARY KEY);"
            "CREATE TABLE match (no INT, home_team_id INT, away_team_id INT)",
            {"match.home_team_id > team.team_id", "match.away_team_id > team.team_id"},
        ),
        (
            "CREATE TABLE book (isbn TEXT PRIMARY KEY); CREATE TABLE copy (no INTEGER PRIMARY KEY, ISBN TEXT)",
            {"copy.ISBN > book.isbn"},
        ),
        (
            "CREATE TABLE Customer (customerId INT, n TEXT); CREATE TABLE Bike (x INT, customerId INT)",
            {"Bike.customerId > Customer.customerId"},
        ),
        ("CREATE TABLE team (id TEXT PRIMARY KEY); CREATE TABLE player (no INT, team_id INT)", set()),
        ("CREATE TABLE a (id INTEGER PRIMARY KEY, year INT); CREATE TABLE b (id INTEGER PRIMARY KEY, year INT)", set()),
        ("CREATE TABLE a (k INT PRIMARY KEY); CREATE TABLE b (k INT PRIMARY KEY); CREATE TABLE c (k INT)", set()),
        (
            "CREATE TABLE person (id INTEGER PRIMARY KEY); CREATE TABLE staff (id INTEGER PRIMARY KEY);"
            "CREATE TABLE shift (no INT, person_id INT REFERENCES staff (id))",
            {"shift.person_id > staff.id"},
        ),
    ],
    ids=["a role before", "a key's name", "no key declared", "another type", "no key's name", "of two", "declared"],
)
def test_what_names_say(tmp_path: Path, script: str, expected: set[str]) -> None:
    assert read(tmp_path, script)[1] == expected
