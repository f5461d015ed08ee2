"""Tables 4 and 5 of the paper for ReClor, and the tuning before them."""

from collections.abc import Sequence
from dataclasses import replace

from dtfixup.reading.presets import ReadingRunConfig
from dtfixup_paper.tables.cells import TITLES, Budget, Cell, Experiment, Setup, Trial
from dtfixup_paper.tables.settings import NO_LAYERS, ReclorSettings, settings_at, usual_warmup

HELD_OUT = 0.1
"""Share of the training examples that tuning holds out."""
_DEPTHS, _DEPTH_STRATEGIES = (4, 8, 16, 24), ("standard", "dt-fixup")
_PRE_LN_DEPTHS = (16, 24)
_EXAMPLES = {Budget.SMOKE: 16, Budget.GPU: 4638, Budget.PAPER: 4638}
_PAPER = ReclorSettings(encoder_rate=1e-5)  # appendix D
_PAPER_DEPTH_RATE = 1e-4  # "for all models in our ablation study"
_PAPER_DEPTH = {
    ("standard", 4): "64.05 ± 0.44",
    ("dt-fixup", 4): "64.31 ± 0.68",
    ("standard", 8): "56.96 ± 6.12",
    ("dt-fixup", 8): "65.31 ± 0.62",
    ("standard", 16): "27.10 ± 1.50",
    ("dt-fixup", 16): "65.68 ± 1.12",
}
_MAIN = (
    ("no extra layers", NO_LAYERS, 0, "63.6"),
    ("4 extra layers", "standard", 4, "66.2"),
    ("4 extra layers + DT-Fixup", "dt-fixup", 4, "66.8"),
)
_RATES = (1e-4, 3e-4, 6e-4)
_ADMIN, _DEEPNORM = usual_warmup("admin"), usual_warmup("deepnorm")


def _at_rates(*rates: float, dropouts: Sequence[float] = (0.4,), warmup: float = 0.1) -> list[ReclorSettings]:
    return [ReclorSettings(rate, dropout=dropout, warmup=warmup) for rate in rates for dropout in dropouts]


def _beside(best: ReclorSettings, longer: float) -> list[ReclorSettings]:
    """Less dropout, and a longer warm-up, at the best of some rates."""
    return [replace(best, dropout=0.1), replace(best, warmup=longer)]


GRIDS: Sequence[tuple[str, int, Sequence[ReclorSettings]]] = (
    (NO_LAYERS, 0, [ReclorSettings(encoder_rate=rate, warmup=0.1) for rate in (1e-5, 3e-5, 1e-4)]),
    ("dt-fixup", 4, _at_rates(*_RATES, dropouts=(0.1, 0.4), warmup=0.0)),
    ("standard", 4, [*_at_rates(*_RATES, dropouts=(0.1, 0.4)), ReclorSettings(warmup=0.3)]),
    ("standard", 8, [*_at_rates(3e-5, 1e-4, 3e-4), *_beside(ReclorSettings(1e-4, warmup=0.1), 0.3)]),
    ("dt-fixup", 16, _at_rates(*_RATES, warmup=0.0)),
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


def configure(
    setup: Setup, strategy: str, layers: int, settings: ReclorSettings | None = None, *, ablation: bool = False
) -> ReadingRunConfig:
    """The configuration of a run's first seed; the paper has a lower rate in its ablation study."""
    start, budget = setup.start_reclor(), setup.budget
    if settings is None:
        settings = settings_at(setup.settings.reclor, strategy, layers)
        if budget is Budget.PAPER:
            rate = _PAPER_DEPTH_RATE if ablation else _PAPER.learning_rate
            settings = replace(_PAPER, learning_rate=rate, warmup=settings.warmup)
    training = start.training if budget is not Budget.SMOKE else replace(start.training, epochs=1)
    updates = training.epochs * -(-_EXAMPLES[budget] // (training.batch_size * training.accumulate))
    model = replace(start.model, layers=setup.layers(layers) if layers else 0, input_dropout=settings.dropout)
    is_frozen = not start.encoder_factor
    return replace(
        start,
        encoder_factor=0.0 if is_frozen else settings.encoder_rate / settings.learning_rate,
        model=model if strategy == NO_LAYERS else replace(model, strategy=strategy),
        training=replace(
            training,
            warmup=round(settings.warmup * updates),
            update=replace(training.update, learning_rate=settings.learning_rate),
        ),
    )


def main_cells(setup: Setup) -> list[Cell]:
    """Table 4."""
    return [
        Cell(
            row,
            "accuracy",
            setup.path("reclor-main", _variant(strategy, layers)),
            configure(setup, strategy, layers),
            setup.seeds(5),
            number,
        )
        for row, strategy, layers, number in _MAIN
    ]


def depth_cells(setup: Setup) -> list[Cell]:
    """Table 5, ReClor, one depth more, and pre-LN beside it."""
    places = [(strategy, layers, 3) for layers in _DEPTHS for strategy in _DEPTH_STRATEGIES]
    places += [("pre-ln", layers, 2) for layers in _PRE_LN_DEPTHS]
    return [depth_cell(setup, *place, _PAPER_DEPTH.get(place[:2], "")) for place in places]


def depth_cell(setup: Setup, strategy: str, layers: int, seeds: int, paper: str = "", *, column: str = "") -> Cell:
    """The cell of a strategy at a depth, with the settings chosen for it: every table that shows it shares its runs."""
    config = configure(setup, strategy, layers, ablation=True)
    if (strategy, layers) in (row[1:3] for row in _MAIN) and config == configure(setup, strategy, layers):
        path = setup.path("reclor-main", _variant(strategy, layers))
    elif layers in (_DEPTHS if strategy in _DEPTH_STRATEGIES else _PRE_LN_DEPTHS if strategy == "pre-ln" else ()):
        path = setup.path("reclor-depth", _variant(strategy, layers))
    else:
        path = setup.path("init-peers", f"reclor-{_variant(strategy, layers)}")
    return Cell(TITLES[strategy], column or f"N = {layers}", path, config, setup.seeds(seeds), paper)


def tune_cells(setup: Setup) -> list[Cell]:
    """All that is tried, one run each; a smoke run tries two of each grid."""
    few = slice(2 if setup.budget is Budget.SMOKE else None)
    return [_tune_cell(setup, strategy, layers, each) for strategy, layers, grid in GRIDS for each in grid[few]]


def _tune_cell(setup: Setup, strategy: str, layers: int, settings: ReclorSettings) -> Cell:
    rates = f"lr{_short(settings.learning_rate)}-enc{_short(settings.encoder_rate)}"
    variant = f"{_variant(strategy, layers)}-{rates}-drop{settings.dropout:g}-warm{settings.warmup:g}"
    return Cell(
        str(settings),
        f"{TITLES[strategy]}, N = {layers}" if layers else "no extra layers",
        setup.path("reclor-tune", variant),
        replace(configure(setup, strategy, layers, settings), hold_out=HELD_OUT),
        seeds=1,
        trial=Trial(strategy, layers, settings),
        is_chosen=setup.budget is Budget.GPU and settings == settings_at(setup.settings.reclor, strategy, layers),
    )


def _variant(strategy: str, layers: int) -> str:
    return strategy.replace(" ", "-") if strategy == NO_LAYERS else f"{strategy}-n{layers}"


def _short(rate: float) -> str:
    """A rate as people write it.

    >>> _short(3e-4), _short(2.5e-5)
    ('3e-4', '2.5e-5')
    """
    digits, _, power = f"{rate:.2e}".partition("e")
    return f"{float(digits):g}e{int(power)}"


MAIN = Experiment(
    "reclor-main",
    "ReClor: accuracy with and without new layers",
    "Table 4",
    main_cells,
    remark="Questions of val, after the last epoch. The paper prints its best run.",
)
DEPTH = Experiment(
    "reclor-depth",
    "ReClor: accuracy against the number of new layers",
    "Table 5, ReClor",
    depth_cells,
    remark="Questions of val, after the last epoch; chance is 25 %. N = 24 and pre-LN are ours.",
)
TUNE = Experiment(
    "reclor-tune",
    "ReClor: tuning on held-out training examples",
    "Appendix D",
    tune_cells,
    remark="A tenth of the training examples is held out and evaluated on; val is not looked at.",
)
