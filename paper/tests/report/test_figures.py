"""Pictures as SVG: letters stay letters, names stay apart, colours become the page's."""

import re
from dataclasses import replace
from functools import partial
from xml.etree import ElementTree

from dtfixup_paper.report.curves import Band, DepthLine, depth_figure, panels_figure
from dtfixup_paper.report.figures import Bar, bars_figure, shares_figure, svg_of, themed

SVG = "{http://www.w3.org/2000/svg}"
LINES = [DepthLine("standard", {2: [60.0, 62.0], 8: [20.0]}), DepthLine("dt-fixup", {2: [63.0], 8: [65.0]})]


def depths(name: str = "depth", lines: list[DepthLine] = LINES) -> str:
    paper = [DepthLine("dt-fixup", {2: [70.73], 32: [73.02]})]
    return svg_of(name, partial(depth_figure, lines, ylabel="exact match <%>", paper=paper, size=(5, 3)))


def texts(svg: str) -> list[str]:
    return ["".join(part.itertext()) for part in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def identifiers(svg: str) -> list[str]:
    return [part.get("id", "") for part in ElementTree.fromstring(svg).iter() if part.get("id")]


def test_letters_stay_letters_and_sizes_are_free() -> None:
    svg = depths()
    assert "exact match <%>" in texts(svg)
    assert {"2", "8", "32", "dt-fixup"} <= set(texts(svg)), "the paper's depths are on the axis too"
    root = ElementTree.fromstring(svg)
    assert root.get("viewBox")
    assert not root.get("width")
    assert not list(root.iter(f"{SVG}style")), "it would be for the whole page"


def test_the_same_values_give_the_same_bytes_and_others_do_not() -> None:
    assert depths() == depths()
    assert depths() != depths(lines=[LINES[0], DepthLine("dt-fixup", {2: [63.0], 8: [64.0]})])


def test_where_some_runs_collapsed_there_is_no_mean() -> None:
    values = {2: [63.0], 8: [65.0, 21.0]}
    whole, split = depths(lines=[DepthLine("standard", values)]), depths(lines=[DepthLine("standard", values, [8])])
    assert "43.0 %" in texts(whole)
    assert "63.0 % at 2" in texts(split)
    assert depth_figure([DepthLine("standard", {8: [65.0, 21.0]}, [8])], ylabel="exact match"), "nothing but dots"


def test_pictures_of_one_page_share_no_identifiers() -> None:
    one, other = depths("one"), depths("other")
    assert identifiers(one)
    assert not set(identifiers(one)) & set(identifiers(other))
    used = re.findall(r"url\(#([^)]+)\)", one) + re.findall(r'xlink:href="#([^"]+)"', one)
    assert used
    assert set(used) <= set(identifiers(one))


def test_colours_become_the_pages() -> None:
    page = themed(depths(), 'a "label" <b>')
    assert "currentColor" in page
    assert "var(--line-0)" in page
    assert "var(--line-1)" in page
    assert not re.findall(r"(?:fill|stroke): #\w+", page), "every colour has one for dark pages"
    assert ElementTree.fromstring(page).get("aria-label") == 'a "label" <b>'


def test_bars_say_what_failed_and_what_has_not_run() -> None:
    bars = {
        "one": Bar([40.0, 50.0], "45.0 ± 7.1", "C0"),
        "two": Bar([], "", "C1", "2 of 2 diverged"),
        "three": Bar([25.0], "25.0", "C2", "1 of 1 at chance"),
    }
    draw = partial(bars_figure, {"Spider": bars}, xlabel="%", chance=25.0)
    found = texts(svg_of("bars", draw))
    assert {"one", "two", "three", "Spider", "45.0 ± 7.1", "2 of 2 diverged", "25.0", "1 of 1 at chance"} <= set(found)
    assert len(draw().axes[0].patches) == 2
    bars["one"] = replace(bars["one"], text="40.0, 50.0, diverged", remark="1 of 3 diverged", has_mean=False)
    assert len(draw().axes[0].patches) == 1, "dots and no bar"
    assert "40.0, 50.0, diverged" in texts(svg_of("bars", draw))


def test_shares_have_a_bar_for_every_model() -> None:
    panels = {"all": {"column": {"a": 40.0, "b": 31.0}, "sketch": {"a": 77.0, "b": 52.0}}}
    assert {"40", "31", "77", "52", "a", "b", "column", "sketch"} <= set(
        texts(svg_of("shares", partial(shares_figure, panels, {"a": ("C1", 1.0), "b": ("C0", 0.5)}, ylabel="%")))
    )


def test_panels_fill_a_grid() -> None:
    band = Band("dt-fixup", (1.0, 2.0), (10.0, 20.0), (9.0, 19.0), (11.0, 21.0), seeds=2)
    figure = panels_figure({f"N = {n}": [band] for n in (2, 4, 8)}, ylabel="%", columns=2, size=(5, 4))
    shown = [axis.get_title() for axis in figure.axes if axis.get_visible()]
    assert (shown, len(figure.axes)) == (["N = 2", "N = 4", "N = 8"], 4)
    assert all(axis.get_ylim()[0] == 0 for axis in figure.axes)
