"""Blocks that Markdown would read in another way."""

import pytest
from dtfixup_paper.report.markdown import code, command, table


def test_code_with_backticks_stays_code() -> None:
    assert command("a ```` b").splitlines() == ["`````sh", "a ```` b", "`````"]
    assert code("") == ""


def test_rows_of_another_length_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"2 headings has rows of \[1\] entries"):
        table(("a", "b"), [("1",)])
