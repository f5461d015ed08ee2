"""`dtfixup serve`: what the options say, and what the server gets."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dtfixup import web
from dtfixup.cli.main import main


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    """What the server is started with."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(web, "serve", lambda databases, **options: given.update(databases=databases, **options))
    return given


def test_files_and_samples_are_offered(served: Mapping[str, Any], tmp_path: Path) -> None:
    (tmp_path / "shop.sqlite").touch()
    main(["serve", str(tmp_path / "shop.sqlite"), "sample:clinic", "--port", "0"])
    assert served["databases"] == (str(tmp_path / "shop.sqlite"), "sample:clinic")
    assert (served["samples"], served["connections"], served["settings"].port) == (True, None, 0)


def test_options_are_settings(served: Mapping[str, Any]) -> None:
    main(["serve", "--no-samples", "--deadline", "2", "--answer-seconds", "9", "--host-names", "a.example", "b.example",
          "--upload-mib", "7", "--databases", "own.yaml"])  # fmt: skip
    settings = served["settings"]
    assert (settings.deadline, settings.answer_seconds, settings.upload_mib) == (2, 9, 7)
    assert settings.host_names == ("a.example", "b.example")
    assert (served["samples"], served["connections"]) == (False, Path("own.yaml"))


def test_a_file_that_is_missing_is_named(served: Mapping[str, Any], refusal: Callable[..., str]) -> None:
    assert "none.sqlite does not exist; expected a SQLite file" in refusal("serve", "none.sqlite")
    assert not served
