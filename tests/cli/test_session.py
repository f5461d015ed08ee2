"""The prompt, and how answers and rows are shown."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dtfixup.cli import ask as ask_verb
from dtfixup.cli import session
from dtfixup.cli.ask import ExitCode
from dtfixup.errors import DeadlineError
from dtfixup.sql.ask.answers import Verdict
from dtfixup.sql.execution.guarded import Rows
from tests.cli.conftest import Shown
from tests.sql.asked import tiny_parser

QUESTION = "How many piers are in Vienna?"
HOSTILE = "\x1b]0;owned\x07\x1b[2J"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output and error are terminals."""
    plain = session.Console
    for module in (session, ask_verb):
        monkeypatch.setattr(
            module, "Console", lambda **options: plain(force_terminal=True, color_system="standard", **options)
        )


def test_rows_are_saved(
    asked: Callable[..., Shown], prompt: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = Rows(("name", "a,b"), [("Ilić", 0.1234567891), (None, 'say "hi"')], truncated=True)
    text = 'name,"a,b"\r\nIlić,0.1234567891\r\n,"say ""hi"""\r\n'
    monkeypatch.setattr(session, "run_query", lambda *_, **__: rows)
    file, other = tmp_path / "rows.csv", tmp_path / "my rows.csv"
    code, out, err = asked(QUESTION, "--csv", str(file))
    assert (code, len(out.splitlines())) == (0, 1), "the query alone: rows are shown with --run"
    assert file.read_bytes().decode() == text
    assert "rows.csv: 2 rows; there are more: raise --rows" in err
    code, out, _ = asked(QUESTION, "--csv", str(tmp_path / "other.csv"), "--json")
    assert (code, json.loads(out)["result"]["rows"][0][0]) == (0, "Ilić")
    code, _, err = prompt([r"\s early.csv", QUESTION, r"\s", rf"\s {other}", rf"\s {file}/x", rf"\s {tmp_path}"])
    assert code == ExitCode.ERROR
    assert other.read_bytes().decode() == text
    for sentence in ("there is no query to run yet", "name a file", "cannot be written", "is there already"):
        assert sentence in err
    code, _, err = asked("--csv", str(file))
    assert code == ExitCode.ERROR
    assert "for one question" in err


def test_rows_are_never_written_over_the_database(
    asked: Callable[..., Shown], prompt: Callable[..., Shown], ferry: Path
) -> None:
    before = ferry.read_bytes()
    for code, _, err in (asked(QUESTION, "--csv", str(ferry)), prompt([QUESTION, rf"\s {ferry}"])):
        assert code == ExitCode.ERROR
        assert "is there already" in err
    assert ferry.read_bytes() == before


def test_a_prompt_without_a_question(prompt: Callable[..., Shown]) -> None:
    code, out, err = prompt([r"\r", QUESTION, KeyboardInterrupt, "", " x " * 900, r"\r", r"\help", r"\q", QUESTION])
    assert code == ExitCode.ERROR, "some lines ended in errors, and no person has seen them"
    assert [line.startswith("SELECT") for line in out.splitlines()].count(True) == 1
    assert "row" in out.splitlines()[-1]
    for sentence in ("there is no query to run yet", "ask it in fewer words", r"quit (\q) ends"):
        assert sentence in err


def test_the_prompt_ends_with_the_input_and_speaks_json(prompt: Callable[..., Shown]) -> None:
    code, out, _ = prompt([QUESTION, "x" * 3000, "Quo vadis?"], "--json")
    assert code == ExitCode.ERROR
    lines = list(map(json.loads, out.splitlines()))
    assert [line.get("verdict") for line in lines] == ["sure", None, "no_link"]
    assert "3,000 characters" in lines[1]["error"]
    assert [line["question"] for line in lines] == [QUESTION, "x" * 3000, "Quo vadis?"]


def test_a_pipe_repeats_each_question_and_a_prompt_does_not(
    prompt: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [QUESTION, "Quo vadis?", f"{QUESTION} {HOSTILE}"]
    lines = prompt([*questions, r"\r"])[1].splitlines()
    assert lines[0] == f"-- {QUESTION}"
    assert lines[1].startswith("SELECT")
    assert lines[2] == "-- Quo vadis?"
    assert lines[3].startswith(f"-- {QUESTION}  ]0;owned")
    assert sum(line.startswith("--") for line in lines) == 3
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert "--" not in prompt(questions)[1]


def test_another_query_of_the_list_is_taken_and_run(
    prompt: Callable[..., Shown], ferry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run_query(_: object, sql: str, **__: object) -> Rows:
        ran.append(sql)
        return Rows(("n",), [(1,)], truncated=False)

    monkeypatch.setattr(session, "run_query", run_query)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    queries = [query.sql for query in tiny_parser().ask(QUESTION, ferry).alternatives]
    assert len(queries) > 1
    _, out, err = prompt([r"\2", QUESTION, r"\2", r"\r", r"\1", r"\r", r"\0", r"\99", "Quo vadis?", r"\2"])
    assert [line for line in out.splitlines() if line.startswith("SELECT")] == [queries[0], queries[1], queries[0]]
    assert ran == [queries[1], queries[0]]
    assert err.count("there is no query to choose yet") == 2, "before a question, and after one without a link"
    assert err.count(rf"choose from \1 to \{len(queries)}") == 2
    assert r"\2, \3, … take another" in err
    prompt([QUESTION, r"\2"], "--run")
    assert ran[2:] == queries[:2], "with --run, what is taken is run"


def test_the_code_of_many_questions(prompt: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch) -> None:
    code = prompt([QUESTION, "Quo vadis?"], "--json")[0]
    assert code == ExitCode.ANSWERED, "a question without a link is no error; its object says so"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert prompt(["  x " * 900, QUESTION])[0] == ExitCode.ANSWERED, "a person has seen the error"


@pytest.mark.usefixtures("late")
def test_a_query_that_fails_at_the_prompt(prompt: Callable[..., Shown]) -> None:
    code, out, _ = prompt([QUESTION, "Quo vadis?"], "--json", "--run")
    assert code == ExitCode.ERROR
    assert "stopped after 5 s" in out


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_colours(asked: Callable[..., Shown]) -> None:
    assert "\x1b[1;49mSELECT\x1b[0m" in asked(QUESTION)[1]


@pytest.mark.usefixtures("terminal")
def test_stored_text_gives_no_orders_to_a_terminal(
    asked: Callable[..., Shown],
    prompt: Callable[..., Shown],
    ferry: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(sqlite3.connect(ferry)) as connection:
        connection.execute(f'CREATE TABLE "a{HOSTILE}" (name TEXT, owner INTEGER REFERENCES "b{HOSTILE}" (id))')
    plain = tiny_parser().ask(QUESTION, ferry)
    named = replace(plain.schema, tables=tuple(replace(table, natural=HOSTILE) for table in plain.schema.tables))
    unlinked = replace(plain, verdict=Verdict.NO_LINK, schema=named)
    monkeypatch.setattr(tiny_parser(), "ask", lambda *_: unlinked)
    code, _, remark = asked("Quo vadis?")
    assert code == ExitCode.NO_LINK
    assert "The database is about: ]0;owned" in remark
    likeliest = replace(plain.alternatives[0], sql=f"SELECT '{HOSTILE}'")
    answer = replace(plain, alternatives=(likeliest, *plain.alternatives[1:]))
    monkeypatch.setattr(tiny_parser(), "ask", lambda *_: answer)

    def fail(*_: object, **__: object) -> None:
        raise DeadlineError(f"no {HOSTILE}")

    monkeypatch.setattr(session, "run_query", fail)
    for code, out, err in (asked(QUESTION, "--run"), prompt([QUESTION, r"\r"], "--run")):
        assert code == ExitCode.ERROR
        assert out.count("owned") == 1
        assert err.count("owned") > 1
        assert not any(order in remark + out + err for order in ("\x1b]", "\x07", "\x1b[2J"))
