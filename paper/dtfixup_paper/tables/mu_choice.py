"""Ours: does the data-dependent part of DT-Fixup matter? N = 24 with other numbers in place of mu.

mu is the largest input norm; here also the 99th percentile, the mean, and ten times too much or too little. What is
changed is where the weights start and nothing else: the limit on the stream's length, which our preset has and the
paper has not, is a multiple of the true largest norm in all runs. As it could hold a stack that a wrong mu would have
let go, all of them are trained without it, too.
"""

from dataclasses import replace

from dtfixup.fixup import MuChoice
from dtfixup_paper.tables.cells import Cell, Experiment, Plan, seeds_at
from dtfixup_paper.tables.spider import configure

_LAYERS = 24
_ROWS = {
    MuChoice.MAX: ("the largest norm", "max"),
    MuChoice.P99: ("the 99th percentile", "p99"),
    MuChoice.MEAN: ("the mean norm", "mean"),
    MuChoice.TOO_LARGE: ("10 times the largest", "times10"),
    MuChoice.TOO_SMALL: ("a tenth of the largest", "tenth"),
}


def mu_cells(plan: Plan) -> list[Cell]:
    """Every choice, with the limit of the preset and without one."""
    start = configure(plan, "dt-fixup", _LAYERS)
    limits = {"no limit": 0.0} if not start.model.stream_limit else {"limit": start.model.stream_limit, "no limit": 0.0}
    return [
        Cell(
            row,
            f"limit {limit:g} x the largest norm" if limit else "no limit",
            f"{name}-{kind.replace(' ', '-')}",
            replace(start, mu=choice, model=replace(start.model, stream_limit=limit)),
            seeds_at(plan.budget, 2 if limit else 1),
        )
        for kind, limit in limits.items()
        for choice, (row, name) in _ROWS.items()
    ]


MU = Experiment(
    "mu-choice",
    "Spider: DT-Fixup with another number in place of mu, N = 24",
    "ours",
    mu_cells,
    remark="Only the scale of the initial weights differs between rows. The limit is on the length of vectors between "
    "layers, and the same in all rows of its column; the paper has none.",
)
