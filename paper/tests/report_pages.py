"""Reports of made-up results, and their tables and pages read back."""

import html
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from dtfixup_paper.report.page import build_report
from dtfixup_paper.tables.cells import Experiment

from paper.tests.made_up_results import cell, experiment, sql_config


def rows_of(markdown: object) -> dict[str, list[str]]:
    """The rows of all tables by their first entry; an entry is "number|note|warning"."""
    lines = (line for line in str(markdown).splitlines() if line.startswith("| ") and "---" not in line)
    rows = ([_plain(entry) for entry in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    return {first: rest for first, *rest in rows}


def _plain(entry: str) -> str:
    parts = [re.sub(r"^(\*+)(.*)\1$", r"\2", part) for part in entry.strip().split("<br>")]
    return "|".join(html.unescape(re.sub(r"\\(.)", r"\1", part)) for part in parts)


def build(folder: Path, experiments: Sequence[Experiment], **options: Any) -> str:
    """The Markdown of a report on `folder/results`, in `folder/report`."""
    results = folder / "results"
    results.mkdir(exist_ok=True)
    named = {experiment.name: experiment for experiment in experiments}
    _, markdown = build_report(results, folder / "report", experiments=named, **options)
    return markdown.read_text(encoding="utf-8")


def depth_experiment() -> Experiment:
    """Standard layers beside DT-Fixup at N = 24."""
    papers = {"standard": "19.37 ± 0.16", "dt-fixup": "73.79 ± 0.49"}
    cells = [cell(sql_config(name, 24), paper=number) for name, number in papers.items()]
    return experiment("spider-depth", cells, remark="A remark.")


class Reader(HTMLParser):
    """What a page could do and where its links lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.actions: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: str(value) for name, value in attributes}
        self.actions += [tag for bad in ("script", "iframe", "form", "object", "link") if tag == bad]
        self.actions += [name for name in values if name.startswith("on")]
        self.actions += [values["src"]] if not values.get("src", "data:").startswith("data:") else []
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if "href" in values else []
