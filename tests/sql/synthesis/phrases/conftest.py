"""The shop as a domain, and what is made of it."""

import random
from collections.abc import Callable

import pytest

from dtfixup.sql.database.dataset import Dataset
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.writer import SqlWriter
from dtfixup.sql.synthesis.phrases.domain import Domain
from dtfixup.sql.synthesis.phrases.scene import Draft, NoDraftError, Scene
from tests.sql.shop import SCHEMA, make_shop, shop_domain

Drafted = Callable[[Callable[[Scene], Draft], int], tuple[str, str]]


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return make_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="session")
def domain(dataset: Dataset) -> Domain:
    return shop_domain(dataset)


@pytest.fixture(scope="session")
def drafted(domain: Domain) -> Drafted:
    """The first question of a kind for a seed, with its SQL."""

    def draft(ask: Callable[[Scene], Draft], seed: int) -> tuple[str, str]:
        scene = Scene(domain, random.Random(seed))
        while True:
            try:
                made = ask(scene)
            except NoDraftError:
                continue
            return made.question, SqlWriter(SCHEMA).write(SqlReader(SCHEMA).read(made.sql))

    return draft
