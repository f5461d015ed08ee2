"""Tables 4 and 5 of the paper for ReClor, and the tuning before them, as cells.

The grids are those of `reclor.py`, and its runs and these are the same.
"""

from dataclasses import replace

from dtfixup.reading.presets import ReadingRunConfig, minilm, paper, smoke
from dtfixup_paper.tables.cells import TITLES, Budget, Cell, Experiment, Plan, Tried, layers_at, seeds_at
from dtfixup_paper.tables.reclor import DEPTH, DEPTHS, GRID, HELD_OUT, MAIN, TUNE, variant_of
from dtfixup_paper.tables.reclor import configure as configure_on
from dtfixup_paper.tables.settings import NO_LAYERS, ReclorSettings

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


def configure(
    plan: Plan, strategy: str, layers: int, settings: ReclorSettings | None = None, *, ablation: bool = False
) -> ReadingRunConfig:
    """The configuration of a run's first seed; the paper has a lower rate in its ablation study."""
    budget = plan.budget
    start = {Budget.SMOKE: smoke, Budget.GPU: minilm, Budget.PAPER: paper}[budget]()
    if budget is Budget.SMOKE:
        start = replace(start, training=replace(start.training, epochs=1))
    if settings is None:
        settings = plan.reclor.of(strategy, layers)
        if budget is Budget.PAPER:
            rate = _PAPER_DEPTH_RATE if ablation else _PAPER.learning_rate
            settings = replace(_PAPER, learning_rate=rate, warmup=settings.warmup)
    depth = layers_at(budget, layers) if layers else 0
    config = configure_on(start, strategy, depth, settings, 1, _EXAMPLES[budget])
    return config if start.encoder_factor else replace(config, encoder_factor=0.0)


def main_cells(plan: Plan) -> list[Cell]:
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
            configure(plan, strategy, layers),
            seeds_at(plan.budget, 5),
            number,
        )
        for row, strategy, layers, number in rows
    ]


def depth_cells(plan: Plan) -> list[Cell]:
    """Table 5, ReClor, one depth more, and pre-LN beside it."""
    places = [(strategy, layers, 3) for layers in DEPTHS for strategy in ("standard", "dt-fixup")]
    places += [("pre-ln", layers, 2) for layers in (16, 24)]
    return [
        Cell(
            TITLES[strategy],
            f"N = {layers}",
            variant_of(strategy, layers),
            configure(plan, strategy, layers, ablation=True),
            seeds_at(plan.budget, seeds),
            _PAPER_DEPTH.get((strategy, layers), ""),
        )
        for strategy, layers, seeds in places
    ]


def tried(budget: Budget) -> list[Tried[ReclorSettings]]:
    """The grids of `reclor.py`, on held-out training examples; a smoke run tries two of each."""
    plan, few = Plan(budget), slice(2 if budget is Budget.SMOKE else None)
    found = []
    for strategy, layers, grid in GRID:
        for settings in grid[few]:
            config = replace(configure(plan, strategy, layers, settings), hold_out=HELD_OUT)
            found.append(Tried(strategy, layers, settings, config))
    return found


def tune_cells(plan: Plan) -> list[Cell]:
    """All that is tried, one run each."""
    return [_tune_cell(plan, each) for each in tried(plan.budget)]


def _tune_cell(plan: Plan, each: Tried[ReclorSettings]) -> Cell:
    column = f"{TITLES[each.strategy]}, N = {each.layers}" if each.layers else "no extra layers"
    variant = variant_of(each.strategy, each.layers, each.settings)
    own = replace(configure(plan, each.strategy, each.layers), hold_out=HELD_OUT)
    is_chosen = plan.budget is Budget.GPU and each.config == own
    return Cell(str(each.settings), column, variant, each.config, seeds=1, is_chosen=is_chosen)


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
