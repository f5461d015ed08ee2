"""What the tests of asking share."""

import shutil
from pathlib import Path

import pytest

from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.sample import sample_file, sample_folder


@pytest.fixture(scope="session")
def sample() -> Dataset:
    """The bundled dataset."""
    return open_dataset(sample_folder())


@pytest.fixture(scope="session")
def shipped() -> TextToSql:
    """The shipped model."""
    return TextToSql.load()


@pytest.fixture
def ferry(tmp_path: Path) -> Path:
    """A copy of a bundled database."""
    return Path(shutil.copy(sample_file("sample:river_ferry"), tmp_path / "river_ferry.sqlite"))
