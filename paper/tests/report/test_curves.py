"""Curves: what becomes one line, what is refused, and the pictures."""

import json
import math
from pathlib import Path
from typing import Any

import matplotlib.figure
import pytest
from dtfixup_paper.cli_spider import curves as curves_verb
from dtfixup_paper.report.curves import Band, bands_of, curve_of, draw_curves, panels_figure
from matplotlib import image

from dtfixup.errors import DataError
from dtfixup.files import read_json
from dtfixup.sql.model.config import minilm
from dtfixup.training.config import changed, to_json


def write_result(
    path: Path, values: list[float | None], *, seed: int = 1, strategy: str = "dt-fixup", every: int = 5, **changes: Any
) -> Path:
    model = {"strategy": strategy, **changes.pop("model", {})}
    training = {"seed": seed, **changes.pop("training", {})}
    config = changed(minilm(), {"model": model, "training": training, **changes})
    curve = [
        {"step": 100 * number, "epoch": every * number, "exact": value, "exact_easy": 90.0}
        for number, value in enumerate(values, start=1)
    ]
    path.write_text(json.dumps({"config": to_json(config), "metrics": {}, "curve": curve}))
    return path


def read_bands(*files: Path) -> list[Band]:
    return bands_of([curve_of(read_json(file), file, "exact") for file in files])


def test_runs_that_differ_only_in_their_seed_become_one_line(tmp_path: Path) -> None:
    fixup, standard = read_bands(
        write_result(tmp_path / "a.json", [10, 20], seed=1),
        write_result(tmp_path / "b.json", [1, 2], seed=1, strategy="standard"),
        write_result(tmp_path / "c.json", [14, 26], seed=2),
    )
    assert fixup == Band("dt-fixup, 24 layers", [5.0, 10.0], [[10, 20], [14, 26]])
    assert (fixup.mean, standard.mean) == ([12, 23], [1, 2])
    assert standard.label == "standard, 24 layers"


def test_labels_say_what_else_differs(tmp_path: Path) -> None:
    bands = read_bands(
        write_result(tmp_path / "a.json", [10]),
        write_result(tmp_path / "b.json", [10], training={"warmup": 100}),
        write_result(tmp_path / "c.json", [10], model={"layers": 8}),
    )
    labels = ["dt-fixup, 24 layers, warmup 0", "dt-fixup, 24 layers, warmup 100", "dt-fixup, 8 layers"]
    assert [band.label for band in bands] == labels


def test_an_evaluation_without_a_number_leaves_a_gap(tmp_path: Path) -> None:
    files = [write_result(tmp_path / f"{seed}.json", [5, 7, None if seed == 2 else 9], seed=seed) for seed in (1, 2)]
    (band,) = read_bands(*files)
    assert [math.isfinite(value) for value in band.mean] == [True, True, False]
    assert band.last == 7


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
        read_bands(tmp_path / "a.json")


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


def test_the_verb_draws_a_line_and_a_band_for_each_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[matplotlib.figure.Figure] = []
    real = matplotlib.figure.Figure
    monkeypatch.setattr(matplotlib.figure, "Figure", lambda *a, **k: drawn.append(real(*a, **k)) or drawn[-1])
    files = [write_result(tmp_path / f"{seed}.json", [40, 60 + seed], seed=seed) for seed in (1, 3)]
    files.append(write_result(tmp_path / "other.json", [3, 4.5], strategy="standard"))
    curves_verb(files, tmp_path / "curves.png", title="24 layers")
    assert "curves.png" in capsys.readouterr().out.replace("\n", "")
    assert image.imread(tmp_path / "curves.png").shape[:2] == (624, 1040)
    (axis,), (legend,) = drawn[0].axes, drawn[0].legends
    assert [list(line.get_ydata()) for line in axis.lines] == [[40, 62], [3, 4.5]]
    assert len(axis.collections) == 1, "one seed has no band"
    assert [text.get_text() for text in legend.get_texts()] == [
        "dt-fixup, 24 layers: 62.0 %, 2 seeds",
        "standard, 24 layers: 4.5 %",
    ]
    assert [line.get_color() for line in legend.get_lines()] == [line.get_color() for line in axis.lines]
    assert (axis.get_title(), axis.get_ylabel()) == ("24 layers", "dev: exact match, %")


def test_panels_fill_a_grid() -> None:
    band = Band("dt-fixup", (1.0, 2.0), [(9.0, 19.0), (11.0, 21.0)])
    figure = panels_figure({f"N = {n}": [band] for n in (2, 4, 8)}, ylabel="%", columns=2, size=(5, 4))
    shown = [axis.get_title() for axis in figure.axes if axis.get_visible()]
    assert (shown, len(figure.axes)) == (["N = 2", "N = 4", "N = 8"], 4)
    assert all(axis.get_ylim()[0] == 0 for axis in figure.axes)
