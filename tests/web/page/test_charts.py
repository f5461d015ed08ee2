"""Charts: which rows get one, and that it is well-formed with everything in its place."""

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.sql.execution.guarded import Rows
from dtfixup.web.page.charts import draw_chart, suggest_chart
from tests.web.page.markup import parsed, texts

numbers = st.floats(-1e12, 1e12)


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
