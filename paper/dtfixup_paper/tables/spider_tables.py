"""The paper's tables and figures on Spider: Tables 1, 2, 3, 5, 6 and 7, and Figures 2, 3 and 4."""

from collections.abc import Iterable, Mapping
from typing import Any

from dtfixup_paper.tables.cells import TITLES, Budget, Cell, Experiment, Setup
from dtfixup_paper.tables.spider import CURVE_EVERY, CURVES, DEPTH_STRATEGIES, base, configure, depth_cell

LEVEL = 60.0
"""Exact match, in percent, that the curves of Figure 2 are compared at."""
_COLUMN = "exact match"
_DEPTH = {
    2: ("69.47 ± 0.30", "70.73 ± 0.18"),
    4: ("70.04 ± 0.33", "72.22 ± 0.61"),
    8: ("66.86 ± 0.16", "73.24 ± 0.51"),
    16: ("20.44 ± 1.11", "73.52 ± 0.47"),
    24: ("19.37 ± 0.16", "73.79 ± 0.49"),
    32: ("19.57 ± 0.43", "73.02 ± 0.52"),
}
"""What the paper prints of standard layers and DT-Fixup, by depth."""
_SEEDS = {2: 3, 4: 2, 8: 3, 16: 2, 24: 3, 32: 2}
_LONGER = 100 / 60  # the paper's epochs of the longer run and of the others
_SHORT = 0.25  # of the epochs
_BATCH_LAYERS, _LARGE_BATCH = 8, (40, 3)
_BATCH = {("standard", 16): "69.60 ± 0.40", ("dt-fixup", 16): "73.24 ± 0.51", ("dt-fixup", 120): "71.08 ± 0.37"}


def depth_cells(setup: Setup) -> list[Cell]:
    """Table 5, Spider."""
    return [
        depth_cell(setup, strategy, layers, _SEEDS[layers], paper=number)
        for layers, numbers in _DEPTH.items()
        for strategy, number in zip(DEPTH_STRATEGIES, numbers, strict=True)
    ]


def main_cells(setup: Setup) -> list[Cell]:
    """Table 2, the rows of SQL-SP; the last is the best of ours, for Table 1."""
    longer = Cell(
        "+ more epochs",
        _COLUMN,
        setup.path("spider-main", "standard-n8-longer"),
        configure(setup, "standard", 8, epochs=_LONGER),
        setup.seeds(3),
        "69.2",
    )
    cells = [
        depth_cell(setup, "standard", 8, 3, "66.9", row="SQL-SP, N = 8", column=_COLUMN),
        longer,
        depth_cell(setup, "dt-fixup", 8, 3, "73.5", row="+ DT-Fixup", column=_COLUMN),
        depth_cell(setup, "dt-fixup", 24, 3, "75.0", row="+ DT-Fixup, N = 24", column=_COLUMN),
        _t_fixup_cell(setup),
    ]
    if setup.budget is Budget.GPU:  # elsewhere it is the fourth row itself
        cells.append(_best_cell(setup, "+ DT-Fixup, N = 24, made-up examples too", _COLUMN))
    return cells


def _t_fixup_cell(setup: Setup) -> Cell:
    """T-Fixup at N = 24, of which Table 2 has how many runs fail: short runs show that, too."""
    row, paper = "+ T-Fixup, N = 24", "4 of 5 failed"
    if setup.budget is not Budget.GPU:
        return depth_cell(setup, "t-fixup", 24, 5, paper, row=row, column=_COLUMN)
    config = configure(setup, "t-fixup", 24, epochs=_SHORT)
    return Cell(row, _COLUMN, setup.path("spider-main", "t-fixup-n24-short"), config, setup.seeds(5), paper)


def _best_cell(setup: Setup, row: str, column: str, paper: str = "") -> Cell:
    """Our best: the `minilm` preset, with made-up examples; in other budgets the run without them."""
    if setup.budget is not Budget.GPU:
        return depth_cell(setup, "dt-fixup", 24, 5, paper, row=row, column=column)
    return Cell(row, column, setup.path("sql", "minilm"), setup.start_spider(), setup.seeds(5), paper)


def hardness_cells(setup: Setup) -> list[Cell]:
    """Table 3: the best of ours."""
    return [_best_cell(setup, "DT-Fixup", "N = 24", "91.9 / 80.9 / 60.3 / 48.8 / 75.0")]


def curve_cells(setup: Setup) -> list[Cell]:
    """Figure 2: the depths that have three seeds."""
    return [depth_cell(setup, strategy, layers, _SEEDS[layers]) for strategy, layers in CURVES]


def epochs_to(curve: Iterable[Mapping[str, Any]], level: float = LEVEL, metric: str = "exact") -> float | None:
    """The first epoch after which an evaluation was at a level or above it; None if none was.

    >>> epochs_to([{"epoch": 2, "exact": 41.0}, {"epoch": 4, "exact": 61.5}, {"epoch": 6, "exact": 59.0}])
    4.0
    """
    reached = (point["epoch"] for point in curve if point.get(metric) is not None and point[metric] >= level)
    return float(min(reached, default=0)) or None


def batch_cells(setup: Setup) -> list[Cell]:
    """Table 6, and the batch size that our other experiments have."""
    own = base(setup).training.batch_size
    small, large = ((16, 1), _LARGE_BATCH) if setup.budget is not Budget.SMOKE else ((own, 1), (own // 2, 3))
    cells = [_batch_cell(setup, strategy, small, 2) for strategy in DEPTH_STRATEGIES]
    if small[0] != own:
        cells += [_batch_cell(setup, strategy, (own, 1), 3) for strategy in DEPTH_STRATEGIES]
    return [*cells, _batch_cell(setup, "dt-fixup", large, 2)]


def _batch_cell(setup: Setup, strategy: str, batch: tuple[int, int], seeds: int) -> Cell:
    size = batch[0] * batch[1]
    column, paper = f"batch {size}", _BATCH.get((strategy, size), "")
    if batch == (base(setup).training.batch_size, 1):
        return depth_cell(setup, strategy, _BATCH_LAYERS, seeds, paper, column=column)
    path = setup.path("spider-batch", f"{strategy}-n{_BATCH_LAYERS}-batch{size}")
    config = configure(setup, strategy, _BATCH_LAYERS, batch=batch)
    return Cell(TITLES[strategy], column, path, config, setup.seeds(seeds), paper)


def error_cells(setup: Setup) -> list[Cell]:
    """Table 7: the models whose errors are classified, the paper's Base, Shallow and Deep."""
    models = [("standard", 4), ("dt-fixup", 4), ("dt-fixup", 24)]
    return [depth_cell(setup, strategy, layers, _SEEDS[layers]) for strategy, layers in models]


DEPTH = Experiment(
    "spider-depth",
    "Spider: exact match against the number of new layers",
    "Table 5, Spider",
    depth_cells,
    remark="By beam search, after the last epoch.",
    gpu_remark="Learning rate, dropout and warm-up of each strategy were chosen on training databases that were "
    "held out (spider-tune).",
)
MAIN = Experiment(
    "spider-main",
    "Spider: exact match of SQL-SP",
    "Tables 1 and 2",
    main_cells,
    remark="The paper's 75.0 is its best run; the mean of five is 73.79 (Table 5). Of T-Fixup it says how many runs "
    "failed to converge.",
    gpu_remark="The paper's 60 epochs are 16 here and its 100 are 27; the runs of T-Fixup have 4. The last row is our "
    "own best, with examples made up from the training questions.",
)
HARDNESS = Experiment(
    "spider-hardness",
    "Spider: exact match by the hardness of the question",
    "Table 3",
    hardness_cells,
    remark="The paper's numbers are its best run's.",
    gpu_remark="Our best: the minilm preset, 28 epochs with made-up examples.",
)
CURVE = Experiment(
    "spider-curves",
    "Spider: exact match during training",
    "Figure 2",
    curve_cells,
    remark="Runs of spider-depth, evaluated on the way by greedy decoding. The paper prints no numbers; ours is the "
    f"epochs to {LEVEL:.0f} % exact match.",
    gpu_remark=f"Evaluated every {CURVE_EVERY} epochs.",
)
BATCH = Experiment(
    "spider-batch",
    "Spider: exact match against the batch size, N = 8",
    "Table 6",
    batch_cells,
    remark="The same epochs and the same learning rate for all sizes. The paper's 69.60 disagrees with the 66.86 that "
    "its Table 5 has for the same runs.",
)
ERRORS = Experiment(
    "spider-errors",
    "Spider: what kind of errors are left",
    "Table 7, Figures 3 and 4",
    error_cells,
    remark="Runs of spider-depth, looked at by dtfixup sql errors; nothing is trained for it alone.",
)
