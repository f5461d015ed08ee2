"""Who is let in: names, origins, tokens, sizes and routes."""

import asyncio
import socket
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.web.api.access import AccessControl, own_names
from dtfixup.web.settings import MEBIBYTE, ServerSettings

TOKEN = "a-token-of-enough-length"


async def inner(scope: Any, receive: Any, send: Any) -> None:
    """Stands for page and API: says that a request came through."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"access-control-allow-origin", b"*")]})
    await send({"type": "http.response.body", "body": b"inside"})


def door(
    settings: ServerSettings | None = None, *, has_room: bool = True, base: str = "http://127.0.0.1:7860"
) -> TestClient:
    guarded = AccessControl(inner, settings or ServerSettings(), lambda: has_room)
    return TestClient(guarded, base_url=base, follow_redirects=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:7860", "localhost:7860", "[::1]:7860", "LOCALHOST"])
def test_loopback_answers_to_its_own_names(host: str) -> None:
    assert door().get("/", headers={"host": host}).text == "inside"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7860", "192.168.1.7", "evil@localhost", "",
     "a:b:c", "localhost:x", "localhost/evil"],
)  # fmt: skip
def test_other_names_are_refused(host: str) -> None:
    answer = door().get("/", headers={"host": host})
    assert answer.status_code == 403
    assert answer.json()["code"] == "foreign_host"


@given(st.from_regex(r"[a-z0-9-]{1,20}(\.[a-z]{2,6}){1,3}(:\d{1,5})?", fullmatch=True))
def test_no_name_of_a_stranger_is_ours(host: str) -> None:
    keeper = AccessControl(inner, ServerSettings(host="0.0.0.0", host_names=("db.example.org",)), lambda: True)
    assert keeper._is_ours(host) == (host.partition(":")[0] == "db.example.org")


def test_an_open_server_answers_to_addresses_and_its_names() -> None:
    client = door(ServerSettings(host="0.0.0.0", token=TOKEN, host_names=("db.example.org",)))
    own = {"authorization": f"Bearer {TOKEN}"}
    for host in ("192.168.1.7:7860", "db.example.org"):
        assert client.get("/", headers={**own, "host": host}).status_code == 200
    assert client.get("/", headers={**own, "host": "evil.example"}).status_code == 403


def test_the_names_that_are_told_lead_in() -> None:
    settings = ServerSettings(host="0.0.0.0", token=TOKEN, host_names=("DB.example.org",))
    names = own_names(settings)
    assert names == ["db.example.org", socket.gethostname().lower()]
    for name in names:
        answer = door(settings).get("/", headers={"authorization": f"Bearer {TOKEN}", "host": f"{name}:7860"})
        assert answer.text == "inside"
    assert own_names(ServerSettings()) == []


@pytest.mark.parametrize("path", ["/", "/api/v1/run", "/gradio_api/queue/join", "/gradio_api/upload"])
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://localhost:7860", ""]
)
def test_foreign_origins_are_refused_everywhere(path: str, origin: str) -> None:
    answer = door().post(path, headers={"origin": origin})
    assert answer.status_code == 403
    assert answer.json()["code"] == "foreign_origin"


def test_our_own_origin_is_let_in_and_tells_nobody() -> None:
    answer = door().post("/api/v1/run", headers={"origin": "http://127.0.0.1:7860"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


def test_the_default_port_of_an_origin_need_not_be_said() -> None:
    client = door(ServerSettings(host="0.0.0.0", token=TOKEN, host_names=("db.example.org",)))
    own = {"authorization": f"Bearer {TOKEN}", "host": "db.example.org:443", "origin": "https://db.example.org"}
    assert client.post("/api/v1/run", headers=own).status_code == 200


def test_pages_of_others_may_link_here_and_nothing_more() -> None:
    foreign = {"sec-fetch-site": "cross-site"}
    assert door().get("/", headers={**foreign, "sec-fetch-mode": "navigate"}).status_code == 200
    assert door().get("/api/v1/databases", headers={**foreign, "sec-fetch-mode": "no-cors"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/config", "/api/v1/databases", "/gradio_api/upload", "/assets/index.js"])
def test_without_the_token_nothing_is_shown(path: str) -> None:
    client = door(ServerSettings(token=TOKEN))
    for given_token in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": TOKEN},
        {"cookie": f"dtfixup={TOKEN}"},
    ):
        answer = client.get(path, headers=given_token)
        assert answer.status_code == 401
        assert "inside" not in answer.text
    assert client.get(path, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_health_needs_no_token() -> None:
    assert door(ServerSettings(token=TOKEN)).get("/api/v1/health").text == "inside"


def test_the_printed_address_leads_in_once_and_leaves_no_token_behind() -> None:
    client = door(ServerSettings(token=TOKEN))
    assert client.get("/", params={"token": "wrong"}, headers={"accept": "text/html"}).status_code == 401
    answer = client.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert TOKEN not in cookie
    assert client.get("/config").text == "inside"  # the client keeps cookies
    assert door(ServerSettings(token=TOKEN)).get("/", headers={"cookie": cookie.partition(";")[0]}).status_code == 401


def test_a_form_asks_for_the_token() -> None:
    client = door(ServerSettings(token=TOKEN))
    assert "<form" in client.get("/", headers={"accept": "text/html"}).text
    refused = client.post("/enter", data={"token": "wrong"})
    assert (refused.status_code, "not the token" in refused.text) == (401, True)
    assert client.post("/enter", data={"token": TOKEN}).status_code == 303
    assert client.get("/config").text == "inside"
    assert client.post("/enter", content=b"x" * 5000).status_code == 413
    both = {"content-length": "5", "transfer-encoding": "chunked"}
    assert client.post("/enter", content=b"token", headers=both).status_code == 411


@pytest.mark.parametrize(
    "path",
    ["/gradio_api/file=/etc/passwd", "/gradio_api/proxy=https://example.org/", "/gradio_api/call/ask",
     "/gradio_api/run/predict", "/gradio_api/component_server", "/gradio_api/runs", "/monitoring", "/login", "/token",
     "/svelte/x", "/gradio_api/openapi.json", "/gradio_api/vibe-code", "/custom_component/x",
     "/api/v1/databases/%0a/schema", "/assets/../config.py", "/assets/%0a/x"],
)  # fmt: skip
def test_routes_that_the_page_does_not_need_are_closed(path: str) -> None:
    for method in ("GET", "POST"):
        assert door().request(method, path).status_code == 404


def test_bodies_are_bounded() -> None:
    client = door(ServerSettings(upload_mib=1000 / MEBIBYTE))
    ten_megabytes = {"content-length": str(10 * 2**20)}
    for path in ("/api/v1/ask", "/gradio_api/queue/join", "/gradio_api/upload"):
        answer = client.post(path, headers=ten_megabytes)
        assert answer.status_code == 413
        assert answer.json()["advice"]
    assert client.post("/gradio_api/upload", headers={"content-length": "1200"}).status_code == 200
    assert client.post("/api/v1/ask", headers={"content-length": "-1"}).status_code == 413
    assert client.post("/api/v1/ask", content=iter([b"a", b"b"])).status_code == 411


def test_a_full_store_takes_no_uploads() -> None:
    full = door(has_room=False)
    assert full.post("/gradio_api/upload").status_code == 503
    assert full.post("/api/v1/ask").status_code == 200


def test_every_response_keeps_the_page_to_itself() -> None:
    for answer in (door().get("/"), door().get("/nothing"), door().get("/", headers={"host": "evil.example"})):
        assert "connect-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"


def test_there_are_no_web_sockets() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    asyncio.run(AccessControl(inner, ServerSettings(), lambda: True)({"type": "websocket", "path": "/"}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]
