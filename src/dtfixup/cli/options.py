"""What several verbs share: where a database is, how a command is recorded, how a run ends."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from dtfixup.errors import ConfigError
from dtfixup.files import read_json, write_json

if TYPE_CHECKING:
    from dtfixup.sql.database.location import Location

POOL = 40_000
"""Made-up examples that epochs choose from."""
STOPPED = 130
"""Exit code of a command that was stopped, as a shell has it after Ctrl-C."""
_TAKEN = "a SQLite file, a URL such as postgresql://user@host/name, or a bundled database such as sample:river_ferry"
_TABLE_FILES = (".csv", ".tsv", ".xlsx", ".xls", ".parquet", ".duckdb")
_MASKED = {
    "--config": "FILE",
    "--data": "DIR",
    "--encoder": "ENCODER",
    "--model": "DIR",
    "--out": "DIR",
    "--reclor": "DIR",
    "--result": "FILE",
    "--save": "FILE",
    "--settings": "FILE",
    "--work": "DIR",
}


def names_database(word: str) -> bool:
    """Whether a word is a database and not a question.

    >>> [names_database(word) for word in ("sample:clinic", "mysql://me@host/shop", "shop.sqlite", "How many?")]
    [True, True, True, False]
    """
    is_path = Path(word).is_file() or (not any(map(str.isspace, word)) and len(Path(word).suffix) > 1)
    return word.startswith("sample:") or "://" in word or is_path


def question_and_database(words: tuple[str | None, str | None], database: str | None) -> tuple[str | None, str]:
    """The question, if there is one, and the database; the question comes first, but either order is clear.

    >>> question_and_database(("How many piers?", "sample:river_ferry"), None)
    ('How many piers?', 'sample:river_ferry')
    >>> question_and_database(("shop.sqlite", None), None)
    (None, 'shop.sqlite')
    """
    question, target = words
    if database is not None:
        if target is not None:
            raise ConfigError("give the database once, and a question of several words in quotes")
        return question, database
    if target is None and question is not None and names_database(question):
        return None, question
    if target is not None and question is not None and names_database(question) and not names_database(target):
        return target, question
    if target is None:
        raise ConfigError(f"name a database after the question: {_TAKEN}")
    return question, target


def locate(database: str) -> "Location":
    """Where a database is, as it is typed; files of other kinds get the way to a SQLite file."""
    from dtfixup.sql.database.location import Location

    path = Path(database)
    kind = path.suffix.lower()
    if kind in _TABLE_FILES and "://" not in database:
        first = "" if kind == ".csv" else "save it as CSV, then "
        raise ConfigError(
            f"{database}: {kind} files are not read; a database is {_TAKEN}. To make one: {first}"
            f'sqlite3 {path.stem}.sqlite ".import --csv {path.with_suffix(".csv")} {path.stem}"'
        )
    return Location.of(database)


def this_command() -> str:
    """The command as a result file keeps it."""
    return "dtfixup " + shlex.join(without_paths(sys.argv[1:]))


def without_paths(arguments: list[str]) -> list[str]:
    """The arguments with local paths masked, so that result files can be published.

    >>> without_paths(["sql", "train", "--data", "/home/me/spider", "--seed=2", "--out=/tmp/run"])
    ['sql', 'train', '--data', 'DIR', '--seed=2', '--out=DIR']
    """
    masked = list(arguments)
    for position, argument in enumerate(arguments):
        option, has_value, _ = argument.partition("=")
        if option in _MASKED and has_value:
            masked[position] = f"{option}={_MASKED[option]}"
        elif option in _MASKED and position + 1 < len(arguments):
            masked[position + 1] = _MASKED[option]
    return masked


def exit_if_stopped(was_stopped: bool) -> None:
    """End the command as Ctrl-C ends others: a script must not take a stopped run for a finished one."""
    if was_stopped:
        sys.exit(STOPPED)


def show_result(metrics: Mapping[str, float], folder: Path, copy: Path | None) -> None:
    """Print the metrics of a finished run and where its files are; `copy` gets the result file too."""
    from dtfixup.provenance import RESULT

    console = Console()
    for name, value in metrics.items():
        console.print(f"{name:32} {value:g}")
    if copy is not None:
        write_json(copy, read_json(folder / RESULT))
    console.print(f"weights: {folder / 'last.safetensors'}, result: {copy or folder / RESULT}")
