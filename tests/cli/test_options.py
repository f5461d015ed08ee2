"""What several verbs share."""

from pathlib import Path

import pytest

from dtfixup.cli.options import exit_if_stopped, locate, names_database, question_and_database, without_paths
from dtfixup.errors import SchemaError


@pytest.mark.parametrize(
    ("words", "database", "expected"),
    [
        (("How many?", "a.db"), None, ("How many?", "a.db")),
        (("a.db", "How many?"), None, ("How many?", "a.db")),
        (("How many?", None), "a.db", ("How many?", "a.db")),
        ((None, None), "a.db", (None, "a.db")),
        (("postgresql://me@host/shop", None), None, (None, "postgresql://me@host/shop")),
        (("Is it v1.2 or v1.3?", "sample:clinic"), None, ("Is it v1.2 or v1.3?", "sample:clinic")),
    ],
)
def test_question_and_database(
    words: tuple[str | None, str | None], database: str | None, expected: tuple[str | None, str]
) -> None:
    assert question_and_database(words, database) == expected


def test_a_file_without_a_suffix_is_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not names_database("shop")
    Path("shop").touch()
    assert names_database("shop")
    assert locate("shop").path == Path("shop")


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="is not a file; expected a SQLite file"):
        locate(str(tmp_path))


def test_a_command_in_a_result_names_no_folder() -> None:
    words = ["sql", "train", "--data", "/home/me/spider", "--out=/home/me/run", "--encoder", "/e", "--layers", "8"]
    masked = ["sql", "train", "--data", "DIR", "--out=DIR", "--encoder", "ENCODER", "--layers", "8"]
    assert without_paths(words) == masked


def test_a_stopped_run_ends_as_ctrl_c_does() -> None:
    with pytest.raises(SystemExit) as stop:
        exit_if_stopped(True)
    assert stop.value.code == 130
    exit_if_stopped(False)
