"""Tables 4 and 5 of the paper for ReClor, and the tuning before them, as cells.

The settings are those of `reclor.py`, so that its runs and these are the same.
"""

from dataclasses import replace

from dtfixup.experiments.cells import TITLES, Budget, Cell, Experiment, layers_at, seeds_at, tuned_like, usual_warmup
from dtfixup.experiments.reclor import (
    CHOSEN,
    DEPTH,
    DEPTHS,
    GRID,
    HELD_OUT,
    MAIN,
    NO_LAYERS,
    TUNE,
    Settings,
    chosen,
    variant_of,
)
from dtfixup.experiments.reclor import configure as configure_on
from dtfixup.reading.presets import ReadingRunConfig, minilm, paper, smoke

_EXAMPLES = {Budget.SMOKE: 16, Budget.GPU: 4638, Budget.PAPER: 4638}
_PAPER = Settings(encoder_rate=1e-5)  # appendix D
_PAPER_DEPTH_RATE = 1e-4  # "for all models in our ablation study"
_PAPER_DEPTH = {
    ("standard", 4): "64.05 ± 0.44",
    ("dt-fixup", 4): "64.31 ± 0.68",
    ("standard", 8): "56.96 ± 6.12",
    ("dt-fixup", 8): "65.31 ± 0.62",
    ("standard", 16): "27.10 ± 1.50",
    ("dt-fixup", 16): "65.68 ± 1.12",
}


def configure(
    budget: Budget, strategy: str, layers: int, settings: Settings | None = None, *, ablation: bool = False
) -> ReadingRunConfig:
    """The configuration of a run's first seed; the paper has a lower rate in its ablation study."""
    start = {Budget.SMOKE: smoke, Budget.GPU: minilm, Budget.PAPER: paper}[budget]()
    if budget is Budget.SMOKE:
        start = replace(start, training=replace(start.training, epochs=1))
    if settings is None:
        settings = settings_of(strategy, layers)
        if budget is Budget.PAPER:
            rate = _PAPER_DEPTH_RATE if ablation else _PAPER.learning_rate
            settings = replace(_PAPER, learning_rate=rate, warmup=settings.warmup)
    depth = layers_at(budget, layers) if layers else 0
    config = configure_on(start, strategy, depth, settings, 1, _EXAMPLES[budget])
    return config if start.encoder_factor else replace(config, encoder_factor=0.0)


def settings_of(strategy: str, layers: int) -> Settings:
    """As `spider.chosen`: those that were tuned, or of the one that is like it, with the warm-up that is asked for."""
    if strategy in CHOSEN:
        return chosen(strategy, layers)
    return replace(chosen(tuned_like(strategy), layers), warmup=usual_warmup(strategy))


def main_cells(budget: Budget) -> list[Cell]:
    """Table 4."""
    rows = [
        ("no extra layers", NO_LAYERS, 0, "63.6"),
        ("4 extra layers", "standard", 4, "66.2"),
        ("4 extra layers + DT-Fixup", "dt-fixup", 4, "66.8"),
    ]
    return [
        Cell(
            row,
            "accuracy",
            variant_of(strategy, layers),
            configure(budget, strategy, layers),
            seeds_at(budget, 5),
            number,
        )
        for row, strategy, layers, number in rows
    ]


def depth_cells(budget: Budget) -> list[Cell]:
    """Table 5, ReClor, one depth more, and pre-LN beside it."""
    places = [(strategy, layers, 3) for layers in DEPTHS for strategy in ("standard", "dt-fixup")]
    places += [("pre-ln", layers, 2) for layers in (16, 24)]
    return [
        Cell(
            TITLES[strategy],
            f"N = {layers}",
            variant_of(strategy, layers),
            configure(budget, strategy, layers, ablation=True),
            seeds_at(budget, seeds),
            _PAPER_DEPTH.get((strategy, layers), ""),
        )
        for strategy, layers, seeds in places
    ]


def tune_cells(budget: Budget) -> list[Cell]:
    """The grids of `reclor.py`, on held-out training examples; a smoke run tries two of each."""
    few = slice(2 if budget is Budget.SMOKE else None)
    return [_tune_cell(budget, strategy, layers, settings) for strategy, layers, grid in GRID for settings in grid[few]]


def _tune_cell(budget: Budget, strategy: str, layers: int, settings: Settings) -> Cell:
    rates = f"rate {settings.learning_rate:g}, encoder {settings.encoder_rate:g}"
    row = f"{rates}, dropout {settings.dropout:g}, warm-up {settings.warmup:g}"
    column = f"{TITLES[strategy]}, N = {layers}" if layers else "no extra layers"
    config = configure(budget, strategy, layers, settings)
    is_chosen = budget is Budget.GPU and config == configure(budget, strategy, layers)
    held_out, variant = replace(config, hold_out=HELD_OUT), variant_of(strategy, layers, settings)
    return Cell(row, column, variant, held_out, seeds=1, is_chosen=is_chosen)


RECLOR_MAIN = Experiment(
    MAIN,
    "ReClor: accuracy with and without new layers",
    "Table 4",
    main_cells,
    remark="Questions of val, after the last epoch. The paper prints its best run.",
)
RECLOR_DEPTH = Experiment(
    DEPTH,
    "ReClor: accuracy against the number of new layers",
    "Table 5, ReClor",
    depth_cells,
    remark="Questions of val, after the last epoch; chance is 25 %. N = 24 and pre-LN are ours.",
)
RECLOR_TUNE = Experiment(
    TUNE,
    "ReClor: tuning on held-out training examples",
    "Appendix D",
    tune_cells,
    remark="A tenth of the training examples is held out and evaluated on; val is not looked at.",
)
