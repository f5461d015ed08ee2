"""Refusals: what a visitor reads where a request cannot be answered.

In: an error. Out: `Refusal`: a status for programs, a message, and what to do about it, in one shape for the API, the
page and access control. Paths and addresses of this machine are masked; the reasons of a database server, which name
its host, go to the log.
"""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dtfixup.errors import (
    BusyError,
    ClosingError,
    ConfigError,
    DataError,
    DeadlineError,
    DtFixupError,
    GuardError,
    LateError,
    RefusedError,
    SchemaError,
    TooMuchDataError,
    UnknownDatabaseError,
    UploadError,
)

_log = logging.getLogger("dtfixup")
_KINDS: tuple[tuple[type[DtFixupError], int, str, str], ...] = (
    (BusyError, 429, "busy", "Try again in a few seconds."),
    (ClosingError, 503, "closing", "Ask again when the server is back."),
    (LateError, 504, "late", "Ask something simpler, or start the server with a longer --deadline."),
    (UnknownDatabaseError, 404, "unknown_database", "Choose one of those that /api/v1/databases lists."),
    (UploadError, 409, "upload", "Upload a SQLite database file that is whole and not too large."),
    (DeadlineError, 504, "query_late", "Add a condition or a LIMIT, so that the query reads less."),
    (TooMuchDataError, 409, "too_much_data", "Ask for fewer or shorter columns, or add a LIMIT."),
    (RefusedError, 403, "refused", "Write one plain SELECT: the database is read and never changed."),
    (GuardError, 409, "query_failed", "Correct the query, or check that the database can be read."),
    (SchemaError, 503, "database", "Check that the database is in its place and whole, and try again."),
    (DataError, 409, "question", "Ask in one English sentence about what the database holds."),
    (ConfigError, 409, "setting", "Use a value within the limits."),
)
"""Status, code and advice of each kind of error; the first that fits. 422 is left to requests that OpenAPI does not
describe: 409 says that a request was understood, and that the database or the model cannot do it."""


@dataclass(frozen=True)
class Refusal:
    """Why a request was not answered."""

    status: int
    code: str
    message: str
    advice: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> dict[str, str]:
        """The body of the answer."""
        return {"code": self.code, "message": self.message, "advice": self.advice}

    def body(self) -> bytes:
        return json.dumps(self.content()).encode()


def refusal_of(error: DtFixupError, masks: Mapping[str, str] | None = None) -> Refusal:
    """The refusal for an error; `masks` are paths and URLs with what to show instead."""
    message = mask_paths(str(error), masks or {})
    for kind, status, code, advice in _KINDS:
        if isinstance(error, kind):
            headers = {"Retry-After": "2"} if status in (429, 503) else {}
            return Refusal(status, code, message, advice, headers)
    return Refusal(500, "error", message, "Tell whoever runs this server.")


def mask_paths(message: str, masks: Mapping[str, str]) -> str:
    """The message with paths and URLs masked, the longest first: one may begin with another.

    The reason why a database server cannot be reached, opened or listed is left out, and logged.

    >>> mask_paths("/data/shop.db is locked", {"/data": "…", "/data/shop.db": "shop"})
    'shop is locked'
    """
    for path in sorted(masks, key=len, reverse=True):
        failure = re.match(f".*{re.escape(path)} cannot be [^:]+(?=:)", message)
        if "://" in path and failure is not None:
            _log.warning("%s", message)
            message = f"{failure[0]}; whoever runs this server finds the reason in its log"
        message = message.replace(path, masks[path])
    return message


def sentence_of(refusal: Refusal) -> str:
    """Message and advice for a person."""
    end = "" if refusal.message.endswith((".", "!", "?", "…")) else "."
    return f"{refusal.message[:1].upper()}{refusal.message[1:]}{end} {refusal.advice}"
