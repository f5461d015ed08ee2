"""What the tests of the SQL half share."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.sql.asked import save_encoder
from tests.sql.sample_servers import Both, farm_on
from tests.sql.servers import MissingServerError, Server, fresh_database, mariadb_server, postgresql_server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A running PostgreSQL server of our own."""
    yield from started(postgresql_server())


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Server]:
    """A running MariaDB server of our own."""
    yield from started(mariadb_server())


@pytest.fixture(scope="session")
def postgresql_url(postgresql: Server) -> str:
    """Where the superuser of a PostgreSQL server finds an empty database."""
    return postgresql.url


@pytest.fixture(scope="session")
def mariadb_url(mariadb: Server) -> str:
    """Where the admin of a MariaDB server finds an empty database."""
    return mariadb.url


@pytest.fixture
def fresh_postgresql(postgresql_url: str) -> Iterator[str]:
    """The URL of a database that exists for one test."""
    with fresh_database(postgresql_url) as url:
        yield url


@pytest.fixture
def fresh_mariadb(mariadb_url: str) -> Iterator[str]:
    """The URL of a database that exists for one test."""
    with fresh_database(mariadb_url) as url:
        yield url


def started(server: AbstractContextManager[Server]) -> Iterator[Server]:
    """The server while it runs; where it is not installed a reason to skip, or in CI a failure."""
    try:
        running = server.__enter__()
    except MissingServerError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true needs every database server: {error}")
        pytest.skip(str(error))
    try:
        yield running
    finally:
        server.__exit__(None, None, None)


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def farm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """The same small database in SQLite and on a server."""
    with farm_on(request.getfixturevalue(f"{request.param}_url"), tmp_path_factory.mktemp("farm")) as both:
        yield both


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder on disk, with MiniLM's tokenizer."""
    return save_encoder(tmp_path_factory.mktemp("encoder"))
