"""The index of a database's content, and its files on disk."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import DataError
from dtfixup.sql.database import content as module
from dtfixup.sql.database.content import ContentIndex, Hit, Looks, build_index, open_content
from dtfixup.sql.database.rows import ColumnValues, ContentLimits
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble
from dtfixup.sql.language.quantities import plain_number
from dtfixup.sql.language.words import compact
from dtfixup.sql.language.world import Topic


def _index(*columns: list[str], rows: int = 100) -> ContentIndex:
    return build_index([ColumnValues(tuple(values), True, rows) for values in columns])


@pytest.mark.parametrize(
    ("values", "looks"),
    [
        (["red", "12"], Looks.TEXT),
        (["12", "-3.5", "1e5", "007"], Looks.NUMBER),
        (["1"] * 19 + ["null"], Looks.NUMBER),
        (["2007-11-05", "2012-03-01"], Looks.TIME),
        (["3:45", "4:12"], Looks.TIME),
        (["2007", "2012"], Looks.NUMBER),
        ([], Looks.NOTHING),
    ],
)
def test_what_columns_look_like(values: list[str], looks: Looks) -> None:
    assert _index(values).columns[0].looks is looks


@pytest.mark.parametrize(
    ("values", "topics"),
    [
        (["F", "M"], {Topic.GENDER}),
        (["0", "1"], {Topic.TRUTH}),
        (["1"], set()),
        (["yes", "no", "unknown"], {Topic.TRUTH}),
        (["CA", "NY", "TX"], {Topic.REGION}),
        (["France", "Germany", "Narnia"], {Topic.COUNTRY}),
        (["red", "France"], set()),
        ([], set()),
    ],
)
def test_topics_of_columns(values: list[str], topics: set[Topic]) -> None:
    assert _index(values).columns[0].topics == topics


def test_choices_come_again_and_are_few() -> None:
    few, names, numbers, truth = _index(
        ["pop", "rock"], [f"name {n}" for n in range(80)], ["1", "2"], ["0", "1"]
    ).columns
    assert [few.is_choice, names.is_choice, numbers.is_choice, truth.is_choice] == [True, False, False, True]
    assert not _index(["pop", "rock"], rows=2).columns[0].is_choice
    assert (few.distinct, build_index([ColumnValues(("a",), False, 9)]).columns[0].distinct) == (2, None)


def test_whole_values_whatever_case_marks_and_forms() -> None:
    index = _index(["Tokyo , Japan", "Ph.D.", "Eggs", "Zoé"], ["NorthCarolina"])
    assert index.whole("tokyojapan") == [Hit(0, "Tokyo , Japan")]
    assert index.whole("phd") == [Hit(0, "Ph.D.")]
    assert index.whole("egg") == index.whole("eggs") == [Hit(0, "Eggs")]
    assert index.whole("zoe") == [Hit(0, "Zoé")]
    assert index.whole("northcarolina") == [Hit(1, "NorthCarolina")]
    assert index.whole("japan") == []


def test_numbers_are_found_by_value_and_figures_as_written() -> None:
    index = _index(["84", "12.50"], ["007", "0123"], ["red"])
    assert index.number("12.5") == [Hit(0, "12.50")]
    assert index.number("007") == [Hit(1, "007")]
    assert index.number("7") == []
    assert index.whole("84") == []


def test_rare_words_of_longer_values() -> None:
    index = _index(["Ford Motor Company", "General Motors"], [f"item {n} of ford" for n in range(30)])
    assert index.containing("motor") == [Hit(0, "Ford Motor Company"), Hit(0, "General Motors")]
    assert index.containing("item") == []  # in too many
    assert _index(["Ford"]).containing("ford") == []  # the whole of a value is no part


def test_mistyped_words_and_values() -> None:
    index = _index(["Caribbean", "New England"], ["activitor"])
    assert index.respelled("carribean") == "caribbean"
    assert index.respelled("englend") == "england"
    assert index.respelled("caribbean") is None
    assert index.respelled("activator") is None  # an English word may be meant
    assert index.similar("activator") == [Hit(1, "activitor")]
    assert index.similar("something") == []


def test_forms_and_abbreviations_of_choices() -> None:
    index = _index(["Comp. Sci.", "engineer"], ["AsstProf", "Nominated"], [f"engineer {n}" for n in range(100)])
    words = ["engineering", "computer", "science", "assistant", "professors", "nomination"]
    found = [(hit.value, start, end) for start in range(len(words)) for hit, end in index.kin(words, start)]
    assert found == [("engineer", 0, 1), ("Comp. Sci.", 1, 3), ("AsstProf", 3, 5), ("Nominated", 5, 6)]
    assert index.kin(["artist"], 0) == []
    assert _index(["Art Set"]).kin(["artistic", "sweet"], 0) == []  # three letters abbreviate nothing


@given(st.lists(st.text(max_size=12), unique=True))
def test_every_value_is_found_again(values: list[str]) -> None:
    index = _index(values)
    for value in values:
        key = compact(value)
        if index.columns[0].looks is Looks.NUMBER:
            assert Hit(0, value) in index.number(plain_number(value) or value)
        elif key:
            assert Hit(0, value) in index.whole(key)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DTFIXUP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "content"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE shop (name TEXT, price INTEGER)")
        connection.execute("INSERT INTO shop VALUES ('Sound House', 12), ('Zoé', 7)")
        connection.commit()
    return path


SCHEMA: Schema = assemble(
    "shop",
    [Table("shop", "shop")],
    [[("name", "name", ColumnType.TEXT), ("price", "price", ColumnType.NUMBER)]],
    [[]],
    [],
)


def _forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        raise AssertionError("the database was read again")

    monkeypatch.setattr(module, "read_values", read)


def test_the_second_time_comes_from_disk(cache: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = open_content(SCHEMA, database)
    _forbid_reading(monkeypatch)
    assert open_content(SCHEMA, database) == built
    assert open_content(SCHEMA, f"sqlite:///{database}") == built
    assert built.whole("soundhouse") == [Hit(1, "Sound House")]
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_changed_database_is_read_again(cache: Path, database: Path, journal: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        open_content(SCHEMA, database)
        connection.execute("INSERT INTO shop VALUES ('Vinyl', 1)")
        connection.commit()
        assert open_content(SCHEMA, database).whole("vinyl") == [Hit(1, "Vinyl")]


def test_an_index_of_other_code_is_not_used(cache: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_content(SCHEMA, database)
    monkeypatch.setattr("dtfixup.sql.database.content.package_digest", lambda *packages: f"{packages} of tomorrow")
    open_content(SCHEMA, database)
    assert len(list(cache.iterdir())) == 2


def test_other_limits_and_names_have_files_of_their_own(cache: Path, database: Path) -> None:
    open_content(SCHEMA, database)
    assert len(open_content(SCHEMA, database, ContentLimits(values=1)).columns[1].values) == 1
    only_name = assemble("shop", [Table("shop", "shop")], [[("name", "name", ColumnType.TEXT)]], [[]], [])
    assert len(open_content(only_name, database).columns) == 2
    assert len(list(cache.iterdir())) == 3


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[[],{},{},{}]", None])
def test_a_damaged_file_is_built_again(cache: Path, database: Path, damage: bytes | None) -> None:
    built = open_content(SCHEMA, database)
    (file,) = cache.iterdir()
    good = file.read_bytes()
    file.write_bytes(good.replace(b"Sound", b"Mound") if damage is None else damage)
    assert open_content(SCHEMA, database) == built
    assert file.read_bytes() == good


def test_nothing_is_kept_when_not_asked_to(cache: Path, database: Path) -> None:
    assert open_content(SCHEMA, database, use_cache=False).whole("zoe")
    assert not cache.exists()


def test_old_files_make_room(cache: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_FILES", 2)
    for values in (1, 2, 3):
        open_content(SCHEMA, database, ContentLimits(values=values))
    assert len(list(cache.iterdir())) == 2


def test_what_is_in_use_stays(cache: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_FILES", 2)
    open_content(SCHEMA, database)
    (used,) = cache.iterdir()
    os.utime(used, (0, 0))
    open_content(SCHEMA, database, ContentLimits(values=1))
    open_content(SCHEMA, database)
    for unused in set(cache.iterdir()) - {used}:
        os.utime(unused, (1, 1))
    open_content(SCHEMA, database, ContentLimits(values=2))
    assert used in cache.iterdir()


def test_a_file_that_another_process_removed_is_not_there(
    cache: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_FILES", 2)
    glob = Path.glob

    def glob_and_more(folder: Path, pattern: str) -> Iterator[Path]:
        yield folder / "vanished.json"
        yield from glob(folder, pattern)

    monkeypatch.setattr(Path, "glob", glob_and_more)
    for values in (1, 2, 3):
        open_content(SCHEMA, database, ContentLimits(values=values))
    assert len(list(cache.iterdir())) == 2


def test_a_file_that_is_removed_while_it_is_read_is_built_again_and_not_left_empty(
    cache: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = open_content(SCHEMA, database)
    (file,) = cache.iterdir()
    read = Path.read_text

    def read_and_remove(path: Path, encoding: str) -> str:
        text = read(path, encoding=encoding)
        path.unlink()
        return text

    monkeypatch.setattr(Path, "read_text", read_and_remove)
    assert module._load(file) is None
    assert not file.exists()
    monkeypatch.undo()
    monkeypatch.setenv("DTFIXUP_CACHE", str(cache.parent))
    assert open_content(SCHEMA, database) == built


def test_a_file_that_is_being_written_stays_and_an_abandoned_one_goes(
    cache: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_FILES", 1)
    written, abandoned = cache / ".a-1.json", cache / ".a-2.json"
    cache.mkdir(parents=True)
    for file in (written, abandoned):
        file.touch()
    os.utime(abandoned, (0, 0))
    open_content(SCHEMA, database)
    assert written.exists()
    assert not abandoned.exists()


def test_a_file_that_cannot_be_looked_at_is_an_error(
    cache: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_content(SCHEMA, database)
    stat = Path.stat

    def refuse(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.parent == cache and path.suffix == ".json":
            raise PermissionError(errno.EACCES, "Permission denied")
        return stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(DataError, match="cannot hold cached files: Permission denied; set DTFIXUP_CACHE"):
        open_content(SCHEMA, database, ContentLimits(values=1))


def test_a_cache_that_cannot_be_written_is_an_error(
    tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DTFIXUP_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="set DTFIXUP_CACHE"):
        open_content(SCHEMA, database)


def test_a_server_is_read_without_a_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read_values", lambda *_: (ColumnValues((), True, 0), ColumnValues(("a",), True, 1)))
    assert open_content(SCHEMA, "postgresql://host/shop").has_rows
    assert not cache.exists()
