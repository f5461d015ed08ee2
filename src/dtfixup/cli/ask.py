"""The verbs that ask: `dtfixup ask`, `dtfixup link` and `dtfixup demo`.

The query and its rows go to standard output, everything else to standard error.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from dtfixup.cli.options import locate, question_and_database
from dtfixup.cli.session import AskOptions, ExitCode, Session, require_new, show_error
from dtfixup.errors import ConfigError, DtFixupError

_ONE_THREAD = 300
"""Columns of a schema up to which one thread is used."""

Question = Annotated[Positional[str | None], arg(metavar="[QUESTION]")]
Place = Annotated[Positional[str | None], arg(metavar="[DATABASE]")]


def ask(
    question: Question = None,
    place: Place = None,
    *,
    database: str | None = None,
    model: Path | None = None,
    run: bool = False,
    csv: Path | None = None,
    json: bool = False,
    explain: bool = False,
    beam: int = 5,
    rows: int = 100,
    deadline: float = 5.0,
    names: Path | None = None,
    namespace: str | None = None,
) -> None:
    r"""Ask a database in English: prints SQL in its dialect, and with --run the rows.

    Exit code: 0 answered, 2 error, 3 the model is unsure, 4 nothing in the question links to the schema. Questions from
    standard input: 2 if one of them, or the run of its query, ended in an error, otherwise 0.

    Args:
        question: The question, in quotes; without one, a prompt.
        place: The database: a SQLite file, a URL such as postgresql://user@host/name or mysql://user@host/name, or a
            bundled database such as sample:river_ferry.
        database: The database, as an option.
        model: Folder of a finished run, or a file of weights.
        run: Run the query, read-only, and show its rows.
        csv: Run the query and write its rows to this file, NULL as an empty field; at a prompt, `\s FILE` does.
        json: Print JSON, one object for each question.
        explain: Also show what words were linked to, the other queries of the beam, and the tree.
        beam: Queries to look for.
        rows: The most rows to show or write.
        deadline: Seconds that a query may run.
        names: YAML file with natural names of tables, columns and abbreviations.
        namespace: A PostgreSQL schema, or another database of a MySQL server.
    """
    try:
        question, place = question_and_database((question, place), database)
        if csv is not None and question is None:
            raise ConfigError(r"--csv is for one question: give it, or at the prompt save rows by \s FILE")
        if csv is not None:
            require_new(csv)
        session = _open(place, model, AskOptions(run, csv, json, explain, beam, rows, deadline), names, namespace)
        sys.exit(session.converse() if question is None else session.answer(question))
    except DtFixupError as error:
        show_error(error, question, is_json=json)
        sys.exit(ExitCode.ERROR)


def demo(model: Path | None = None) -> None:
    """Ask the bundled databases five questions, run the answers, and score the model on all bundled questions.

    Args:
        model: Folder of a finished run, or a file of weights; the shipped model by default.
    """
    from dtfixup.sql.ask.demo import show_ask_demo

    if show_ask_demo(model, Console()).failed:
        sys.exit(1)


def link(
    question: Question = None,
    place: Place = None,
    *,
    database: str | None = None,
    names: Path | None = None,
    json: bool = False,
) -> None:
    """Show which words of a question name tables and columns, and which name values.

    Args:
        question: The question, in quotes.
        place: The database: a SQLite file, a URL such as postgresql://user@host/name, or a bundled database such as
            sample:river_ferry.
        database: The database, as an option.
        names: YAML file with natural names of tables, columns and abbreviations.
        json: Print JSON.
    """
    from dtfixup.sql.database.content import open_content
    from dtfixup.sql.database.names import read_names
    from dtfixup.sql.database.reflection import reflect
    from dtfixup.sql.linking.inputs import describe_database, describe_question
    from dtfixup.sql.linking.view import links_json, render

    question, place = question_and_database((question, place), database)
    if question is None:
        raise ConfigError('give a question, in quotes: dtfixup sql link "How many?" shop.sqlite')
    location = locate(place)
    schema = reflect(location, names=None if names is None else read_names(names))
    inputs = describe_question(question, describe_database(schema, open_content(schema, location)))
    if json:
        sys.stdout.write(links_json(question, inputs.words, inputs.links, schema) + "\n")
    else:
        Console().print(render(question, inputs.words, inputs.links, schema))


def _open(place: str, model: Path | None, options: AskOptions, names: Path | None, namespace: str | None) -> Session:
    """Read the database, then load the model: a wrong path is reported at once."""
    from dtfixup.sql.ask.opened import OpenedDatabase
    from dtfixup.sql.database.names import read_names

    if options.beam < 1 or options.rows < 1:
        raise ConfigError("--beam and --rows take numbers from 1 on")
    if names is not None and not names.is_file():
        raise ConfigError(
            f"--names: there is no file {names}; name a YAML file with natural names "
            "(docs/start/ask.md shows one), or leave the option out"
        )
    natural = None if names is None else read_names(names)
    opened = OpenedDatabase(locate(place), names=natural, namespace=namespace)
    session = Session(opened, options)
    for sentence in opened.read().left_out:
        session.note(f"left out: {sentence}")

    # On a busy machine, threads that wait for each other by spinning take seconds for a question. The matrices of a
    # common schema are too small to gain from a second thread.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    from dtfixup.sql.ask.parser import TextToSql

    if len(opened.read().schema.columns) <= _ONE_THREAD:
        torch.set_num_threads(1)
    session.parser = TextToSql.load(model)
    return session
