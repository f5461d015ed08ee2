"""What the page does, without a browser."""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from fastapi.testclient import TestClient

from dtfixup.sql.execution.guarded import Rows
from dtfixup.web.page.ask import MOST_HISTORY, Counter, Shown, _ran, remembered
from dtfixup.web.page.layout import _AskTab, style
from dtfixup.web.server import Site
from dtfixup.web.store.catalogue import Catalogue
from tests.web.shops import NO_LINK, QUESTION, make_shop


@pytest.fixture
def counter(site: Site, catalogue: Catalogue) -> Counter:
    return Counter(site.desk, catalogue, site.uploads)


def test_a_question_is_answered(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter.desk.parser, "sure_above", 0.0)
    shown = asyncio.run(counter.ask("shop", QUESTION, "me"))
    assert "".join(text for text, _ in shown.pieces) == QUESTION
    assert "<b>pets</b>" in shown.links
    assert shown.sql.startswith("SELECT")
    assert len(shown.choices) > 1
    assert (shown.notice, shown.opens_choices) == ("", False)


def test_not_sure_is_said_and_opens_the_alternatives(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter.desk.parser, "sure_above", 1.0)
    shown = asyncio.run(counter.ask("shop", QUESTION, "me"))
    assert "Not sure." in shown.notice
    assert "one of the queries below" in shown.notice
    assert shown.opens_choices


def test_no_link_is_said_and_nothing_is_guessed(counter: Counter) -> None:
    shown = asyncio.run(counter.ask("shop", NO_LINK, "me"))
    assert "No link to this database." in shown.notice
    assert (shown.sql, shown.choices, shown.share) == ("", (), "")


@pytest.mark.parametrize("name", ["nothing", "upload-0123", "../../etc/passwd", "/etc/passwd"])
def test_unknown_databases_are_told(counter: Counter, name: str) -> None:
    for said in (
        asyncio.run(counter.ask(name, QUESTION, "me")).notice,
        asyncio.run(counter.run(name, "SELECT 1", "me")).notice,
        asyncio.run(counter.schema(name, "me")),
    ):
        assert 'role="alert"' in said


def test_rows_are_shown_with_nulls_and_kinds(counter: Counter) -> None:
    ran = asyncio.run(counter.run("shop", "SELECT name, age FROM pets ORDER BY id", "me"))
    assert ran.columns == ("name", "age")
    assert ran.rows == (("Rex", 3), ("Tom", 7), ("Mia", "NULL"))
    assert ran.kinds == ("str", "number")
    assert "3 rows." in ran.notice
    assert "<figure" in asyncio.run(counter.run("shop", "SELECT name, age FROM pets WHERE age > 0", "me")).chart
    assert "no query to run" in asyncio.run(counter.run("shop", "  ", "me")).notice


@pytest.mark.parametrize("other", ["", "ask", "pick", "recall"])
def test_rows_come_unless_something_else_is_answered(other: str, counter: Counter) -> None:
    tab, me = _AskTab(counter), gr.Request(session_hash="me")

    async def come() -> list[list[Any]]:
        run = tab._run("shop", "SELECT name FROM pets", me)
        emptied = await anext(run)
        if other == "ask":
            await tab._ask("shop", QUESTION, [], me)
        elif other == "pick":
            tab._pick("SELECT 1", {}, me)
        elif other == "recall":
            tab._recall("0", [Shown(QUESTION, "shop")], me)
        await tab._ask("shop", QUESTION, [], gr.Request(session_hash="you"))
        return [emptied, *[rows async for rows in run]]

    notices = [rows[0] for rows in asyncio.run(come())]
    assert notices[0] == ""
    assert ["3 rows." in notice for notice in notices[1:]] == ([] if other else [True])


def test_nothing_is_kept_of_who_left(counter: Counter) -> None:
    counter.begin_turn("me")
    assert counter.turn_of("me") == 1
    counter.leave("me")
    assert not counter.turns


def test_a_cut_is_said() -> None:
    assert "The first 1 row; there are more." in _ran(Rows(("a",), [(1,)], True)).notice
    empty = _ran(Rows(("a",), [], False))
    assert "No rows: nothing in the database fits." in empty.notice
    assert empty.kinds == ("str",), "no numbers, so nothing stands to the right"
    assert "Save as CSV" not in empty.notice


def test_fractions_are_shown_short() -> None:
    values = (109857.14285714286, 1 / 3, 1.23456789e-7, -2.5, 1e300, 12345678901234567890)
    assert _ran(Rows(("a",), [(value,) for value in values], False)).rows == (
        (109857.142857,), (0.333333,), (1.23457e-07,), (-2.5,), (1e300,), ("12345678901234567890",),
    )  # fmt: skip


def test_errors_are_escaped(counter: Counter) -> None:
    said = asyncio.run(counter.run("shop", 'SELECT "<img src=x onerror=alert(1)>" FROM nothing', "me")).notice
    assert "<img" not in said
    assert "<img" not in asyncio.run(counter.ask("<img src=x>", "x", "me")).notice


def test_an_upload_is_the_visitors_own(counter: Counter) -> None:
    folder = counter.uploads.incoming / os.urandom(8).hex()
    folder.mkdir()
    taken = asyncio.run(counter.upload(make_shop(folder / "mine.db"), "mine.db", "me"))
    assert not isinstance(taken, str)
    name, label = taken
    assert label == "mine.db"
    assert "<svg" in asyncio.run(counter.schema(name, "me"))
    assert asyncio.run(counter.run(name, "SELECT count(*) FROM pets", "me")).rows == ((3,),)
    asked = asyncio.run(counter.ask(name, QUESTION, "me"))
    assert asked.sql
    assert asked.label == "mine.db"
    assert 'role="alert"' in asyncio.run(counter.run(name, "SELECT 1", "you")).notice
    counter.uploads.forget("me")
    assert "upload the file again" in asyncio.run(counter.run(name, "SELECT 1", "me")).notice


def test_a_file_that_is_no_database_is_told(counter: Counter, tmp_path: Path) -> None:
    said = asyncio.run(counter.upload(tmp_path / "nothing", "nothing", "me"))
    assert isinstance(said, str)
    assert "names no file that was uploaded" in said


def test_a_full_disk_is_told(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(counter.uploads, "take", full)
    said = asyncio.run(counter.upload(Path("x"), "x", "me"))
    assert isinstance(said, str)
    assert "No space left on device" in said


def test_history_holds_each_question_once_and_not_too_many() -> None:
    history: list[Shown] = []
    for number in range(2 * MOST_HISTORY):
        history = remembered(history, Shown(f"question {number}", "shop"))
    assert len(history) == MOST_HISTORY
    again = remembered(history, Shown(history[3].question, "shop"))
    assert len(again) == MOST_HISTORY
    assert again[0].question == history[3].question


def test_the_page_asks_nothing_of_other_machines(client: TestClient) -> None:
    config = client.get("/config").json()
    assert (config["stylesheets"], config["analytics_enabled"], config["run_history"]) == ([], False, False)
    for text in (style(), client.get("/theme.css").text):
        assert "https://" not in text
        assert "@import" not in text


@pytest.mark.parametrize(
    "named", ["secret.db", "https://example.org/shop.sqlite", "/dev/zero", "incoming/../secret.db"]
)
def test_a_request_cannot_name_a_file_of_the_machine(
    client: TestClient, site: Site, named: str, tmp_path: Path
) -> None:
    make_shop(tmp_path / "secret.db")
    path = named if "://" in named or named.startswith("/") else str(tmp_path / named)
    assert take(client, path, "me")["success"] is False
    assert not list(site.uploads.incoming.rglob("*.*"))


def take(client: TestClient, path: str, visitor: str) -> dict[str, Any]:
    """What the page does with a file that its upload route has answered for."""
    functions = client.get("/config").json()["dependencies"]
    upload = next(each["id"] for each in functions if each["targets"][0][1] == "upload")
    body = {"fn_index": upload, "session_hash": visitor, "data": [{"path": path, "meta": {"_type": "gradio.FileData"}}]}
    assert client.post("/gradio_api/queue/join", json=body).status_code == 200
    with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": visitor}) as events:
        ended = next(line for line in events.iter_lines() if "process_completed" in line)
    return dict(json.loads(ended.removeprefix("data:")))


def test_two_visitors_send_the_same_file_at_the_same_time(client: TestClient, site: Site, shop: Path) -> None:
    sent = {"files": ("pets.db", shop.read_bytes())}
    received = {visitor: client.post("/gradio_api/upload", files=sent).json() for visitor in ("ann", "bob")}
    names = {}
    for visitor, [path] in received.items():
        ended = take(client, path, visitor)
        assert ended["success"]
        names[visitor] = ended["output"]["data"][0]["value"]
        assert site.uploads.find(names[visitor], visitor).label == "pets.db"
    assert names["ann"] != names["bob"]
    site.uploads.forget("ann")
    assert [table.name for table in site.uploads.find(names["bob"], "bob").database.read().schema.tables] == [
        "owners",
        "pets",
    ]
    site.uploads.forget("bob")
    assert not list(site.uploads.incoming.rglob("*.db"))


def test_the_upload_route_is_bounded(client: TestClient, site: Site) -> None:
    most = site.desk.settings.upload_bytes
    taken = client.post("/gradio_api/upload", files={"files": ("../../x.db", b"SQLite format 3\0")})
    assert taken.status_code == 200
    [path] = taken.json()
    assert Path(path).resolve().is_relative_to(site.uploads.incoming.resolve())
    shutil.rmtree(Path(path).parent)
    for size, status in ((most + 100_000, 413), (most + 1, 409)):  # of the request, and of the file within
        refused = client.post("/gradio_api/upload", files={"files": ("x.db", b"\0" * size)})
        assert refused.status_code == status
        assert set(refused.json()) == {"code", "message", "advice"}
    assert not list(site.uploads.incoming.rglob("*.db"))
