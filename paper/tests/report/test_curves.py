"""Curves: what becomes one line, what is refused, where labels stand, and the picture itself."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import matplotlib.figure
import pytest
from dtfixup_paper.cli_spider import curves as curves_verb
from dtfixup_paper.report.curves import bands_of, draw_curves, read_curve, spread
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import image

from dtfixup.errors import DataError
from dtfixup.sql.model.config import minilm
from dtfixup.training.config import changed, to_json


def write_result(
    path: Path,
    values: list[float | None],
    *,
    seed: int = 1,
    strategy: str = "dt-fixup",
    every: int = 5,
    **changes: Any,
) -> Path:
    model = {"strategy": strategy, **changes.pop("model", {})}
    training = {"seed": seed, **changes.pop("training", {})}
    config = changed(minilm(), {"model": model, "training": training, **changes})
    curve = [
        {"step": 100 * place, "epoch": every * place, "exact": value, "exact_easy": 90.0}
        for place, value in enumerate(values, start=1)
    ]
    path.write_text(json.dumps({"config": to_json(config), "metrics": {}, "curve": curve}))
    return path


def test_runs_that_differ_by_their_seed_become_one_line(tmp_path: Path) -> None:
    files = [
        write_result(tmp_path / "a.json", [10, 20], seed=1),
        write_result(tmp_path / "b.json", [1, 2], seed=1, strategy="standard"),
        write_result(tmp_path / "c.json", [14, 26], seed=2),
    ]
    fixup, standard = bands_of([read_curve(file, "exact") for file in files])
    assert (fixup.label, fixup.seeds, fixup.epochs) == ("dt-fixup, 24 layers", 2, (5.0, 10.0))
    assert (fixup.mean, fixup.lowest, fixup.highest) == ((12, 23), (10, 20), (14, 26))
    assert (standard.label, standard.seeds, standard.mean) == ("standard, 24 layers", 1, (1, 2))


def test_labels_say_what_else_differs(tmp_path: Path) -> None:
    files = [
        write_result(tmp_path / "a.json", [10]),
        write_result(tmp_path / "b.json", [10], training={"warmup": 100}),
        write_result(tmp_path / "c.json", [10], model={"layers": 8}),
    ]
    labels = [band.label for band in bands_of([read_curve(file, "exact") for file in files])]
    assert labels == ["dt-fixup, 24 layers, warmup 0", "dt-fixup, 24 layers, warmup 100", "dt-fixup, 8 layers"]


def test_an_evaluation_without_a_number_leaves_a_gap(tmp_path: Path) -> None:
    files = [write_result(tmp_path / f"{seed}.json", [5, None if seed == 2 else 7, 9], seed=seed) for seed in (1, 2)]
    (band,) = bands_of([read_curve(file, "exact") for file in files])
    for values in (band.mean, band.lowest, band.highest):
        assert [math.isfinite(value) for value in values] == [True, False, True]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"metrics": {"dev_exact": 70.0}}, "has no curve"),
        ({"curve": []}, "has no curve"),
        ([1], "has no curve"),
        ({"curve": [{"epoch": 1, "exact": 2.0}], "config": {"model": {"layers": 2}}}, r"does not say model\.strategy"),
    ],
)
def test_a_file_without_a_curve_is_refused(content: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=rf"a\.json {message}"):
        read_curve(tmp_path / "a.json", "exact")


def test_curves_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    first = write_result(tmp_path / "first.json", [1, 2])
    held_out = write_result(tmp_path / "held.json", [1, 2], hold_out=10)
    again = write_result(tmp_path / "again.json", [1, 2])
    later = write_result(tmp_path / "later.json", [1, 2], seed=2, every=10)
    cases = {
        (first, held_out): r"held\.json was evaluated on held-out databases and .*first\.json on dev",
        (first, again): r"first\.json and .*again\.json are runs of one configuration and one seed, 1",
        (first, later): r"later\.json and .*first\.json were evaluated after different epochs",
        (): "no result file to draw",
    }
    for files, message in cases.items():
        with pytest.raises(DataError, match=message):
            draw_curves(files, tmp_path / "x.png")
    with pytest.raises(DataError, match=r"first\.json has no loss in its curve: it has exact, exact_easy"):
        draw_curves([first], tmp_path / "x.png", metric="loss")
    assert not (tmp_path / "x.png").exists()


def test_the_picture_has_a_line_a_band_and_a_label_for_each_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[matplotlib.figure.Figure] = []
    real = matplotlib.figure.Figure
    monkeypatch.setattr(matplotlib.figure, "Figure", lambda *a, **k: drawn.append(real(*a, **k)) or drawn[-1])
    files = [write_result(tmp_path / f"{seed}.json", [40, 60 + seed], seed=seed) for seed in (1, 3)]
    files.append(write_result(tmp_path / "other.json", [3, 4.5], strategy="standard"))
    curves_verb(files, tmp_path / "curves.png", title="24 layers")
    assert "curves.png" in capsys.readouterr().out.replace("\n", "")
    assert image.imread(tmp_path / "curves.png").shape[:2] == (572, 1040)
    (axis,) = drawn[0].axes
    assert [list(line.get_ydata()) for line in axis.lines] == [[40, 62], [3, 4.5]]
    assert len(axis.collections) == 1, "one seed has no band"
    assert [text.get_text() for text in axis.texts] == [
        "dt-fixup, 24 layers\n62.0 %, 2 seeds",
        "standard, 24 layers\n4.5 %",
    ]
    for text, line in zip(axis.texts, axis.lines, strict=True):
        assert text.get_color() == line.get_color()
        assert text.xy == (line.get_xdata()[-1], line.get_ydata()[-1])
    assert (axis.get_title(), axis.get_ylabel()) == ("24 layers", "dev: exact match, %")


@given(st.lists(st.floats(0, 100), max_size=8), st.floats(0.1, 20))
def test_labels_are_apart_in_order_and_not_moved_without_need(places: list[float], gap: float) -> None:
    found = spread(places, gap)
    pairs = sorted(zip(found, places, strict=True))
    assert [place for _, place in pairs] == sorted(places)
    assert all(after - before >= gap - 1e-6 for (before, _), (after, _) in itertools.pairwise(pairs))
    assert math.isclose(sum(found), sum(places), abs_tol=1e-6)
    nearest = sorted(places)
    if all(after - before >= gap for before, after in itertools.pairwise(nearest)):
        assert found == pytest.approx(places)
