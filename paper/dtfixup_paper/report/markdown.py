"""Parts of the report as Markdown: tables, pictures, commands, and whole sections.

Text from files goes through `escape`, so that it is shown and never read as Markdown or HTML.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtfixup_paper.tables.result_files import ResultFile, shortly

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = "figures"
"""Folder of the pictures, beside the Markdown file."""


@dataclass(frozen=True)
class Entry:
    """One of our results in a table."""

    text: str
    note: str = ""
    """Below the text: seeds and epochs."""
    warning: str = ""
    """Below the note, marked: failed runs."""
    is_bold: bool = True

    def __str__(self) -> str:
        text, note, warning = map(escape, (self.text, self.note, self.warning))
        bold = f"**{text}**" if text and self.is_bold else text
        return "<br>".join(filter(None, (bold, note, warning and f"*{warning}*")))


@dataclass(frozen=True)
class Picture:
    """A figure, and what it shows in words."""

    name: str
    """Of its file, without suffix."""
    figure: "Figure"
    label: str
    caption: str

    def __str__(self) -> str:
        return f"![{escape(self.label)}]({FIGURES}/{self.name}.svg)\n\n{escape(self.caption)}"


Block = str | Picture
"""A picture, or a paragraph, table or the like as Markdown."""


@dataclass(frozen=True)
class Section:
    """One experiment, or one kind of measurement."""

    name: str
    """The target of links."""
    title: str
    reference: str
    """The table or figure of the paper; "ours" where there is none."""
    blocks: Sequence[Block]
    there: int = 0
    planned: int = 0
    """Training runs; 0 where there is nothing to train."""

    def __str__(self) -> str:
        heading = f'## <a id="{self.name}"></a>{escape(self.title)} ({escape(self.reference)})'
        missing = f"{self.there} of {self.planned} runs are there." if self.there < self.planned else ""
        return "\n\n".join(filter(None, (heading, missing, *map(str, self.blocks))))

    @property
    def link(self) -> str:
        """A line of the contents."""
        runs = f", {self.there} of {self.planned} runs" if self.planned else ""
        return f"- [{escape(self.title)}](#{self.name}): {escape(self.reference)}{runs}"


def table(headings: Sequence[str], rows: Sequence[Sequence[Entry | str]], caption: str = "", *, words: int = 1) -> str:
    """A table and its caption; the first `words` columns hold words, the others numbers."""
    if widths := {len(row) for row in rows} - {len(headings)}:
        raise ValueError(f"a table of {len(headings)} headings has rows of {sorted(widths)} entries")
    lines = [
        [escape(heading) for heading in headings],
        ["---" if column < words else "---:" for column in range(len(headings))],
        *([str(entry) if isinstance(entry, Entry) else escape(entry) for entry in row] for row in rows),
    ]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{text}\n\n{escape(caption)}" if caption else text


def command(line: str) -> str:
    """A command, as a block of code."""
    ticks = _ticks(line, 3)
    return f"{ticks}sh\n{line}\n{ticks}"


def files_block(files: Sequence[ResultFile]) -> str:
    """The files that the numbers above it are from; nothing without files."""
    count = f"{len(files)} result file{'s' * (len(files) != 1)}"
    return f"<details><summary>{count}</summary>\n\n{escape(shortly(files))}\n\n</details>" if files else ""


def code(text: str) -> str:
    """Code within a line.

    >>> code("SELECT 1"), code("SELECT `a`")
    ('`SELECT 1`', '`` SELECT `a` ``')
    """
    text = " ".join(text.split())
    if not text:
        return ""
    space = " " if "`" in text else ""
    return f"{_ticks(text)}{space}{text}{space}{_ticks(text)}"


def _ticks(text: str, at_least: int = 1) -> str:
    """More backticks than are in a row in a text."""
    return "`" * max(at_least, 1 + max(map(len, re.findall("`+", text)), default=0))


def escape(text: str) -> str:
    r"""A text that is neither HTML nor Markdown.

    >>> escape("<b> of *all*")
    '&lt;b&gt; of \\*all\\*'
    """
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", html.escape(" ".join(text.split()), quote=False))
