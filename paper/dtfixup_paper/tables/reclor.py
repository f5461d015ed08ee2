"""What the ReClor experiments train: configurations, the grid of tuning, and a function that trains one run.

The cells of the tables are in `reclor_cells.py`; what tuning chose is `settings.RECLOR`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from rich.console import Console

from dtfixup.files import read_json
from dtfixup.provenance import RESULT
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.reading.train import ReadingSource, train_reading
from dtfixup_paper.runs.sweep import Content
from dtfixup_paper.tables.settings import NO_LAYERS, ReclorSettings, usual_warmup

MAIN, DEPTH, TUNE = "reclor-main", "reclor-depth", "reclor-tune"
DEPTHS = (4, 8, 16, 24)
HELD_OUT = 0.1
_RATES = (1e-4, 3e-4, 6e-4)
_ADMIN, _DEEPNORM = usual_warmup("admin"), usual_warmup("deepnorm")


def _at_rates(*rates: float, warmup: float = 0.1) -> list[ReclorSettings]:
    return [ReclorSettings(rate, warmup=warmup) for rate in rates]


def _beside(best: ReclorSettings, longer: float) -> list[ReclorSettings]:
    """Less dropout, and a longer warm-up, at the best of some rates."""
    return [replace(best, dropout=0.1), replace(best, warmup=longer)]


GRID: Sequence[tuple[str, int, Sequence[ReclorSettings]]] = (
    (NO_LAYERS, 0, [ReclorSettings(encoder_rate=rate, warmup=0.1) for rate in (1e-5, 3e-5, 1e-4)]),
    ("dt-fixup", 4, [ReclorSettings(rate, dropout=dropout) for rate, dropout in product(_RATES, (0.1, 0.4))]),
    (
        "standard",
        4,
        [
            *(ReclorSettings(rate, dropout=dropout, warmup=0.1) for rate, dropout in product(_RATES, (0.1, 0.4))),
            ReclorSettings(warmup=0.3),
        ],
    ),
    ("standard", 8, [*_at_rates(3e-5, 1e-4, 3e-4), *_beside(ReclorSettings(1e-4, warmup=0.1), 0.3)]),
    ("dt-fixup", 16, [ReclorSettings(rate) for rate in _RATES]),
    ("standard", 16, [*_at_rates(1e-5, 3e-5, 1e-4, 3e-4), *_beside(ReclorSettings(3e-5, warmup=0.1), 0.3)]),
    ("pre-ln", 16, [*_at_rates(*_RATES), *_beside(ReclorSettings(1e-4, warmup=0.1), 0.3), ReclorSettings(1e-4)]),
    ("standard", 24, [*_at_rates(3e-6, 1e-5, 3e-5), *_beside(ReclorSettings(1e-5, warmup=0.1), 0.3)]),
    ("admin", 24, [*_at_rates(3e-5, 1e-4, 3e-4, warmup=_ADMIN), *_beside(ReclorSettings(1e-4, warmup=_ADMIN), 0.3)]),
    (
        "deepnorm",
        24,
        [*_at_rates(3e-5, 1e-4, 3e-4, warmup=_DEEPNORM), *_beside(ReclorSettings(3e-5, warmup=_DEEPNORM), 0.1)],
    ),
)
"""Strategy, depth, and the settings to try: the deep ones apart, because what trains 4 layers may break 16."""


@dataclass(frozen=True)
class TrainReading:
    """Trains one configuration; a `Run.train` that can be sent to another process."""

    config: ReadingRunConfig
    source: ReadingSource
    name: str
    command: str

    def __call__(self, folder: Path, resume: bool) -> Content | None:
        quiet = Console(quiet=True)
        done = train_reading(
            self.config, self.source, folder, name=self.name, command=self.command, resume=resume, console=quiet
        )
        content: Content | None = read_json(folder / RESULT) if done.metrics else None
        return content


def configure(
    base: ReadingRunConfig, strategy: str, layers: int, settings: ReclorSettings, seed: int, examples: int
) -> ReadingRunConfig:
    """The configuration of one run on so many training examples."""
    training = base.training
    updates = training.epochs * -(-examples // (training.batch_size * training.accumulate))
    model = replace(base.model, layers=layers, input_dropout=settings.dropout)
    return replace(
        base,
        encoder_factor=settings.encoder_rate / settings.learning_rate,
        model=model if strategy == NO_LAYERS else replace(model, strategy=strategy),
        training=replace(
            training,
            seed=seed,
            warmup=round(settings.warmup * updates),
            update=replace(training.update, learning_rate=settings.learning_rate),
        ),
    )


def variant_of(strategy: str, layers: int, settings: ReclorSettings | None = None) -> str:
    """What files call a strategy at a depth, and the settings where they are what differs.

    >>> variant_of("standard", 4, ReclorSettings(warmup=0.1)), variant_of(NO_LAYERS, 0)
    ('standard-n4-lr3e-4-enc3e-5-drop0.4-warm0.1', 'no-new-layers')
    """
    name = strategy.replace(" ", "-") if strategy == NO_LAYERS else f"{strategy}-n{layers}"
    if settings is None:
        return name
    rates = f"lr{_short(settings.learning_rate)}-enc{_short(settings.encoder_rate)}"
    return f"{name}-{rates}-drop{settings.dropout:g}-warm{settings.warmup:g}"


def _short(rate: float) -> str:
    """As people write it.

    >>> _short(3e-4), _short(2.5e-5)
    ('3e-4', '2.5e-5')
    """
    digits, _, power = f"{rate:.2e}".partition("e")
    return f"{float(digits):g}e{int(power)}"
