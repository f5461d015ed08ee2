"""The report of a depth check: slopes, a table, JSON and a picture."""

import json
import math
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from dtfixup.errors import DepthCheckError
from dtfixup.fixup import DepthReport, DepthRow
from dtfixup.fixup.depth_report import log_log_slope

DEPTHS = (2, 4, 8)


def row(depth: int, slope: float = 0.0, **names: str) -> DepthRow:
    """A row whose update follows depth^slope, whose gradient is flat, and whose biases have none."""
    names = {"stack": "vanilla", "strategy": "dt-fixup", "optimizer": "sgd", **names}
    return DepthRow(
        **names,
        depth=depth,
        grad_norm=2.0,
        grad_norm_biases=0.0,
        update=depth**slope,
        update_with_biases=math.inf if depth == DEPTHS[-1] else 1.0,
        layer_updates=(3.0 * depth, 4.0 * depth),
    )


def report(slope: float = 0.5, **names: str) -> DepthReport:
    return DepthReport(tuple(row(depth, slope, **names) for depth in DEPTHS))


EVERYTHING = report() + report(0.25, optimizer="adam") + report(1.0, stack="relation", strategy="t-fixup")

points = st.lists(
    st.tuples(st.integers(1, 200), st.floats(1e-6, 1e6)), min_size=2, max_size=8, unique_by=lambda point: point[0]
)


@given(
    depths=st.lists(st.integers(1, 200), min_size=2, max_size=8, unique=True),
    slope=st.floats(-5, 5),
    factor=st.floats(1e-6, 1e6),
)
def test_a_power_law_has_its_exponent_as_slope(depths: list[int], slope: float, factor: float) -> None:
    assert log_log_slope((depth, factor * depth**slope) for depth in depths) == pytest.approx(slope, abs=1e-6)


@given(held=points, factor=st.floats(1e-3, 1e3), order=st.randoms())
def test_a_slope_depends_neither_on_units_nor_on_order(held: list[tuple[int, float]], factor: float, order) -> None:
    slope = log_log_slope(held)
    assert log_log_slope((x, factor * y) for x, y in held) == pytest.approx(slope, abs=1e-6)
    assert log_log_slope((2 * x, 1 / y) for x, y in held) == pytest.approx(-slope, abs=1e-6)
    assert log_log_slope(order.sample(held, len(held))) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_there_is_no_slope_where_a_value_is_not_positive_and_finite(bad: float) -> None:
    assert log_log_slope([(2, 1.0), (4, bad)]) is None


@pytest.mark.parametrize("held", [[], [(2, 1.0)], [(2, 1.0), (2, 3.0)]])
def test_there_is_no_slope_of_a_single_depth(held: list[tuple[int, float]]) -> None:
    assert log_log_slope(held) is None


def test_slopes_are_taken_per_stack_strategy_and_optimizer_whatever_the_order() -> None:
    shuffled = DepthReport(EVERYTHING.rows[::-1])
    for held in (EVERYTHING, shuffled):
        assert held.slope("vanilla", "dt-fixup", "sgd", "update") == pytest.approx(0.5)
        assert held.slope("vanilla", "dt-fixup", "adam", "update") == pytest.approx(0.25)
        assert held.slope("relation", "t-fixup", "sgd", "update") == pytest.approx(1.0)
        assert [row.depth for row in held.groups()["relation", "t-fixup", "sgd"]] == list(DEPTHS)
    assert EVERYTHING.slope("vanilla", "dt-fixup", "sgd", "grad_norm_biases") is None


def test_the_size_of_a_layers_update_is_the_root_mean_square_of_its_branches() -> None:
    assert row(2).layer_update == pytest.approx(2 * math.sqrt((9 + 16) / 2))
    assert report().slope("vanilla", "dt-fixup", "sgd", "layer_update") == pytest.approx(1.0)


def test_reports_add_their_rows() -> None:
    assert (report() + report(stack="relation")).rows == report().rows + report(stack="relation").rows
    assert len(EVERYTHING.rows) == 3 * len(DEPTHS)


def test_json_has_the_documented_keys_and_no_number_that_is_none() -> None:
    found = json.loads(json.dumps(EVERYTHING.to_json(), allow_nan=False))
    measures = {"grad_norm", "grad_norm_biases", "update", "update_with_biases", "layer_update"}
    names = {"stack", "strategy", "optimizer"}
    assert found.keys() == {"rows", "slopes"}
    assert all(line.keys() == names | measures | {"depth", "layer_updates"} for line in found["rows"])
    assert all(line.keys() == names | measures for line in found["slopes"])
    first, last = found["rows"][0], found["rows"][len(DEPTHS) - 1]
    assert (first["depth"], first["grad_norm"], first["update"]) == (2, 2.0, 2**0.5)
    assert first["layer_updates"] == [6.0, 8.0]
    assert (first["update_with_biases"], last["update_with_biases"]) == (1.0, None)
    assert found["slopes"][0]["update"] == pytest.approx(0.5)
    assert found["slopes"][0]["update_with_biases"] is None


def test_json_of_rows_without_branches_is_valid_too() -> None:
    bare = DepthRow("vanilla", "dt-fixup", "sgd", 2, math.nan, math.inf, -math.inf, 1.0, ())
    (line,) = json.loads(json.dumps(DepthReport((bare,)).to_json(), allow_nan=False))["rows"]
    assert [line[name] for name in ("grad_norm", "grad_norm_biases", "update", "layer_update")] == [None] * 4


def test_the_printed_report_shows_slopes_and_the_range_of_depths() -> None:
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in str(EVERYTHING).splitlines() if "│" in line]
    assert lines == [
        ["vanilla", "dt-fixup", "sgd", "2-8", "+0.000", "-", "+0.500", "-", "+1.000"],
        ["vanilla", "dt-fixup", "adam", "2-8", "+0.000", "-", "+0.250", "-", "+1.000"],
        ["relation", "t-fixup", "sgd", "2-8", "+0.000", "-", "+1.000", "-", "+1.000"],
    ]


def png_size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", content[16:24])


def test_the_picture_is_a_png_with_a_row_of_panels_per_kind_of_stack(tmp_path: Path) -> None:
    one, two = (held.plot(tmp_path / "new" / f"{len(held.rows)}.png") for held in (report(), EVERYTHING))
    assert sorted((tmp_path / "new").iterdir()) == [one, two]
    width, height = png_size(one)
    assert width > 1000
    assert height > 300
    assert png_size(two) == (width, 2 * height)


@pytest.mark.parametrize("held", [DepthReport((row(2),)), DepthReport((row(8, slope=300), row(4, slope=math.nan)))])
def test_a_single_depth_and_values_beyond_drawing_make_a_picture_too(held: DepthReport, tmp_path: Path) -> None:
    assert png_size(held.plot(tmp_path / "depth.png"))[0] > 1000


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "depth.png"
    path.write_bytes(b"old")

    def fill_the_disk(self: Figure, file: Path, **_: object) -> None:
        Path(file).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(Figure, "savefig", fill_the_disk)
    with pytest.raises(OSError, match="no space left"):
        report().plot(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_picture_without_a_suffix_is_a_png_and_leaves_nothing_else(tmp_path: Path) -> None:
    DepthReport((row(2), row(4))).plot(tmp_path / "depth")
    assert [path.name for path in tmp_path.iterdir()] == ["depth"]
    assert (tmp_path / "depth").read_bytes().startswith(b"\x89PNG")


def test_an_empty_report_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(DepthCheckError, match="nothing to plot"):
        DepthReport(()).plot(tmp_path / "depth.png")
    assert list(tmp_path.iterdir()) == []
