"""`dtfixup sql finetune` as people and scripts use it."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfixup.cli.finetune import NOT_BETTER, _ask_command
from dtfixup.cli.main import main
from dtfixup.cli.options import STOPPED
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.finetune import run as sql_finetune
from dtfixup.training.log import read_lines
from tests.sql.asked import tiny_run
from tests.sql.harbour_pairs import PAIRS, make_harbours, write_pairs

EXTRA = [
    ("Which harbours are deep?", "SELECT name FROM harbours"),
    (PAIRS[0][0], PAIRS[2][1]),
    ("Which harbours are at home?", "SELECT name FROM harbour WHERE city = 'Atlantis'"),
    ("List the docks", "SELECT name FROM harbour"),
]


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the verb over the harbours with the tiny model; returns the exit code."""
    make_harbours(tmp_path / "harbours.sqlite")
    monkeypatch.setattr(TextToSql, "steps", 12)  # a model that knows nothing yet would write queries without end

    def run(*options: str, pairs: list[tuple[str, str]] | None = None) -> int:
        write_pairs(tmp_path / "pairs.csv", [*PAIRS, *EXTRA] if pairs is None else pairs)
        where = ["--pairs", str(tmp_path / "pairs.csv"), "--database", str(tmp_path / "harbours.sqlite")]
        try:
            main(["sql", "finetune", *where, "--out", str(tmp_path / "out"), *options])
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    return run


def test_pairs_in_a_better_model_out(
    tune: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", str(tiny_run()), "--epochs", "14", "--learning-rate", "4e-3", "--beam", "2", "--seed", "3"]
    assert tune(*options) == 0
    out, err = capsys.readouterr()
    told = " ".join(err.split())
    assert "49 of 52 pairs can be used: 39 to learn from, 10 held out" in told
    faults = [
        "table that does not exist (1)",
        "value that is not in the question (1)",
        "repeats a question with another query (1)",
    ]
    assert f"left out: {', '.join(faults)}" in told
    assert f"line {len(PAIRS) + 2}: there is no table 'harbours': did you mean harbour?" in told
    assert f"line {len(PAIRS) + 4}: the question does not contain 'Atlantis'" in told
    assert "10 held-out questions" in out
    assert "not in these scores: 1 pair with a value that is not in the question" in out
    assert f"as nothing in the database has its words: line {len(PAIRS) + 5}." in told
    assert "before" in out
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["command"] == "dtfixup sql finetune --pairs FILE --database SQLITE --out DIR"
    assert result["config"]["training"] | {"epochs": 14, "seed": 3} == result["config"]["training"]
    assert result["metrics"]["held_out_right_after"] >= 90
    assert result["metrics"]["pairs_without_link"] == 1

    [command] = [line for line in err.splitlines() if "Use it: " in line]
    said, _, ask = command.partition(". Use it: ")
    assert said == "the tuned model is better"
    program, *words = shlex.split(ask)
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert (program, stop.value.code) == ("dtfixup", 0)
    held_out = read_lines(tmp_path / "out" / "held_out.jsonl")
    assert capsys.readouterr().out == held_out[0]["after"]["sql"] + "\n"


def test_a_model_that_is_not_better_has_a_code(
    tune: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (names := tmp_path / "names.yaml").write_text("names: {harbour: harbour}")
    options = ["--model", str(tiny_run()), "--epochs", "1", "--batch-size", "64", "--beam", "1", "--names", str(names)]
    assert tune(*options) == NOT_BETTER
    told = " ".join(capsys.readouterr().err.split())
    assert "the tuned model is not better: the model stays as it was" in told
    assert "tuned.safetensors" in told
    assert f" --model {tmp_path / 'out'} --names {names} " in told
    assert (tmp_path / "out" / "last.safetensors").read_bytes() == (tiny_run() / "last.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        ("my shop.sqlite", "--database 'my shop.sqlite' --model out"),
        ("sqlite:///shop.sqlite", "--database shop.sqlite --model out"),
        ("postgresql://reader@localhost/shop", "--database postgresql://reader@localhost/shop --model out"),
        (
            "postgresql://reader:secret@localhost/shop",
            "--database 'postgresql://reader:***@localhost/shop' --model out (put in the URL's password and options)",
        ),
    ],
)
def test_the_command_that_asks_is_whole_but_for_a_password(
    database: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my shop.sqlite", "shop.sqlite"):
        Path(name).touch()
    found = _ask_command("Who's late?", OpenedDatabase(database), ["--model", "out"])
    assert found == f"""dtfixup sql ask 'Who'"'"'s late?' {expected}"""


def test_a_stopped_run_has_a_code(tune: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_finetune, "finetune", lambda *_, **__: None)
    assert tune("--model", str(tiny_run())) == STOPPED


def test_the_flag_of_a_resumption_needs_no_value(tune: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert tune("--model", str(tiny_run()), "--resume") == 2
    assert "has no run to continue: start it without --resume" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("options", "pairs", "message"),
    [
        ([], PAIRS[:3], "3 pairs can be used, and at least 20 are needed"),
        (["--hold-out", "0.9"], None, "hold_out must be above 0 and at most 0.5"),
        (["--database", "nowhere.sqlite"], None, "nowhere.sqlite does not exist"),
        (["--model", "nowhere"], None, "nowhere does not exist"),
    ],
)
def test_errors_have_a_code_and_a_message(
    options: list[str],
    pairs: list[tuple[str, str]] | None,
    message: str,
    tune: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tune("--model", str(tiny_run()), *options, pairs=pairs) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
