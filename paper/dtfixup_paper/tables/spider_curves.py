"""Figure 2: validation curves of standard layers and DT-Fixup, and after how many epochs each reaches an accuracy.

The runs are those of `spider_depth.py`; they are evaluated on the way by greedy decoding, on the moving average of the
weights where one is kept.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dtfixup_paper.tables.cells import Cell, Experiment, Plan
from dtfixup_paper.tables.spider import CURVE_EVERY, CURVES, depth_cell
from dtfixup_paper.tables.spider_depth import SEEDS

LEVEL = 60.0
"""Exact match, in percent, that the curves are compared at."""


def curve_cells(plan: Plan) -> list[Cell]:
    """The depths that have three seeds."""
    return [depth_cell(plan, strategy, layers, SEEDS[layers]) for strategy, layers in CURVES]


def epochs_to(curve: Iterable[Mapping[str, Any]], level: float = LEVEL, metric: str = "exact") -> float | None:
    """The first epoch after which an evaluation was at a level or above it; None if none was.

    >>> epochs_to([{"epoch": 2, "exact": 41.0}, {"epoch": 4, "exact": 61.5}, {"epoch": 6, "exact": 59.0}])
    4.0
    """
    reached = (each["epoch"] for each in curve if each.get(metric) is not None and each[metric] >= level)
    return float(min(reached, default=0)) or None


FIGURE = Experiment(
    "spider-curves",
    "Spider: exact match during training",
    "Figure 2",
    curve_cells,
    remark="Runs of spider-depth, evaluated on the way by greedy decoding. The paper prints no numbers; ours is the "
    f"epochs to {LEVEL:.0f} % exact match.",
    gpu_remark=f"Evaluated every {CURVE_EVERY} epochs.",
)
