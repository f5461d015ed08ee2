"""`dtfixup sql finetune` as people and scripts use it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfixup.cli import main
from dtfixup.cli_finetune import ExitCode
from dtfixup.experiments import sql_finetune
from dtfixup.sql.parser import SqlParser

from .sql.asked import tiny_run
from .sql.harbour_pairs import PAIRS, make_harbours, write_pairs

EXTRA = [
    ("Which harbours are deep?", "SELECT name FROM harbours"),
    (PAIRS[0][0], PAIRS[2][1]),
    ("At home?", "SELECT name FROM harbour WHERE city = 'Atlantis'"),
]


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the verb over the harbours with the tiny model; returns the exit code."""
    make_harbours(tmp_path / "harbours.sqlite")
    monkeypatch.setattr(SqlParser, "steps", 12)  # a model that knows nothing yet would write queries without end

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
    assert tune(*options) == ExitCode.TUNED
    out, err = capsys.readouterr()
    told = " ".join(err.split())
    assert "49 of 51 pairs can be used: 39 to learn from, 10 held out" in told
    assert "left out: table that does not exist (1), repeats a question with another query (1)" in told
    assert f"line {len(PAIRS) + 2}: there is no table 'harbours': did you mean harbour?" in told
    assert f"is in the query of line {len(PAIRS) + 4}" in told
    assert "the tuned model is better. Use it: dtfixup sql ask --model" in told
    assert "10 held-out questions" in out
    assert "before" in out
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["command"] == "dtfixup sql finetune --pairs FILE --database SQLITE --out DIR"
    assert result["config"]["training"] | {"epochs": 14, "seed": 3} == result["config"]["training"]
    assert result["metrics"]["held_out_right_after"] >= 90

    question = ["Which harbours are in Linz?", "--database", str(tmp_path / "harbours.sqlite"), "--beam", "1"]
    with pytest.raises(SystemExit) as stop:
        main(["sql", "ask", *question, "--model", str(tmp_path / "out")])
    assert stop.value.code == 0
    assert capsys.readouterr().out == "SELECT name FROM harbour WHERE city = 'Linz'\n"


def test_a_model_that_is_not_better_has_a_code(
    tune: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", str(tiny_run()), "--epochs", "1", "--batch-size", "64", "--beam", "1"]
    assert tune(*options) == ExitCode.NOT_BETTER
    told = " ".join(capsys.readouterr().err.split())
    assert "the tuned model is not better: the model stays as it was" in told
    assert "tuned.safetensors" in told
    assert (tmp_path / "out" / "last.safetensors").read_bytes() == (tiny_run() / "last.safetensors").read_bytes()


def test_a_stopped_run_has_a_code(tune: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_finetune, "finetune", lambda *_, **__: None)
    assert tune("--model", str(tiny_run())) == ExitCode.STOPPED


def test_the_flag_of_a_resumption_needs_no_value(tune: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert tune("--model", str(tiny_run()), "--resume") == 2
    assert "holds no run to go on with: start it without --resume" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("options", "pairs", "message"),
    [
        ([], PAIRS[:3], "3 pairs can be used, and at least 20 are needed"),
        (["--hold-out", "0.9"], None, "hold_out is a share above 0 and at most 0.5"),
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
