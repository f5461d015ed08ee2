"""Ours: what limits between the layers do for DT-Fixup at N = 32, at the rate that was chosen for 24.

None, as in the paper; the `minilm` preset's, on the length of vectors between layers; and one on what a layer adds to
them as well. With the second alone a layer may add so much that, shortened, nearly nothing is left of what it read.
`mu_choice.py` has the first two at N = 24.
"""

from dataclasses import replace

from dtfixup.experiments.cells import Cell, Experiment, Plan, seeds_at
from dtfixup.experiments.spider import configure
from dtfixup.sql.presets import minilm

_LAYERS = 32
_STREAM = minilm().model.stream_limit
_ROWS = {
    "no limit": ("none", 0.0, 0.0),
    f"{_STREAM:g} μ on a vector's length": ("stream", _STREAM, 0.0),
    f"{_STREAM:g} μ, and 1 μ on what a layer adds": ("added", _STREAM, 1.0),
}


def limit_cells(plan: Plan) -> list[Cell]:
    """A cell of each row."""
    cells, start = [], configure(plan, "dt-fixup", _LAYERS)
    for row, (name, stream, added) in _ROWS.items():
        config = replace(start, model=replace(start.model, stream_limit=stream, added_limit=added))
        cells.append(Cell(row, f"N = {_LAYERS}", f"{name}-n{_LAYERS}", config, seeds_at(plan.budget, 2)))
    return cells


LIMITS = Experiment(
    "limits",
    "Spider: DT-Fixup with and without limits between the layers",
    "ours",
    limit_cells,
    remark="μ is the longest input of the stack before training. Nothing else differs between rows; the paper has no "
    "limit.",
    gpu_remark="The second row is DT-Fixup of the other tables, and all are at the rate that was chosen for N = 24.",
)
