"""The hostile statements of the SQL half, through the API and through the page."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from dtfixup.web.api import service
from dtfixup.web.api.routes import PREFIX
from dtfixup.web.page.ask import PageActions
from dtfixup.web.server import Site, build_site
from dtfixup.web.settings import ServerSettings
from tests.sql.asked import tiny_parser
from tests.sql.hostile.corpus import Fate, read_corpus
from tests.sql.hostile.stages import PETS, SqliteStage
from tests.web.api.test_routes import run_here
from tests.web.shops import catalogue_of

CORPUS = read_corpus("sqlite")
CODES = {
    Fate.REFUSED: {"refused"},
    Fate.DEADLINE: {"query_late", "refused"},
    Fate.SIZE: {"too_much_data", "refused"},
    Fate.LIMIT: {"query_late", "too_much_data", "refused"},
    Fate.ERROR: {"query_failed", "refused"},
}
"""The text of a statement is looked at first, and may be enough to refuse it."""
_EVERY = int(os.environ.get("DTFIXUP_HOSTILE_EVERY", "10"))
"""Of the statements, which ones are run in processes of their own; 1 for all."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> SqliteStage:
    return SqliteStage(tmp_path_factory.mktemp("stage"))


@pytest.fixture(scope="module")
def attacked(stage: SqliteStage) -> Iterator[Site]:
    settings = ServerSettings(deadline=1.0, workers=2, waiting=len(CORPUS))
    built = build_site(tiny_parser(), catalogue_of({"stage": Path(stage.url)}), settings)
    yield built
    built.close()


@pytest.mark.parametrize("is_in_process", [True, False])
def test_through_the_api(
    attacked: Site, stage: SqliteStage, is_in_process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All with the queries run in this process, which makes them quick; some as they are, each in its own."""
    if is_in_process:
        monkeypatch.setattr(service, "run_query", run_here)
    chosen = CORPUS if is_in_process else CORPUS[::_EVERY]
    with TestClient(attacked.app, base_url="http://127.0.0.1") as client, ThreadPoolExecutor(2) as pool:

        def attack(sql: str) -> dict[str, object]:
            return client.post(f"{PREFIX}/run", json={"database": "stage", "sql": sql}).json()

        found = pool.map(attack, [hostile.sql(stage.folder) for hostile in chosen])
        for hostile, said in zip(chosen, found, strict=True):
            if hostile.fate in CODES:
                assert said.get("code") in CODES[hostile.fate], (hostile, said)
            assert str(stage.folder) not in str(said), hostile
        assert stage.state() == stage.untouched
        assert attack("SELECT count(*) FROM pets")["rows"] == [[len(PETS)]]


def test_through_the_page(attacked: Site, stage: SqliteStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "run_query", run_here)
    actions = PageActions(attacked.service, catalogue_of({"stage": Path(stage.url)}), attacked.uploads)

    async def attack() -> None:
        for hostile in CORPUS:
            ran = await actions.run("stage", hostile.sql(stage.folder), "visitor")
            if hostile.fate in CODES:
                assert 'role="alert"' in ran.notice, hostile
                assert ran.rows == (), hostile
            assert str(stage.folder) not in ran.notice, hostile
        assert (await actions.run("stage", "SELECT count(*) FROM pets", "visitor")).rows == ((len(PETS),),)

    asyncio.run(attack())
    assert stage.state() == stage.untouched
