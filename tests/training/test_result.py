"""The outcome of a run, in memory and in its result file."""

from dataclasses import dataclass
from pathlib import Path

from dtfixup.files import read_json
from dtfixup.provenance import begin
from dtfixup.training.config import TrainingConfig
from dtfixup.training.precision import Precision
from dtfixup.training.result import finish_run, fit_metrics
from tests.training.toy import run, toy_config


@dataclass(frozen=True)
class ToyRunConfig:
    encoder: str
    training: TrainingConfig


def test_what_was_watched_is_joined_over_a_resume(tmp_path: Path) -> None:
    run(tmp_path, stop_after=7)
    assert run(tmp_path, resume=True).watched["steps_watched"] == 30


def test_a_result_file_has_provenance_settings_metrics_and_the_evaluations_on_the_way(tmp_path: Path) -> None:
    done = run(tmp_path, config=toy_config(epochs=2))
    config = ToyRunConfig("minilm", toy_config(epochs=2, precision=Precision.FP32))
    origin = {"name": "toy", "command": "by a test", "started": begin(), "data_hash": "ab"}
    finished = finish_run(tmp_path, config, done, {"accuracy": 1.5, **fit_metrics(done)}, **origin)
    content = read_json(tmp_path / "result.json")
    assert (content["name"], content["command"], content["data_hash"]) == ("toy", "by a test", "ab")
    assert (content["seed"], content["dtype"], content["encoder"]) == (1, "fp32", "minilm")
    assert content["config"]["training"]["epochs"] == 2
    assert content["metrics"] == finished.metrics
    assert {"accuracy", "steps", "skipped_steps", "step_ms", "peak_gib", "highest_growth"} <= content["metrics"].keys()
    assert content["curve"] == list(done.history)
