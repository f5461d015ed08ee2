"""Hooks of mkdocs: documents outside docs/ are pages, links work here as in the repository, formulas are MathML.

In: Markdown as the repository shows it. Out: the site's pages. mkdocs itself checks every link and anchor.
"""

import posixpath
import re
from html import unescape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "paper/README.md": "paper.md",
}
"""Documents outside docs/, and the pages of the site that they are."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents that are not in docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Make the links of a page those of the site."""
    uri = page.file.src_uri
    return site_links(markdown, next((source for source, made in PAGES.items() if made == uri), f"docs/{uri}"))


def on_page_content(html: str, **_: Any) -> str:
    """Write formulas as MathML, which browsers draw by themselves."""
    from latex2mathml.converter import convert

    def mathml(match: re.Match[str]) -> str:
        return convert(unescape(match[3]), display="inline" if match[2] == "(" else "block")

    return _FORMULA.sub(mathml, html)


def site_links(markdown: str, source: str) -> str:
    """Markdown of a document with its links as the site has them; a file that is not on the site is named only.

    >>> site_links("[a](docs/start/ask.md#python), [b](LICENSE)", "README.md")
    '[a](start/ask.md#python), b'
    >>> site_links("[a](../../CHANGELOG.md), [b](ask.md)", "docs/start/serve.md")
    '[a](../changelog.md), [b](ask.md)'
    """
    here = posixpath.dirname(PAGES.get(source, source.removeprefix("docs/")))

    def link(match: re.Match[str]) -> str:
        picture, text, target, anchor = match.groups(default="")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if target not in PAGES and not target.startswith("docs/"):
            return text
        page = PAGES.get(target, target.removeprefix("docs/"))
        return f"{picture}[{text}]({posixpath.relpath(page, here or '.')}{anchor})"

    return _LINK.sub(link, markdown)
