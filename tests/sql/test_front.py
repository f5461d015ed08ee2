"""`from dtfixup.sql import …`: four names, what they bring along, and a question from a connection to its rows."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

import dtfixup.sql
from dtfixup.sql import TextToSql, open_database, run_query

HEAVY = (
    "google.protobuf",
    "gradio",
    "huggingface_hub",
    "lightning",
    "lightning_fabric",
    "matplotlib",
    "pandas",
    "sympy",
    "tensorboard",
    "torch._dynamo",
    "torch.utils.tensorboard",
    "transformers",
    "dtfixup.training.loop",
)
"""What no question needs."""
VERB = """
import json, runpy, sys
sys.argv = ["dtfixup", "sql", "ask", "How many captains are there?", "--database", "sample:river_ferry"]
try:
    runpy.run_module("dtfixup", run_name="__main__")
except SystemExit as done:
    assert not done.code, done.code
print(json.dumps(sorted(sys.modules)))
"""
PYTHON = """
import json, sys
from dtfixup.sql import TextToSql
print(TextToSql.load().ask("How many captains are there?", "sample:river_ferry").sql)
print(json.dumps(sorted(sys.modules)))
"""


def printed(script: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_front_has_four_names_and_imports_nothing_until_one_is_used() -> None:
    assert set(dir(dtfixup.sql)) == {"Answer", "TextToSql", "open_database", "run_query"}
    for name in dir(dtfixup.sql):
        assert getattr(dtfixup.sql, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Parser'"):
        dtfixup.sql.Parser  # noqa: B018
    [modules] = printed("import sys, dtfixup.sql; print({'torch', 'sqlglot', 'sqlalchemy'} & set(sys.modules))")
    assert modules == "set()"


@pytest.mark.parametrize("script", [VERB, PYTHON], ids=["verb", "python"])
def test_a_question_imports_no_training_engine_and_no_hub(script: str) -> None:
    [sql, *_, modules] = printed(script)
    assert sql == "SELECT count(*) FROM captain"
    imported = json.loads(modules)
    assert "dtfixup.sql.ask.parser" in imported
    assert not [name for name in imported if any(f"{name}.".startswith(f"{heavy}.") for heavy in HEAVY)]


@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_the_old_name_still_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="TextToSql"):
        assert dtfixup.sql.SqlParser is TextToSql
    with pytest.warns(DeprecationWarning, match="dtfixup.sql now"):
        from dtfixup.sql.parser import SqlParser
    assert SqlParser is TextToSql


def test_a_database_in_memory_is_asked_and_run() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("CREATE TABLE captain (name TEXT); INSERT INTO captain VALUES ('Ada'), ('Bo')")
        database = open_database(connection)
    answer = TextToSql.load().ask("How many captains are there?", database)
    assert answer.sql is not None
    assert run_query(database, answer.sql).rows == [(2,)]
