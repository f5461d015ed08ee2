"""How a run is trained: `TrainingConfig`, and frozen dataclasses to JSON and back.

`to_json` and `from_json` take any frozen dataclass of plain fields. An unknown key is an error that names the nearest
field. The docstrings of the fields are the help texts of the command line.
"""

import difflib
import json
import types
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from enum import Enum
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

from dtfixup.errors import ConfigError
from dtfixup.training.precision import Precision
from dtfixup.training.update import UpdateConfig

ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True)
class TrainingConfig:
    """The training schedule; the defaults are the paper's for text-to-SQL."""

    epochs: int = 60
    """Passes over the training examples."""
    batch_size: int = 16
    """Examples in a batch."""
    accumulate: int = 1
    """Batches per update; the gradient is the mean over all their examples."""
    precision: Precision = Precision.TF32
    """Precision of matrix products."""
    update: UpdateConfig = field(default_factory=UpdateConfig)
    """How the parameters are updated."""
    warmup: int = 0
    """Updates in which the learning rate rises linearly; DT-Fixup needs none."""
    power: float = 0.5
    """Power of the anneal (1 - step/total)^power: 1 is linear, 0 keeps the learning rate."""
    evaluate_every: int = 5
    """Epochs between evaluations; 0 evaluates at the end only."""
    checkpoint_minutes: float = 10.0
    """Minutes between checkpoints; 0 saves none by time."""
    checkpoint_steps: int = 0
    """Updates between checkpoints; 0 saves none by count."""
    log_every: int = 50
    """Updates between lines of the log; the host waits for the device only there."""
    skipped_in_a_row: int = 20
    """Skipped updates in a row that end the run."""
    skipped_share: float = 0.2
    """Share of skipped updates among the last 1,000 that ends the run."""
    seed: int = 1
    """Random seed of weights, order of examples and dropout."""
    graphs: bool | None = None
    """Run steps as CUDA graphs; by default on any GPU."""

    def __post_init__(self) -> None:
        at_least = {"epochs": 1, "batch_size": 1, "accumulate": 1, "log_every": 1, "skipped_in_a_row": 1, "seed": 0}
        at_least |= dict.fromkeys(("warmup", "power", "evaluate_every", "checkpoint_minutes", "checkpoint_steps"), 0)
        for name, least in at_least.items():
            if not getattr(self, name) >= least:
                raise ConfigError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.precision not in set(Precision):
            raise ConfigError(f"precision is one of {', '.join(Precision)}, got {self.precision!r}")
        if not 0 < self.skipped_share <= 1:
            raise ConfigError(f"skipped_share is above 0 and at most 1, got {self.skipped_share}")


FREE_ON_RESUME = frozenset(
    {
        "checkpoint_minutes",
        "checkpoint_steps",
        "evaluate_every",
        "graphs",
        "log_every",
        "skipped_in_a_row",
        "skipped_share",
    }
)
"""Fields of `TrainingConfig` that do not change the result: a resumed run may set them anew."""


def to_json(config: Any) -> dict[str, Any]:
    """A frozen dataclass as plain JSON values.

    >>> to_json(TrainingConfig(precision=Precision.BF16))["precision"]
    'bf16'
    """
    values: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return values


def changed(config: ConfigT, changes: Mapping[str, Any]) -> ConfigT:
    """The configuration with some fields changed; nested mappings change nested fields.

    >>> changed(TrainingConfig(), {"update": {"clip": 1}}).update.clip
    1.0
    """
    return from_json(type(config), _merged(to_json(config), changes))


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in changes.items():
        is_nested = isinstance(value, Mapping) and isinstance(base.get(name), Mapping)
        merged[name] = _merged(base[name], value) if is_nested else value
    return merged


def named(presets: Mapping[str, Callable[[], ConfigT]], name: str) -> ConfigT:
    """A preset by name."""
    if name not in presets:
        raise ConfigError(f"there is no preset {name!r}: choose one of {', '.join(presets)}")
    return presets[name]()


def from_json(kind: type[ConfigT], values: Mapping[str, Any]) -> ConfigT:
    """A frozen dataclass from JSON values; fields that are not given have their defaults.

    >>> from_json(TrainingConfig, {"epochs": 2, "update": {"clip": 1}}).update.clip
    1.0
    >>> from_json(TrainingConfig, {"epoch": 2})
    Traceback (most recent call last):
    dtfixup.errors.ConfigError: TrainingConfig has no field "epoch"; did you mean "epochs"?
    """
    return _build(kind, values, kind.__name__)


def _build(kind: type[ConfigT], values: Any, where: str) -> ConfigT:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where} must be a JSON object of fields, got {values!r}")
    hints = {name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is not ClassVar}
    values = _without_removed(kind, values, where)
    for name in values:
        if name not in hints:
            near = difflib.get_close_matches(str(name), hints, n=1)
            advice = f'did you mean "{near[0]}"?' if near else f"its fields are {', '.join(hints)}"
            raise ConfigError(f'{where} has no field "{name}"; {advice}')
    return kind(**{name: _read(hints[name], value, f"{where}.{name}") for name, value in values.items()})


def _without_removed(kind: type[Any], values: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Drop fields of older files that `kind.REMOVED` lists, with the one value that means the same without them."""
    removed: Mapping[str, Any] = getattr(kind, "REMOVED", {})
    for name, value in removed.items():
        if name in values and values[name] != value:
            raise ConfigError(f"{where}.{name} = {values[name]!r} is not supported: this version reads {value!r} only")
    return {name: value for name, value in values.items() if name not in removed}


def _read(hint: Any, value: Any, where: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        inner = [part for part in get_args(hint) if part is not type(None)]
        return None if value is None and len(inner) < len(get_args(hint)) else _read(inner[0], value, where)
    if is_dataclass(hint) and isinstance(hint, type):
        return _build(hint, value, where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            choices = ", ".join(str(choice.value) for choice in hint)
            raise ConfigError(f"{where} is one of {choices}, got {value!r}") from None
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        if not isinstance(value, list | tuple) or len(value) != len(parts):
            raise ConfigError(f"{where} is a list of {len(parts)} values, got {value!r}")
        return tuple(_read(part, item, where) for part, item in zip(parts, value, strict=True))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{where} is of type {hint.__name__}, got {value!r}")
    return value
