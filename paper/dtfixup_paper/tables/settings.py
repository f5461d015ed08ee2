"""Which settings a strategy is trained with, and the YAML file that holds them.

`settings.yaml` beside this module has the settings of the published tables: what tuning chose with MiniLM on held-out
training data. `dtfixup reproduce tune` writes such a file, and `--settings` reads one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from dtfixup.errors import ConfigError
from dtfixup.files import write_atomically
from dtfixup.fixup import NormPlacement, Warmup, strategy_named
from dtfixup.training.config import from_json, to_json

NO_LAYERS = "no new layers"
"""In place of a strategy: the linear layer on the encoder itself."""
_WARMUPS = {Warmup.NONE: 0.0, Warmup.SHORT: 0.02, Warmup.FULL: 0.1}


@dataclass(frozen=True)
class SpiderSettings:
    """What is tuned on Spider; the defaults are those of the `minilm` preset."""

    learning_rate: float = 5e-4
    """Of everything but the encoder."""
    encoder_rate: float = 1e-4
    """Of the encoder. New layers that need a lower rate do not lower it."""
    dropout: float = 0.3
    """On the stack's input and on the decoder's context."""
    label_smoothing: float = 0.2
    """On columns."""
    warmup: float = 0.0
    """Share of the updates in which the rate rises."""

    def __str__(self) -> str:
        rates = f"rate {self.learning_rate:g}, encoder {self.encoder_rate:g}"
        parts = f"{rates}, dropout {self.dropout:g}, smoothing {self.label_smoothing:g}"
        return parts + (f", warm-up {self.warmup:g}" if self.warmup else "")


@dataclass(frozen=True)
class ReclorSettings:
    """What is tuned on ReClor; the defaults are where tuning began."""

    learning_rate: float = 3e-4
    """Of the new layers and the linear layer."""
    encoder_rate: float = 3e-5
    """Of the encoder."""
    dropout: float = 0.4
    """On the stack's input."""
    warmup: float = 0.0
    """Share of the updates in which the rate rises; a tenth is usual with layer norms."""

    def __str__(self) -> str:
        rates = f"rate {self.learning_rate:g}, encoder {self.encoder_rate:g}"
        return f"{rates}, dropout {self.dropout:g}, warm-up {self.warmup:g}"


SettingsT = TypeVar("SettingsT", SpiderSettings, ReclorSettings)
ByDepth = Mapping[str, Mapping[int, SettingsT]]
"""For each strategy that was tuned: from which depth on to train with which settings."""


@dataclass(frozen=True)
class Settings:
    """The settings of every strategy on both tasks."""

    spider: ByDepth[SpiderSettings]
    reclor: ByDepth[ReclorSettings]


def settings_at(tuned: ByDepth[SettingsT], strategy: str, layers: int) -> SettingsT:
    """The settings of the largest depth that is not larger than this one.

    A strategy that was not tuned has the warm-up that it asks for, and all else of the tuned one that is like it.
    """
    if strategy in tuned:
        by_depth = tuned[strategy]
        return by_depth[max((depth for depth in by_depth if depth <= layers), default=min(by_depth))]
    return replace(settings_at(tuned, tuned_like(strategy), layers), warmup=usual_warmup(strategy))


def tuned_like(strategy: str) -> str:
    """A strategy that was tuned: DT-Fixup in place of those without layer norms, else the standard.

    >>> tuned_like("rezero"), tuned_like("admin")
    ('dt-fixup', 'standard')
    """
    return "dt-fixup" if strategy_named(strategy).norm is NormPlacement.NONE else "standard"


def usual_warmup(strategy: str) -> float:
    """The warm-up that a strategy's authors ask for, as a share of the updates."""
    return _WARMUPS[strategy_named(strategy).warmup]


@cache
def published_settings() -> Settings:
    """The settings of the published tables."""
    return read_settings(Path(__file__).with_name("settings.yaml"))


def read_settings(path: Path) -> Settings:
    """Read a settings file."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Settings(_read(SpiderSettings, content["spider"]), _read(ReclorSettings, content["reclor"]))
    except OSError as error:
        raise ConfigError(f"the settings cannot be read: {error}") from None
    except (ConfigError, yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is no settings file ({type(error).__name__}: {error}); `dtfixup reproduce tune` writes one"
        ) from None


def write_settings(path: Path, settings: Settings, head: str) -> Path:
    """Write a settings file; `head` becomes a comment at its top."""
    content = {
        task: {
            strategy: {depth: to_json(chosen) for depth, chosen in by_depth.items()}
            for strategy, by_depth in tuned.items()
        }
        for task, tuned in (("spider", settings.spider), ("reclor", settings.reclor))
    }
    text = "".join(f"# {line}\n" for line in head.splitlines()) + yaml.safe_dump(content, sort_keys=False)
    return write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _read(kind: type[SettingsT], content: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> ByDepth[SettingsT]:
    tuned = {
        strategy: {
            int(depth): from_json(
                kind, {name: float(value) for name, value in fields.items()}
            )  # YAML reads 8e-4 as text
            for depth, fields in by_depth.items()
        }
        for strategy, by_depth in content.items()
    }
    if missing := [strategy for strategy in ("dt-fixup", "standard") if not tuned.get(strategy)]:
        raise ConfigError(f"it has no settings of {missing[0]}, which strategies that were not tuned share")
    return tuned
