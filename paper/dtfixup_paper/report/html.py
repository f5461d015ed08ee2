"""The report as one HTML page that needs nothing else: style, pictures and the one script are in it.

Jinja escapes all text. The page forbids its browser to load anything or to run any script but its own, whose hash it
names, so that a text that slipped through would still do nothing.
"""

import base64
import hashlib
import re
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from dtfixup_paper.report import document as report_document
from dtfixup_paper.report.document import Block, Picture, Report
from dtfixup_paper.report.figures import themed

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def html_of(report: Report) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("dtfixup_paper.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": _prose, "tight": _tight, "drawn": _drawn}
    environment.tests["a"] = _is_a
    style, script = (_own_file(f"report.{suffix}") for suffix in ("css", "js"))
    script = f"\n{script}"  # the hash is of all that stands between the tags
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("report.html.jinja")
    return page.render(report=report, style=Markup(style), script=Markup(script), digest=digest)


def _own_file(name: str) -> str:
    return (files("dtfixup_paper.report") / name).read_text(encoding="utf-8")


def _prose(markdown: str) -> Markup:
    return Markup(_MARKDOWN.render(markdown))


def _tight(text: str) -> str:
    """What belongs together stays on one line.

    >>> _tight("70.1 ± 0.3, N = 24, 3 seeds · 16 epochs").replace("\\xa0", "~")
    '70.1 ±~0.3, N~=~24, 3~seeds · 16~epochs'
    """
    return re.sub(r"(?<=±) | (?=[=])|(?<==) |(?<=\d) (?=[a-z])", "\u00a0", text)


def _drawn(picture: Picture) -> Markup:
    return Markup(themed(picture.svg, picture.label))


def _is_a(block: Block, kind: str) -> bool:
    return isinstance(block, getattr(report_document, kind))
