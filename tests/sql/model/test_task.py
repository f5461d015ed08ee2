"""SQL-SP as a task: a golden loss curve, held-out databases, stored models, and whole runs from the command line."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dtfixup_paper.runs.run import differences
from dtfixup_paper.tables.spider_errors import RunErrors, read_errors

from dtfixup.cli.main import main
from dtfixup.errors import CheckpointError, ConfigError, DataError
from dtfixup.files import read_json, write_json
from dtfixup.fixup import STRATEGIES, MuChoice
from dtfixup.fixup.scaling import relation_factor
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.execution.run import first_that_runs
from dtfixup.sql.model.batches import Order
from dtfixup.sql.model.config import PRESETS, SqlSpConfig, minilm, paper, smoke
from dtfixup.sql.model.decoding import decode, exact_metrics
from dtfixup.sql.model.packing import pack_model
from dtfixup.sql.model.prepared import Prepared, open_prepared
from dtfixup.sql.model.store import load_model
from dtfixup.sql.model.task import SqlTask, split_examples, synthetic_examples
from dtfixup.sql.model.train import train_sql
from dtfixup.sql.preparation.prepare import prepare
from dtfixup.training.config import TrainingConfig, changed, from_json, named, to_json
from dtfixup.training.log import read_lines
from dtfixup.training.loop import fit
from dtfixup.training.update import UpdateConfig
from dtfixup.weights.tensors import read_content
from tests.sql.tiny_model import CONFIG, prepared_sample, tiny_encoder

GOLDEN = Path(__file__).parents[1] / "golden_loss.json"
TINY = SqlSpConfig(
    encoder="tiny",
    model=CONFIG,
    training=TrainingConfig(
        epochs=5, batch_size=16, log_every=1, evaluate_every=0, update=UpdateConfig(learning_rate=2e-3, average=0.9)
    ),
    order=Order.STORED,
    beam=2,
)


def task_of(config: SqlSpConfig = TINY) -> SqlTask:
    return SqlTask(config, prepared_sample(), tiny_encoder(), torch.device("cpu"))


@pytest.fixture(scope="module")
def finished(encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that the command line made."""
    folder = tmp_path_factory.mktemp("run") / "out"
    options = ["--preset", "smoke", "--encoder", str(encoder_folder), "--epochs", "1", "--seed", "3"]
    main(["sql", "train", "--data", str(sample_folder()), "--out", str(folder), *options])
    return folder


def test_the_loss_curve_is_the_golden_one(tmp_path: Path) -> None:
    """A change of a digit here is a change of training: look why before writing a new curve."""
    fit(task_of(), TINY.training, tmp_path)
    curve = [row["loss"] for row in read_lines(tmp_path / "steps.jsonl")]
    golden = json.loads(GOLDEN.read_text())
    assert len(curve) == len(golden)
    np.testing.assert_allclose(curve, golden, rtol=2e-3)
    assert np.mean(golden[-12:]) < 0.8 * np.mean(golden[:12])


def test_a_run_that_stops_and_resumes_ends_like_one_that_did_not(tmp_path: Path) -> None:
    noisy = replace(
        TINY,
        order=Order.SHUFFLED,
        model=replace(CONFIG, input_dropout=0.2, decoder=replace(CONFIG.decoder, dropout=0.2)),
    )
    straight, stopped = task_of(noisy), task_of(noisy)
    fit(straight, noisy.training, tmp_path / "straight")
    assert not fit(stopped, noisy.training, tmp_path / "stopped", stop_after=7).finished
    again = task_of(noisy)
    assert fit(again, noisy.training, tmp_path / "stopped", resume=True).finished
    for name, tensor in straight.model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[name]), name
    assert not torch.equal(again.model.project_words.weight, stopped.model.project_words.weight)


def test_other_data_or_another_model_is_not_resumed(tmp_path: Path) -> None:
    fit(task_of(), TINY.training, tmp_path, stop_after=1)
    with pytest.raises(CheckpointError, match=r"model\.layers was 2 and is 1"):
        fit(task_of(replace(TINY, model=replace(CONFIG, layers=1))), TINY.training, tmp_path, resume=True)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_strategy_initialises_and_takes_a_step(strategy: str, tmp_path: Path) -> None:
    config = replace(TINY, model=replace(CONFIG, strategy=strategy, layers=1))
    task = task_of(config)
    result = fit(task, config.training, tmp_path, stop_after=1)
    assert result.steps == 1
    assert bool(result.watched) == (strategy == "dt-fixup")


def test_another_mu_changes_where_weights_start_and_nothing_else() -> None:
    """Ten times too large: factors a tenth as large or so, the same limit, the same everything outside the stack."""
    model = replace(CONFIG, stream_limit=2.0)
    tasks = [task_of(replace(TINY, model=model, mu=choice)) for choice in (MuChoice.MAX, MuChoice.TOO_LARGE)]
    reports = [task.initialise(torch.Generator().manual_seed(1)) for task in tasks]
    (usual, large), (usual_report, large_report) = ([task.model for task in tasks], reports)
    assert usual_report is not None
    assert large_report is not None
    assert usual_report.input_norm is not None
    mu = usual_report.input_norm
    assert large_report.input_norm == pytest.approx(10 * mu)
    assert usual.stack.limit is not None
    assert large.stack.limit is not None
    assert float(usual.stack.limit.longest) == float(large.stack.limit.longest) == pytest.approx(2 * mu)
    ratio = relation_factor(2, 10 * mu) / relation_factor(2, mu)
    others = dict(large.named_parameters())
    scaled = {row.name for row in usual_report.tensors if row.factor != 1}
    assert len(scaled) == 2 * 5, "value, output, two of the MLP and relation values, in each layer"
    for name, parameter in usual.named_parameters():
        is_scaled = name.removeprefix("stack.") in scaled
        torch.testing.assert_close(others[name], parameter * (ratio if is_scaled else 1.0))


def test_databases_held_out_are_not_trained_on() -> None:
    prepared = prepared_sample()
    train, held = split_examples(prepared, "train", 2)
    databases = prepared.arrays["example.database"]
    assert len(set(databases[held])) == 2
    assert not set(databases[train]) & set(databases[held])
    everything, dev = split_examples(prepared, "train", 0)
    assert set(train) | set(held) >= set(everything)
    assert list(dev) == list(prepared.split("dev"))
    assert list(split_examples(prepared, "train", 2)[1]) == list(held)


def test_held_out_databases_and_splits_that_cannot_be_are_refused() -> None:
    with pytest.raises(DataError, match="cannot be held out of"):
        split_examples(prepared_sample(), "train", 100)
    with pytest.raises(DataError, match="has no split 'test'"):
        split_examples(prepared_sample(), "train,test", 0)
    with pytest.raises(ConfigError, match="names no split"):
        split_examples(prepared_sample(), " , ", 0)


@pytest.fixture(scope="module")
def with_synthetic(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("synthetic")
    prepare(sample_folder(), folder, synthetic=60, workers=1, show_progress=False)
    return open_prepared(folder)


def test_made_up_examples_are_prepared_with_their_source(with_synthetic: Prepared) -> None:
    made_up, train = with_synthetic.split("synthetic"), with_synthetic.split("train")
    assert len(made_up) == 60
    database, source = (with_synthetic.arrays[f"example.{name}"] for name in ("database", "source"))
    assert list(database[list(train)]) == list(source[list(train)])
    assert set(source[list(made_up)]) <= set(database[list(train)])
    assert list(database[list(made_up)]) != list(source[list(made_up)])
    assert prepare(sample_folder(), with_synthetic.folder, synthetic=60, workers=1).was_there
    for splits in (["dev"], ["train", "synthetic"]):
        with pytest.raises(ConfigError, match="come from the split train"):
            prepare(sample_folder(), with_synthetic.folder, splits=splits, synthetic=60)


def test_made_up_examples_keep_away_from_what_is_evaluated(with_synthetic: Prepared) -> None:
    _, held = split_examples(with_synthetic, "train", 1)
    database, source = (with_synthetic.arrays[f"example.{name}"] for name in ("database", "source"))
    found = synthetic_examples(with_synthetic, held)
    made_up = set(with_synthetic.split("synthetic"))
    assert 0 < len(found) < len(made_up)
    assert set(found.tolist()) <= made_up
    avoided = set(database[held])
    for example in made_up - set(found.tolist()):
        assert {database[example], source[example]} & avoided
    for example in found:
        assert not {database[example], source[example]} & avoided
    with pytest.raises(DataError, match="has no made-up examples: prepare it with --synthetic"):
        synthetic_examples(prepared_sample(), held)


def test_a_task_trains_on_made_up_examples_where_asked(with_synthetic: Prepared) -> None:
    config = replace(TINY, synthetic=0.5)
    task = SqlTask(config, with_synthetic, tiny_encoder(), torch.device("cpu"))
    batches = task.batches(0, np.random.default_rng(0))
    chosen = {example for batch in batches for example in batch.examples.tolist()} & set(
        with_synthetic.split("synthetic")
    )
    assert abs(len(chosen) - min(60, 0.5 * len(task.train))) < 5
    plain = SqlTask(TINY, with_synthetic, tiny_encoder(), torch.device("cpu"))
    assert not {e for batch in plain.batches(0, np.random.default_rng(0)) for e in batch.examples.tolist()} & chosen


def test_an_encoder_with_factor_0_is_not_trained(tmp_path: Path) -> None:
    task = task_of(replace(TINY, encoder_factor=0.0))
    before = {name: tensor.clone() for name, tensor in task.model.encoder.state_dict().items()}
    fit(task, TINY.training, tmp_path, stop_after=2)
    for name, tensor in task.model.encoder.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert all(name.startswith("encoder.") for name in task.left_out)


def test_presets_are_the_papers_and_ours() -> None:
    assert (paper().model.layers, paper().training.epochs, paper().training.batch_size) == (24, 60, 16)
    assert (paper().model.input_dropout, paper().model.decoder.label_smoothing) == (0.6, 0.2)
    assert not paper().model.freeze_embeddings
    assert minilm().model.freeze_embeddings
    assert minilm().model.layers == 24
    for make in PRESETS.values():
        assert from_json(SqlSpConfig, to_json(make())) == make()
    with pytest.raises(ConfigError, match="no preset 'large': choose one of paper, minilm, smoke"):
        named(PRESETS, "large")


def test_changes_reach_nested_fields_and_unknown_ones_are_refused() -> None:
    config = changed(smoke(), {"model": {"decoder": {"dropout": 0.5}}, "order": "stored"})
    assert config.model.decoder == replace(smoke().model.decoder, dropout=0.5)
    assert config.order is Order.STORED
    with pytest.raises(ConfigError, match='no field "depth"'):
        changed(smoke(), {"model": {"depth": 3}})
    with pytest.raises(ConfigError, match="order is one of stored, shuffled, got 'grouped'"):
        changed(smoke(), {"order": "grouped"})


def test_a_removed_field_of_an_older_file_is_dropped_if_it_changed_nothing() -> None:
    older = to_json(smoke())
    older["model"]["added_limit"] = 0.0
    assert from_json(SqlSpConfig, older) == smoke()
    older["model"]["added_limit"] = 1.0
    with pytest.raises(ConfigError, match=r"model\.added_limit = 1\.0 is not supported: this version reads 0\.0 only"):
        from_json(SqlSpConfig, older)


def test_a_finished_run_says_where_its_numbers_come_from(finished: Path) -> None:
    result = read_json(finished / "result.json")
    needed = {"name", "command", "commit", "seed", "config", "encoder", "data_hash", "hardware", "wall_seconds"}
    assert needed <= set(result)
    assert result["seed"] == 3
    assert result["config"]["training"]["epochs"] == 1
    metrics = result["metrics"]
    assert {"dev_exact", "dev_exact_easy", "step_ms", "skipped_steps", "decode_seconds", "peak_gib"} <= set(metrics)
    assert all(isinstance(value, int | float) for value in metrics.values())
    beams = [json.loads(line) for line in (finished / "beams.jsonl").read_text().splitlines()]
    assert [beam["example"] for beam in beams] == list(prepared_sample().split("dev"))
    assert all(scores == sorted(scores, reverse=True) for scores in ([s for _, s in b["beam"]] for b in beams))


def test_a_stored_model_predicts_what_its_run_did(finished: Path, tmp_path: Path) -> None:
    out, beams = tmp_path / "dev.sql", tmp_path / "beams.jsonl"
    options = ["--data", str(sample_folder()), "--out", str(out), "--beam", "2", "--beams", str(beams)]
    main(["sql", "predict", "--model", str(finished), *options])
    made = [json.loads(line)["beam"] for line in (finished / "beams.jsonl").read_text().splitlines()]
    assert out.read_text().splitlines() == [beam[0][0] if beam else "" for beam in made]
    again = [json.loads(line)["beam"] for line in beams.read_text().splitlines()]
    assert [[query for query, _ in beam] for beam in again] == [[query for query, _ in beam] for beam in made]


def test_the_errors_of_a_stored_model_are_those_of_its_run(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def analyse(*options: str) -> RunErrors:
        where = ["--data", str(sample_folder()), "--out", str(tmp_path / "errors.json"), "--variants", "0"]
        main(["sql", "errors", *options, *where])
        return read_errors(tmp_path / "errors.json")

    beams, own = tmp_path / "beams.jsonl", ["--result", str(finished / "result.json")]
    first = analyse(*own, "--beams", str(finished / "beams.jsonl"))
    again = analyse("--model", str(finished), "--beams", str(beams), "--beam", "2")
    assert again.classes == first.classes
    assert len(set(again.classes)) > 1
    assert (again.run["name"], again.run["seed"]) == (finished.name, first.run["seed"])
    assert differences(from_json(SqlSpConfig, first.run["config"]), again.run) == [], "so that tables find it"
    kept, messages = beams.read_bytes(), ("exists: give --result", "give either --result or --model")
    for result, message in zip(([], own), messages, strict=True):
        with pytest.raises(SystemExit):
            analyse(*result, "--model", str(finished), "--beams", str(beams))
        assert message in " ".join(capsys.readouterr().err.split())
    assert beams.read_bytes() == kept


def test_the_model_of_a_run_is_packed_with_the_result_of_that_run_alone(finished: Path, tmp_path: Path) -> None:
    out, own = tmp_path / "packed.safetensors", read_json(finished / "result.json")
    assert pack_model(finished, out, result=finished / "result.json").result_checked
    assert read_content(out)["accuracy"]["metrics"]["dev_exact"] == own["metrics"]["dev_exact"]
    training = {**own["config"]["training"], "seed": 4}
    other = write_json(tmp_path / "other.json", {**own, "config": {**own["config"], "training": training}})
    with pytest.raises(DataError, match="they differ in seed"):
        pack_model(finished, out, result=other)


def test_the_first_query_that_runs_is_picked() -> None:
    database = next((sample_folder() / "database").glob("*/*.sqlite"))
    assert first_that_runs(["SELECT nothing FROM nowhere", "SELECT 1", "SELECT 2"], database) == "SELECT 1"
    assert first_that_runs(["SELECT nothing FROM nowhere"], database) == "SELECT nothing FROM nowhere"
    assert first_that_runs([], database) == ""


def test_picking_what_runs_needs_databases(finished: Path, tmp_path: Path) -> None:
    options = ["--data", str(prepared_sample().folder), "--out", str(tmp_path / "x.sql"), "--pick", "executable"]
    with pytest.raises(SystemExit):
        main(["sql", "predict", "--model", str(finished), *options, "--beam", "1"])
    assert not (tmp_path / "x.sql").exists()


def test_what_holds_no_model_is_refused(tmp_path: Path, finished: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no last\.safetensors, so its run has not finished"):
        load_model(tmp_path)
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes((finished / "last.safetensors").read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="truncated or damaged"):
        load_model(damaged)


def test_a_stored_model_needs_its_own_encoder(finished: Path) -> None:
    for other in (tiny_encoder(dim=64), tiny_encoder(seed=1)):
        with pytest.raises(CheckpointError, match=r"trained on another encoder than .* its frozen weights differ"):
            load_model(finished, encoder=other)


def test_decoding_keeps_the_order_of_examples_and_counts_right_ones() -> None:
    task = task_of()
    prepared = prepared_sample()
    examples = np.asarray(prepared.split("dev"))[[5, 0, 9]]
    together = decode(task.model, task.corpus, prepared, examples, beam=1)
    for place, example in enumerate(examples):
        (alone,) = decode(task.model, task.corpus, prepared, np.array([example]), beam=1)
        assert [query.sql for query in alone] == [query.sql for query in together[place]]
    gold = [prepared.text("query", "queries", int(example)) for example in examples]
    assert exact_metrics(prepared, examples, gold)["exact"] == 100
    assert exact_metrics(prepared, examples, [gold[0], "", "SELECT"])["exact"] == pytest.approx(100 / 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset", "huge"], "no preset 'huge'"),
        (["--preset", "smoke", "--precision", "fp8"], "invalid choice 'fp8' for argument '--precision"),
        (["--preset", "smoke", "--layers", "0"], "at least 1"),
        (["--preset", "smoke", "--splits", "train,nothing"], "no split 'nothing'"),
    ],
)
def test_a_bad_option_says_what_is_wrong(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["sql", "train", "--data", str(sample_folder()), "--out", str(tmp_path / "run"), *options])
    assert exit_.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_a_file_changes_the_preset_and_options_change_the_file(encoder_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("training: {epochs: 7, seed: 5}\nmodel: {layers: 1}\n")
    options = ["--config", str(file), "--epochs", "1", "--preset", "smoke", "--encoder", str(encoder_folder)]
    main(["sql", "train", "--data", str(sample_folder()), "--out", str(tmp_path / "run"), *options])
    config = read_json(tmp_path / "run" / "result.json")["config"]
    assert (config["training"]["epochs"], config["training"]["seed"], config["model"]["layers"]) == (1, 5, 1)
    assert str(encoder_folder.parent) not in (tmp_path / "run" / "result.json").read_text()


def test_a_run_that_is_stopped_has_no_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = replace(fit(task_of(), TINY.training, tmp_path / "first", stop_after=1))
    monkeypatch.setattr("dtfixup.sql.model.train.fit", lambda *a, **k: stopped)
    monkeypatch.setattr("dtfixup.sql.model.train.load_encoder", lambda name: tiny_encoder())
    run = train_sql(TINY, prepared_sample(), tmp_path / "second", name="x", command="x")
    assert not run.metrics
    assert not (tmp_path / "second" / "result.json").exists()
