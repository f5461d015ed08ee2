"""Databases for the tests of the web half."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.web.store.catalogue import Catalogue, Entry

SCRIPT = """
    CREATE TABLE owners (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
    CREATE TABLE pets (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, owner INTEGER REFERENCES owners (id));
    INSERT INTO owners VALUES (1, 'Ann', 'Vienna'), (2, 'Bob', 'Linz');
    INSERT INTO pets VALUES (1, 'Rex', 3, 1), (2, 'Tom', 7, 1), (3, 'Mia', NULL, 2);
"""
QUESTION = "How many pets are there?"
NO_LINK = "Quo vadis?"


def make_shop(path: Path, script: str = SCRIPT) -> Path:
    """A SQLite file that a script makes."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def catalogue_of(files: Mapping[str, Path]) -> Catalogue:
    """The files as they would be named in a configuration."""
    return Catalogue({name: Entry(name, name, OpenedDatabase(path), (QUESTION,)) for name, path in files.items()})
