"""Table 5, Spider: standard layers against DT-Fixup at N = 2 to 32; and the three models of Table 7 among them."""

from dtfixup_paper.tables.cells import Cell, Experiment, Plan
from dtfixup_paper.tables.spider import depth_cell

PAPER = {
    2: ("69.47 ± 0.30", "70.73 ± 0.18"),
    4: ("70.04 ± 0.33", "72.22 ± 0.61"),
    8: ("66.86 ± 0.16", "73.24 ± 0.51"),
    16: ("20.44 ± 1.11", "73.52 ± 0.47"),
    24: ("19.37 ± 0.16", "73.79 ± 0.49"),
    32: ("19.57 ± 0.43", "73.02 ± 0.52"),
}
"""Standard and DT-Fixup."""
SEEDS = {2: 3, 4: 2, 8: 3, 16: 2, 24: 3, 32: 2}
_STRATEGIES = ("standard", "dt-fixup")


def depth_cells(plan: Plan) -> list[Cell]:
    """Table 5, Spider."""
    return [
        depth_cell(plan, strategy, layers, SEEDS[layers], paper=number)
        for layers, numbers in PAPER.items()
        for strategy, number in zip(_STRATEGIES, numbers, strict=True)
    ]


def error_cells(plan: Plan) -> list[Cell]:
    """The models whose errors are looked at: the paper's Base, Shallow and Deep."""
    models = [("standard", 4), ("dt-fixup", 4), ("dt-fixup", 24)]
    return [depth_cell(plan, strategy, layers, SEEDS[layers]) for strategy, layers in models]


DEPTH = Experiment(
    "spider-depth",
    "Spider: exact match against the number of new layers",
    "Table 5, Spider",
    depth_cells,
    remark="By beam search, after the last epoch.",
    gpu_remark="Learning rate, dropout and warm-up of each strategy were chosen on training databases that were "
    "held out (spider-tune).",
)
ERRORS = Experiment(
    "spider-errors",
    "Spider: what kind of errors are left",
    "Table 7, Figures 3 and 4",
    error_cells,
    remark="Runs of spider-depth, looked at by dtfixup sql errors; nothing is trained for it alone.",
)
