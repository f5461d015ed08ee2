"""What tests of the command line share: a database, a tiny model, and a person at the prompt."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dtfixup.cli import session
from dtfixup.cli.main import main
from dtfixup.errors import DeadlineError
from dtfixup.sql.ask.answers import Answer, Verdict, verdict_of
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from tests.sql.asked import tiny_parser

Converse = Callable[[list[str | type[BaseException]]], None]
Shown = tuple[int, str, str]
"""An exit code, what went to standard output, and what to standard error with blanks for line ends."""


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must end with code 2; returns what it writes to standard error."""

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as stop:
            main(list(words))
        assert stop.value.code == 2
        return " ".join(capsys.readouterr().err.split())

    return run


@pytest.fixture
def ferry(tmp_path: Path) -> Path:
    source = open_dataset(sample_folder()).database_file("river_ferry")
    return Path(shutil.copy(source, tmp_path / "river_ferry.sqlite"))


@pytest.fixture
def ask(ferry: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the verb over the ferry database with the tiny model; returns the exit code."""
    parser = tiny_parser()
    plain = parser.ask

    def ask_without_doubts(question: str, database: Path | OpenedDatabase, beam: int = 5) -> Answer:
        """The tiny model's queries are all in doubt; here they are worth what their probabilities say."""
        answer = plain(question, database, beam)
        worth = verdict_of(answer.alternatives, parser.sure_above)
        return answer if answer.verdict is Verdict.NO_LINK else replace(answer, verdict=worth, doubts=())

    monkeypatch.setattr(TextToSql, "load", lambda _: parser)
    monkeypatch.setattr(parser, "sure_above", 0.0)
    monkeypatch.setattr(parser, "ask", ask_without_doubts)

    def run(*options: str, database: Path | str = ferry) -> int:
        try:
            main(["sql", "ask", *options, "--database", str(database), "--model", "x"])
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    return run


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every query takes too long."""

    def stop(*_: object, **__: object) -> None:
        raise DeadlineError("stopped after 5 s")

    monkeypatch.setattr(session, "run_query", stop)


@pytest.fixture
def converse(monkeypatch: pytest.MonkeyPatch) -> Converse:
    """Types lines at the prompt; an exception is what a key such as Ctrl-C gives."""

    def type_lines(lines: list[str | type[BaseException]]) -> None:
        typed = iter(lines)

        def read(_: str) -> str:
            line = next(typed, EOFError)
            if isinstance(line, str):
                return line
            raise line

        monkeypatch.setattr("builtins.input", read)

    return type_lines


@pytest.fixture
def asked(ask: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    """Runs the verb and returns what it showed."""

    def run(*options: str, **given: Path | str) -> Shown:
        code = ask(*options, **given)
        out, err = capsys.readouterr()
        return code, out, " ".join(err.split())

    return run


@pytest.fixture
def prompt(converse: Converse, asked: Callable[..., Shown]) -> Callable[..., Shown]:
    """Types lines at the prompt and returns what they showed."""

    def run(lines: list[str | type[BaseException]], *options: str) -> Shown:
        converse(lines)
        return asked(*options)

    return run
