"""A configuration goes to JSON and back, and values that cannot work are refused by name."""

import ast
import inspect
from dataclasses import dataclass, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import ConfigError
from dtfixup.training import config as module
from dtfixup.training.config import FREE_ON_RESUME, TrainingConfig, from_json, to_json
from dtfixup.training.precision import Precision
from dtfixup.training.update import UpdateConfig

CONFIGS = st.builds(
    TrainingConfig,
    epochs=st.integers(1, 100),
    accumulate=st.integers(1, 8),
    precision=st.sampled_from(Precision),
    update=st.builds(UpdateConfig, average=st.floats(0, 0.99), betas=st.tuples(st.floats(0, 0.9), st.floats(0, 0.9))),
    power=st.floats(0, 2),
    graphs=st.sampled_from([None, True, False]),
)


@given(CONFIGS)
def test_json_and_back(config: TrainingConfig) -> None:
    assert from_json(TrainingConfig, to_json(config)) == config


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"epoch": 3}, r'TrainingConfig has no field "epoch"; did you mean "epochs"\?'),
        ({"xyz": 3}, 'TrainingConfig has no field "xyz"; its fields are epochs, batch_size'),
        ({"update": {"rate": 1}}, r'TrainingConfig\.update has no field "rate"'),
        ({"update": 3}, r"TrainingConfig\.update must be a JSON object"),
        ({"epochs": "3"}, r"TrainingConfig\.epochs is of type int, got '3'"),
        ({"epochs": 3.0}, r"TrainingConfig\.epochs is of type int, got 3\.0"),
        ({"epochs": True}, r"TrainingConfig\.epochs is of type int, got True"),
        ({"power": True}, r"TrainingConfig\.power is of type float, got True"),
        ({"epochs": None}, r"TrainingConfig\.epochs is of type int, got None"),
        ({"graphs": 1}, r"TrainingConfig\.graphs is of type bool, got 1"),
        ({"precision": "fp16"}, r"TrainingConfig\.precision is one of fp32, tf32, bf16, got 'fp16'"),
        ({"update": {"betas": [0.9]}}, r"TrainingConfig\.update\.betas is a list of 2 values, got \[0\.9\]"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"power": float("nan")}, "power must be at least 0, got nan"),
    ],
)
def test_bad_values_are_named(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        from_json(TrainingConfig, values)


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"accumulate": 0},
        {"log_every": 0},
        {"warmup": -1},
        {"power": -0.1},
        {"evaluate_every": -1},
        {"checkpoint_minutes": -1.0},
        {"checkpoint_steps": -1},
        {"skipped_in_a_row": 0},
        {"precision": "fp16"},
        {"skipped_share": 0.0},
        {"skipped_share": 1.5},
        {"seed": -1},
    ],
)
def test_impossible_values_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        TrainingConfig(**change)


def test_every_field_says_what_it_is() -> None:
    """A string after each field is what the command line shows as help."""
    tree = ast.parse(inspect.getsource(TrainingConfig)).body[0]
    assert isinstance(tree, ast.ClassDef)
    documented = {
        before.target.id
        for before, after in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(before.target, ast.Name)
    }
    assert documented == {each.name for each in fields(TrainingConfig)}


def test_free_fields_exist() -> None:
    assert {each.name for each in fields(TrainingConfig)} >= FREE_ON_RESUME
    assert module.FREE_ON_RESUME.isdisjoint({"epochs", "batch_size", "seed", "update", "precision", "accumulate"})


@dataclass(frozen=True)
class Other:
    name: str = "x"
    inner: TrainingConfig | None = None


def test_any_dataclass_of_plain_fields_will_do() -> None:
    config = Other("y", TrainingConfig(epochs=2))
    assert from_json(Other, to_json(config)) == config
    assert from_json(Other, {}) == Other()
