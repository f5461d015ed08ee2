"""Reports of made-up results, and their Markdown read back."""

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dtfixup_paper.report.page import build_report
from dtfixup_paper.tables.cells import Experiment

from paper.tests.made_up_results import cell, experiment, sql_config


class Page:
    """The tables of a report, by section; an entry is "number|note|warning"."""

    def __init__(self, markdown: str) -> None:
        _, *sections = re.split(r'^## <a id="([^"]+)"></a>', markdown, flags=re.MULTILINE)
        self.texts = dict(zip(sections[::2], sections[1::2], strict=True))
        self.tables = {name: rows_of(text) for name, text in self.texts.items()}
        self.rows = [row for rows in self.tables.values() for row in rows]

    def row(self, section: str, label: str) -> list[str]:
        """The entries after a label."""
        (entries,) = (row[1:] for row in self.tables[section] if row[0] == label)
        return entries


def rows_of(markdown: str) -> list[list[str]]:
    """The rows of all tables."""
    lines = (line for line in markdown.splitlines() if line.startswith("| "))
    return [[_plain(entry) for entry in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if "---" not in line]


def _plain(entry: str) -> str:
    parts = [re.sub(r"^(\*+)(.*)\1$", r"\2", part) for part in entry.strip().split("<br>")]
    return "|".join(html.unescape(re.sub(r"\\(.)", r"\1", part)) for part in parts)


def build(folder: Path, experiments: Sequence[Experiment], **options: Any) -> tuple[Page, str]:
    results = folder / "results"
    results.mkdir(exist_ok=True)
    named = {each.name: each for each in experiments}
    _, text = build_report(results, folder / "report", experiments=named, **options)
    markdown = text.read_text(encoding="utf-8")
    return Page(markdown), markdown


def depth_cells(strategies: Mapping[str, str] = {"standard": "19.37 ± 0.16", "dt-fixup": "73.79 ± 0.49"}) -> Experiment:
    cells = [cell(sql_config(name, 24), paper=number) for name, number in strategies.items()]
    return experiment("spider-depth", cells, remark="A remark.")
