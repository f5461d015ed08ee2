"""What is said where a request cannot be answered.

In: an error. Out: `Refusal`: a status for programs, a message, and what to do about it, in one shape for the API, the
page and whatever the doorkeeper turns away. Places of this machine are nobody's business: `told` takes them out, and
what a driver says of a server, which names its host, goes to the log.
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


def refusal_of(error: DtFixupError, places: Mapping[str, str] | None = None) -> Refusal:
    """The refusal that an error stands for; `places` are paths with what to call them instead."""
    for kind, status, code, advice in _KINDS:
        if isinstance(error, kind):
            headers = {"Retry-After": "2"} if status in (429, 503) else {}
            return Refusal(status, code, told(str(error), places or {}), advice, headers)
    return Refusal(500, "error", told(str(error), places or {}), "Tell whoever runs this server.")


def told(message: str, places: Mapping[str, str]) -> str:
    """A message without the places of this machine, the longest first: one may begin with another.

    Of a server's database that cannot be reached, opened or listed the reason is left out, and logged.

    >>> told("/data/shop.db is locked", {"/data": "…", "/data/shop.db": "shop"})
    'shop is locked'
    """
    for place in sorted(places, key=len, reverse=True):
        failure = re.match(f".*{re.escape(place)} cannot be [^:]+(?=:)", message)
        if "://" in place and failure is not None:
            _log.warning("%s", message)
            message = f"{failure[0]}; whoever runs this server finds the reason in its log"
        message = message.replace(place, places[place])
    return message


def sentence_of(refusal: Refusal) -> str:
    """Message and advice for a person."""
    end = "" if refusal.message.endswith((".", "!", "?", "…")) else "."
    return f"{refusal.message[:1].upper()}{refusal.message[1:]}{end} {refusal.advice}"
