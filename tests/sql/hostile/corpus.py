"""Reads the hostile statements beside it; README.md there gives their form."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_HEADER = re.compile(r"-- \[([a-z-]+)( unproven)?\] (.+)")
_REPEATED = re.compile(r"\{dots:(\d+):([^}]+)\}")


class Fate(StrEnum):
    """What must become of a statement."""

    REFUSED = "refused"
    DEADLINE = "deadline"
    SIZE = "size"
    LIMIT = "limit"
    ERROR = "error"
    UNDONE = "undone"
    ROLE = "role"
    ROLE_NULL = "role-null"

    @property
    def needs_role(self) -> bool:
        return self in (Fate.ROLE, Fate.ROLE_NULL)


@dataclass(frozen=True)
class Hostile:
    """A statement, and whether it can be run without a guard to show that it is real."""

    title: str
    fate: Fate
    proven: bool
    text: str

    def sql(self, folder: Path) -> str:
        text = self.text.replace("{folder}", str(folder))
        return _REPEATED.sub(lambda match: match[2] * int(match[1]), text)


def read_corpus(kind: str) -> list[Hostile]:
    """The statements against one kind of database."""
    found = []
    for block in (Path(__file__).parent / f"{kind}.sql").read_text(encoding="utf-8").strip().split("\n\n"):
        header, text = block.split("\n", 1)
        match = _HEADER.fullmatch(header)
        assert match, f"{kind}.sql: expected a header, got {header!r}"
        found.append(Hostile(match[3], Fate(match[1]), match[2] is None, text))
    return found
