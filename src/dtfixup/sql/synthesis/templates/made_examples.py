"""Examples that nobody wrote, whatever words they are made of: what `phrases` and `synthesis` share.

In: a task for each database of a split. Out: what comes of each, in this process or in workers; and a file of examples.
"""

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from rich.progress import track

from dtfixup.errors import ConfigError, DataError
from dtfixup.files import write_json
from dtfixup.sql.database.dataset import Example
from dtfixup.sql.execution.workers import Lost, run_supervised
from dtfixup.sql.language.words import split_words

_DEADLINE = 1200.0

Task = TypeVar("Task")
Result = TypeVar("Result")


def plain_question(question: str) -> str:
    """A question by its words alone.

    >>> plain_question("How many dogs, all in all?")
    'how many dogs all in all'
    """
    return " ".join(word.text.lower() for word in split_words(question) if not word.is_mark)


def share_of(count: int, databases: int, spare: float) -> int:
    """How many examples each database makes: `spare` times its part, and one."""
    if count < 1:
        raise ConfigError(f"count must be at least 1, got {count}")
    return round(spare * count / max(databases, 1)) + 1


def make_each(
    make: Callable[[Task], Result],
    tasks: Mapping[str, Task],
    description: str,
    *,
    workers: int | None,
    show_progress: bool,
) -> list[Result]:
    """What is made over each database, in the order of the tasks.

    Args:
        make: importable by name, or a partial of what is; it goes to each worker once, so all that tasks share is best
            bound to it.
        tasks: by the name of their database.
        description: what the progress bar says.
        workers: as many as there are cores by default.
        show_progress: whether there is a bar.
    """
    names, given = list(tasks), list(tasks.values())
    workers = min(workers or os.cpu_count() or 1, len(given))
    results: Iterator[tuple[int, Result | Lost]] = (
        run_supervised(make, given, workers=workers, deadline=_DEADLINE) if workers > 1 else enumerate(map(make, given))
    )
    found: dict[int, Result] = {}
    for place, made in track(results, description, total=len(given), disable=not show_progress, transient=True):
        if isinstance(made, Lost):
            raise DataError(f"questions over {names[place]}: {made.reason}; if memory is short, try fewer workers")
        found[place] = made
    return [found[place] for place in range(len(given))]


def draw(made: list[Result], count: int, chance: random.Random, refusal: str) -> list[Result]:
    """So many of what was made, in any order."""
    if len(made) < count:
        raise DataError(f"{refusal}; ask for no more than that")
    chance.shuffle(made)
    return made[:count]


def write_made(path: str | Path, made: Iterable[tuple[Example, Mapping[str, object]]]) -> Path:
    """Write examples in the form of a split, which `Dataset.split` reads, each with what else is known of it."""
    rows = [
        {"db_id": example.database, "question": example.question, "query": example.query, **known}
        for example, known in made
    ]
    return write_json(path, rows)
