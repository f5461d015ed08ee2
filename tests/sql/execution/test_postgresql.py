"""What is particular to PostgreSQL: no NUL in text, and settings that a role could have changed."""

import pytest

from dtfixup.errors import GuardError
from dtfixup.sql.execution.guarded import open_guarded


def test_queries_in_parentheses_pass(postgresql_url: str) -> None:
    with open_guarded(postgresql_url) as guard:
        assert guard.run("(SELECT 1) UNION ALL (SELECT 2)").rows == [(1,), (2,)]


def test_text_cannot_hold_nul(postgresql_url: str) -> None:
    with open_guarded(postgresql_url) as guard:
        with pytest.raises(GuardError, match="parameter 1: PostgreSQL text cannot hold a NUL"):
            guard.run("SELECT $1", ["a\0b"])
        assert guard.run("SELECT 1").rows == [(1,)]


@pytest.mark.parametrize(
    ("name", "value"),
    [("transaction_read_only", "on"), ("jit", "off"), ("work_mem", "16MB"), ("temp_file_limit", "1GB")],
)
def test_the_session_is_held_to_reading_little(name: str, value: str, postgresql_url: str) -> None:
    with open_guarded(postgresql_url, filter_text=False) as guard:
        assert guard.run("SELECT current_setting($1)", [name]).rows == [(value,)]
