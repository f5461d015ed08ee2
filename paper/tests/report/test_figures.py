"""Figures as SVG files: letters stay letters, the same values give the same bytes, and every kind draws its values."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from dtfixup_paper.report.figures import STYLE, Bar, DepthLine, bars_figure, depth_figure, shares_figure, write_svg
from matplotlib.figure import Figure

SVG = "{http://www.w3.org/2000/svg}"
LINES = [DepthLine("standard", {2: [60.0, 62.0], 8: [20.0]}), DepthLine("dt-fixup", {2: [63.0], 8: [65.0]})]


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with mpl.rc_context(STYLE):
        yield


def depths(lines: list[DepthLine] = LINES) -> Figure:
    paper = [DepthLine("dt-fixup", {2: [70.73], 32: [73.02]})]
    return depth_figure(lines, ylabel="exact match <%>", paper=paper)


def texts(figure: Figure, folder: Path) -> list[str]:
    svg = write_svg(figure, folder / "figure.svg").read_text(encoding="utf-8")
    return ["".join(part.itertext()) for part in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_letters_stay_letters_and_the_papers_depths_are_on_the_axis(tmp_path: Path) -> None:
    assert {"exact match <%>", "2", "8", "32", "dt-fixup 65.0 %"} <= set(texts(depths(), tmp_path))


def test_the_same_values_give_the_same_bytes_and_others_do_not(tmp_path: Path) -> None:
    other = [LINES[0], DepthLine("dt-fixup", {2: [63.0], 8: [64.0]})]
    first, again, changed = (
        write_svg(depths(lines), tmp_path / "figure.svg").read_bytes() for lines in (LINES, LINES, other)
    )
    assert first == again != changed


def test_where_some_runs_collapsed_there_is_no_mean(tmp_path: Path) -> None:
    values = {2: [63.0], 8: [65.0, 21.0]}
    assert "43.0 %" in "\n".join(texts(depths([DepthLine("standard", values)]), tmp_path))
    assert "63.0 % at 2" in "\n".join(texts(depths([DepthLine("standard", values, [8])]), tmp_path))
    assert depth_figure([DepthLine("standard", {8: [65.0, 21.0]}, [8])], ylabel="exact match"), "nothing but dots"


def test_bars_say_what_failed_and_what_has_not_run(tmp_path: Path) -> None:
    bars = {
        "one": Bar([40.0, 50.0], "45.0 ± 7.1", "C0"),
        "two": Bar([], "2 of 2 diverged", "C1"),
        "three": Bar([25.0], "25.0\n1 of 1 at chance", "C2", has_mean=False),
    }
    figure = bars_figure({"Spider": bars}, xlabel="%", chance=25.0)
    words = {"one", "two", "three", "Spider", "45.0 ± 7.1", "2 of 2 diverged", "25.0", "1 of 1 at chance"}
    assert words <= set(texts(figure, tmp_path))
    assert len(figure.axes[0].patches) == 1, "dots alone have no bar"


def test_shares_have_a_bar_for_every_model(tmp_path: Path) -> None:
    panels = {"all": {"column": {"a": 40.0, "b": 31.0}, "sketch": {"a": 77.0, "b": 52.0}}}
    figure = shares_figure(panels, {"a": ("C1", 1.0), "b": ("C0", 0.5)}, ylabel="%")
    assert {"40", "31", "77", "52", "a", "b", "column", "sketch"} <= set(texts(figure, tmp_path))
