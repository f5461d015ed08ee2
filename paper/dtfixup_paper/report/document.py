"""The report before it is written down: sections of tables, pictures, commands and text, for HTML and for Markdown.

All strings here are plain text and escaped by whoever writes them down, but for `Prose`, which is Markdown of our own,
and `Picture.svg`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an entry of a table is."""

    LABEL = "label"
    OURS = "ours"
    PAPER = "paper"
    """As the paper prints it."""
    MISSING = "missing"
    """There is no result yet."""


@dataclass(frozen=True)
class Entry:
    """One place of a table."""

    text: str
    kind: Kind = Kind.OURS
    note: str = ""
    """Small, below: seeds and epochs."""
    warning: str = ""
    """Small, below, to be seen: failed runs."""


@dataclass(frozen=True)
class Table:
    """Rows of entries under headings."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    caption: str = ""
    groups: tuple[tuple[str, int], ...] = ()
    """A row above the headings: texts, and over how many headings each stands."""
    is_reference: bool = False
    """The paper's alone, and nothing of ours beside it."""

    @property
    def text_columns(self) -> tuple[bool, ...]:
        """Which columns hold words and no numbers."""
        return tuple(all(row[place].kind is Kind.LABEL for row in self.rows) for place in range(len(self.headings)))

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.rows} | {sum(span for _, span in self.groups)} - {0}
        if widths - {len(self.headings)}:
            raise ValueError(f"a table of {len(self.headings)} headings has rows of {sorted(widths)} entries")


@dataclass(frozen=True)
class Picture:
    """A vector graphic."""

    name: str
    """Of its file, without suffix."""
    svg: str
    """An <svg> element, with colours as hexadecimal numbers."""
    label: str
    """For those who do not see it."""
    caption: str = ""


@dataclass(frozen=True)
class Command:
    """What makes the numbers above it."""

    line: str


@dataclass(frozen=True)
class Prose:
    """Markdown of our own; HTML in it is shown as text."""

    markdown: str


@dataclass(frozen=True)
class Note:
    """A plain sentence or two, small."""

    text: str


@dataclass(frozen=True)
class Files:
    """Names of the result files that the numbers above are from."""

    count: int
    names: str


@dataclass(frozen=True)
class Example:
    """A question that a model got wrong."""

    model: str
    category: str
    hardness: str
    database: str
    question: str
    gold: str
    predicted: str


@dataclass(frozen=True)
class Browser:
    """Examples to look through: in HTML with filters, in Markdown not at all."""

    examples: tuple[Example, ...]

    def choices(self, field: str) -> list[str]:
        """Values of a field, each once, in the order they come."""
        return list(dict.fromkeys(getattr(example, field) for example in self.examples))


Block = Table | Picture | Command | Prose | Note | Files | Browser


@dataclass(frozen=True)
class Section:
    """One experiment, or one kind of measurement."""

    name: str
    """An identifier, for links."""
    title: str
    reference: str
    """Where it stands in the paper; "ours" where it does not."""
    blocks: tuple[Block, ...]
    there: int = 0
    planned: int = 0
    """Training runs; 0 where there is nothing to train."""


@dataclass(frozen=True)
class Report:
    """The whole page."""

    title: str
    lead: str
    """Markdown: what this is, in a few sentences."""
    there: int
    planned: int
    sections: tuple[Section, ...]
    origin: str
    """Of the files it was made from."""


def labels(texts: Sequence[str]) -> list[Entry]:
    """Entries that say what their row is."""
    return [Entry(text, Kind.LABEL) for text in texts]
