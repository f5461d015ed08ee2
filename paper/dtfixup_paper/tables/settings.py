"""Which settings a strategy is trained with: what tuning may change, and what it chose.

In: a strategy and a depth. Out: its settings. `SPIDER` and `RECLOR` are what tuning (`spider_tune.py`, `reclor.py`)
chose with MiniLM, on training data that were held out; `tuning.py` finds what it chose in a folder of results, with
whatever encoder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from dtfixup.fixup import NormPlacement, Warmup, strategy_named

NO_LAYERS = "no new layers"
"""In place of a strategy: the linear layer on the encoder itself."""
_WARMUPS = {Warmup.NONE: 0.0, Warmup.SHORT: 0.02, Warmup.FULL: 0.1}


@dataclass(frozen=True)
class SpiderSettings:
    """What is tuned; the defaults are those of the `minilm` preset."""

    learning_rate: float = 5e-4
    """Of everything but the encoder."""
    encoder_rate: float = 1e-4
    """Of the encoder, which the strategies have no part in: not lowered where new layers need a lower rate."""
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
    """What is tuned; the defaults are where tuning began."""

    learning_rate: float = 3e-4
    """Of the new layers and the linear layer."""
    encoder_rate: float = 3e-5
    """Of the encoder."""
    dropout: float = 0.4
    """On the stack's input."""
    warmup: float = 0.0
    """Share of the updates in which the rate rises. Fine-tuning with layer norms has a tenth as a rule."""

    def __str__(self) -> str:
        rates = f"rate {self.learning_rate:g}, encoder {self.encoder_rate:g}"
        return f"{rates}, dropout {self.dropout:g}, warm-up {self.warmup:g}"


SettingsT = TypeVar("SettingsT", SpiderSettings, ReclorSettings)


@dataclass(frozen=True)
class Choices(Generic[SettingsT]):
    """The settings of every strategy, of one task."""

    tables: Mapping[str, Mapping[int, SettingsT]]
    """For each strategy that was tuned, from which depth on to train with which settings."""
    here: tuple[str, ...] = ()
    """Strategies whose settings won the tuning that is in the folder of the results."""
    unlearnt: tuple[tuple[str, int], ...] = ()
    """Strategies and depths whose tuning there is whole, and no run of it learnt anything."""

    def of(self, strategy: str, layers: int) -> SettingsT:
        """The settings of the largest depth in the table that is not larger than this one.

        Strategies that were not tuned have the warm-up that they ask for, and all else of the tuned one that is like
        them.
        """
        if known := self.tables.get(strategy):
            return known[max((depth for depth in known if depth <= layers), default=min(known))]
        return replace(self.of(tuned_like(strategy), layers), warmup=usual_warmup(strategy))


SPIDER = Choices(
    {
        "dt-fixup": {2: SpiderSettings(8e-4, encoder_rate=1.6e-4, dropout=0.4, label_smoothing=0.0)},
        "standard": {2: SpiderSettings(3e-4, warmup=0.1), 16: SpiderSettings(1e-4, warmup=0.3)},
        "pre-ln": {2: SpiderSettings(6e-4, dropout=0.5, warmup=0.1)},
        "admin": {2: SpiderSettings(3e-4, warmup=0.1)},
        "deepnorm": {2: SpiderSettings(3e-4, dropout=0.5, warmup=0.02)},
    }
)
"""With MiniLM: the best exact match with the beam, and of equals the best without one."""

RECLOR = Choices(
    {
        NO_LAYERS: {0: ReclorSettings(warmup=0.1)},
        "standard": {
            4: ReclorSettings(6e-4, warmup=0.1),
            8: ReclorSettings(3e-5, warmup=0.1),
            16: ReclorSettings(3e-5, warmup=0.3),
            24: ReclorSettings(1e-5, dropout=0.1, warmup=0.1),
        },
        "pre-ln": {4: ReclorSettings(1e-4)},
        "admin": {4: ReclorSettings(1e-4, warmup=0.3)},
        "deepnorm": {4: ReclorSettings(3e-5, warmup=0.02)},
        "dt-fixup": {4: ReclorSettings(1e-4)},
    }
)
"""With MiniLM: the best accuracy of the runs that left chance, and of equals the lowest rate."""


def tuned_like(strategy: str) -> str:
    """A strategy that was tuned: DT-Fixup in place of those without layer norms, else the standard.

    >>> tuned_like("rezero"), tuned_like("admin")
    ('dt-fixup', 'standard')
    """
    return "dt-fixup" if strategy_named(strategy).norm is NormPlacement.NONE else "standard"


def usual_warmup(strategy: str) -> float:
    """What a strategy's authors ask for, as a share of the updates."""
    return _WARMUPS[strategy_named(strategy).warmup]
