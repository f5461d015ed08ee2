"""What is made over each database comes in order, or says which one it was. Tasks are Python text for `eval`."""

import pytest

from dtfixup.errors import DataError
from dtfixup.sql.synthesis.templates.made_examples import make_each, share_of


@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_the_order_of_the_tasks(workers: int) -> None:
    tasks = {"slow": "__import__('time').sleep(0.5) or 'first'", "fast": "'second'"}
    assert make_each(eval, tasks, "", workers=workers, show_progress=False) == ["first", "second"]
    assert make_each(eval, {}, "", workers=workers, show_progress=False) == []


def test_a_database_that_ends_its_worker_is_named() -> None:
    tasks = {"good": "1", "bad": "__import__('os')._exit(3)"}
    with pytest.raises(DataError, match=r"questions over bad: .* exit code 3; if memory is short, try fewer workers"):
        make_each(eval, tasks, "", workers=2, show_progress=False)


def test_a_share_is_more_than_a_part() -> None:
    assert share_of(100, 10, 1.5) == 16
    assert share_of(100, 0, 1.5) > 100, "an empty split is refused when nothing comes of it"
