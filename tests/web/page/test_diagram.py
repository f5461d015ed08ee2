"""Pictures of schemas: well-formed, escaped, with every table in one place."""

import re
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dtfixup.sql.database.reflection import reflect
from dtfixup.sql.database.schema import Column, ColumnType, ForeignKey, Schema, Table
from dtfixup.web.page.diagram import draw_schema, neighbours_first
from tests.web.page.markup import parsed, texts
from tests.web.shops import make_shop


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
