"""Reading as a task: it is learned, resumes bit for bit, and runs with any strategy and with no new layer at all."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dtfixup.errors import CheckpointError, DataError
from dtfixup.fixup import STRATEGIES
from dtfixup.reading.examples import ReadingData, ReadingExample
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.reading.task import split_examples
from dtfixup.reading.tokens import ReadingShape
from dtfixup.training.config import changed
from dtfixup.training.log import read_lines
from dtfixup.training.loop import fit
from dtfixup.training.precision import Precision, autocast
from tests.reading.tiny_reading import TINY, made_data, made_up, task_of
from tests.transformer.operations import READS_A_NUMBER, Operations


def tiny(**changes: Any) -> ReadingRunConfig:
    return changed(TINY, changes)


@pytest.mark.parametrize("layers", [0, 2])
def test_a_word_that_the_context_repeats_is_learned(layers: int, tmp_path: Path) -> None:
    config = tiny(model={"layers": layers}, training={"epochs": 8, "batch_size": 16})
    task = task_of(config, made_data(240, 60))
    result = fit(task, config.training, tmp_path)
    losses = [row["loss"] for row in read_lines(tmp_path / "steps.jsonl")]
    assert np.mean(losses[-10:]) < 0.3 * np.mean(losses[:5])
    assert result.last["accuracy"] > 80, "chance is 33"
    assert set(result.last) >= {"accuracy", "loss"}
    assert bool(result.watched) == bool(layers)


def test_a_run_that_stops_and_resumes_ends_like_one_that_did_not(tmp_path: Path) -> None:
    noisy = tiny(model={"input_dropout": 0.3, "dropout": 0.2}, training={"epochs": 2, "update": {"average": 0.9}})
    straight, stopped, again = task_of(noisy), task_of(noisy), task_of(noisy)
    fit(straight, noisy.training, tmp_path / "straight")
    assert not fit(stopped, noisy.training, tmp_path / "stopped", stop_after=7).finished
    assert fit(again, noisy.training, tmp_path / "stopped", resume=True).finished
    for name, tensor in straight.model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[name]), name
    assert not torch.equal(again.model.score.weight, stopped.model.score.weight)


def test_other_data_or_another_model_is_not_resumed(tmp_path: Path) -> None:
    fit(task_of(), TINY.training, tmp_path, stop_after=1)
    with pytest.raises(CheckpointError, match=r"fingerprint\.data was 'made-up' and is 'other'"):
        fit(task_of(data=replace(made_data(), data_hash="other")), TINY.training, tmp_path, resume=True)
    with pytest.raises(CheckpointError, match=r"model\.layers was 2 and is 1"):
        fit(task_of(tiny(model={"layers": 1})), TINY.training, tmp_path, resume=True)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_strategy_initialises_and_takes_a_step(strategy: str, tmp_path: Path) -> None:
    config = tiny(model={"strategy": strategy, "layers": 1, "dim": 16})
    result = fit(task_of(config), config.training, tmp_path, stop_after=1)
    assert result.steps == 1
    assert bool(result.watched) == (strategy == "dt-fixup")


def test_the_loss_of_a_batch_is_the_sum_of_its_examples_in_any_precision() -> None:
    task = task_of()
    task.initialise(torch.Generator().manual_seed(0))
    task.model.eval()
    shape = task.corpus.tokens.shape_of(range(4))
    alone = [task.loss_sum(torch.tensor([number]), shape).item() for number in range(4)]
    both = task.loss_sum(torch.tensor([0, -1, 1, 2, 3]), shape)
    assert both.item() == pytest.approx(sum(alone), rel=1e-4)
    with autocast(Precision.BF16, torch.device("cpu")):
        rough = task.loss_sum(torch.tensor([0, 1, 2, 3]), shape)
    assert rough.item() == pytest.approx(sum(alone), rel=0.05)
    assert rough.item() != both.item()
    rough.backward()
    weights = {name: parameter for name, parameter in task.model.named_parameters() if "pooler" not in name}
    assert all(parameter.grad is not None for parameter in weights.values())
    assert {parameter.grad.dtype for parameter in weights.values() if parameter.grad is not None} == {torch.float32}


def test_the_plan_of_a_task_is_of_its_training_examples() -> None:
    task = task_of()
    chosen = [example for batch in task.batches(0, np.random.default_rng(0)) for example in batch.examples]
    assert sorted(example for example in chosen if example >= 0) == list(range(40))
    assert task.evaluated.tolist() == list(range(40, 52))
    assert all(isinstance(batch.shape, ReadingShape) for batch in task.batches(1, np.random.default_rng(0)))


def shared_contexts(count: int) -> ReadingData:
    """Every context stands in three examples, now and then with other spaces."""
    made = made_up(count)
    train = [
        replace(each, context=made[number // 3].context.replace(" ", "  " if number % 2 else " "))
        for number, each in enumerate(made)
    ]
    return ReadingData(tuple(train), (), "shared")


def test_held_out_examples_share_no_context_with_the_others() -> None:
    data = shared_contexts(90)
    train, held = split_examples(data, 0.2)
    assert 18 <= len(held) <= 18 + 2 * 3
    assert sorted([*train, *held]) == list(range(90))

    def contexts(numbers: Any) -> set[str]:
        return {" ".join(data.train[number].context.split()) for number in numbers}

    assert not contexts(train) & contexts(held)
    assert held.tolist() == split_examples(data, 0.2)[1].tolist(), "the same for every run"
    assert held.tolist() != list(range(len(held)))


def test_a_task_that_holds_out_never_sees_val() -> None:
    task = task_of(replace(TINY, hold_out=0.25), made_data(40, 12))
    assert len(task.examples) == 40
    assert len(task.evaluated) == 10
    assert not set(task.train) & set(task.evaluated)
    assert set(task.evaluate()) == {"accuracy", "loss"}


def test_what_cannot_be_held_out_or_evaluated_is_refused() -> None:
    one = ReadingExample("a", "b", ("c", "d"), 0, "x")
    with pytest.raises(DataError, match="over 1 contexts, cannot be held out"):
        split_examples(ReadingData((one, one), (), ""), 0.5)
    with pytest.raises(DataError, match="nothing to evaluate on: add a val file to the folder, or set hold_out"):
        split_examples(ReadingData((one, one), (), ""), 0.0)


@pytest.mark.parametrize("layers", [0, 2])
def test_a_graph_can_hold_a_step(layers: int) -> None:
    task = task_of(tiny(model={"layers": layers, "input_dropout": 0.4, "dropout": 0.1}))
    task.initialise(torch.Generator().manual_seed(0))
    example_B, shape = torch.tensor([3, -1, 7]), task.corpus.tokens.shape_of([3, 7])
    task.model.train()
    with Operations() as operations, autocast(Precision.BF16, torch.device("cpu")):
        task.loss_sum(example_B, shape).backward()
    assert operations.count["aten::index"] > 0
    for waits in (READS_A_NUMBER, "aten::is_nonzero", "aten::nonzero"):
        assert operations.count[waits] == 0
