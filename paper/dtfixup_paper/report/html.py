"""A page of the report: Markdown → HTML that needs no other file, with style and pictures in it.

The page lets its browser load nothing and run no script.
"""

from base64 import b64encode
from importlib.resources import files
from pathlib import Path
from string import Template

from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
_PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
$style</style>
</head>
<body>
$body</body>
</html>
""")


def html_of(title: str, markdown: str, folder: Path) -> str:
    """The whole page; pictures are read from the folder."""
    tokens = _MARKDOWN.parse(markdown)
    for part in (part for token in tokens for part in token.children or ()):
        if part.type == "image" and (path := folder / str(part.attrs["src"])).suffix == ".svg":
            part.attrs["src"] = f"data:image/svg+xml;base64,{b64encode(path.read_bytes()).decode()}"
    body = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    style = (files("dtfixup_paper.report") / "report.css").read_text(encoding="utf-8")
    return _PAGE.substitute(title=title, style=style, body=body)
