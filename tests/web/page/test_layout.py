"""What the buttons of the page do, and its upload route."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from fastapi.testclient import TestClient

from dtfixup.web.page.ask import AnswerView, PageActions
from dtfixup.web.page.layout import AskPage, style
from dtfixup.web.server import Site
from tests.web.shops import QUESTION, make_shop


@pytest.mark.parametrize("other", ["", "ask", "pick", "recall"])
def test_rows_come_unless_something_else_is_answered(other: str, actions: PageActions) -> None:
    tab, me = AskPage(actions), gr.Request(session_hash="me")

    async def come() -> list[list[Any]]:
        run = tab._run("shop", "SELECT name FROM pets", me)
        emptied = await anext(run)
        if other == "ask":
            await tab._ask("shop", QUESTION, [], me)
        elif other == "pick":
            tab._pick("SELECT 1", {}, me)
        elif other == "recall":
            tab._recall("0", [AnswerView(QUESTION, "shop")], me)
        await tab._ask("shop", QUESTION, [], gr.Request(session_hash="you"))
        return [emptied, *[rows async for rows in run]]

    notices = [rows[0] for rows in asyncio.run(come())]
    assert notices[0] == ""
    assert ["3 rows." in notice for notice in notices[1:]] == ([] if other else [True])


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
        assert site.uploads.find(names[visitor], visitor).entry.label == "pets.db"
    assert names["ann"] != names["bob"]
    site.uploads.forget("ann")
    assert [table.name for table in site.uploads.find(names["bob"], "bob").entry.database.read().schema.tables] == [
        "owners",
        "pets",
    ]
    site.uploads.forget("bob")
    assert not list(site.uploads.incoming.rglob("*.db"))


def test_the_upload_route_is_bounded(client: TestClient, site: Site) -> None:
    most = site.service.settings.upload_bytes
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
