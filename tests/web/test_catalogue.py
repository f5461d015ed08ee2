from pathlib import Path

import pytest

from dtfixup.errors import ConfigError, UnknownDatabaseError
from dtfixup.web.catalogue import open_catalogue, places_of

from .shops import make_shop


def write(folder: Path, text: str) -> Path:
    file = folder / "databases.yaml"
    file.write_text(text)
    return file


def test_samples_come_with_questions() -> None:
    entries = open_catalogue().entries
    assert "river_ferry" in entries
    assert all(entry.is_sample and entry.examples for entry in entries.values())


def test_a_file_names_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_shop(tmp_path / "shop.sqlite")
    (tmp_path / "names.yaml").write_text("names:\n  pets: animals\n")
    monkeypatch.setenv("SECRET", "s3cret-word")
    file = write(
        tmp_path,
        """
databases:
  shop: {url: shop.sqlite, names: names.yaml}
  far: postgresql://reader:${SECRET}@localhost/far
""",
    )
    entries = open_catalogue(file, samples=False).entries
    assert list(entries) == ["shop", "far"]
    assert [table.natural for table in entries["shop"].database.schema.tables] == ["owners", "animals"]
    assert "s3cret-word" in str(entries["far"].database.location)
    assert entries["far"].places == {entries["far"].database.shown: "far"}
    assert "s3cret-word" not in entries["far"].database.shown


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected the key databases"),
        ("databases: {}", "expected the key databases"),
        ("databases: {a: x.db}\nmore: 1", "unknown key 'more'"),
        ("databases: {a b: x.db}", "a name has"),
        ("databases: {a: {path: x.db}}", "or the key url"),
        ("databases: {a: {url: x.db, colour: red}}", "unknown key 'colour'"),
        ("databases: {a: {url: x.db, namespace: 3}}", "expected text"),
        ("databases: {a: missing.db}", "does not exist"),
        ("databases: {a: 'postgresql://u:${NOT_SET_ANYWHERE}@h/d'}", "no variable NOT_SET_ANYWHERE"),
        ("databases: {a: 'oracle://u@h/d'}", "not supported"),
        ("databases: [", "is not YAML"),
    ],
)
def test_a_wrong_file_says_where_and_why(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        open_catalogue(write(tmp_path, text))


def test_no_database_at_all_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no database to ask"):
        open_catalogue(samples=False)


def test_an_unknown_name_is_told_what_there_is() -> None:
    with pytest.raises(UnknownDatabaseError, match="river_ferry"):
        open_catalogue().find("../../etc/passwd")


def test_all_forms_of_a_path_are_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_shop(tmp_path / "shop.sqlite")
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, "databases: {shop: shop.sqlite}")
    places = places_of(open_catalogue(file, samples=False).entries["shop"].database, "shop")
    assert places[str(tmp_path / "shop.sqlite")] == "shop"
