"""The experiments of the paper: which runs they are, in every budget, and that all of them run."""

import json
import pickle
import shutil
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from dtfixup.cli import _spelled_out, main
from dtfixup.cli_options import without_paths
from dtfixup.encoders import encoder_sha256
from dtfixup.errors import ConfigError
from dtfixup.experiments import spider
from dtfixup.experiments.cells import Budget, Cell, layers_at, metric_of
from dtfixup.experiments.cost import expected_seconds
from dtfixup.experiments.reclor import CHOSEN, NO_LAYERS
from dtfixup.experiments.reclor import chosen as chosen_reading
from dtfixup.experiments.reclor import configure as configure_reading
from dtfixup.experiments.reproduce import EXPERIMENTS, Sources, cost_of, needs, planned, runs_of
from dtfixup.experiments.run_identity import Settled, known_by
from dtfixup.experiments.smoke import ENCODER, small_encoder, small_reclor, small_spider
from dtfixup.experiments.spider import Settings, chosen, configure
from dtfixup.experiments.spider_errors import read_errors
from dtfixup.experiments.spider_tune import DRAWS, draws
from dtfixup.experiments.sweep import read_results
from dtfixup.files import read_json
from dtfixup.fixup import STRATEGIES, MuChoice
from dtfixup.reading.examples import read_data
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.reading.presets import minilm as minilm_reading
from dtfixup.reading.presets import paper as paper_reading
from dtfixup.sql.dataset import open_dataset
from dtfixup.sql.presets import SqlSpConfig, minilm, paper
from dtfixup.sql.sample import sample_folder
from dtfixup.training.config import from_json, to_json

from ..reading.tiny_reading import made_up
from ..sql.tiny_model import prepared_sample

RESULTS = Path(__file__).parents[2] / "results"
NAMES = {
    "spider-main", "spider-hardness", "reclor-main", "spider-depth", "reclor-depth", "spider-curves", "spider-batch",
    "spider-errors", "init-peers", "mu-choice", "limits", "spider-tune", "reclor-tune",
}  # fmt: skip


def cells(name: str, budget: Budget = Budget.GPU) -> dict[str, Cell]:
    """By variant."""
    return {cell.variant: cell for cell in EXPERIMENTS[name].cells(budget)}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    folder = tmp_path_factory.mktemp("reclor")
    for split, count in (("train", 20), ("val", 9)):
        (folder / f"{split}.json").write_text(json.dumps([asdict(example) for example in made_up(count)]))
    return Sources(prepared_sample().folder, folder)


@pytest.mark.parametrize("budget", Budget)
def test_every_cell_has_a_place_and_a_name_of_its_own(budget: Budget) -> None:
    assert set(EXPERIMENTS) == NAMES
    for name, experiment in EXPERIMENTS.items():
        found = experiment.cells(budget)
        assert len({(cell.row, cell.column) for cell in found}) == len(found) > 0, name
        assert len({cell.variant for cell in found}) == len(found), name
        assert experiment.name == name
        assert all(cell.seeds >= 1 and cell.config.training.seed == 1 for cell in found)
    names = Counter((name, cell.variant, seed) for seed, name, cell in planned(["all"], budget))
    assert set(names.values()) == {1}, "no two runs are written to one file"


def test_depth_is_the_papers_table() -> None:
    found = cells("spider-depth")
    assert {(cell.config.model.layers, cell.config.model.strategy) for cell in found.values()} == {
        (layers, strategy) for layers in (2, 4, 8, 16, 24, 32) for strategy in ("standard", "dt-fixup")
    }
    assert {cell.config.model.layers: cell.seeds for cell in found.values()} == {2: 3, 4: 2, 8: 3, 16: 2, 24: 3, 32: 2}
    assert (found["standard-n16"].paper, found["dt-fixup-n24"].paper) == ("20.44 ± 1.11", "73.79 ± 0.49")
    for cell in found.values():
        training = cell.config.training
        assert (training.epochs, training.batch_size) == (16, 32)
        assert training.evaluate_every == (2 if cell.config.model.layers in (2, 8, 24) else 8), "often for the curves"
        assert (training.warmup > 0) == (cell.config.model.strategy == "standard")
        assert isinstance(cell.config, SqlSpConfig)
        assert (cell.config.synthetic, cell.config.beam, cell.config.hold_out) == (0.0, 5, 0)
        assert metric_of(cell.config) == "dev_exact"


def test_the_papers_budget_is_the_papers_preset() -> None:
    assert configure(Budget.PAPER, "dt-fixup", 24) == paper()
    assert cells("spider-hardness", Budget.PAPER)["dt-fixup-n24-full"].config == paper()
    standard = configure(Budget.PAPER, "standard", 8)
    assert standard.training.update == paper().training.update
    assert standard.training.warmup > 0
    main_table, depth = cells("reclor-main", Budget.PAPER), cells("reclor-depth", Budget.PAPER)
    assert main_table["dt-fixup-n4"].config == paper_reading()
    assert depth["dt-fixup-n4"].config.training.update.learning_rate == 1e-4, "the ablation study's"
    assert all(cell.seeds == 5 for cell in depth.values())


def test_settings_become_a_configuration() -> None:
    settings = Settings(2e-4, encoder_rate=1e-4, dropout=0.5, label_smoothing=0.1, warmup=0.1)
    config = configure(Budget.GPU, "standard", 8, settings, epochs=2.0, batch=(40, 3))
    model, training = config.model, config.training
    assert (model.layers, model.strategy, model.input_dropout) == (8, "standard", 0.5)
    assert (model.decoder.dropout, model.decoder.label_smoothing) == (0.5, 0.1)
    assert (config.encoder_factor, training.update.learning_rate) == (0.5, 2e-4)
    assert (training.epochs, training.batch_size, training.accumulate) == (32, 40, 3)
    assert training.warmup == round(0.1 * 32 * 59), "a tenth of the updates, of 120 of the 7,000 examples each"


def test_the_defaults_are_the_presets_but_for_length() -> None:
    config, preset = configure(Budget.GPU, "dt-fixup", 24, Settings()), minilm()
    update = config.training.update
    updates = 16 * 219
    assert 1 / (1 - update.average) == pytest.approx(0.08 * updates, rel=0.01), "as large a share as the preset's"
    own = replace(preset.training.update, average=update.average)
    training = replace(preset.training, epochs=16, evaluate_every=8, update=own)
    assert config == replace(preset, synthetic=0.0, training=training)
    short = configure(Budget.GPU, "t-fixup", 24, epochs=0.25)
    assert 1 / (1 - short.training.update.average) == pytest.approx(0.08 * updates / 4, rel=0.01)


def test_what_is_chosen_won_the_tuning() -> None:
    """Of every strategy and depth that has been tuned: as exact as any with the beam, and of those the best without."""
    settled, tuned = Settled(read_results(RESULTS)), set()
    columns: dict[str, list[Cell]] = {}
    for cell in EXPERIMENTS["spider-tune"].cells(Budget.GPU):
        columns.setdefault(cell.column, []).append(cell)
    for tried in columns.values():
        found = [
            settled.find(replace(cell.config, encoder="minilm-fp16"), 1, metric="held_out_exact") for cell in tried
        ]
        if found == [None] * len(tried):
            continue
        assert None not in found, f"{tried[0].column}: runs are missing"
        runs = [each["metrics"] for each in found if each is not None]
        scores = [(metrics["held_out_exact"], metrics["held_out_exact_greedy"]) for metrics in runs]
        best = tried[scores.index(max(scores))]
        config = configure(Budget.GPU, best.config.model.strategy, best.config.model.layers)
        training = replace(config.training, evaluate_every=best.config.training.evaluate_every)
        assert replace(config, hold_out=best.config.hold_out, training=training) == best.config, best.variant
        tuned.add((best.config.model.strategy, best.config.model.layers))
    assert tuned >= {("dt-fixup", 24), ("standard", 8), ("standard", 16), ("standard", 24), ("pre-ln", 24)}


def test_what_was_chosen_holds_from_its_depth_on(monkeypatch: pytest.MonkeyPatch) -> None:
    shallow, deep, fixup = Settings(1e-3, warmup=0.2), Settings(1e-4), Settings(7e-4)
    monkeypatch.setattr(spider, "CHOSEN", {"standard": {4: shallow, 16: deep}, "dt-fixup": {2: fixup}})
    assert [chosen("standard", layers) for layers in (2, 4, 8, 16, 24)] == [shallow, shallow, shallow, deep, deep]
    assert chosen("admin", 8) == replace(shallow, warmup=0.1), "not tuned: the standard's, and its own warm-up"
    assert chosen("deepnorm", 24) == replace(deep, warmup=0.02)
    assert chosen("rezero", 24) == chosen("t-fixup", 8) == fixup


def test_main_has_the_papers_lengths() -> None:
    found = cells("spider-main")
    assert {variant: cell.config.training.epochs for variant, cell in found.items()} == {
        "standard-n8": 16, "standard-n8-longer": 27, "dt-fixup-n8": 16, "dt-fixup-n24": 16, "t-fixup-n24-short": 4,
        "dt-fixup-n24-full": 28,
    }  # fmt: skip
    assert found["t-fixup-n24-short"].seeds == 5
    paper_lengths = {cell.config.training.epochs for cell in cells("spider-main", Budget.PAPER).values()}
    assert paper_lengths == {60, 100}


def test_hardness_is_trained_already() -> None:
    (cell,) = EXPERIMENTS["spider-hardness"].cells(Budget.GPU)
    assert cell.config == minilm()
    assert cost_of(["spider-hardness"], Budget.GPU, read_results(RESULTS)).there == 5
    assert cost_of(["spider-hardness"], Budget.GPU, [], "other").seconds_left > 0


def test_batches_differ_in_size_alone() -> None:
    found = cells("spider-batch")
    sizes = {name: cell.config.training.batch_size * cell.config.training.accumulate for name, cell in found.items()}
    assert sizes == {
        "standard-n8-batch16": 16, "dt-fixup-n8-batch16": 16, "standard-n8-batch32": 32, "dt-fixup-n8-batch32": 32,
        "dt-fixup-n8-batch120": 120,
    }  # fmt: skip
    small, large = found["dt-fixup-n8-batch16"].config.training, found["dt-fixup-n8-batch120"].config.training
    assert small.update == replace(large.update, average=small.update.average)
    assert small.epochs == large.epochs
    assert known_by(found["dt-fixup-n8-batch32"].config) == known_by(cells("spider-depth")["dt-fixup-n8"].config)


def test_choices_of_mu_differ_in_mu_alone() -> None:
    found = cells("mu-choice")
    start = cells("spider-depth")["dt-fixup-n24"].config
    assert known_by(found["max-limit"].config) == known_by(start), "it is trained already"
    assert isinstance(start, SqlSpConfig)
    configs = [cell.config for cell in found.values() if isinstance(cell.config, SqlSpConfig)]
    assert len(configs) == len(found)
    for config in configs:
        model = replace(start.model, stream_limit=config.model.stream_limit)
        assert known_by(replace(start, mu=config.mu, model=model)) == known_by(config)
    assert Counter(config.model.stream_limit for config in configs) == {2.0: 5, 0.0: 5}
    assert {config.mu for config in configs} == set(MuChoice)


def test_tuning_looks_at_held_out_databases_alone() -> None:
    found = list(cells("spider-tune").values())
    assert all(isinstance(cell.config, SqlSpConfig) and cell.config.hold_out == 20 for cell in found)
    assert {metric_of(cell.config) for cell in found} == {"held_out_exact"}
    tried = Counter((cell.config.model.strategy, cell.config.model.layers) for cell in found)
    assert tried["dt-fixup", 24] == DRAWS == 12
    assert min(tried["standard", 8], tried["standard", 24], tried["pre-ln", 24]) >= 4
    for strategy in ("standard", "pre-ln"):
        own = [cell.config for cell in found if cell.config.model.strategy == strategy]
        assert min(config.training.warmup for config in own) > 0
        assert len({config.training.update.learning_rate for config in own}) > 2
        assert len({config.model.input_dropout for config in own}) > 1


def test_draws_are_from_the_papers_grid_and_the_same_for_everybody() -> None:
    drawn, grid = draws(Budget.GPU), draws(Budget.PAPER)
    assert len(set(grid)) == 5 * 4 * 3
    assert len(set(drawn)) == 12
    assert drawn == draws(Budget.GPU)
    known = {(each.learning_rate, each.dropout, each.label_smoothing) for each in grid}
    assert {(each.learning_rate, each.dropout, each.label_smoothing) for each in drawn} < known
    assert all(each.encoder_rate == pytest.approx(0.2 * each.learning_rate) for each in drawn)


def test_peers_are_all_strategies_on_both_tasks() -> None:
    found = EXPERIMENTS["init-peers"].cells(Budget.GPU)
    places = Counter((cell.config.model.strategy, cell.column) for cell in found)
    assert len(places) == len(found) == len(STRATEGIES) * 4
    for cell in found:
        warms_up = STRATEGIES[cell.config.model.strategy].warmup != "none" or cell.config.model.strategy == "pre-ln"
        assert (cell.config.training.warmup > 0) == warms_up, cell.variant


def test_peers_that_were_not_tuned_have_the_rates_of_one_that_was() -> None:
    found = {cell.variant: cell.config for cell in EXPERIMENTS["init-peers"].cells(Budget.GPU)}
    for task in ("spider", "reclor"):
        for layers in (8, 24):
            for strategy, alike in {"t-fixup": "dt-fixup", "rezero": "dt-fixup", "unscaled": "dt-fixup"}.items():
                own, tuned = (found[f"{task}-{name}-n{layers}"] for name in (strategy, alike))
                assert own.training == replace(tuned.training, evaluate_every=own.training.evaluate_every)
                assert (own.encoder_factor, own.model.input_dropout) == (
                    tuned.encoder_factor,
                    tuned.model.input_dropout,
                )


def test_reclor_is_trained_as_its_own_command_does() -> None:
    for name, cell in cells("reclor-depth").items():
        model = cell.config.model
        settings = chosen_reading(model.strategy, model.layers)
        assert cell.config == configure_reading(minilm_reading(), model.strategy, model.layers, settings, 1, 4638), name
    main_table = cells("reclor-main")
    none = configure_reading(minilm_reading(), NO_LAYERS, 0, CHOSEN[NO_LAYERS][0], 1, 4638)
    assert main_table["no-new-layers"].config == none
    assert {cell.seeds for cell in main_table.values()} == {5}


def test_a_run_of_several_experiments_is_one_run(sources: Sources) -> None:
    curves, errors = (runs_of([name], Budget.GPU, sources) for name in ("spider-curves", "spider-errors"))
    depth = {run.key: run for run in runs_of(["spider-depth"], Budget.GPU, sources)}
    for run in (*curves, *errors):
        assert (run.name, run.config) == (depth[run.key].name, depth[run.key].config)
        assert run.name.startswith("spider-depth-")
    everything = runs_of(["all"], Budget.GPU, sources)
    assert len({run.key for run in everything}) == len({run.name for run in everything}) == len(everything)
    assert {run.key for run in curves} <= {run.key for run in everything}
    (alone,) = [run for run in runs_of(["mu-choice"], Budget.GPU, sources, seeds=1) if run.key in depth]
    assert alone.config.training.evaluate_every == 2, "as for the curves, though this experiment draws none"


def test_first_seeds_come_first(sources: Sources) -> None:
    runs = runs_of(["spider-main", "reclor-main"], Budget.GPU, sources)
    seeds = [run.seed for run in runs]
    assert seeds == sorted(seeds)
    assert {run.config.training.seed == run.seed for run in runs} == {True}
    assert {run.experiment for run in runs[:9]} == {"spider-depth", "spider-main", "reclor-main"}
    assert Counter(run.seed for run in runs_of(["spider-main"], Budget.GPU, sources, seeds=2)) == {1: 6, 2: 6}


def test_budgets_and_encoders_have_files_of_their_own(sources: Sources) -> None:
    names = {
        run.name
        for budget in Budget
        for encoder in (None, "folder/other")
        for run in runs_of(["spider-depth"], budget, replace(sources, encoder=encoder), seeds=1)
    }
    assert len(names) == 2 * (10 + 12 + 12), "in the smoke budget N = 2 and 4 come to the same"
    (run, *_) = runs_of(["spider-depth"], Budget.GPU, replace(sources, encoder="a/minilm-fp16"), seeds=1)
    assert run.name == "spider-depth-standard-n2-seed1"
    assert run.config.encoder == "a/minilm-fp16"


def test_runs_can_be_sent_to_other_processes(sources: Sources) -> None:
    runs = runs_of(["reclor-main", "spider-main"], Budget.SMOKE, sources)
    again = pickle.loads(pickle.dumps(runs))
    assert [run.key for run in again] == [run.key for run in runs]
    assert again[-1].train == runs[-1].train


def test_what_is_not_there_is_an_error(sources: Sources) -> None:
    with pytest.raises(ConfigError, match=r"no experiment 'spider'.*spider-depth, spider-main.*or all"):
        runs_of(["spider-main", "spider"], Budget.GPU, sources)
    with pytest.raises(ConfigError, match="need Spider"):
        runs_of(["spider-main"], Budget.GPU, replace(sources, spider=None))
    with pytest.raises(ConfigError, match="need ReClor"):
        runs_of(["init-peers"], Budget.GPU, replace(sources, reclor=None))
    assert needs(["reclor-main"], Budget.GPU) == (False, True)
    assert needs(["spider-main"], Budget.GPU) == (True, False)
    assert needs(["init-peers"], Budget.GPU) == (True, True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sql-batch16-seed1", SqlSpConfig),
        ("reclor-main-dt-fixup-n4-seed5", ReadingRunConfig),
        ("reclor-depth-dt-fixup-n8-seed2", ReadingRunConfig),
    ],
)
def test_the_cost_is_what_was_measured(name: str, kind: type[SqlSpConfig | ReadingRunConfig]) -> None:
    """Within a fifth, for runs that had the GPU for themselves, at least most of the time."""
    measured = read_json(RESULTS / f"{name}.json")
    assert expected_seconds(from_json(kind, measured["config"])) == pytest.approx(measured["wall_seconds"], rel=0.2)


def test_the_cost_of_what_is_there_is_not_left(sources: Sources) -> None:
    run, *others = runs_of(["spider-batch"], Budget.GPU, sources)
    content = {"config": to_json(run.config), "seed": 1, "metrics": {"dev_exact": 1.0}, "wall_seconds": 1000.0}
    before, after = (cost_of(["spider-batch"], Budget.GPU, found) for found in ([], [content]))
    assert (before.runs, before.there, after.there) == (len(others) + 1, 0, 1)
    expected = expected_seconds(run.config)
    assert after.seconds == pytest.approx(before.seconds - expected + 1000)
    assert after.seconds_left == pytest.approx(before.seconds - expected)
    shared = cost_of(["spider-batch"], Budget.GPU, [{**content, "at_once": 4}])
    assert shared.seconds == pytest.approx(after.seconds - 750)


def test_words_of_the_command_line() -> None:
    words = ["reproduce", "spider-main", "mu-choice", "--at-once", "2", "--mps", "--reclor", "/secret"]
    assert _spelled_out(words) == [
        "reproduce", "--names", '["spider-main", "mu-choice"]', "--at_once", "2", "--mps", "true",
        "--reclor", "/secret",
    ]  # fmt: skip
    assert _spelled_out(["reproduce", *words[3:6], "spider-main", "mu-choice", *words[6:]]) == _spelled_out(words)
    assert _spelled_out(["reproduce", "--mps", "spider-main", "--names=x"])[1:3] == ["--names", '["spider-main"]']
    assert without_paths(words)[-1] == "DIR"
    assert _spelled_out(["check", "--depths", "2"]) == ["check", "--depths", "2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["spider-main"], "spider-main: give --data"),
        (["reclor-main", "--data", "x"], "reclor-main: give --reclor"),
        (["nothing"], "no experiment 'nothing'"),
        (["spider-main", "--budget", "large"], "choose one of smoke, gpu, paper"),
        (["spider-main", "--seeds", "0"], "1 or more"),
    ],
)
def test_bad_options_say_what_to_do(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", *options])
    assert message in " ".join(capsys.readouterr().err.split())


def test_errors_are_not_classified_without_the_databases(
    sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--budget", "smoke", "--out", str(tmp_path), "--budget-seconds", "0", "--data", str(sources.spider)]
    main(["reproduce", "spider-errors", *options])
    assert "give --data with Spider's databases" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main(["reproduce", "spider-errors", *options, "--engine", "ray"])
    assert "for the local engine" in " ".join(capsys.readouterr().err.split())


def test_a_run_that_failed_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(small_encoder(), tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"half")
    options = ["--budget", "smoke", "--encoder", str(tmp_path / "broken"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "reclor-main", *options])
    assert ended.value.code == 1
    assert "3 failed" in capsys.readouterr().out


def test_another_encoder_of_the_same_name_is_refused(
    sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, words = tmp_path / "out", ["reproduce", "reclor-main", "--budget", "smoke", "--budget-seconds", "0"]
    out.mkdir()
    known = {"name": "reclor-main-x", "seed": 1, "encoder": ENCODER, "encoder_sha256": encoder_sha256(small_encoder())}
    (out / "x.json").write_text(json.dumps(known))
    main([*words, "--out", str(out), "--encoder", str(small_encoder())])
    (out / "x.json").write_text(json.dumps({**known, "encoder_sha256": "other"}))
    with pytest.raises(SystemExit):
        main([*words, "--out", str(out), "--encoder", str(small_encoder())])
    assert f"another encoder that is called {ENCODER} too (reclor-main-x-seed1.json)" in " ".join(
        capsys.readouterr().err.split()
    )


def test_small_data_are_the_first_of_the_large(sources: Sources) -> None:
    assert sources.reclor is not None
    small, large = open_dataset(small_spider(sample_folder())), open_dataset(sample_folder())
    train = small.split("train")
    assert len(train) == 24
    assert len({example.database for example in train}) == 3
    assert set(train) <= set(large.split("train"))
    assert small.database_file(train[0].database).is_file()
    assert len(small.split("dev")) == 8
    reading = read_data(small_reclor(sources.reclor))
    assert reading.train == read_data(sources.reclor).train[:16]
    for example in (*(made := read_data(small_reclor())).train, *made.val):
        thing = example.question.removeprefix("Who has the ").removesuffix("?")
        assert example.label is not None
        assert f"{example.answers[example.label]} has the {thing}." in example.context


def test_every_experiment_runs_on_a_cpu_and_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All names together take less than four minutes of one core, and a second call trains nothing."""
    out, started = tmp_path / "out", time.process_time()
    command = ["reproduce", "all", "--budget", "smoke", "--out", str(out)]
    main([*command, "--budget-seconds", "0"])
    count = len(planned(["all"], Budget.SMOKE))
    assert f"{count} runs are left" in capsys.readouterr().out
    main(command)
    assert time.process_time() - started < 4 * 60
    assert f"{count} finished" in capsys.readouterr().out
    files = {file: file.stat().st_mtime_ns for file in out.glob("*.json")}
    settled = Settled(read_results(out))
    for name, experiment in EXPERIMENTS.items():
        for cell in experiment.cells(Budget.SMOKE):
            config = replace(cell.config, encoder="random-bert")
            content = settled.find(config, 1, metric=metric_of(config))
            assert content is not None, f"{name} {cell.variant}"
            assert str(tmp_path) not in json.dumps(content), "no folder of this machine"
            assert content["config"]["model"]["layers"] in (0, layers_at(Budget.SMOKE, 24), 1, 2, 4, 8)
    errors = sorted(out.glob("spider-errors-*.json"))
    assert [read_errors(file).run["seed"] for file in errors] == [1, 1, 1]
    assert len(files) == count + 3
    for name in EXPERIMENTS:
        main([*command[:1], name, *command[2:]])
    assert {file: file.stat().st_mtime_ns for file in out.glob("*.json")} == files
    main(["reproduce", "list", *command[2:]])
    last = capsys.readouterr().out.splitlines()
    (row,) = [line for line in last if "│ all" in line]
    assert row.split("│")[3:5] == [f" {count:4} ", f" {count:5} "]
    assert row.split("│")[6].strip() == "0"
