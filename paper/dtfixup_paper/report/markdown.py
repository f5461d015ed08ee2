"""The report as Markdown, with its pictures as files beside it."""

import html
import re
from collections.abc import Sequence

from dtfixup_paper.report.document import (
    Block,
    Browser,
    Command,
    Entry,
    Files,
    Kind,
    Note,
    Picture,
    Prose,
    Report,
    Table,
)

FIGURES = "figures"
"""Folder of the pictures, beside the Markdown file."""


def markdown_of(report: Report) -> str:
    """The whole report."""
    parts = [f"# {_plain(report.title)}", report.lead.strip(), f"{report.there} of {report.planned} runs are there."]
    for section in report.sections:
        parts.append(f"## {_plain(section.title)} ({_plain(section.reference)})")
        if section.planned:
            parts.append(f"{section.there} of {section.planned} runs are there.")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join([*parts, _plain(report.origin)]) + "\n"


def _block(block: Block) -> str:
    match block:
        case Table():
            return _table(block)
        case Picture():
            picture = f"![{_plain(block.label)}]({FIGURES}/{block.name}.svg)"
            return f"{picture}\n\n{_plain(block.caption)}" if block.caption else picture
        case Command():
            fence = "`" * max(3, 1 + max((len(ticks) for ticks in re.findall("`+", block.line)), default=0))
            return f"{fence}sh\n{block.line}\n{fence}"
        case Prose():
            return block.markdown.strip()
        case Note():
            return _plain(block.text)
        case Files():
            return f"Files: {_plain(block.names)}."
        case Browser():
            return f"{len(block.examples)} examples to look through are in the HTML page."


def _table(table: Table) -> str:
    headings: Sequence[str] = table.headings
    if table.groups:
        over = [text for text, span in table.groups for _ in range(span)]
        headings = [", ".join(part for part in pair if part) for pair in zip(over, headings, strict=True)]
    lines = [
        [_plain(heading) for heading in headings],
        ["---" if is_text else "---:" for is_text in table.text_columns],
        *([_entry(entry) for entry in row] for row in table.rows),
    ]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{text}\n\n{_plain(table.caption)}" if table.caption else text


def _entry(entry: Entry) -> str:
    text = _plain(entry.text)
    if entry.kind is Kind.OURS and text:
        text = f"**{text}**"
    details = [_plain(entry.note), f"**{_plain(entry.warning)}**" if entry.warning else ""]
    return "<br>".join(part for part in [text, *details] if part)


def _plain(text: str) -> str:
    """Text that neither HTML nor Markdown takes for its own."""
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", html.escape(" ".join(text.split()), quote=False))
