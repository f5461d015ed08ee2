"""Text to SQL: ask a database in English.

>>> from dtfixup.sql import TextToSql, open_database, run_query
>>> asker, shop = TextToSql.load(), open_database("shop.sqlite")  # doctest: +SKIP
>>> answer = asker.ask("Which pets are older than 3?", shop)  # doctest: +SKIP
>>> run_query(shop, answer.sql).rows  # doctest: +SKIP
[('Rex',)]
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dtfixup.errors import needs_extra

if TYPE_CHECKING:
    from dtfixup.sql.ask.answers import Answer
    from dtfixup.sql.ask.opened import open_database
    from dtfixup.sql.ask.parser import TextToSql
    from dtfixup.sql.execution.run import run_query

__all__ = ["Answer", "TextToSql", "open_database", "run_query"]
_MODULES = {
    "Answer": "ask.answers",
    "TextToSql": "ask.parser",
    "open_database": "ask.opened",
    "run_query": "execution.run",
}


def __getattr__(name: str) -> Any:
    """Import a module when one of its names is first used: a schema can be read without torch."""
    if name == "SqlParser":
        warnings.warn("SqlParser is called TextToSql now", DeprecationWarning, stacklevel=2)
        name = "TextToSql"
    if name in _MODULES:
        with needs_extra("sql", "text to SQL"):
            return getattr(import_module(f"dtfixup.sql.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'dtfixup.sql' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
