"""Experiments that the paper does not have: other initialisations, other numbers in place of μ, and 32 layers.

`init-peers`: every strategy of the library at N = 8 and 24, on both tasks. Strategies with layer norms have what won
their own tuning. T-Fixup, ReZero and Xavier, which have none, have what won for DT-Fixup.

`mu-choice`: does the data-dependent part of DT-Fixup matter? μ is the largest input norm. Here it is also the 99th
percentile, the mean, and ten times too much or too little. Only the initial weights change: the limit between the
layers, which our preset has and the paper has not, is a multiple of the true largest norm in all runs. As it could hold
a stack that a wrong μ would have let go, all are trained without it, too.

`limits`: what 32 layers take to train, with and without that limit, at the rate chosen for 24 and at half of it, which
is about the paper's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dtfixup.fixup import STRATEGIES, MuChoice
from dtfixup.sql.model.config import minilm
from dtfixup_paper.tables import reclor
from dtfixup_paper.tables.cells import Cell, Experiment, Setup
from dtfixup_paper.tables.spider import configure, depth_cell

_PEER_SEEDS = {24: 2, 8: 1}
"""By depth, on Spider."""
_MU_LAYERS, _LIMIT_LAYERS = 24, 32
_MU_ROWS = {
    MuChoice.MAX: ("the largest norm", "max"),
    MuChoice.P99: ("the 99th percentile", "p99"),
    MuChoice.MEAN: ("the mean norm", "mean"),
    MuChoice.TOO_LARGE: ("10 times the largest", "times10"),
    MuChoice.TOO_SMALL: ("a tenth of the largest", "tenth"),
}
_STREAM = minilm().model.stream_limit


@dataclass(frozen=True)
class _LimitRow:
    title: str
    name: str
    """In the names of files."""
    stream: float = _STREAM
    """Limit on the length of vectors between layers, in μ; 0 is none, as in the next."""
    rate: float = 1.0
    """As a multiple of the one that was chosen; the encoder's goes along."""
    seeds: int = 2


_LIMIT_ROWS: Sequence[_LimitRow] = (
    _LimitRow("no limit", "none", stream=0.0, seeds=3),
    _LimitRow(f"{_STREAM:g} μ on a vector's length", "stream"),
    _LimitRow(f"{_STREAM:g} μ on a vector's length, half the rate", "half-rate", rate=0.5, seeds=3),
)


def peer_cells(setup: Setup) -> list[Cell]:
    """Both tasks, the deep stacks first."""
    return [
        cell
        for layers, seeds in _PEER_SEEDS.items()
        for strategy in STRATEGIES
        for cell in (
            depth_cell(setup, strategy, layers, seeds, column=f"Spider, N = {layers}"),
            reclor.depth_cell(setup, strategy, layers, 1, column=f"ReClor, N = {layers}"),
        )
    ]


def mu_cells(setup: Setup) -> list[Cell]:
    """Every choice, with the limit of the preset and without one."""
    start = configure(setup, "dt-fixup", _MU_LAYERS)
    usual = start.model.stream_limit
    return [
        _mu_cell(setup, choice, limit, 2 if limit else 1)
        for limit in dict.fromkeys((usual, 0.0))
        for choice in _MU_ROWS
    ]


def _mu_cell(setup: Setup, choice: MuChoice, limit: float, seeds: int) -> Cell:
    start, (row, name) = configure(setup, "dt-fixup", _MU_LAYERS), _MU_ROWS[choice]
    column = f"limit {limit:g} x the largest norm" if limit else "no limit"
    config = replace(start, mu=choice, model=replace(start.model, stream_limit=limit))
    if config == start:
        return depth_cell(setup, "dt-fixup", _MU_LAYERS, seeds, row=row, column=column)
    path = setup.path("mu-choice", f"{name}-{'limit' if limit else 'no-limit'}")
    return Cell(row, column, path, config, setup.seeds(seeds))


def limit_cells(setup: Setup) -> list[Cell]:
    """A cell of each row."""
    start, cells = configure(setup, "dt-fixup", _LIMIT_LAYERS), []
    for row in _LIMIT_ROWS:
        update = replace(start.training.update, learning_rate=row.rate * start.training.update.learning_rate)
        model, training = replace(start.model, stream_limit=row.stream), replace(start.training, update=update)
        config = replace(start, model=model, training=training)
        if config == start:
            cells.append(depth_cell(setup, "dt-fixup", _LIMIT_LAYERS, row.seeds, row=row.title))
        else:
            path = setup.path("limits", f"{row.name}-n{_LIMIT_LAYERS}")
            cells.append(Cell(row.title, f"N = {_LIMIT_LAYERS}", path, config, setup.seeds(row.seeds)))
    return cells


PEERS = Experiment(
    "init-peers",
    "Both tasks: every way to make new layers trainable",
    "ours",
    peer_cells,
    gpu_remark="DT-Fixup, standard, pre-LN, Admin and DeepNorm were tuned, those with layer norms by learning rate, "
    "dropout and warm-up. T-Fixup, ReZero and Xavier have the settings of DT-Fixup, but no limit between layers.",
)
MU = Experiment(
    "mu-choice",
    "Spider: DT-Fixup with another number in place of mu, N = 24",
    "ours",
    mu_cells,
    remark="Only the scale of the initial weights differs between rows. The limit is on the length of vectors between "
    "layers, and the same in all rows of its column; the paper has none.",
)
LIMITS = Experiment(
    "limits",
    "Spider: 32 layers by DT-Fixup, with and without limits between them, and at half the rate",
    "ours",
    limit_cells,
    remark="μ is the longest input of the stack before training. Nothing else differs between rows but what they say; "
    "the paper has no limit.",
    gpu_remark="The second row is DT-Fixup of the other tables. All but the last are at the rate that was chosen for "
    "N = 24.",
)
