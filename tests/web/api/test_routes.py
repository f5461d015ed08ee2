"""The JSON API: answers, errors in one shape, and databases that break while in use."""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import schemathesis
from fastapi.testclient import TestClient
from httpx import Response
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.execution.guarded import Rows, open_guarded
from dtfixup.web.api import service
from dtfixup.web.api.routes import PREFIX
from dtfixup.web.server import Site, build_site
from dtfixup.web.settings import ServerSettings
from tests.sql.asked import tiny_parser, tiny_run
from tests.web.shops import NO_LINK, QUESTION, catalogue_of, make_shop

_EXAMPLES = int(os.environ.get("DTFIXUP_API_EXAMPLES", "25"))
"""Requests of each kind that schemathesis makes; docs/start/serve.md has the figure of a longer run."""


def ask(client: TestClient, question: str = QUESTION, database: str = "shop") -> Response:
    return client.post(f"{PREFIX}/ask", json={"database": database, "question": question})


def run(client: TestClient, sql: str, database: str = "shop", **more: object) -> Response:
    return client.post(f"{PREFIX}/run", json={"database": database, "sql": sql, **more})


def test_databases_and_schema(client: TestClient) -> None:
    [shop] = client.get(f"{PREFIX}/databases").json()["databases"]
    assert shop == {"name": "shop", "dialect": "sqlite", "is_sample": False, "examples": [QUESTION]}
    schema = client.get(f"{PREFIX}/databases/shop/schema").json()
    owners, pets = schema["tables"]
    assert [column["name"] for column in pets["columns"]] == ["id", "name", "age", "owner"]
    assert owners["primary_key"] == ["id"]
    key = {"table": "pets", "columns": ["owner"], "referred_table": "owners", "referred_columns": ["id"]}
    assert schema["foreign_keys"] == [key]


def test_an_answer_is_the_parsers_own(client: TestClient, shop: Path) -> None:
    answer = ask(client).json()
    own = tiny_parser().ask(QUESTION, shop).to_json()
    for key in ("question", "sql", "alternatives", "links", "dialect", "verdict"):
        assert answer[key] == own[key], key


def test_no_link_is_said(client: TestClient) -> None:
    answer = ask(client, NO_LINK).json()
    assert (answer["verdict"], answer["sql"]) == ("no_link", None)
    assert "owners, pets" in answer["remark"]


def test_rows_with_nothing_lost(client: TestClient) -> None:
    rows = run(client, "SELECT name, age, x'0aff' FROM pets ORDER BY id").json()
    assert rows == {
        "columns": ["name", "age", "x'0aff'"],
        "rows": [["Rex", 3, "0aff"], ["Tom", 7, "0aff"], ["Mia", None, "0aff"]],
        "truncated": False,
    }
    assert run(client, "SELECT 1 UNION SELECT 2", rows=1).json()["truncated"]


def test_the_server_bounds_rows(client: TestClient) -> None:
    many = run(client, "SELECT a.id FROM pets a, pets b, pets c, pets d, pets e", rows=10_000).json()
    assert (len(many["rows"]), many["truncated"]) == (50, True)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("ask", {"database": "nothing", "question": "x"}, 404, "unknown_database"),
        ("ask", {"database": "../shop", "question": "x"}, 404, "unknown_database"),
        ("run", {"database": "/etc/passwd", "sql": "SELECT 1"}, 404, "unknown_database"),
        ("ask", {"database": "shop", "question": "   "}, 409, "question"),
        ("ask", {"database": "shop", "question": "x" * 2001}, 422, "invalid"),
        ("ask", {"database": "shop", "question": "word " * 390}, 409, "question"),
        ("ask", {"database": "shop"}, 422, "invalid"),
        ("ask", {"database": "shop", "question": "x", "beam": 11}, 422, "invalid"),
        ("ask", {"database": "shop", "question": "x", "colour": 1}, 422, "invalid"),
        ("run", {"database": "shop", "sql": "DELETE FROM pets"}, 403, "refused"),
        ("run", {"database": "shop", "sql": "SELECT nothing FROM pets"}, 409, "query_failed"),
        ("run", {"database": "shop", "sql": "SELECT 1; SELECT 2"}, 403, "refused"),
        ("run", {"database": "shop", "sql": "SELECT 1", "rows": 0}, 422, "invalid"),
    ],
)
def test_errors_have_one_shape(client: TestClient, path: str, body: dict[str, object], status: int, code: str) -> None:
    answer = client.post(f"{PREFIX}/{path}", json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code)
    assert set(problem) == {"code", "message", "advice"}
    assert all(problem.values())


def test_other_mistakes_have_the_same_shape(client: TestClient) -> None:
    for method, path, status in (("GET", "nothing", 404), ("DELETE", "ask", 405), ("GET", "run", 405)):
        answer = client.request(method, f"{PREFIX}/{path}")
        assert answer.status_code == status
        assert set(answer.json()) == {"code", "message", "advice"}
    broken = client.post(f"{PREFIX}/ask", content=b"{", headers={"content-type": "application/json"})
    assert (broken.status_code, broken.json()["code"]) == (400, "not_json")


def test_ten_megabytes_of_question(client: TestClient) -> None:
    answer = ask(client, "x" * 10 * 2**20)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert ask(client).status_code == 200


def test_half_a_surrogate_pair_is_no_text(client: TestClient) -> None:
    body = json.dumps({"database": "shop", "question": "How \ud800 many?"}).encode()
    answer = client.post(f"{PREFIX}/ask", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 409, 422)
    assert ask(client).status_code == 200


def test_a_query_without_end_is_stopped(client: TestClient) -> None:
    endless = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
    answer = run(client, endless)
    assert (answer.status_code, answer.json()["code"]) == (504, "query_late")
    assert run(client, "SELECT 1").status_code == 200


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[tuple[TestClient, Path]]:
    """A site over a file that may be broken."""
    path = make_shop(tmp_path / "shop.sqlite")
    site = build_site(tiny_parser(), catalogue_of({"shop": path}), ServerSettings(deadline=1.0))
    with TestClient(site.app, base_url="http://127.0.0.1") as client:
        assert ask(client).status_code == 200
        yield client, path
    site.close()


def _delete(path: Path) -> None:
    path.unlink()


def _overwrite(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)


def _replace_by_text(path: Path) -> None:
    path.write_text("this was a database")


def test_a_database_that_is_gone_cannot_be_read(faulty: tuple[TestClient, Path]) -> None:
    client, path = faulty
    _delete(path)
    for answer in (ask(client), run(client, "SELECT * FROM pets")):
        assert (answer.status_code, answer.json()["code"]) == (503, "database")
        assert answer.headers["Retry-After"]


@pytest.mark.parametrize("harm", [_delete, _overwrite, _replace_by_text])
def test_a_database_that_breaks_while_in_use(faulty: tuple[TestClient, Path], harm: Callable[[Path], None]) -> None:
    client, path = faulty
    whole = path.read_bytes()
    harm(path)
    for answer in (ask(client), run(client, "SELECT * FROM pets"), client.get(f"{PREFIX}/databases/shop/schema")):
        assert answer.status_code in (409, 503)
        assert "shop" in answer.json()["message"]
        assert str(path.parent) not in answer.text
    path.write_bytes(whole)
    assert ask(client).status_code == 200
    assert len(run(client, "SELECT * FROM pets").json()["rows"]) == 3
    assert [file.name for file in path.parent.iterdir()] == ["shop.sqlite"]


def test_a_locked_database(faulty: tuple[TestClient, Path]) -> None:
    client, path = faulty
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        answer = run(client, "SELECT * FROM pets")
        assert answer.status_code in (409, 504)
        assert str(path.parent) not in answer.text
        assert client.get(f"{PREFIX}/health").json() == {"status": "ok"}
    assert run(client, "SELECT * FROM pets").status_code == 200


def test_two_thousand_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [f"CREATE TABLE t{t} ({', '.join(f'c{t}_{c} TEXT' for c in range(100))});" for t in range(20)]
    path = make_shop(tmp_path / "wide.sqlite", "".join(tables))
    small = TextToSql.load(tiny_run())
    monkeypatch.setattr(small, "steps", 6)
    site = build_site(small, catalogue_of({"wide": path}), ServerSettings(answer_seconds=60.0))
    with TestClient(site.app, base_url="http://127.0.0.1") as client:
        assert len(client.get(f"{PREFIX}/databases/wide/schema").json()["tables"]) == 20
        assert ask(client, "How many t7 are there?", "wide").status_code == 200
    site.close()


def test_a_full_queue_answers_at_once(site: Site, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, begun = threading.Event(), threading.Event()

    def slow(*_: object) -> object:
        begun.set()
        gate.wait(20)
        raise RuntimeError

    monkeypatch.setattr(site.service.asks, "most", 1)
    plain = site.service.parser.ask
    monkeypatch.setattr(site.service.parser, "ask", lambda *given: slow() if not gate.is_set() else plain(*given))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, client)
        assert begun.wait(20)
        refused = ask(client)
        assert (refused.status_code, refused.json()["code"]) == (429, "busy")
        assert refused.headers["retry-after"]
        gate.set()
        with pytest.raises(RuntimeError):
            waiting.result()
    assert ask(client).status_code == 200


def test_a_late_answer_is_told(site: Site, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(site.service, "settings", ServerSettings(answer_seconds=0.05))
    monkeypatch.setattr(site.service.parser, "ask", lambda *_: gate.wait(20))
    answer = ask(client)
    gate.set()
    assert (answer.status_code, answer.json()["code"]) == (504, "late")


def test_a_closing_server_says_so(site: Site, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.service, "is_closing", True)
    assert client.get(f"{PREFIX}/health").json() == {"status": "closing"}
    assert ask(client).status_code == 503


def test_openapi_describes_every_route(client: TestClient) -> None:
    described = client.get(f"{PREFIX}/openapi.json").json()
    assert set(described["paths"]) == {"/health", "/databases", "/databases/{name}/schema", "/ask", "/run"}
    assert described["servers"] == [{"url": PREFIX}]
    for route in described["paths"].values():
        for operation in route.values():
            assert operation["responses"]["422"]["content"]["application/json"]["schema"]["$ref"].endswith("Problem")


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_the_api_is_what_it_says(site: Site, mode: GenerationMode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schemathesis makes requests out of the description, right ones and wrong ones."""
    monkeypatch.setattr(service, "run_query", run_here)
    own = {"host": "127.0.0.1"}
    described = schemathesis.openapi.from_asgi(f"{PREFIX}/openapi.json", site.app, headers=own)
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) == 5
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and not (operation.body or operation.path_parameters):
            continue  # nothing about it can be wrong

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        def check(case: schemathesis.Case) -> None:
            if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
                case.body["database"] = "shop"  # by chance it would never be met
            case.call_and_validate(headers=own)

        check()


def run_here(database: Path, sql: str, *, deadline: float, max_rows: int) -> Rows:
    """The guard without a process of its own, which takes half a second to start."""
    with open_guarded(database, deadline=deadline, max_rows=max_rows) as guarded:
        return guarded.run(sql)
