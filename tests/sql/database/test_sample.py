"""The bundled dataset: schemas and rows are what they say, and its folder is always whole."""

import multiprocessing
import re
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtfixup.errors import DataError
from dtfixup.files import cache_folder, write_atomically
from dtfixup.sql.database import sample
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import ColumnType, Schema

DATABASES = {
    "train": ["public_library", "bike_repair", "river_ferry", "community_garden"],
    "dev": ["film_festival", "clinic"],
}
DECLARED = {
    "INTEGER": ColumnType.NUMBER,
    "REAL": ColumnType.NUMBER,
    "TEXT": ColumnType.TEXT,
    "DATE": ColumnType.TIME,
    "TIME": ColumnType.TIME,
    "BOOLEAN": ColumnType.BOOLEAN,
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFIXUP_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield open_dataset(sample_folder())


def test_splits_have_their_sizes_and_share_no_database_and_no_question(dataset: Dataset) -> None:
    for split, databases in DATABASES.items():
        assert Counter(example.database for example in dataset.split(split)) == dict.fromkeys(databases, 40)
    assert list(dataset.schemas) == DATABASES["train"] + DATABASES["dev"]
    words = [re.findall(r"\w+", example.question.lower()) for s in DATABASES for example in dataset.split(s)]
    assert [question for question, count in Counter(map(tuple, words)).items() if count > 1] == []


def test_tables_json_agrees_with_the_databases(dataset: Dataset) -> None:
    for name, schema in dataset.schemas.items():
        database = sqlite3.connect(dataset.database_file(name))
        master = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
        assert [table.name for table in schema.tables] == [row[0] for row in master]
        for index, table in enumerate(schema.tables):
            columns = database.execute(f"PRAGMA table_info({table.name})").fetchall()
            own = schema.columns_of[index][1:]
            assert [schema.columns[c].name for c in own] == [row[1] for row in columns]
            assert [schema.columns[c].type for c in own] == [DECLARED[row[2]] for row in columns]
            assert list(schema.primary_keys[index]) == [c for c, row in zip(own, columns, strict=True) if row[5]]
            declared = database.execute(f"PRAGMA foreign_key_list({table.name})").fetchall()
            foreign = {
                (schema.column_index[index, row[3].lower()], schema.column_index[other, row[4].lower()])
                for row in declared
                for other in [schema.table_index[row[2].lower()]]
            }
            assert foreign == {pair for pair in schema.foreign_pairs if schema.columns[pair[0]].table == index}
        database.close()


def test_natural_names_are_words(dataset: Dataset) -> None:
    for schema in dataset.schemas.values():
        names = [table.natural for table in schema.tables] + [c.natural for c in schema.columns if c.name != "*"]
        assert [name for name in names if not re.fullmatch(r"[a-z]+( [a-z]+)*", name)] == []
        own = [[schema.columns[c].natural for c in columns] for columns in schema.columns_of]
        assert all(len(set(names)) == len(names) for names in own)


def test_rows_are_consistent_and_plausible_in_number(dataset: Dataset) -> None:
    for name, schema in dataset.schemas.items():
        database = sqlite3.connect(dataset.database_file(name))
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        sizes = [database.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0] for table in schema.tables]
        assert min(sizes) >= 7
        assert sum(size >= 20 for size in sizes) >= 3
        assert max(sizes) <= 200
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\d|\d\d:\d\d", text) for text in _texts(database, schema, "time"))
        assert any(not text.isascii() for text in _texts(database, schema, "text"))
        database.close()


def _texts(database: sqlite3.Connection, schema: Schema, kind: str) -> list[str]:
    columns = [column for column in schema.columns if column.type == kind]
    return [
        row[0]
        for column in columns
        for row in database.execute(f'SELECT "{column.name}" FROM {schema.tables[column.table].name}')
        if row[0] is not None
    ]


def test_schemas_have_the_shapes_that_make_linking_and_joining_hard(dataset: Dataset) -> None:
    def points(schema: Schema) -> list[tuple[int, int]]:
        return [(schema.columns[a].table, schema.columns[b].table) for a, b in schema.foreign_pairs]

    schemas = dataset.schemas.values()
    assert all(3 <= len(schema.tables) <= 7 for schema in schemas)
    assert all(any(len(key) > 1 for key in schema.primary_keys) for schema in schemas)
    kinds = {column.type for schema in schemas for column in schema.columns}
    assert kinds == set(ColumnType) - {ColumnType.OTHERS}
    for databases in DATABASES.values():
        chosen = [dataset.schemas[name] for name in databases]
        assert any(a == b for schema in chosen for a, b in points(schema))
        assert any(a != b and n > 1 for schema in chosen for (a, b), n in Counter(points(schema)).items())
    assert any(column.name == "group" for column in dataset.schemas["community_garden"].columns)
    assert {"workshopId", "laborHours"} <= {column.name for column in dataset.schemas["bike_repair"].columns}
    assert {"lst_nm", "ann_bdgt"} <= {column.name for column in dataset.schemas["clinic"].columns}


EXPECTED = {"tables.json", "train.json", "dev.json"} | {
    f"database/{name}/{name}.sqlite" for names in DATABASES.values() for name in names
}


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DTFIXUP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_folder_has_the_official_layout_and_nothing_else(cached: Path) -> None:
    folder = sample_folder()
    assert folder.is_relative_to(cached)
    assert _files(cached).keys() == {f"{folder.relative_to(cached).as_posix()}/{name}" for name in EXPECTED}


def test_a_second_call_writes_nothing(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = sample_folder()
    monkeypatch.setattr(sample, "write_atomically", lambda *_: pytest.fail("wrote a file again"))
    assert sample_folder() == folder


@pytest.mark.parametrize("name", ["dev.json", "database/clinic/clinic.sqlite"])
def test_what_is_missing_or_was_changed_is_restored(cached: Path, name: str) -> None:
    folder = sample_folder()
    good = _files(folder)
    for damage in (Path.unlink, lambda path: path.write_bytes(good[name][:-100]), lambda path: path.write_text("")):
        damage(folder / name)
        assert _files(folder) != good
        assert sample_folder() == folder
        assert _files(folder) == good
    shutil.rmtree(folder)
    assert _files(sample_folder()) == good


def test_the_bytes_are_the_same_each_time_and_carry_no_version_of_sqlite(cached: Path) -> None:
    first = _files(sample_folder())
    sample._content.cache_clear()
    assert _files(sample_folder()) == first
    for name, data in first.items():
        if name.endswith(".sqlite"):
            assert data[92:100] == bytes(8), "the header's version fields"


def test_other_data_get_another_folder() -> None:
    content = dict(sample._content())
    content["dev.json"] += b"\n"
    assert sample._digest(content) != sample._digest(sample._content())
    moved = {"ab": b"c", "d": b""}
    assert sample._digest(moved) != sample._digest({"a": b"bc", "d": b""})


def test_no_process_ever_sees_a_half_file_while_several_build(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_slowly(path: Path, data: bytes) -> int:
        with path.open("wb", buffering=0) as file:
            half = file.write(data[: len(data) // 2])
            time.sleep(0.01)
            return half + file.write(data[half:])

    content = sample._content()
    folder = cached / "sample" / sample._digest(content)
    monkeypatch.setattr(Path, "write_bytes", write_slowly)
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=sample_folder) for _ in range(4)]
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes):
        for name, data in content.items():
            assert not (folder / name).exists() or (folder / name).read_bytes() == data, name
    assert [process.exitcode for process in processes] == [0] * 4
    assert _files(folder) == content


def test_a_write_that_fails_leaves_no_half_file(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_half(path: Path, write: Callable[[Path], object]) -> Path:
        def fail(temporary: Path) -> None:
            write(temporary)
            raise OSError(28, "No space left on device")

        return write_atomically(path, fail)

    monkeypatch.setattr(sample, "write_atomically", write_half)
    with pytest.raises(DataError, match=r"No space left on device; set DTFIXUP_CACHE"):
        sample_folder()
    assert _files(cached) == {}


def test_a_file_that_a_faster_process_wrote_and_holds_open_is_taken(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_the_race(path: Path, write: Callable[[Path], object]) -> Path:
        write_atomically(path, write)
        raise PermissionError(13, "Access is denied")

    monkeypatch.setattr(sample, "write_atomically", lose_the_race)
    assert _files(sample_folder()).keys() == EXPECTED
    (sample_folder() / "dev.json").write_text("[]")
    monkeypatch.setattr(sample, "write_atomically", lambda *_: (_ for _ in ()).throw(PermissionError(13, "denied")))
    with pytest.raises(DataError, match="denied"):
        sample_folder()


def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_do(cached: Path) -> None:
    cached.write_text("a file where the folder should be")
    with pytest.raises(DataError, match="set DTFIXUP_CACHE to a folder where you may write"):
        sample_folder()


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for own, shared, expected in [
        (tmp_path / "own", tmp_path / "xdg", tmp_path / "own"),
        ("~/own", "", tmp_path / "own"),
        ("", tmp_path / "xdg", tmp_path / "xdg" / "dtfixup"),
        ("", "relative", tmp_path / ".cache" / "dtfixup"),
        ("", "", tmp_path / ".cache" / "dtfixup"),
    ]:
        monkeypatch.setenv("DTFIXUP_CACHE", str(own))
        monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
        assert cache_folder() == expected
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(DataError, match="set DTFIXUP_CACHE"):
        cache_folder()


def test_the_sources_are_small_readable_text() -> None:
    folder = Path(sample.__file__).parent / "sample_data"
    sources = list(folder.iterdir())
    assert {source.suffix for source in sources} == {".json", ".sql"}
    assert sum(source.stat().st_size for source in sources) < 250_000
    for source in folder.glob("*.sql"):
        assert max(map(len, source.read_text(encoding="utf-8").splitlines())) <= 160
