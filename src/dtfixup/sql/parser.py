"""Deprecated: use `dtfixup.sql` and `dtfixup.sql.ask`; `SqlParser` is `TextToSql`."""

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    import dtfixup.sql.ask.parser as ask

    current = {"SqlParser": "TextToSql"}.get(name, name)
    if not hasattr(ask, current):
        raise AttributeError(f"module 'dtfixup.sql.parser' has no attribute {name!r}")
    message = (
        "dtfixup.sql.parser is dtfixup.sql now, and SqlParser is TextToSql: change the import before the next release"
    )
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(ask, current)
