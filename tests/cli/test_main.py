"""The command line as a whole: help, versions, errors."""

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from dtfixup.cli import method
from dtfixup.cli.main import main

HELP = (Path(__file__).parent / "help.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_the_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(words)
    assert capsys.readouterr().out == HELP


@pytest.mark.parametrize("words", [["sql"], ["sql", "--help"]])
def test_the_help_of_a_family(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(words)
    assert capsys.readouterr().out.startswith("Text to SQL.\n\nusage: dtfixup sql VERB")


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out == f"dtfixup {version('dtfixup')}\n"


def test_wrong_words_get_advice(tmp_path: Path, refusal: Callable[..., str]) -> None:
    assert refusal("aks") == "error: there is no verb 'aks'; did you mean 'ask'?"
    assert "--run comes before the verb" in refusal("--run", "ask")
    (tmp_path / "shop.sqlite").touch()
    assert "to ask it: dtfixup ask" in refusal(str(tmp_path / "shop.sqlite"))


def test_a_path_that_cannot_be_written_is_named(
    tmp_path: Path, refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write() -> None:
        (tmp_path / "file").write_text("x")
        (tmp_path / "file" / "report").write_text("x")

    monkeypatch.setattr(method, "check", write)
    assert "Not a directory. Name another file or folder" in refusal("check")


def test_ctrl_c_has_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(method, "check", stop)
    with pytest.raises(SystemExit) as exit_:
        main(["check"])
    assert exit_.value.code == 130


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = f"{sys.executable} -m dtfixup --help | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
