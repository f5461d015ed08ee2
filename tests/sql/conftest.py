"""What the tests of the SQL half share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The development data; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("DTFIXUP_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"development data is not at {folder}; set DTFIXUP_DATA")
    return folder


@pytest.fixture(scope="session")
def spider_folder(data_folder: Path) -> Path:
    """The Spider download."""
    folder = data_folder / "spider"
    if not folder.is_dir():
        pytest.skip(f"Spider is not at {folder}")
    return folder
