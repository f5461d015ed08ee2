"""Made-up examples of either kind: what phrases and templates share.

In: examples of each database of a split. Out: some of them, and a file.
"""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from dtfixup.errors import ConfigError, DataError
from dtfixup.files import write_json
from dtfixup.sql.database.dataset import Example
from dtfixup.sql.language.words import split_words

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
