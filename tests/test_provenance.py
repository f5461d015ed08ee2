"""Which code a result file names."""

import subprocess
from pathlib import Path

import pytest

from dtfixup import provenance


def test_what_is_committed_while_a_command_runs_is_not_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        done = subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    (tmp_path / "experiments").mkdir()
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "before")
    before = git("rev-parse", "--short=12", "HEAD")
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "experiments" / "provenance.py"))
    provenance.commit.cache_clear()
    try:
        provenance.begin()
        git("commit", "-q", "--allow-empty", "-m", "while it runs")
        assert provenance.commit() == before != git("rev-parse", "--short=12", "HEAD")
    finally:
        provenance.commit.cache_clear()
