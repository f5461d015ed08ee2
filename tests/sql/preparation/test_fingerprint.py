"""A prepared dataset is stale when the code that made it is another, not when its comments are."""

import pytest

from dtfixup.sql.preparation.fingerprint import ROOMS, code_digest, fingerprint_of, plain_code

SOURCE = """
'''Numbers.'''

def double(x: int) -> int:
    '''Twice.'''
    return 2 * x  # the sum with itself
"""


def test_comments_docstrings_and_layout_do_not_count() -> None:
    assert plain_code(SOURCE) == plain_code("def double(x: int) -> int:\n    'Two times.'\n    return (2 * x)")


@pytest.mark.parametrize(("old", "new"), [("2 *", "3 *"), ("double", "twice"), ("x: int", "x: float")])
def test_code_counts(old: str, new: str) -> None:
    assert plain_code(SOURCE) != plain_code(SOURCE.replace(old, new))


def test_every_room_and_setting_counts() -> None:
    assert len({code_digest(room) for room in ROOMS}) == len(ROOMS)
    settings = [("a", "t", 0, 0), ("b", "t", 0, 0), ("a", "u", 0, 0), ("a", "t", 5, 0), ("a", "t", 0, 5)]
    assert len({fingerprint_of(*given) for given in settings}) == len(settings)
