"""The prompt, and how answers and rows are shown."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dtfixup.cli import session
from dtfixup.cli.session import ExitCode
from dtfixup.errors import DeadlineError
from dtfixup.sql.ask.answers import Verdict
from dtfixup.sql.execution import run as running
from dtfixup.sql.execution.guarded import Rows
from tests.cli.conftest import Converse
from tests.sql.asked import tiny_parser

QUESTION = "How many piers are in Vienna?"
HOSTILE = "\x1b]0;owned\x07\x1b[2J"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output and error are terminals."""
    plain = session.Console
    monkeypatch.setattr(
        session, "Console", lambda **options: plain(force_terminal=True, color_system="standard", **options)
    )


def test_rows_are_saved(
    converse: Converse,
    ask: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    found = Rows(("name", "a,b"), [("Ilić", 0.1234567891), (None, 'say "hi"')], truncated=True)
    text = 'name,"a,b"\r\nIlić,0.1234567891\r\n,"say ""hi"""\r\n'
    monkeypatch.setattr(running, "run_query", lambda *_, **__: found)
    file, other = tmp_path / "rows.csv", tmp_path / "my rows.csv"
    assert ask(QUESTION, "--csv", str(file)) == 0
    assert file.read_bytes().decode() == text
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1, "the query alone: rows are shown with --run"
    assert "rows.csv: 2 rows; there are more: raise --rows" in " ".join(err.split())
    assert ask(QUESTION, "--csv", str(tmp_path / "other.csv"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["result"]["rows"][0][0] == "Ilić"
    converse([r"\s early.csv", QUESTION, r"\s", rf"\s {other}", rf"\s {file}/x", rf"\s {tmp_path}"])
    assert ask() == ExitCode.ERROR
    assert other.read_bytes().decode() == text
    told = " ".join(capsys.readouterr().err.split())
    for sentence in ("there is no query to run yet", "name a file", "cannot be written", "is there already"):
        assert sentence in told
    assert ask("--csv", str(file)) == ExitCode.ERROR
    assert "for one question" in capsys.readouterr().err


def test_rows_are_never_written_over_the_database(
    converse: Converse,
    ask: Callable[..., int],
    ferry: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = ferry.read_bytes()
    assert ask(QUESTION, "--csv", str(ferry)) == ExitCode.ERROR
    converse([QUESTION, rf"\s {ferry}"])
    assert ask() == ExitCode.ERROR
    assert " ".join(capsys.readouterr().err.split()).count("is there already") == 2
    assert ferry.read_bytes() == before


def test_a_prompt_without_a_question(
    converse: Converse, ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    converse([r"\r", QUESTION, KeyboardInterrupt, "", " x " * 900, r"\r", r"\help", r"\q", QUESTION])
    assert ask() == ExitCode.ERROR, "some lines ended in errors, and no person has seen them"
    out, err = capsys.readouterr()
    assert [line.startswith("SELECT") for line in out.splitlines()].count(True) == 1
    assert "row" in out.splitlines()[-1]
    told = " ".join(err.split())
    assert "there is no query to run yet" in told
    assert "ask it in fewer words" in told
    assert r"quit (\q) ends" in told


def test_the_prompt_ends_with_the_input_and_speaks_json(
    converse: Converse, ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    converse([QUESTION, "x" * 3000, "Quo vadis?"])
    assert ask("--json") == ExitCode.ERROR
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("verdict") for line in lines] == ["sure", None, "no_link"]
    assert "3,000 characters" in lines[1]["error"]
    assert [line["question"] for line in lines] == [QUESTION, "x" * 3000, "Quo vadis?"]


def test_a_pipe_repeats_each_question_and_a_prompt_does_not(
    converse: Converse, ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [QUESTION, "Quo vadis?", f"{QUESTION} {HOSTILE}"]
    converse([*questions, r"\r"])
    ask()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"-- {QUESTION}"
    assert lines[1].startswith("SELECT")
    assert lines[2] == "-- Quo vadis?"
    assert lines[3].startswith(f"-- {QUESTION}  ]0;owned")
    assert sum(line.startswith("--") for line in lines) == 3
    converse(questions)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    ask()
    assert "--" not in capsys.readouterr().out


def test_another_query_of_the_list_is_taken_and_run(
    converse: Converse,
    ask: Callable[..., int],
    ferry: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []

    def run_query(_: object, sql: str, **__: object) -> Rows:
        ran.append(sql)
        return Rows(("n",), [(1,)], truncated=False)

    monkeypatch.setattr(running, "run_query", run_query)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    queries = [each.sql for each in tiny_parser().ask(QUESTION, ferry).alternatives]
    assert len(queries) > 1
    converse([r"\2", QUESTION, r"\2", r"\r", r"\1", r"\r", r"\0", r"\99", "Quo vadis?", r"\2"])
    ask()
    out, err = capsys.readouterr()
    assert [line for line in out.splitlines() if line.startswith("SELECT")] == [queries[0], queries[1], queries[0]]
    assert ran == [queries[1], queries[0]]
    told = " ".join(err.split())
    assert told.count("there is no query to choose yet") == 2, "before a question, and after one without a link"
    assert told.count(rf"choose from \1 to \{len(queries)}") == 2
    assert r"\2, \3, … take another" in told
    converse([QUESTION, r"\2"])
    ask("--run")
    assert ran[2:] == queries[:2], "with --run, what is taken is run"


def test_the_code_of_many_questions(
    converse: Converse, ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    converse([QUESTION, "Quo vadis?"])
    assert ask("--json") == ExitCode.ANSWERED, "a question without a link is no error; its object says so"
    converse(["  x " * 900, QUESTION])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert ask() == ExitCode.ANSWERED, "a person has seen the error"
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)

    def late(*_: object, **__: object) -> None:
        raise DeadlineError("stopped after 5 s")

    monkeypatch.setattr(running, "run_query", late)
    converse([QUESTION, "Quo vadis?"])
    assert ask("--json", "--run") == ExitCode.ERROR
    assert "stopped after 5 s" in capsys.readouterr().out


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_colours(ask: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(QUESTION) == 0
    assert "\x1b[1;49mSELECT\x1b[0m" in capsys.readouterr().out


@pytest.mark.usefixtures("terminal")
def test_stored_text_gives_no_orders_to_a_terminal(
    converse: Converse,
    ask: Callable[..., int],
    ferry: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(sqlite3.connect(ferry)) as connection:
        connection.execute(f'CREATE TABLE "a{HOSTILE}" (name TEXT, owner INTEGER REFERENCES "b{HOSTILE}" (id))')
    plain = tiny_parser().ask(QUESTION, ferry)
    named = replace(plain.schema, tables=tuple(replace(table, natural=HOSTILE) for table in plain.schema.tables))
    unlinked = replace(plain, verdict=Verdict.NO_LINK, schema=named)
    monkeypatch.setattr(tiny_parser(), "ask", lambda *_: unlinked)
    assert ask("Quo vadis?") == ExitCode.NO_LINK
    told = capsys.readouterr().err
    assert "The database is about:  ]0;owned" in told.replace("\n", " ")
    likeliest = replace(plain.alternatives[0], sql=f"SELECT '{HOSTILE}'")
    answer = replace(plain, alternatives=(likeliest, *plain.alternatives[1:]))
    monkeypatch.setattr(tiny_parser(), "ask", lambda *_: answer)

    def failing(*_: object, **__: object) -> None:
        raise DeadlineError(f"no {HOSTILE}")

    monkeypatch.setattr(running, "run_query", failing)
    assert ask(QUESTION, "--run") == ExitCode.ERROR
    converse([QUESTION, r"\r"])
    assert ask("--run") == ExitCode.ERROR
    out, err = capsys.readouterr()
    assert out.count("owned") == 2
    assert err.count("owned") > 4
    assert not any(order in told + out + err for order in ("\x1b]", "\x07", "\x1b[2J"))
