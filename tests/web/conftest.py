"""What the tests of the web half share: a site with a small model, its client, and a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, Page, Route, expect

from dtfixup.web.page.ask import PageActions
from dtfixup.web.server import Site, build_site
from dtfixup.web.settings import ServerSettings
from dtfixup.web.store.catalogue import Catalogue
from tests.sql.asked import tiny_parser, tiny_run
from tests.web.processes import Served, serving
from tests.web.shops import catalogue_of, make_shop
from tests.web.visits import HOSTILE, SCREEN, Visit


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small database of our own."""
    return make_shop(tmp_path_factory.mktemp("shop") / "shop.sqlite")


@pytest.fixture(scope="module")
def catalogue(shop: Path) -> Catalogue:
    return catalogue_of({"shop": shop})


@pytest.fixture(scope="module")
def site(catalogue: Catalogue) -> Iterator[Site]:
    """A whole site; nothing listens."""
    built = build_site(tiny_parser(), catalogue, ServerSettings(rows=50, deadline=2.0))
    yield built
    built.close()


@pytest.fixture
def actions(site: Site, catalogue: Catalogue) -> PageActions:
    return PageActions(site.service, catalogue, site.uploads)


@pytest.fixture(scope="module")
def client(site: Site) -> Iterator[TestClient]:
    with TestClient(site.app, base_url="http://127.0.0.1", follow_redirects=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    make_shop(folder / "shop.sqlite")
    table = f'"{HOSTILE}"'
    script = f"CREATE TABLE {table} ({table} TEXT); INSERT INTO {table} VALUES ('{HOSTILE}');"
    make_shop(folder / "hostile.sqlite", script)
    (folder / "databases.yaml").write_text("databases: {shop: shop.sqlite, hostile: hostile.sqlite}")
    options = ["--databases", str(folder / "databases.yaml")]
    with serving(tiny_run(), folder / "temporary", *options) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, served: Served) -> Iterator[Visit]:
    """Opens the page; at the end nothing may have been asked of other machines, and nothing complained of."""
    contexts, outside, complaints = [], [], []

    def guard(route: Route) -> None:
        if route.request.url.startswith((served.url, "data:", "blob:")):
            route.continue_()
        else:
            outside.append(route.request.url)
            route.abort()

    def open_page(viewport: dict[str, int] = SCREEN, scheme: str = "light") -> Page:
        context = browser.new_context(
            viewport=viewport, color_scheme=scheme, permissions=["clipboard-read", "clipboard-write"]
        )
        contexts.append(context)
        context.route("**/*", guard)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(served.url)
        expect(page.locator("#schema svg:visible")).to_be_visible()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert outside == []
    assert complaints == []
