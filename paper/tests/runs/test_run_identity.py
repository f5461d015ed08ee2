"""Which result files are of which run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from dtfixup_paper.runs.run_identity import Settled, State, find_result, known_by, run_key, same_run

from dtfixup.files import read_json
from dtfixup.fixup import MuChoice
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.sql.model.config import SqlSpConfig, minilm
from dtfixup.training.config import TrainingConfig, changed, to_json

RESULTS = Path(__file__).parents[3] / "results"
METRIC = "dev_exact"


def content(config: Any, seed: int = 1, **changes: Any) -> dict[str, Any]:
    """A file of plain training."""
    return {"config": to_json(config), "seed": seed, "data_hash": "data", "metrics": {METRIC: 60.0}, **changes}


def same(content: dict[str, Any], config: Any, seed: int = 1, **how: Any) -> bool:
    return same_run(content, config, seed, **{"metric": METRIC, "data_hash": "data"} | how)


def test_a_run_is_known_by_configuration_seed_and_data() -> None:
    config = minilm()
    assert same(content(config), config)
    assert not same(content(config), config, 2)
    assert not same(content(config, 2), config)
    assert not same(content(config), config, data_hash="other")
    assert same(content(config), config, data_hash=None), "any data"
    assert not same(content(config), changed(config, {"model": {"layers": 8}}))
    assert not same(content(config), changed(config, {"training": {"update": {"learning_rate": 1e-3}}}))
    assert not same(content(config), ReadingRunConfig())


def test_the_seed_of_a_configuration_does_not_count() -> None:
    assert same(content(changed(minilm(), {"training": {"seed": 3}}), 3), minilm(), 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"encoder": "some/folder/minilm"},
        {"encoder": "scratch/minilm-fp16"},
        {"training": {"evaluate_every": 1, "log_every": 7, "checkpoint_minutes": 1.0, "graphs": False}},
        {"training": {"skipped_in_a_row": 5}},
    ],
)
def test_what_changes_nothing_that_is_trained_is_not_compared(changes: dict[str, Any]) -> None:
    config = changed(minilm(), changes)
    assert same(content(config), minilm())
    assert same(content(minilm()), config)
    assert run_key(config, 1, "data") == run_key(minilm(), 1, "data")


def test_another_encoder_is_another_run() -> None:
    assert not same(content(replace(minilm(), encoder="roberta-large")), minilm())


def test_a_field_that_was_added_since_has_its_default() -> None:
    older = content(minilm())
    del older["config"]["model"]["stream_limit"]
    del older["config"]["beam"]
    assert not same(older, minilm()), "which has a limit"
    assert same(older, changed(minilm(), {"model": {"stream_limit": to_json(SqlSpConfig())["model"]["stream_limit"]}}))


def test_what_older_result_files_do_not_say_is_as_it_was() -> None:
    """Hundreds of them have no such field: another default would turn those runs into others."""
    config = SqlSpConfig()
    assert (config.model.stream_limit, config.mu) == (0.0, MuChoice.MAX)


@pytest.mark.parametrize(
    "config", [None, [], {**to_json(minilm()), "gone": 1}, {**to_json(minilm()), "beam": "many"}, {"training": 3}]
)
def test_what_cannot_be_read_is_no_match(config: Any) -> None:
    assert not same({**content(minilm()), "config": config}, minilm())


@dataclass(frozen=True)
class Needy:
    layers: int


def test_a_field_without_a_default_must_be_there() -> None:
    assert same(content(Needy(2)), Needy(2))
    assert not same({**content(Needy(2)), "config": {}}, Needy(2))


def test_a_run_must_have_ended() -> None:
    for state in State:
        ended = state in (State.FINISHED, State.DIVERGED)
        assert same(content(minilm(), state=state.value), minilm()) is ended
    assert not same({**content(minilm()), "seed": None}, minilm())


@pytest.mark.parametrize("metrics", [{}, {"step_ms": 3.0}, {METRIC: None}, None])
def test_a_benchmark_of_the_same_configuration_is_no_result(metrics: Any) -> None:
    assert not same(content(minilm(), metrics=metrics), minilm())


def test_a_run_that_was_given_up_counts_for_those_with_as_little_patience() -> None:
    broken = content(minilm(), state="diverged", metrics={})
    assert same(broken, minilm())
    assert same(broken, changed(minilm(), {"training": {"evaluate_every": 1}}))
    assert not same(broken, changed(minilm(), {"training": {"skipped_in_a_row": 100}}))
    assert not same(broken, changed(minilm(), {"training": {"skipped_share": 0.9}}))


def test_the_first_of_several_is_found() -> None:
    contents = [content(minilm(), 2), content(minilm(), name="a"), content(minilm(), name="b")]
    assert find_result(contents, minilm(), 1, metric=METRIC) is contents[1]
    assert find_result(contents, minilm(), 3, metric=METRIC) is None
    settled = Settled(contents)
    for found in (contents[1], contents[1]):
        assert settled.find(minilm(), 1, metric=METRIC) is found
    settled.add(late := content(minilm(), 3))
    assert settled.find(minilm(), 3, metric=METRIC) is late


def test_configurations_are_known_by_all_that_is_trained() -> None:
    assert known_by(TrainingConfig()) != known_by(TrainingConfig(epochs=3))
    config = ReadingRunConfig()
    assert known_by(config) != known_by(replace(config, training=replace(config.training, epochs=3)))


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_plain_training_of_this_repository_is_found(seed: int) -> None:
    files = sorted(RESULTS.glob("sql/*.json"))
    found = find_result((read_json(file) for file in files), minilm(), seed, metric=METRIC)
    assert found == read_json(RESULTS / f"sql/minilm-seed{seed}.json")
