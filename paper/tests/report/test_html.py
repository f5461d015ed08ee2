"""Pages need no other file, and nothing on them can act."""

from pathlib import Path

from dtfixup_paper.report.html import html_of

from paper.tests.report_pages import Reader


def test_style_and_pictures_are_in_the_page(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "a.svg").write_text("<svg/>")
    page = html_of("A title", "# A\n\n![a line](figures/a.svg)\n\n| a | b |\n|---|---:|\n| 1 | 2 |\n", tmp_path)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert '<img src="data:image/svg+xml;base64,PHN2Zy8+" alt="a line"' in page
    assert "<title>A title</title>" in page
    assert '<td style="text-align:right">2</td>' in page
    assert "@import" not in page
    assert "url(" not in page
    assert Reader(page).actions == []
