"""The ReClor experiments: which runs they are, and what their tables say."""

import json
import pickle
import shutil
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from dtfixup_paper.report.reclor_table import draw_training, show_tables, summarise, tune_rows, write_markdown
from dtfixup_paper.runs.sweep import Run, read_sweep, run_sweep
from dtfixup_paper.tables.reclor import configure, runs_of
from dtfixup_paper.tables.settings import NO_LAYERS, RECLOR, ReclorSettings
from matplotlib import image
from rich.console import Console

from dtfixup.cli.main import main
from dtfixup.errors import DataError
from dtfixup.files import read_json, write_json
from dtfixup.reading.examples import ReadingData, ReadingExample
from dtfixup.reading.presets import minilm, smoke
from dtfixup.reading.train import ReadingSource
from dtfixup.training.config import to_json
from tests.reading.tiny_reading import encoder_folder, made_up

EXAMPLE = ReadingExample("a passage", "a question", ("one", "another"), 0, "name")
SOURCE = ReadingSource(ReadingData((EXAMPLE,) * 4638, (EXAMPLE,) * 500, "hash"))


def cells(runs: list[Run]) -> Counter[tuple[str, int]]:
    """How many runs of each strategy and depth."""
    return Counter(
        (run.config.model.strategy if run.config.model.layers else NO_LAYERS, run.config.model.layers) for run in runs
    )


def test_main_is_three_variants_with_five_seeds() -> None:
    runs = runs_of("main", SOURCE)
    assert cells(runs) == {(NO_LAYERS, 0): 5, ("standard", 4): 5, ("dt-fixup", 4): 5}
    assert {run.config.training.seed for run in runs[:3]} == {1}, "first seed first"
    assert {run.seed for run in runs} == {1, 2, 3, 4, 5}
    assert runs[0].name == "reclor-main-no-new-layers-seed1"
    assert all(run.metric == "val_accuracy" and run.config.hold_out == 0 for run in runs)


def test_depth_repeats_nothing_that_main_has() -> None:
    depth, everything = runs_of("depth", SOURCE), runs_of("all", SOURCE)
    deep = {(strategy, layers): 3 for strategy in ("standard", "dt-fixup") for layers in (4, 8, 16, 24)}
    assert cells(depth) == deep | {("pre-ln", 16): 2, ("pre-ln", 24): 2}
    assert len(everything) == 15 + 28
    costs = {run.key: run.cost for run in everything}
    assert len(costs) == 15 + 28 - 6
    one = next(run.cost for run in everything if run.config.model.layers == 4)
    assert 50 * sum(costs.values()) / one < 60 * 60, "a run of 4 layers takes 50 s, with another one beside it"


def test_seeds_can_be_chosen() -> None:
    assert set(cells(runs_of("all", SOURCE, seeds=2)).values()) == {2, 4}, "4 layers are in both parts"
    assert cells(runs_of("main", SOURCE, seeds=7))["standard", 4] == 7


def test_tuning_looks_at_held_out_examples_alone() -> None:
    runs = runs_of("tune", SOURCE)
    assert all(run.config.hold_out == 0.1 and run.metric == "held_out_accuracy" for run in runs)
    assert len({run.key for run in runs}) == len({run.name for run in runs}) == len(runs)
    tried = cells(runs)
    assert {strategy for strategy, _ in tried} >= set(RECLOR.tables)
    standard = [run.config.training.warmup for run in runs if run.config.model.strategy == "standard"]
    assert len(set(standard)) > 1, "the layer-norm baseline has its warm-up tuned"
    assert min(standard) > 0
    assert "reclor-tune-standard-n4-lr3e-4-enc3e-5-drop0.4-warm0.3-seed1" in {run.name for run in runs}


def test_runs_can_be_sent_to_another_process(tmp_path: Path) -> None:
    """They take the folder along and not what is in it, which is read there once for all of them."""
    for split, count in (("train", 24), ("val", 8)):
        (tmp_path / f"{split}.json").write_text(json.dumps([asdict(example) for example in made_up(count)]))
    runs = runs_of("main", ReadingSource(tmp_path), command="a command")
    packed = pickle.dumps(runs)
    assert made_up(1)[0].context.encode() not in packed
    sent = pickle.loads(packed)
    assert sent[0].train.source is sent[-1].train.source
    assert [(run.key, run.train.config, run.train.name, run.train.command) for run in sent] == [
        (run.key, run.config, f"{run.experiment}-{run.variant}", "a command") for run in runs
    ]
    assert sent[0].train.source.data == ReadingSource(tmp_path).data
    assert pickle.loads(pickle.dumps(SOURCE)).data == SOURCE.data, "what came from no folder goes along"


def test_runs_at_once_come_to_what_they_come_to_in_turn(tmp_path: Path) -> None:
    for split, count in (("train", 24), ("val", 8)):
        (tmp_path / f"{split}.json").write_text(json.dumps([asdict(example) for example in made_up(count)]))
    base = replace(smoke(), encoder=str(encoder_folder()), model=replace(smoke().model, max_tokens=48, dim=32))
    for out, at_once in (("turn", 1), ("once", 2)):
        runs = runs_of("main", ReadingSource(tmp_path), base=base, seeds=1)
        run_sweep(runs, tmp_path / out, at_once=at_once, console=Console(quiet=True))
    in_turn, at_once = ({each["name"]: each for each in read_sweep(tmp_path / out)} for out in ("turn", "once"))
    assert len(in_turn) == len(at_once) == 3
    for name, content in in_turn.items():
        assert content["metrics"]["val_loss"] == at_once[name]["metrics"]["val_loss"]
        assert content["curve"] == at_once[name]["curve"]


def test_settings_become_a_configuration() -> None:
    settings = ReclorSettings(6e-4, encoder_rate=3e-5, dropout=0.2, warmup=0.1)
    config = configure(minilm(), "standard", 8, settings, 4, 4638)
    assert (config.model.strategy, config.model.layers, config.model.input_dropout) == ("standard", 8, 0.2)
    assert config.training.update.learning_rate * config.encoder_factor == pytest.approx(3e-5)
    assert (config.training.seed, config.training.warmup) == (4, 233), "a tenth of 12 epochs of 194 updates"
    assert config.training.epochs == minilm().training.epochs
    assert configure(minilm(), NO_LAYERS, 0, settings, 4, 4638).model.layers == 0


def test_the_defaults_are_the_presets() -> None:
    assert configure(minilm(), "dt-fixup", 4, RECLOR.of("dt-fixup", 4), 1, 4638) == minilm()
    for strategy in (NO_LAYERS, "standard"):
        assert all(settings.warmup > 0 for settings in RECLOR.tables[strategy].values()), "as is usual with layer norms"


def content(run: Run, accuracy: float | None, **changes: Any) -> dict[str, Any]:
    prefix = run.metric.removesuffix("accuracy")
    metrics = {
        run.metric: accuracy,
        f"{prefix}accuracy_new_contexts": accuracy and accuracy - 1,
        "chance": 25.0,
        "evaluated_examples": 500,
        "train_seconds": 10.0 + run.config.model.layers,
    }
    curve = [{"step": 9 * epoch, "epoch": epoch, "accuracy": 25.0 + epoch, "loss": 1.0} for epoch in (6, 12)]
    return {
        "name": run.name,
        "seed": run.seed,
        "experiment": run.experiment,
        "variant": run.variant,
        "key": run.key,
        "state": "finished" if accuracy else "diverged",
        "wall_seconds": 99.0,
        "config": to_json(run.config),
        "metrics": metrics if accuracy else {},
        "curve": curve if accuracy else [],
        **changes,
    }


def contents_of(part: str, accuracies: dict[tuple[str, int], list[float | None]]) -> list[dict[str, Any]]:
    """Results of the first seeds of some strategies and depths."""
    left = {cell: list(values) for cell, values in accuracies.items()}
    found = []
    for run in runs_of(part, SOURCE):
        cell = (run.config.model.strategy if run.config.model.layers else NO_LAYERS, run.config.model.layers)
        if left.get(cell):
            found.append(content(run, left[cell].pop(0)))
    return found


def test_a_cell_is_mean_deviation_and_runs_at_chance() -> None:
    summary = summarise(
        contents_of(
            "all",
            {
                (NO_LAYERS, 0): [40.0, 42.0],
                ("standard", 16): [30.8, 30.9, None],
                ("dt-fixup", 16): [44.0],
                ("dt-fixup", 4): [41.0],
            },
        )
    )
    assert [(cell.layers, cell.strategy) for cell in summary.cells] == [
        (0, NO_LAYERS), (4, "dt-fixup"), (16, "standard"), (16, "dt-fixup"),
    ]  # fmt: skip
    assert summary.limit == pytest.approx(25 + 300 * (0.25 * 0.75 / 500) ** 0.5)
    none, _, standard, fixup = summary.cells
    assert none.row == ("0", "", "41.0 ± 1.4", "40.0 ± 1.4", "0 of 2", "10", "0.0003", "", "233")
    assert standard.accuracies == (30.8, 30.9, 25.0), "a run that diverged counts as chance"
    assert standard.at_chance == 2, "30.8 and the diverged one"
    assert fixup.row == ("16", "dt-fixup", "44.0", "43.0", "0 of 1", "26", "0.0001", "0.4", "0")


def test_equal_probabilities_are_chance_whatever_option_is_ahead() -> None:
    dead, alive = contents_of("depth", {("standard", 16): [36.0, 36.0]})
    dead["metrics"]["val_loss"], alive["metrics"]["val_loss"] = 1.3863, 2.9
    (cell,) = summarise([dead, alive]).cells
    assert (cell.accuracies, cell.at_chance) == ((36.0, 36.0), 1)


def test_a_run_stands_in_the_table_once_and_failures_that_say_nothing_do_not() -> None:
    (main_run,) = contents_of("main", {("dt-fixup", 4): [40.0]})
    again = {**main_run, "experiment": "reclor-depth"}
    failed = {**contents_of("main", {("dt-fixup", 4): [1.0, 30.0]})[1], "state": "failed", "metrics": {}}
    (cell,) = summarise([main_run, again, failed]).cells
    assert cell.accuracies == (40.0,)


def test_runs_that_differ_by_more_than_their_seed_are_no_cell() -> None:
    first, second = contents_of("main", {("dt-fixup", 4): [40.0, 41.0]})
    first["config"]["encoder"], second["config"]["encoder"] = "minilm", "minilm-fp16"
    assert len(summarise([first, second]).cells) == 1, "the same encoder"
    second["config"]["training"]["warmup"] = 7
    with pytest.raises(DataError, match=r"reclor-main-dt-fixup-n4-seed1\.json and .*seed2\.json differ by more"):
        summarise([first, second])
    with pytest.raises(DataError, match="no finished run"):
        summarise(contents_of("main", {("standard", 4): [None]}))


def test_tuning_shows_the_best_of_its_kind_first() -> None:
    contents = contents_of("tune", {("standard", 16): [26.0, None, 31.5], ("dt-fixup", 4): [40.0, 43.0]})
    rows = tune_rows([*contents, *contents_of("main", {("standard", 4): [55.0]})])
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("4", "dt-fixup", "43.0"), ("4", "dt-fixup", "40.0"),
        ("16", "standard", "31.5"), ("16", "standard", "26.0 at chance"), ("16", "standard", "diverged"),
    ]  # fmt: skip
    assert rows[0][2:6] == ("0.0001", "3e-05", "0.4", "0")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of made-up results, as a sweep writes them."""
    out = tmp_path_factory.mktemp("results")
    accuracy = {NO_LAYERS: 40.0, "standard": 38.0, "dt-fixup": 42.0, "pre-ln": 39.0, "admin": 37.0, "deepnorm": 37.5}
    for run in (run for part in ("all", "tune") for run in runs_of(part, SOURCE)):
        strategy = run.config.model.strategy if run.config.model.layers else NO_LAYERS
        write_json(out / f"{run.name}.json", content(run, accuracy[strategy] + run.seed / 2))
    return out


def test_tables_and_pictures_of_a_folder(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    png, curves, markdown = (tmp_path / name for name in ("depth.png", "curves.png", "table.md"))
    main(["reading", "table", "--results", str(results), "--png", str(png), "--curves", str(curves),
          "--markdown", str(markdown)])  # fmt: skip
    shown = capsys.readouterr().out
    assert "41.5 ± 0.8" in shown, "no new layers, five seeds"
    assert "tuning on held-out" in shown
    text = markdown.read_text(encoding="utf-8")
    assert "| 24 | dt-fixup | 43.0 ± 0.5 |" in text
    assert "not above 30.8 %" in text
    assert text.count("| 16 | standard |") == 1 + 6, "one of them in the first table"
    for picture in (png, curves):
        assert image.imread(picture).shape[0] > 400


def test_a_folder_of_tuning_alone_has_its_table(results: Path, tmp_path: Path) -> None:
    (tmp_path / "reclor-tune").mkdir()
    for file in results.glob("reclor-tune/*.json"):
        shutil.copy(file, tmp_path / "reclor-tune")
    assert "Tuning" in write_markdown(tmp_path, tmp_path / "t.md").read_text(encoding="utf-8")
    show_tables(read_sweep(tmp_path), Console(quiet=True))
    with pytest.raises(DataError, match="no finished run"):
        draw_training(tmp_path, tmp_path / "c.png")


@pytest.mark.parametrize("what", ["markdown", "png", "curves"])
def test_an_empty_folder_is_an_error(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reading", "table", "--results", str(tmp_path), f"--{what}", str(tmp_path / "x")])
    assert "has no results of the ReClor experiments" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "x").exists()


def test_one_command_trains_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From files to the table, on questions that anybody can answer, with an encoder of one narrow layer."""
    for split, count in (("train", 24), ("val", 8)):
        (tmp_path / f"{split}.json").write_text(json.dumps([asdict(example) for example in made_up(count)]))
    fields = {"encoder": str(encoder_folder()), "model": {"max_tokens": 48, "dim": 32, "mlp_dim": 32}}
    (tmp_path / "own.json").write_text(json.dumps({**fields, "training": {"epochs": 1}}))
    out = tmp_path / "out"
    command = ["reading", "depth", "--data", str(tmp_path), "--out", str(out), "--part", "main", "--seeds", "1",
               "--preset", "smoke", "--config", str(tmp_path / "own.json")]  # fmt: skip
    main([*command, "--budget-seconds", "0"])
    assert "3 runs are left" in capsys.readouterr().out
    main(command)
    assert "3 finished" in capsys.readouterr().out
    files = sorted(out.glob("*/*.json"))
    assert [file.name for file in files] == [
        f"{variant}-seed1.json" for variant in ("dt-fixup-n4", "no-new-layers", "standard-n4")
    ]
    result = read_json(files[0])
    assert result["name"] == "reclor-main-dt-fixup-n4"
    assert {"encoder_sha256", "commit", "hardware", "config", "curve"} <= result.keys()
    assert result["metrics"]["chance"] == pytest.approx(100 / 3, abs=1e-3)
    assert str(tmp_path) not in json.dumps({**result, "config": None}), "no folder of this machine"
    before = [file.stat().st_mtime_ns for file in files]
    main(command)
    assert [file.stat().st_mtime_ns for file in files] == before
    assert not list(out.rglob("*.safetensors"))
    with pytest.raises(SystemExit):
        main([*command[:7], "half"])
    assert "choose one of main, depth, tune, all" in " ".join(capsys.readouterr().err.split())
