"""Reports of made-up results, and their pages read back."""

from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from dtfixup_paper.report.page import build_report
from dtfixup_paper.tables.cells import Experiment

from paper.tests.made_up_results import cell, experiment, sql_config

NO_END = {"meta", "input", "progress", "br", "col", "hr", "img", "link"} - {"progress"}


class Page(HTMLParser):
    """Text by element, identifiers, and whether all that opens is closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.identifiers: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.scripts: list[str] = []
        self.rows: list[list[str]] = []
        self.section = ""
        self.sections: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in NO_END:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.identifiers.append(str(value))
                self.section = str(value) if tag == "section" else self.section
            if name in ("src", "href", "xlink:href", "action"):
                self.addresses.append(str(value))
            if name.startswith("on"):
                self.handlers.append(name)
        if tag == "script":
            self.scripts.append("")
        if tag == "tr":
            self.rows.append([])
            self.sections.append(self.section)
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in NO_END:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += ("|" if self.open[-1] == "small" else "") + data.replace("\u00a0", " ").strip()

    def row(self, section: str, label: str) -> list[str]:
        """The entries after a label, "number|note|warning"."""
        rows = [row for row, own in zip(self.rows, self.sections, strict=True) if own == section]
        (found,) = (row[1:] for row in rows if row[0] == label)
        return found


def build(folder: Path, experiments: Sequence[Experiment], **options: Any) -> tuple[Page, str]:
    results = folder / "results"
    results.mkdir(exist_ok=True)
    named = {each.name: each for each in experiments}
    page, text = build_report(results, folder / "report", experiments=named, **options)
    found = Page(page.read_text(encoding="utf-8"))
    assert found.open == [], "all that opens is closed"
    assert len(set(found.identifiers)) == len(found.identifiers)
    return found, text.read_text(encoding="utf-8")


def depth_cells(strategies: Mapping[str, str] = {"standard": "19.37 ± 0.16", "dt-fixup": "73.79 ± 0.49"}) -> Experiment:
    cells = [cell(sql_config(name, 24), paper=number) for name, number in strategies.items()]
    return experiment("spider-depth", cells, remark="A remark.")
