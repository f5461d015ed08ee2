"""`dtfixup ask` and `dtfixup sql link` as people and scripts use them."""

import json
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dtfixup.cli.ask import ExitCode
from dtfixup.cli.main import main
from dtfixup.sql.ask import parser as parser_module
from tests.cli.conftest import Converse, Shown
from tests.sql.asked import tiny_parser, tiny_run

QUESTION = "How many piers are in Vienna?"
DOCUMENTS = [Path(__file__).parents[1].parent / name for name in ("README.md", "docs/start/ask.md")]


def test_the_query_alone_goes_to_standard_output(asked: Callable[..., Shown], ferry: Path) -> None:
    assert asked(QUESTION) == (ExitCode.ANSWERED, f"{tiny_parser().ask(QUESTION, ferry).sql}\n", "")


def test_an_unsure_answer_shows_alternatives(asked: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_parser(), "sure_above", 1.0)
    code, out, err = asked(QUESTION)
    assert code == ExitCode.UNSURE
    assert out.startswith("SELECT")
    assert "unsure: the likeliest query has probability" in err
    assert "100 % is called sure; the question may mean probability query 1" in err
    assert err.count("SELECT") > 1


@pytest.mark.parametrize("options", [["--explain"], ["--beam", "1"]])
def test_no_list_is_promised_where_none_follows(
    options: list[str], asked: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_parser(), "sure_above", 1.1)
    code, _, err = asked(QUESTION, *options)
    assert code == ExitCode.UNSURE
    assert err.endswith("is called sure")
    assert "SELECT" not in err


def test_a_question_without_a_link_is_not_answered(asked: Callable[..., Shown]) -> None:
    code, out, err = asked("Quo vadis?", "--run")
    assert (code, out) == (ExitCode.NO_LINK, "")
    assert "no link: no word of the question names a table" in err
    assert "captain, certification, pier" in err


def test_rows_are_shown(asked: Callable[..., Shown]) -> None:
    code, out, _ = asked(QUESTION, "--run", "--rows", "1")
    assert code == 0
    assert "row" in out.splitlines()[-1]


def test_one_json_object(asked: Callable[..., Shown]) -> None:
    code, out, _ = asked(QUESTION, "--json", "--run", "--beam", "3")
    content = json.loads(out)
    assert (code, content["verdict"]) == (0, "sure")
    assert len(content["alternatives"]) <= 3
    assert set(content["result"]) == {"columns", "rows", "truncated"}


def test_explain_shows_links_alternatives_and_tree(asked: Callable[..., Shown]) -> None:
    code, out, _ = asked(QUESTION, "--explain")
    assert code == 0
    assert all(part in out for part in ("pier.city = 'Vienna'", "probability", "└──", "model 0."))


@pytest.mark.parametrize("flag", [[], ["--json"]])
@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        (["  "], {}, "the question is empty"),
        ([QUESTION], {"database": "none.sqlite"}, "does not exist"),
        ([QUESTION, "--beam", "0"], {}, "take numbers from 1 on"),
        ([QUESTION, "--names", "none.yaml"], {}, "--names: there is no file none.yaml; name a YAML file"),
        ([QUESTION], {"database": "sample:none"}, "there are sample:bike_repair, sample:clinic,"),
    ],
)
def test_errors_have_a_code_and_a_message(
    flag: list[str], options: list[str], given: dict[str, str], message: str, asked: Callable[..., Shown]
) -> None:
    code, out, err = asked(*options, *flag, **given)
    assert code == ExitCode.ERROR
    assert message in (json.loads(out)["error"] if flag else err)
    assert not flag or json.loads(out)["question"] == options[0]


@pytest.mark.usefixtures("late")
def test_a_query_that_fails_is_an_error(asked: Callable[..., Shown]) -> None:
    code, out, err = asked(QUESTION, "--run")
    assert code == ExitCode.ERROR
    assert out.startswith("SELECT")
    assert "stopped after 5 s" in err
    code, out, _ = asked(QUESTION, "--run", "--json")
    content = json.loads(out)
    assert (code, content["error"]) == (ExitCode.ERROR, "stopped after 5 s")
    assert content["sql"].startswith("SELECT")


def test_a_missing_model_is_named(
    ferry: Path, tmp_path: Path, refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parser_module, "files", lambda package: tmp_path)
    message = refusal("sql", "ask", QUESTION, "--database", str(ferry))
    assert "no model is shipped with this copy of dtfixup" in message


def test_what_is_left_out_is_named(asked: Callable[..., Shown], ferry: Path) -> None:
    with closing(sqlite3.connect(ferry)) as connection:
        connection.execute("CREATE TABLE tug (name TEXT, owner INTEGER REFERENCES nowhere (id))")
    code, _, err = asked(QUESTION)
    assert code == 0
    assert "left out: the foreign key (owner) of 'tug'" in err


@pytest.mark.usefixtures("ask")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.name)
def test_the_documented_commands_over_a_bundled_database_run(
    converse: Converse, document: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = document.read_text(encoding="utf-8").splitlines()
    typed = (line.removeprefix("$ ") for line in lines)
    commands = [shlex.split(line, comments=True) for line in typed if line.startswith("dtfixup ") and "sample:" in line]
    assert len(commands) > 1
    for program, *arguments in commands:
        assert program == "dtfixup"
        converse([QUESTION])
        with suppress(SystemExit):
            main(arguments)
        out, err = capsys.readouterr()
        assert "SELECT" in out or "pier.city" in out, err


def test_a_whole_process_answers_a_script(ferry: Path) -> None:
    command = [sys.executable, "-m", "dtfixup", "sql", "ask", "--database", str(ferry), "--model", str(tiny_run())]
    done = subprocess.run(
        [*command, "--json", "--run"], input=f"{QUESTION}\nQuo vadis?\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["result"]["columns"]
    assert second["verdict"] == "no_link"


@pytest.mark.usefixtures("ask")
@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2], [2, 0, 1], [0, 2, 1], [2, 1, 0]])
def test_question_database_and_options_come_in_any_order(
    order: list[int], ferry: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [QUESTION, str(ferry), "--explain"]
    with pytest.raises(SystemExit) as stop:
        main(["ask", *(parts[number] for number in order)])
    assert stop.value.code == ExitCode.ANSWERED
    assert "pier.city = 'Vienna'" in capsys.readouterr().out


@pytest.mark.usefixtures("ask")
def test_a_database_alone_opens_the_prompt(converse: Converse, capsys: pytest.CaptureFixture[str]) -> None:
    converse([QUESTION])
    with pytest.raises(SystemExit) as stop:
        main(["ask", "sample:river_ferry"])
    assert stop.value.code == ExitCode.ANSWERED
    assert capsys.readouterr().out.startswith(f"-- {QUESTION}\nSELECT")


@pytest.mark.usefixtures("ask")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([QUESTION], "name a database after the question: a SQLite file, a URL such as"),
        ([], "name a database after the question"),
        ([QUESTION, "sample:clinic", "--database", "sample:clinic"], "give the database once"),
        (["How", "many", "piers?", "sample:clinic"], "does not expect piers? sample:clinic; put text of several words"),
        ([QUESTION, "shop.csv"], 'sqlite3 shop.sqlite ".import --csv shop.csv shop"'),
        ([QUESTION, "shop.xlsx"], ".xlsx files are not read; a database is a SQLite file, a URL"),
        ([QUESTION, "none.sqlite"], "none.sqlite does not exist; expected a SQLite file, postgresql://"),
    ],
)
def test_what_is_no_database_is_refused(words: list[str], message: str, refusal: Callable[..., str]) -> None:
    assert message in refusal("ask", *words)


@pytest.mark.parametrize("place", [["sample:river_ferry"], ["--database", "sample:river_ferry"]])
def test_link_shows_what_the_words_mean(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["sql", "link", QUESTION, *place])
    shown = capsys.readouterr().out
    assert QUESTION in shown
    assert "pier.city = 'Vienna'" in shown


def test_link_gives_json(ferry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["sql", "link", "--json", QUESTION, str(ferry)])
    content = json.loads(capsys.readouterr().out)
    assert content["question"] == QUESTION
    assert any(link["value"] == "Vienna" for link in content["values"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x", "sample:nowhere"], "no bundled database 'nowhere'; there are sample:bike"),
        (["sample:clinic"], "give a question, in quotes"),
    ],
)
def test_link_says_what_is_missing(words: list[str], message: str, refusal: Callable[..., str]) -> None:
    assert message in refusal("sql", "link", *words)


def test_no_torch_is_loaded_before_the_database_is_read() -> None:
    code = (
        "import sys; from dtfixup.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    for words in (["--help"], ["sql", "--help"], ["ask", "--help"], ["sql", "ask", "x", "none.sqlite"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "False", words
