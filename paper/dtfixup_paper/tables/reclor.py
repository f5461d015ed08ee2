"""The runs of the ReClor experiments: tables 4 and 5 of the paper, and the tuning before them.

In: examples, and a configuration to start from. Out: lists of `Run`s for `sweep.run_sweep`. `main` compares no new
layers, standard layers and DT-Fixup layers, `depth` the strategies at several depths; both evaluate on val. `tune`
tries learning rates, dropout and warm-up on training examples that are held out; what it chose is `settings.RECLOR`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from pathlib import Path

from rich.console import Console

from dtfixup.files import read_json
from dtfixup.provenance import RESULT
from dtfixup.reading.presets import ReadingRunConfig, minilm
from dtfixup.reading.train import ReadingSource, train_reading
from dtfixup_paper.runs.sweep import Content, Run
from dtfixup_paper.tables.settings import NO_LAYERS, RECLOR, Choices, ReclorSettings, usual_warmup

MAIN, DEPTH, TUNE = "reclor-main", "reclor-depth", "reclor-tune"
DEPTHS = (4, 8, 16, 24)
TUNE_SEED, HELD_OUT = 1, 0.1
_ENCODER_COST = 5.0  # the time that encoder and head take in a step, in new layers


class Part(StrEnum):
    """What to run."""

    MAIN = "main"
    DEPTH = "depth"
    TUNE = "tune"
    ALL = "all"
    """Main and depth: what is published. Tuning comes before it."""


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


def runs_of(
    part: Part | str,
    source: ReadingSource,
    *,
    base: ReadingRunConfig | None = None,
    choices: Choices[ReclorSettings] = RECLOR,
    seeds: int | None = None,
    command: str = "",
) -> list[Run]:
    """The runs of a part, first seed first, so that a sweep that ends early has something of everything.

    Args:
        part: which runs.
        source: the examples.
        base: configuration to start from; the `minilm` preset by default.
        choices: the settings of every strategy.
        seeds: of every variant, instead of 5 in `main`, 3 in `depth` and 2 of its pre-LN.
        command: what the result files say they were made by.
    """
    make = _Maker(source, base or minilm(), choices, command)
    lists = {
        Part.MAIN: [make.main_runs],
        Part.DEPTH: [make.depth_runs],
        Part.TUNE: [make.tune_runs],
        Part.ALL: [make.main_runs, make.depth_runs],
    }
    return [run for runs in lists[Part(part)] for run in runs(seeds)]


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


@dataclass(frozen=True)
class _Maker:
    source: ReadingSource
    base: ReadingRunConfig
    choices: Choices[ReclorSettings]
    command: str

    def main_runs(self, seeds: int | None = None) -> list[Run]:
        """Table 4."""
        variants = [(NO_LAYERS, 0), ("standard", 4), ("dt-fixup", 4)]
        return [
            self._run(MAIN, strategy, layers, self.choices.of(strategy, layers), seed)
            for seed in range(1, (seeds or 5) + 1)
            for strategy, layers in variants
        ]

    def depth_runs(self, seeds: int | None = None) -> list[Run]:
        """The ReClor half of table 5, and pre-LN beside it. What `main` has trained is found by its configuration."""
        variants = [(strategy, layers, seeds or 3) for layers in DEPTHS for strategy in ("standard", "dt-fixup")]
        variants += [("pre-ln", layers, seeds or 2) for layers in (16, 24)]
        return [
            self._run(DEPTH, strategy, layers, self.choices.of(strategy, layers), seed)
            for seed in range(1, max(count for _, _, count in variants) + 1)
            for strategy, layers, count in variants
            if seed <= count
        ]

    def tune_runs(self, seeds: int | None = None) -> list[Run]:
        """The grid, on held-out training examples; val is not looked at."""
        tuning = replace(self, base=replace(self.base, hold_out=HELD_OUT))
        return [
            tuning._run(TUNE, strategy, layers, settings, seed)
            for seed in range(TUNE_SEED, TUNE_SEED + (seeds or 1))
            for strategy, layers, grid in GRID
            for settings in grid
        ]

    def _run(self, experiment: str, strategy: str, layers: int, settings: ReclorSettings, seed: int) -> Run:
        config = configure(self.base, strategy, layers, settings, seed, len(self.source.data.train))
        variant = variant_of(strategy, layers, settings if experiment == TUNE else None)
        return Run(
            experiment,
            variant,
            seed,
            config,
            self.source.data.data_hash,
            TrainReading(config, self.source, f"{experiment}-{variant}", self.command),
            metric="held_out_accuracy" if config.hold_out else "val_accuracy",
            cost=(_ENCODER_COST + layers) * config.training.epochs,
            command=self.command,
        )


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
