import asyncio
import logging
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from dtfixup.errors import ConfigError, DtFixupError, UnknownDatabaseError
from dtfixup.web.api.routes import PREFIX
from dtfixup.web.page.ask import PageActions
from dtfixup.web.server import build_site
from dtfixup.web.settings import ServerSettings
from dtfixup.web.store.catalogue import open_catalogue
from tests.sql.asked import tiny_parser
from tests.web.shops import make_shop


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
    entries = open_catalogue((), file, samples=False).entries
    assert list(entries) == ["shop", "far"]
    assert [table.natural for table in entries["shop"].database.read().schema.tables] == ["owners", "animals"]
    assert entries["far"].database.location.secrets() == ["s3cret-word"]
    assert entries["far"].masks == {entries["far"].database.shown: "far"}
    assert "s3cret-word" not in entries["far"].database.shown


@pytest.mark.parametrize("password", ["p@ss/word", "a:b?c#d", "100%25", "plus + and space", "ünder"])
def test_a_password_may_have_any_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setenv("READER", "reader@office")
    monkeypatch.setenv("SECRET", password)
    file = write(tmp_path, "databases: {far: 'postgresql://${READER}:${SECRET}@db.example.org:5433/far'}")
    url = open_catalogue((), file, samples=False).entries["far"].database.location.url
    assert url is not None
    assert (url.username, url.password) == ("reader@office", password)
    assert (url.host, url.port, url.database) == ("db.example.org", 5433, "far")


@pytest.mark.parametrize(
    "url", ["${URL}", "postgresql://reader:p%40ss@${HOST}/far", "${KIND}://reader:p%40ss@${HOST}/far"]
)
def test_variables_elsewhere_are_put_in_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("KIND", "postgresql")
    monkeypatch.setenv("HOST", "db.example.org:5433")
    monkeypatch.setenv("URL", "postgresql://reader:p%40ss@db.example.org:5433/far")
    file = write(tmp_path, f"databases: {{far: '{url}'}}")
    found = open_catalogue((), file, samples=False).entries["far"].database.location.url
    assert found is not None
    assert (found.password, found.host, found.port, found.database) == ("p@ss", "db.example.org", 5433, "far")


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_where_a_server_stands_is_told_to_the_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    monkeypatch.setenv("SECRET", "p@ss/word")
    file = write(tmp_path, f"databases: {{far: '{kind}://reader:${{SECRET}}@127.0.0.1:1/inner'}}")  # nobody listens
    found = open_catalogue((), file, samples=False)
    site = build_site(tiny_parser(), found, ServerSettings())
    actions = PageActions(site.service, found, site.uploads)
    with caplog.at_level(logging.WARNING, "dtfixup"), TestClient(site.app, base_url="http://127.0.0.1") as client:
        asked = client.post(f"{PREFIX}/ask", json={"database": "far", "question": "How many?"})
        ran = client.post(f"{PREFIX}/run", json={"database": "far", "sql": "SELECT 1"})
        read = client.get(f"{PREFIX}/databases/far/schema")
        said = [answer.json()["message"] for answer in (asked, ran, read)]
        said.append(asyncio.run(actions.schema("far", "me")))
        said.append(asyncio.run(actions.ask("far", "How many?", "me")).notice)
        said.append(asyncio.run(actions.run("far", "SELECT 1", "me")).notice)
    site.close()
    for text in said:
        assert "far cannot be" in text.lower()
        assert not any(word in text for word in ("127.0.0.1", "localhost", "refused", "reader", "inner", ":1", "port"))
    assert len(caplog.messages) == len(said)
    for text in caplog.messages:
        assert f"{kind}://reader:***@127.0.0.1:1/inner" in text
        assert "refused" in text
        assert "p@ss" not in text
        assert "p%40ss" not in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected the key databases"),
        ("databases: {}", "expected the key databases"),
        ("databases: {a: x.db}\nmore: 1", "unknown key 'more'"),
        ("databases: {a b: x.db}", "expected a name of letters"),
        ("databases: {a: {path: x.db}}", "or the key url"),
        ("databases: {a: {url: x.db, colour: red}}", "unknown key 'colour'"),
        ("databases: {a: {url: x.db, namespace: 3}}", "expected text"),
        ("databases: {a: missing.db}", "does not exist"),
        ("databases: {a: 'postgresql://u:${NOT_SET_ANYWHERE}@h/d'}", "variable NOT_SET_ANYWHERE is not set"),
        ("databases: {a: 'oracle://u@h/d'}", "not supported"),
        ("databases: [", "is not YAML"),
    ],
)
def test_a_wrong_file_says_where_and_why(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        open_catalogue((), write(tmp_path, text))


def test_databases_are_given_by_location(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    files = [make_shop(tmp_path / "my shop.sqlite"), make_shop(tmp_path / "other" / "my shop.db")]
    far = "postgresql://reader:word@localhost/far"
    entries = open_catalogue([*files, far, "sample:river_ferry"]).entries
    assert list(entries)[:4] == ["my-shop", "my-shop-2", "far", "river_ferry"]
    assert [entry.label for entry in entries.values()][:4] == ["my shop", "my shop (2)", "far", "river ferry"]
    assert entries["river_ferry"].examples
    assert len(entries) == 3 + len(open_catalogue().entries)
    assert [table.name for table in entries["my-shop"].database.read().schema.tables] == ["owners", "pets"]
    file = write(tmp_path, "databases: {far: 'my shop.sqlite'}")
    with pytest.raises(ConfigError, match="has this name already"):
        open_catalogue([far], file)


@pytest.mark.parametrize(
    ("database", "reason"), [("no such file.db", "does not exist"), ("sample:nothing", "river_ferry"), ("", "file")]
)
def test_a_database_that_cannot_be_opened_is_an_error(database: str, reason: str) -> None:
    with pytest.raises(DtFixupError, match=reason):
        open_catalogue([database])


def test_no_database_at_all_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no database to ask"):
        open_catalogue(samples=False)


def test_an_unknown_name_is_told_what_there_is() -> None:
    with pytest.raises(UnknownDatabaseError, match="river_ferry"):
        open_catalogue().find("../../etc/passwd")


def test_all_forms_of_a_path_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = make_shop(tmp_path / "shop.sqlite")
    monkeypatch.chdir(tmp_path)
    for url, forms in (("shop.sqlite", {str(shop)}), ("sqlite:///shop.sqlite", {"shop.sqlite", str(shop)})):
        entry = open_catalogue((), write(tmp_path, f"databases: {{shop: '{url}'}}"), samples=False).entries["shop"]
        assert entry.masks == dict.fromkeys(forms, "shop")
