"""Two small databases for the tests of templates."""

import pytest

from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.linking.inputs import DatabaseInputs
from tests.sql.described import described
from tests.sql.pets import make_dataset


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return make_dataset(tmp_path_factory.mktemp("pets"))


@pytest.fixture(scope="session")
def kennels(dataset: Dataset) -> DatabaseInputs:
    return described(dataset, "kennels")
