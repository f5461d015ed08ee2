"""How many examples each database makes."""

from dtfixup.sql.synthesis.templates.made_examples import share_of


def test_a_share_is_more_than_a_part() -> None:
    assert share_of(100, 10, 1.5) == 16
    assert share_of(100, 0, 1.5) > 100, "an empty split is refused when nothing comes of it"
