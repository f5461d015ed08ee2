"""The verbs that ask: `dtfixup ask`, `dtfixup link` and `dtfixup demo`.

The query and its rows go to standard output, everything else to standard error.
"""

import json as json_text
import os
import sys
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.markup import escape
from tyro.conf import Positional, arg

from dtfixup.cli.options import locate, question_and_database
from dtfixup.cli.parse import Settings
from dtfixup.errors import ConfigError, DtFixupError

if TYPE_CHECKING:
    from dtfixup.cli.session import Session

_ONE_THREAD = 300
"""Columns of a schema up to which one thread is used."""

Question = Annotated[Positional[str | None], arg(metavar="[QUESTION]")]
Target = Annotated[Positional[str | None], arg(metavar="[DATABASE]")]


class ExitCode(IntEnum):
    """What a script can tell from the exit code; 2 is every command's for an error, and 130 an interrupt."""

    ANSWERED = 0
    ERROR = 2
    UNSURE = 3
    NO_LINK = 4


@dataclass(frozen=True)
class AskOptions:
    """How questions are answered and shown: options of `dtfixup ask`."""

    run: bool = False
    """Run the query, read-only, and show its rows."""
    csv: Path | None = None
    r"""Run the query and write its rows to this file, NULL as an empty field; at a prompt, `\s FILE` does."""
    json: bool = False
    """Print JSON, one object for each question."""
    explain: bool = False
    """Also show what words were linked to, the other queries of the beam, and the tree."""
    beam: int = 5
    """Queries to look for."""
    rows: int = 100
    """The most rows to show or write."""
    deadline: float = 5.0
    """Seconds that a query may run."""

    @property
    def needs_rows(self) -> bool:
        return self.run or self.csv is not None


def ask(
    question: Question = None,
    target: Target = None,
    *,
    database: str | None = None,
    model: Path | None = None,
    settings: Annotated[AskOptions, Settings()] = AskOptions(),  # noqa: B008, it is frozen
    names: Path | None = None,
    namespace: str | None = None,
) -> None:
    """Ask a database in English: prints SQL in its dialect, and with --run the rows.

    Exit code: 0 answered, 2 error, 3 the model is unsure, 4 nothing in the question links to the schema. Questions from
    standard input: 2 if one of them, or the run of its query, ended in an error, otherwise 0.

    Args:
        question: The question, in quotes; without one, a prompt.
        target: The database: a SQLite file, a URL such as postgresql://user@host/name or mysql://user@host/name, or a
            bundled database such as sample:river_ferry.
        database: The database, as an option.
        model: Folder of a finished run, or a file of weights.
        names: YAML file with natural names of tables, columns and abbreviations.
        namespace: A PostgreSQL schema, or another database of a MySQL server.
    """
    try:
        question, target = question_and_database((question, target), database)
        if settings.csv is not None:
            if question is None:
                raise ConfigError(r"--csv is for one question: give it, or at the prompt save rows by \s FILE")
            require_new(settings.csv)
        session = _open(target, model, settings, names, namespace)
        sys.exit(session.converse() if question is None else session.answer(question))
    except DtFixupError as error:
        show_error(error, question, is_json=settings.json)
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
    target: Target = None,
    *,
    database: str | None = None,
    names: Path | None = None,
    json: bool = False,
) -> None:
    """Show which words of a question name tables and columns, and which name values.

    Args:
        question: The question, in quotes.
        target: The database: a SQLite file, a URL such as postgresql://user@host/name, or a bundled database such as
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

    question, target = question_and_database((question, target), database)
    if question is None:
        raise ConfigError('give a question, in quotes: dtfixup sql link "How many?" shop.sqlite')
    location = locate(target)
    schema = reflect(location, names=None if names is None else read_names(names))
    inputs = describe_question(question, describe_database(schema, open_content(schema, location)))
    if json:
        sys.stdout.write(links_json(question, inputs.words, inputs.links, schema) + "\n")
    else:
        Console().print(render(question, inputs.words, inputs.links, schema))


def require_new(file: Path) -> None:
    """Refuse a file that exists: it may be the database."""
    if file.exists():
        raise ConfigError(f"{file} is there already: name a file that is not, for the rows")


def show_error(error: DtFixupError, question: str | None, *, is_json: bool) -> None:
    from dtfixup.sql.linking.view import printable

    if is_json:
        print_json({"question": question, "error": str(error)})
    else:
        Console(stderr=True).print(
            f"[bold red]error[/]: {escape(printable(str(error)))}", highlight=False, soft_wrap=True
        )


def print_json(content: dict[str, Any]) -> None:
    sys.stdout.write(json_text.dumps(content, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _open(target: str, model: Path | None, options: AskOptions, names: Path | None, namespace: str | None) -> "Session":
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
    opened = OpenedDatabase(locate(target), names=natural, namespace=namespace)
    read = opened.read()

    # On a busy machine, threads that wait for each other by spinning take seconds for a question. The matrices of a
    # common schema are too small to gain from a second thread.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    from dtfixup.cli.session import Session
    from dtfixup.sql.ask.parser import TextToSql

    if len(read.schema.columns) <= _ONE_THREAD:
        torch.set_num_threads(1)
    session = Session(opened, TextToSql.load(model), options)
    for sentence in read.left_out:
        session.note(f"left out: {sentence}")
    return session
