"""What the tests of the web half share: a site with a small model, its client, and a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from dtfixup.web.catalogue import Catalogue
from dtfixup.web.server import Site, build_site
from dtfixup.web.settings import Settings

from ..sql.asked import tiny_parser
from .shops import catalogue_of, make_shop


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
    built = build_site(tiny_parser(), catalogue, Settings(rows=50, run_deadline=2.0))
    yield built
    built.close()


@pytest.fixture(scope="module")
def client(site: Site) -> Iterator[TestClient]:
    with TestClient(site.app, base_url="http://127.0.0.1", follow_redirects=False) as opened:
        yield opened
