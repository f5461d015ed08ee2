"""Asking, running and serving with every other machine out of reach.

Every Python process gets a hook that refuses connections beyond this machine and look-ups of names, and notes them: an
attempt that the program survives in silence is a failure too.
"""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from dtfixup.sql.ask.demo import QUESTIONS
from dtfixup.sql.ask.parser import default_model
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from tests.web.processes import serving

HOOK = """
import sys

def refuse(event, arguments):
    if event == "socket.connect":
        address = arguments[1]
        place = address[0] if isinstance(address, tuple) else "localhost"
    elif event == "socket.getaddrinfo":
        place = arguments[0]
    else:
        return
    if place not in (None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0"):
        with open({log!r}, "a") as log:
            print(event, place, file=log)
        raise OSError("out of reach: " + str(place))

sys.addaudithook(refuse)
"""
DATABASE, QUESTION = QUESTIONS[3]


@pytest.fixture
def attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where attempts are noted; there is no such file as long as there was none."""
    log = tmp_path / "attempts"
    (folder := tmp_path / "hook").mkdir()
    (folder / "sitecustomize.py").write_text(HOOK.format(log=str(log)))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return log


def python(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("url", ["http://192.0.2.1/", "http://huggingface.co/"])
def test_an_attempt_is_refused_and_noted(attempts: Path, url: str) -> None:
    done = python("-c", f"from urllib.request import urlopen; urlopen({url!r}, timeout=5)")
    assert "out of reach" in done.stderr
    assert attempts.exists()


def test_a_question_is_answered_and_run(attempts: Path) -> None:
    file = open_dataset(sample_folder()).database_file(DATABASE)
    done = python("-m", "dtfixup", "sql", "ask", QUESTION, "--database", str(file), "--run", "--json")
    assert done.returncode in (0, 3), done.stderr
    assert json.loads(done.stdout)["result"]["rows"]
    assert not attempts.exists(), attempts.read_text()


def test_the_page_and_the_api_are_served(attempts: Path, tmp_path: Path) -> None:
    with serving(default_model(), tmp_path / "temporary") as served:
        with urllib.request.urlopen(served.url, timeout=60) as page:
            assert b"<html" in page.read()
        for path, body in (("ask", {"question": QUESTION}), ("run", {"sql": "SELECT count(*) AS n FROM captain"})):
            request = urllib.request.Request(
                f"{served.url}api/v1/{path}",
                json.dumps({"database": DATABASE, **body}).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as response:
                answer = json.load(response)
            assert answer["sql"] if path == "ask" else answer["rows"]
    assert not attempts.exists(), attempts.read_text()
