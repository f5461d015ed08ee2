"""Queries that people write for a server, and those that `dtfixup sql ask` writes for one, are read again."""

import pytest

from dtfixup.errors import RefusedError
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.dialects.plain import plain_query
from dtfixup.sql.dialects.translate import Translator
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.writer import SqlWriter

OTHER_TREES = 4
"""Truth values that SQLite keeps as words, one join in another order, and LIMIT 1 in a nested query."""


@pytest.mark.parametrize("dialect", [Dialect.POSTGRESQL, Dialect.MARIADB])
def test_every_bundled_query_comes_back_from_a_server_s_dialect(dialect: Dialect) -> None:
    dataset = open_dataset(sample_folder())
    others = 0
    for name, schema in dataset.schemas.items():
        content = open_content(schema, dataset.database_file(name))
        translator, writer = Translator(schema, dialect, content=content), SqlWriter(schema)
        examples = [each for split in ("train", "dev") for each in dataset.split(split) if each.database == name]
        assert examples
        for example in examples:
            tree = SqlReader(schema).read(example.query)
            written = plain_query(translator.translate(writer.write(tree)), dialect)
            others += SqlReader(schema, dialect.value).read(written) != tree
    assert others <= OTHER_TREES


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("SELECT a FROM t WHERE a NOT ILIKE 'x%'", "SELECT a FROM t WHERE a NOT LIKE 'x%'"),
        ("SELECT a FROM t WHERE (a::text) LIKE '2%'", "SELECT a FROM t WHERE (a) LIKE '2%'"),
        ("SELECT a FROM t WHERE d >= DATE '2020-01-01'", "SELECT a FROM t WHERE d >= '2020-01-01'"),
        ("SELECT AVG(a::float), a::numeric / NULLIF(b, 0) FROM t", "SELECT AVG(a), a / b FROM t"),
        ("SELECT a FROM public.t ORDER BY a DESC NULLS LAST, b NULLS FIRST", "SELECT a FROM t ORDER BY a DESC, b"),
    ],
)
def test_what_only_a_server_asks_for_is_left_out(given: str, plain: str) -> None:
    assert plain_query(given, Dialect.POSTGRESQL) == plain


@pytest.mark.parametrize(
    "meant",
    [
        "SELECT AVG(CAST(a AS DECIMAL(10, 0))) FROM t",
        "SELECT CAST(a AS INT) FROM t",
        "SELECT a FROM t WHERE CAST(a AS INT) > 3",
        "SELECT CAST(a AS DOUBLE PRECISION) FROM t",
        "SELECT NULLIF(a, 0) FROM t",
        "SELECT a / NULLIF(b, 1) FROM t",
        "SELECT a FROM t WHERE CAST(b AS TEXT) = '1'",
        "SELECT a FROM t WHERE b = CAST('7' AS INT)",
        "SELECT a FROM other.t",
        "SELECT a FROM t ORDER BY a",
    ],
)
def test_what_says_something_stays(meant: str) -> None:
    assert plain_query(meant, Dialect.POSTGRESQL) == meant


def test_sqlite_is_left_as_it_is() -> None:
    assert plain_query("select  A from  T", Dialect.SQLITE) == "select  A from  T"


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("sql", ["DROP TABLE t", "SELECT 1; SELECT 2", "SELECT FROM WHERE", "(" * 5000])
def test_anything_but_one_query_is_refused(sql: str, dialect: Dialect) -> None:
    with pytest.raises(RefusedError):
        plain_query(sql, dialect)
