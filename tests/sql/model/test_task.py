"""SQL-SP as a task of the engine: a golden loss curve, resumed runs, held-out databases, made-up examples."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dtfixup.errors import CheckpointError, ConfigError, DataError
from dtfixup.fixup import STRATEGIES, MuChoice
from dtfixup.fixup.scaling import relation_factor
from dtfixup.sql.model.batches import Order
from dtfixup.sql.model.task import SqlTask, split_examples, synthetic_examples
from dtfixup.training.log import read_lines
from dtfixup.training.loop import fit
from tests.sql.tiny_model import CONFIG, TINY, prepared_sample, task_of, tiny_encoder

GOLDEN = Path(__file__).parents[1] / "golden_loss.json"


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
def test_every_strategy_trains(strategy: str, tmp_path: Path) -> None:
    config = replace(TINY, model=replace(CONFIG, strategy=strategy, layers=1))
    result = fit(task_of(config), config.training, tmp_path, stop_after=24)
    losses = [row["loss"] for row in read_lines(tmp_path / "steps.jsonl")]
    assert np.mean(losses[12:]) < np.mean(losses[:12]), "in the second epoch"
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


def test_made_up_examples_keep_away_from_what_is_evaluated() -> None:
    with_synthetic = prepared_sample(synthetic=60)
    _, held = split_examples(with_synthetic, "train", 1)
    database, source = (with_synthetic.arrays[f"example.{name}"] for name in ("database", "source"))
    chosen = set(synthetic_examples(with_synthetic, held).tolist())
    made_up = set(with_synthetic.split("synthetic"))
    avoided = set(database[held])
    assert chosen == {example for example in made_up if not {database[example], source[example]} & avoided}
    assert 0 < len(chosen) < len(made_up)
    with pytest.raises(DataError, match="has no made-up examples: prepare it with --synthetic"):
        synthetic_examples(prepared_sample(), held)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_task_trains_on_as_many_made_up_examples_as_configured(share: float) -> None:
    prepared = prepared_sample(synthetic=60)
    task = SqlTask(replace(TINY, synthetic=share), prepared, tiny_encoder(), torch.device("cpu"))
    batches = task.batches(0, np.random.default_rng(0))
    made_up = {example for batch in batches for example in batch.examples.tolist()} & set(prepared.split("synthetic"))
    assert abs(len(made_up) - min(60, share * len(task.train))) < (5 if share else 1)


def test_an_encoder_with_factor_0_is_not_trained(tmp_path: Path) -> None:
    task = task_of(replace(TINY, encoder_factor=0.0))
    before = {name: tensor.clone() for name, tensor in task.model.encoder.state_dict().items()}
    fit(task, TINY.training, tmp_path, stop_after=2)
    for name, tensor in task.model.encoder.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert all(name.startswith("encoder.") for name in task.left_out)
