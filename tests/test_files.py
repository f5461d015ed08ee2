"""Files are whole or not there: no half-written file, no temporary left behind."""

import json
import math
from pathlib import Path

import pytest

from dtfixup.files import write_atomically, write_json


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "result.json"
    path.write_text("old")
    return path


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(old: Path) -> None:
    def write(temporary: Path) -> None:
        temporary.write_text("half of the n")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        write_atomically(old, write)
    assert old.read_text() == "old"
    assert list(old.parent.iterdir()) == [old]


def test_the_old_file_stands_until_the_new_one_is_complete(old: Path) -> None:
    def write(temporary: Path) -> None:
        assert (temporary.parent, temporary.suffix) == (old.parent, old.suffix)
        temporary.write_text("new")
        assert old.read_text() == "old"

    assert write_atomically(old, write) == old
    assert old.read_text() == "new"
    assert list(old.parent.iterdir()) == [old]


def test_missing_folders_are_made_and_others_may_read_the_file(tmp_path: Path) -> None:
    path = write_atomically(str(tmp_path / "a" / "b.txt"), lambda temporary: temporary.write_text("new"))
    assert path == tmp_path / "a" / "b.txt"
    assert path.stat().st_mode & 0o777 == 0o644


def test_json_is_read_back_as_it_was_written(old: Path) -> None:
    content = {"μ": 2.5, "rows": [1, None, "×"]}
    assert json.loads(write_json(old, content).read_text(encoding="utf-8")) == content


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_json_with_nan_or_infinity_is_refused_and_the_old_file_stays(old: Path, number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(old, {"rows": [1.0, number]})
    assert old.read_text() == "old"
    assert list(old.parent.iterdir()) == [old]
