"""Diagrams and charts: well-formed, escaped, with everything in its place."""

import datetime
import re
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dtfixup.sql.database.reflection import reflect
from dtfixup.sql.database.schema import Column, ColumnType, ForeignKey, Schema, Table
from dtfixup.sql.execution.guarded import Rows
from dtfixup.web.page.charts import draw_chart, suggest_chart
from dtfixup.web.page.diagram import draw_schema, neighbours_first
from dtfixup.web.page.pictures import clipped, escaped, ticks
from tests.web.shops import make_shop

numbers = st.floats(-1e12, 1e12)


def parsed(fragment: str) -> ElementTree.Element:
    """The fragment as XML: a tag or a text that is not closed or escaped fails here."""
    return ElementTree.fromstring(f"<body>{fragment}</body>")


def texts(fragment: str) -> list[str]:
    return [text for text in parsed(fragment).itertext() if text.strip()]


def schema_of(names: list[list[str]], keys: list[tuple[int, int]] | None = None) -> Schema:
    columns = [
        column
        for table, own in enumerate(names)
        for column in [
            Column(table, "*", "*", ColumnType.STAR),
            *(Column(table, name, "x", ColumnType.TEXT) for name in own),
        ]
    ]
    tables = tuple(Table(f"t{place}", f"t {place}") for place in range(len(names)))
    foreign = tuple(ForeignKey((source,), (target,)) for source, target in keys or [])
    return Schema("made", tables, tuple(columns), tuple(() for _ in tables), foreign)


def test_a_schema_is_drawn_for_both_widths(tmp_path: Path) -> None:
    picture = parsed(draw_schema(reflect(make_shop(tmp_path / "shop.sqlite"))))
    wide, narrow = picture.findall("div")
    assert (wide.get("class"), narrow.get("class")) == ("picture wide", "picture narrow")
    assert float(narrow.find("svg").get("width")) < 350 < float(wide.find("svg").get("width"))
    for drawing in (wide, narrow):
        named = [text for text in drawing.itertext() if text.strip()]
        assert {"owners", "pets", "name", "age", "city", "primary key", "foreign key"} <= set(named)
        assert len(drawing.findall(".//path")) == 1
        assert drawing.find("svg").get("aria-label") == "2 tables: owners, pets"


@given(
    st.lists(st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=4, unique=True), min_size=1, max_size=5)
)
def test_any_names_can_be_drawn(names: list[list[str]]) -> None:
    drawn = draw_schema(schema_of(names))
    assert "<script" not in drawn.lower()
    parsed(drawn)


@given(
    st.integers(1, 9).flatmap(
        lambda count: st.tuples(
            st.just(count), st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=12)
        )
    )
)
def test_every_table_has_one_place(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = drawn
    schema = schema_of([["a"]] * count, [(2 * source + 1, 2 * target + 1) for source, target in pairs])
    assert sorted(neighbours_first(schema)) == list(range(count))
    picture = parsed(draw_schema(schema))
    assert len(picture.findall(".//rect")) == 2 * count
    for drawing in picture.findall(".//svg"):
        across, down = (float(drawing.get(name)) for name in ("width", "height"))
        boxes = [tuple(float(box.get(name)) for name in ("x", "y", "width", "height")) for box in drawing.iter("rect")]
        for path in drawing.iter("path"):
            for x, y in points_of(path.get("d")):
                assert 0 < x < across
                assert 0 < y < down
                behind = [box for box in boxes if box[0] < x < box[0] + box[2] and box[1] < y < box[1] + box[3]]
                assert not behind, f"{path.get('d')} goes behind a table"


def points_of(path: str) -> list[tuple[float, float]]:
    """Points along a path of straight lines and cubic curves, its corners left out."""
    found: list[tuple[float, float]] = []
    last: list[tuple[float, float]] = []
    for kind, numbers in re.findall(r"([MLC])([^MLC]+)", path):
        values = [float(number) for number in re.split(r"[ ,]+", numbers.strip())]
        places = [*last, *zip(values[::2], values[1::2], strict=True)]
        for share in [step / 20 for step in range(1, 20)] if kind != "M" else []:
            line = places
            while len(line) > 1:  # de Casteljau
                line = [tuple(a + share * (b - a) for a, b in zip(*two, strict=True)) for two in pairwise(line)]
            found.append(line[0])
        last = places[-1:]
    return found


def test_names_cannot_become_markup() -> None:
    drawn = draw_schema(schema_of([["<img src=x onerror=alert(1)>", "a\"b'c&d", "\x00\x1b[31m"]]))
    assert "<img" not in drawn
    assert "<img src=x onerror=al…" in texts(drawn)


def test_large_schemas_are_drawn_in_part_and_say_so() -> None:
    wide = schema_of([[f"c{place}" for place in range(500)]])
    assert "and 486 more" in texts(draw_schema(wide))
    many = schema_of([["a"]] * 60)
    assert "20 more tables are not drawn." in texts(draw_schema(many))


def rows(columns: list[str], values: list[tuple[object, ...]], *, truncated: bool = False) -> Rows:
    return Rows(tuple(columns), values, truncated)


def test_names_and_numbers_are_bars() -> None:
    for values in ([("Vienna", 2), ("Linz", 5)], [("Vienna", 2.5), ("Linz", Decimal(5))]):
        chart = suggest_chart(rows(["city", "n"], values))
        assert chart is not None
        assert (chart.labels, chart.positions) == (("Vienna", "Linz"), None)
    assert suggest_chart(rows(["city", "n"], [("Linz", 1.7e308), ("Wien", -1.7e308)])) is None
    turned = suggest_chart(rows(["n", "city"], [(2, "Vienna"), (5, "Linz")]))
    assert turned is not None
    assert turned.values == (2.0, 5.0)
    assert {"Vienna", "n by city", "2", "5"} <= set(texts(draw_chart(turned)))


def test_numbers_of_things_are_their_names() -> None:
    chart = suggest_chart(rows(["id", "n"], [(place, place % 3) for place in range(8)]))
    assert chart is not None
    assert (chart.across, chart.up, chart.positions) == ("id", "n", None)
    paid = suggest_chart(rows(["name", "paid"], [("x", 7), ("y", 8)]))
    assert paid is not None


def test_years_and_dates_are_a_line() -> None:
    years = suggest_chart(rows(["year", "n"], [(2000 + place, place) for place in range(6)]))
    dates = suggest_chart(rows(["day", "n"], [(f"2024-0{place}-01", place) for place in range(1, 7)]))
    real = suggest_chart(rows(["day", "n"], [(datetime.date(2024, place, 1), place) for place in range(1, 7)]))
    assert years is not None
    assert years.positions == (2000.0, 2001.0, 2002.0, 2003.0, 2004.0, 2005.0)
    assert dates is not None
    assert real is not None
    assert dates.positions is not None
    assert real.positions is not None
    assert "polyline" in draw_chart(years)


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        (["n"], [(1,), (2,)]),
        (["a", "b", "c"], [("x", 1, 2), ("y", 3, 4)]),
        (["a", "b"], [("x", 1)]),
        (["a", "b"], [("x", "y"), ("z", "w")]),
        (["a", "b"], [("x", None), ("y", 2)]),
        (["a", "b"], [("x", 1), ("x", 2)]),
        (["height", "weight"], [(3, 1), (1, 2), (2, 5), (5, 1), (4, 4)]),
        (["a", "b"], [(f"x{place}", place) for place in range(31)]),
        (["a", "b"], [("x", float("nan")), ("y", 1.0)]),
        (["a", "b"], [("x", True), ("y", False)]),
        (["name", "stop_id"], [("x", 7), ("y", 8)]),
        (["name", "StuID"], [("x", 7), ("y", 8)]),
    ],
)
def test_other_rows_suggest_no_chart(columns: list[str], values: list[tuple[object, ...]]) -> None:
    assert suggest_chart(rows(columns, values)) is None


def test_a_part_of_the_rows_is_no_chart() -> None:
    assert suggest_chart(rows(["city", "n"], [("Vienna", 2), ("Linz", 5)], truncated=True)) is None


@given(st.lists(st.tuples(st.text(max_size=50), numbers), min_size=2, max_size=30, unique_by=lambda pair: pair[0]))
def test_any_bars_can_be_drawn(values: list[tuple[object, ...]]) -> None:
    chart = suggest_chart(rows(["<a>", "<b>"], values))
    assert chart is not None
    shares = [
        float(part.get("style").split("width:")[1].rstrip("%")) for part in parsed(draw_chart(chart)).findall(".//i")
    ]
    if chart.positions is None:
        assert all(0 <= share <= 100.01 for share in shares)


@given(st.dictionaries(st.integers(-3000, 3000), numbers, min_size=5, max_size=60))
def test_any_line_can_be_drawn(points: dict[int, float]) -> None:
    chart = suggest_chart(rows(["<x>", "y"], sorted(points.items())))
    assert chart is not None
    assert chart.positions is not None
    for picture in parsed(draw_chart(chart)).iter("svg"):
        width, height = float(picture.get("width")), float(picture.get("height"))
        for x, y in (point.split(",") for point in picture.find("polyline").get("points").split()):
            assert 0 <= float(x) <= width
            assert 0 <= float(y) <= height
        for text in picture.iter("text"):
            if text.get("class") == "tick middle":
                room = 3 * len(text.text)
                assert room <= float(text.get("x")) <= width - room, "no label is cut at the edge"


@given(numbers, numbers)
@example(0.0, 5e-324)
@example(1e12, 1e12 + 1e-3)
def test_ticks_hold_everything(first: float, second: float) -> None:
    low, high = sorted((first, second))
    found = ticks(low, high)
    assert 2 <= len(found) <= 12
    assert found == sorted(set(found))
    slack = 1e-6 * (abs(low) + abs(high) + 1)
    assert found[0] <= low + slack
    assert found[-1] >= high - slack


@given(st.text(max_size=30), st.integers(1, 20))
def test_text_is_clipped_and_escaped(text: str, most: int) -> None:
    assert len(clipped(text, most)) <= most
    parsed(f"<p title='{escaped(text)}'>{escaped(text)}</p>")


def test_dates_along_an_axis_are_written_as_dates() -> None:
    months = Rows(("month", "n"), [(f"2023-{month:02}", month) for month in range(1, 13)], False)
    days = Rows(("day", "n"), [(datetime.date(2024, 1, day), day) for day in range(1, 20)], False)
    for rows, first in ((months, "2023-01"), (days, "2024-01-01")):
        chart = suggest_chart(rows)
        assert chart is not None
        assert chart.has_dates
        written = texts(draw_chart(chart))
        assert first in written
        assert not any(text.startswith(("2023.", "2024.")) for text in written)
        assert sum(text.startswith("20") for text in written) < 2 * len(rows.rows), "of many some, on a narrow screen"
    years = suggest_chart(Rows(("year", "n"), [(year, 1) for year in range(1990, 2020)], False))
    assert years is not None
    assert not years.has_dates
    assert "2000" in texts(draw_chart(years))
