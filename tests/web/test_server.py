"""The server as a process: how it starts, what it prints, how it stops."""

import json
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from dtfixup.cli.main import main
from dtfixup.errors import ServeError
from dtfixup.web.server import open_socket
from dtfixup.web.settings import ServerSettings
from tests.sql.asked import run_of_other_size, tiny_run
from tests.web.processes import Served, serving
from tests.web.shops import make_shop

ENDLESS = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def post(served: Served, path: str, body: dict[str, object]) -> socket.socket:
    """Send a request and leave its answer to be read."""
    where = urlsplit(served.url)
    content = json.dumps(body).encode()
    connection = socket.create_connection((where.hostname, where.port), timeout=30)
    head = f"POST {path} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return connection


def test_a_stop_answers_what_was_begun_and_refuses_the_rest(tmp_path: Path) -> None:
    make_shop(tmp_path / "shop.sqlite")
    (tmp_path / "databases.yaml").write_text("databases: {shop: shop.sqlite}")
    options = ["--databases", str(tmp_path / "databases.yaml"), "--no-samples", "--deadline", "3"]
    with serving(tiny_run(), tmp_path / "temporary", *options) as served:
        own = f"{served.url}api/v1"
        assert [each["name"] for each in httpx.get(f"{own}/databases").json()["databases"]] == ["shop"]
        assert list(served.folder.iterdir()) != []
        begun = post(served, "/api/v1/run", {"database": "shop", "sql": ENDLESS})
        until(lambda: served.has_children)
        served.process.send_signal(signal.SIGTERM)
        until(lambda: not _answers(own))
        with begun:
            answer = begun.makefile("rb").read().decode()
        assert answer.startswith("HTTP/1.1 504")
        assert "query_late" in answer
        assert served.process.wait(timeout=30) == 0
        assert list(served.folder.iterdir()) == []


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.TransportError:
        return False


def test_elsewhere_a_token_is_printed_and_needed(tmp_path: Path) -> None:
    with serving(tiny_run(), tmp_path / "temporary", "--host", "0.0.0.0") as served:
        url, _, token = served.url.partition("?token=")
        addresses = [line for line in served.printed.splitlines() if line.lstrip().startswith(("open", "or"))]
        assert addresses
        assert all(address.endswith(f"?token={token}") for address in addresses)
        assert "plain HTTP" in served.printed
        assert httpx.get(f"{url}api/v1/databases").status_code == 401
        own = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{url}api/v1/databases", headers=own).status_code == 200
        assert httpx.get(f"{url}api/v1/databases", headers={**own, "Host": "evil.example"}).status_code == 403
        assert httpx.get(f"{url}api/v1/health").json() == {"status": "ok"}


def refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main(["serve", *options])
    assert stop.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_a_truncated_model_is_told_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (tiny_run() / "last.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[: len(whole) // 2])
    assert "truncated or damaged" in refused(["--model", str(tmp_path / "cut.safetensors")], capsys)


def test_a_model_of_another_shape_is_told_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(["--model", str(run_of_other_size(tmp_path))], capsys)
    assert "error" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--model", "nothing.safetensors"], "nothing.safetensors"),
        (["--databases", "nothing.yaml"], "nothing.yaml cannot be read"),
        (["--token", "short"], "token: expected at least 16"),
        (["--no-samples"], "no database to ask"),
    ],
)
def test_what_cannot_work_is_told_at_the_start(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reason in refused(options, capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ServeError, match="cannot be opened"):
            open_socket(ServerSettings(port=taken.getsockname()[1]))
    with pytest.raises(ServeError, match="is not an address of this machine"):
        open_socket(ServerSettings(host="no-such-host.invalid"))
