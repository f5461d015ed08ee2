"""Messages quote a query as the user typed it, and not as sqlglot writes it."""

import pytest
import sqlglot

from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.finetune.quoting import quote_as_typed


@pytest.mark.parametrize(
    ("dialect", "typed"),
    [
        (Dialect.SQLITE, "strftime('%Y', born)"),
        (Dialect.SQLITE, "date('now','-1 month')"),
        (Dialect.SQLITE, "case when age>3 then 'old' else 'young' end"),
        (Dialect.SQLITE, "count(*) filter (where age > 3)"),
        (Dialect.SQLITE, "(age, name)"),
        (Dialect.POSTGRESQL, "age::int"),
        (Dialect.POSTGRESQL, "date_trunc('month', born)"),
        (Dialect.MARIADB, "date_format(born, '%Y-%m')"),
    ],
)
@pytest.mark.parametrize("query", ["select {} from pets where age > 3", "select name from pets\nwhere {} in (1, 2)"])
def test_the_part_is_quoted_as_typed(dialect: Dialect, typed: str, query: str) -> None:
    sql = query.format(typed)
    written = sqlglot.parse_one(typed, read=dialect.value).sql()
    assert quote_as_typed(f"{written} is not in the grammar", sql, dialect) == f"{typed} is not in the grammar"


def test_a_part_over_several_lines_is_quoted_in_one() -> None:
    message = "COALESCE(name, '') is not in the grammar"
    assert quote_as_typed(message, "select coalesce(name,\n  '') from pets", Dialect.SQLITE) == (
        "coalesce(name, '') is not in the grammar"
    )


@pytest.mark.parametrize("message", ["WITH is not in the grammar", "LOWER(x) is not in the grammar"])
def test_a_message_without_a_part_of_the_query_stays(message: str) -> None:
    assert quote_as_typed(message, "select upper(name) from pets", Dialect.SQLITE) == message
