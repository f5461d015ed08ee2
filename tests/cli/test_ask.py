"""`dtfixup sql ask` as people and scripts use it."""

import json
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dtfixup.cli import ask as cli_ask
from dtfixup.cli.ask import ExitCode
from dtfixup.cli.main import main
from dtfixup.errors import DeadlineError
from dtfixup.sql.ask import parser as parser_module
from dtfixup.sql.ask.answers import Answer, Verdict, verdict_of
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.execution import run as running
from dtfixup.sql.execution.guard import Rows
from tests.sql.asked import tiny_parser, tiny_run

QUESTION = "How many piers are in Vienna?"
DOCUMENTS = [Path(__file__).parents[1].parent / name for name in ("README.md", "docs/start/ask.md")]


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


def test_the_query_alone_goes_to_standard_output(
    ask: Callable[..., int], ferry: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(QUESTION) == ExitCode.ANSWERED
    out, err = capsys.readouterr()
    assert out == f"{tiny_parser().ask(QUESTION, ferry).sql}\n"
    assert err == ""


def test_an_unsure_answer_shows_alternatives(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_parser(), "sure_above", 1.0)
    assert ask(QUESTION) == ExitCode.UNSURE
    out, err = capsys.readouterr()
    assert out.startswith("SELECT")
    told = " ".join(err.split())
    assert "unsure: the likeliest query has probability" in told
    assert "100 % is called sure; the question may mean probability query 1" in told
    assert err.count("SELECT") > 1


@pytest.mark.parametrize("options", [["--explain"], ["--beam", "1"]])
def test_no_list_is_promised_where_none_follows(
    options: list[str], ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_parser(), "sure_above", 1.1)
    assert ask(QUESTION, *options) == ExitCode.UNSURE
    err = capsys.readouterr().err
    assert " ".join(err.split()).endswith("is called sure")
    assert "SELECT" not in err


def test_a_question_without_a_link_is_told_that(ask: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("Quo vadis?", "--run") == ExitCode.NO_LINK
    out, err = capsys.readouterr()
    assert out == ""
    assert "no link: no word of the question names a table" in " ".join(err.split())
    assert "captain, certification, pier" in " ".join(err.split())


def test_rows_are_shown(ask: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(QUESTION, "--run", "--rows", "1") == 0
    assert "row" in capsys.readouterr().out.splitlines()[-1]


def test_rows_are_saved(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
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
    converse(monkeypatch, [r"\s early.csv", QUESTION, r"\s", rf"\s {other}", rf"\s {file}/x", rf"\s {tmp_path}"])
    assert ask() == ExitCode.ERROR
    assert other.read_bytes().decode() == text
    told = " ".join(capsys.readouterr().err.split())
    for sentence in ("there is no query to run yet", "name a file", "cannot be written", "is there already"):
        assert sentence in told
    assert ask("--csv", str(file)) == ExitCode.ERROR
    assert "for one question" in capsys.readouterr().err


def test_rows_are_never_written_over_the_database(
    ask: Callable[..., int], ferry: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ferry.read_bytes()
    assert ask(QUESTION, "--csv", str(ferry)) == ExitCode.ERROR
    converse(monkeypatch, [QUESTION, rf"\s {ferry}"])
    assert ask() == ExitCode.ERROR
    assert " ".join(capsys.readouterr().err.split()).count("is there already") == 2
    assert ferry.read_bytes() == before


def test_one_json_object(ask: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(QUESTION, "--json", "--run", "--beam", "3") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["verdict"] == "sure"
    assert len(content["alternatives"]) <= 3
    assert set(content["result"]) == {"columns", "rows", "truncated"}


def test_explain_shows_links_alternatives_and_tree(ask: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(QUESTION, "--explain") == 0
    out = capsys.readouterr().out
    assert all(part in out for part in ("pier.city = 'Vienna'", "probability", "└──", "model 0."))


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_errors_have_a_code_and_a_message(
    flag: list[str], ask: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, database, message in (
        (["  "], None, "the question is empty"),
        ([QUESTION], tmp_path / "none.sqlite", "does not exist"),
        ([QUESTION, "--beam", "0"], None, "take numbers from 1 on"),
        ([QUESTION, "--names", "none.yaml"], None, "--names: there is no file none.yaml; name a YAML file"),
        ([QUESTION], "sample:none", "there are sample:bike_repair, sample:clinic,"),
    ):
        given = {} if database is None else {"database": database}
        assert ask(*options, *flag, **given) == ExitCode.ERROR
        out, err = capsys.readouterr()
        told = json.loads(out)["error"] if flag else " ".join(err.split())
        assert message in told
        assert not flag or json.loads(out)["question"] == options[0]


def test_a_query_that_fails_is_an_error(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: object, **__: object) -> None:
        raise DeadlineError("stopped after 5 s")

    monkeypatch.setattr(running, "run_query", late)
    assert ask(QUESTION, "--run") == ExitCode.ERROR
    out, err = capsys.readouterr()
    assert out.startswith("SELECT")
    assert "stopped after 5 s" in err
    assert ask(QUESTION, "--run", "--json") == ExitCode.ERROR
    content = json.loads(capsys.readouterr().out)
    assert content["error"] == "stopped after 5 s"
    assert content["sql"].startswith("SELECT")


def test_a_missing_model_is_told(
    ferry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parser_module, "files", lambda package: tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["sql", "ask", QUESTION, "--database", str(ferry)])
    assert stop.value.code == ExitCode.ERROR
    assert "no model is shipped with this copy of dtfixup" in " ".join(capsys.readouterr().err.split())


def converse(monkeypatch: pytest.MonkeyPatch, lines: list[str | type[BaseException]]) -> None:
    """Type lines at the prompt; an exception is what a key such as Ctrl-C gives."""
    typed = iter(lines)

    def read(_: str) -> str:
        line = next(typed, EOFError)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", read)


def test_a_prompt_without_a_question(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    converse(monkeypatch, [r"\r", QUESTION, KeyboardInterrupt, "", " x " * 900, r"\r", r"\help", r"\q", QUESTION])
    assert ask() == ExitCode.ERROR, "some lines ended in errors, and no person has seen them"
    out, err = capsys.readouterr()
    assert [line.startswith("SELECT") for line in out.splitlines()].count(True) == 1
    assert "row" in out.splitlines()[-1]
    told = " ".join(err.split())
    assert "there is no query to run yet" in told
    assert "ask it in fewer words" in told
    assert r"\q quits" in told


def test_the_prompt_ends_with_the_input_and_speaks_json(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    converse(monkeypatch, [QUESTION, "x" * 3000, "Quo vadis?"])
    assert ask("--json") == ExitCode.ERROR
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("verdict") for line in lines] == ["sure", None, "no_link"]
    assert "3,000 characters" in lines[1]["error"]
    assert [line["question"] for line in lines] == [QUESTION, "x" * 3000, "Quo vadis?"]


def test_a_pipe_repeats_each_question_and_a_prompt_does_not(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [QUESTION, "Quo vadis?", f"{QUESTION} {HOSTILE}"]
    converse(monkeypatch, [*questions, r"\r"])
    ask()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"-- {QUESTION}"
    assert lines[1].startswith("SELECT")
    assert lines[2] == "-- Quo vadis?"
    assert lines[3].startswith(f"-- {QUESTION}  ]0;owned")
    assert sum(line.startswith("--") for line in lines) == 3
    converse(monkeypatch, questions)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    ask()
    assert "--" not in capsys.readouterr().out


def test_another_query_of_the_list_is_taken_and_run(
    ask: Callable[..., int], ferry: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run_query(_: object, sql: str, **__: object) -> Rows:
        ran.append(sql)
        return Rows(("n",), [(1,)], truncated=False)

    monkeypatch.setattr(running, "run_query", run_query)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    queries = [each.sql for each in tiny_parser().ask(QUESTION, ferry).alternatives]
    assert len(queries) > 1
    converse(monkeypatch, [r"\2", QUESTION, r"\2", r"\r", r"\1", r"\r", r"\0", r"\99", "Quo vadis?", r"\2"])
    ask()
    out, err = capsys.readouterr()
    assert [line for line in out.splitlines() if line.startswith("SELECT")] == [queries[0], queries[1], queries[0]]
    assert ran == [queries[1], queries[0]]
    told = " ".join(err.split())
    assert told.count("there is no query to choose yet") == 2, "before a question, and after one without a link"
    assert told.count(rf"choose from \1 to \{len(queries)}") == 2
    assert r"\2, \3, … take another" in told
    converse(monkeypatch, [QUESTION, r"\2"])
    ask("--run")
    assert ran[2:] == queries[:2], "with --run, what is taken is run"


def test_the_code_of_many_questions(
    ask: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    converse(monkeypatch, [QUESTION, "Quo vadis?"])
    assert ask("--json") == ExitCode.ANSWERED, "a question without a link is no error; its object says so"
    converse(monkeypatch, ["  x " * 900, QUESTION])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert ask() == ExitCode.ANSWERED, "a person has seen the error"
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)

    def late(*_: object, **__: object) -> None:
        raise DeadlineError("stopped after 5 s")

    monkeypatch.setattr(running, "run_query", late)
    converse(monkeypatch, [QUESTION, "Quo vadis?"])
    assert ask("--json", "--run") == ExitCode.ERROR
    assert "stopped after 5 s" in capsys.readouterr().out


def test_what_is_left_out_is_told(ask: Callable[..., int], ferry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(ferry)) as connection:
        connection.execute("CREATE TABLE tug (name TEXT, owner INTEGER REFERENCES nowhere (id))")
    assert ask(QUESTION) == 0
    assert "left out: the foreign key (owner) of 'tug'" in " ".join(capsys.readouterr().err.split())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output and error are terminals."""
    plain = cli_ask.Console
    monkeypatch.setattr(
        cli_ask, "Console", lambda **options: plain(force_terminal=True, color_system="standard", **options)
    )


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_colours(ask: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(QUESTION) == 0
    assert "\x1b[1;49mSELECT\x1b[0m" in capsys.readouterr().out


@pytest.mark.usefixtures("ask")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.name)
def test_the_documented_commands_over_a_bundled_database_run(
    document: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = document.read_text(encoding="utf-8").splitlines()
    commands = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if "--database sample:" in line]
    assert len(commands) > 1
    for program, *arguments in commands:
        assert program == "dtfixup"
        converse(monkeypatch, [QUESTION])
        with suppress(SystemExit):
            main(arguments)
        out, err = capsys.readouterr()
        assert "SELECT" in out or "pier.city" in out, err


HOSTILE = "\x1b]0;owned\x07\x1b[2J"


@pytest.mark.usefixtures("terminal")
def test_stored_text_gives_no_orders_to_a_terminal(
    ask: Callable[..., int], ferry: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
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
    converse(monkeypatch, [QUESTION, r"\r"])
    assert ask("--run") == ExitCode.ERROR
    out, err = capsys.readouterr()
    assert out.count("owned") == 2
    assert err.count("owned") > 4
    assert not any(order in told + out + err for order in ("\x1b]", "\x07", "\x1b[2J"))


def test_a_whole_process_answers_a_script(ferry: Path) -> None:
    command = [sys.executable, "-m", "dtfixup", "sql", "ask", "--database", str(ferry), "--model", str(tiny_run())]
    done = subprocess.run(
        [*command, "--json", "--run"], input=f"{QUESTION}\nQuo vadis?\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["result"]["columns"]
    assert second["verdict"] == "no_link"
