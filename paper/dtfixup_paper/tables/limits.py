"""Ours: what 32 layers by DT-Fixup take to train, at the rate that was chosen for 24 and at half of it.

At that rate with no limit between the layers, as in the paper, and with the `minilm` preset's limit on the length of
vectors between layers. `mu_choice.py` has both at N = 24. Half the rate, of which the encoder's is the same share, is
about the paper's; it has the preset's limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dtfixup.sql.model.config import minilm
from dtfixup_paper.tables.cells import Cell, Experiment, Plan, seeds_at
from dtfixup_paper.tables.spider import configure

_LAYERS = 32
_STREAM = minilm().model.stream_limit


@dataclass(frozen=True)
class _Row:
    title: str
    name: str
    """In the names of files."""
    stream: float = _STREAM
    """Limit on the length of vectors between layers, in μ; 0 is none, as in the next."""
    rate: float = 1.0
    """As a multiple of the one that was chosen; the encoder's goes along."""
    seeds: int = 2


_ROWS: Sequence[_Row] = (
    _Row("no limit", "none", stream=0.0, seeds=3),
    _Row(f"{_STREAM:g} μ on a vector's length", "stream"),
    _Row(f"{_STREAM:g} μ on a vector's length, half the rate", "half-rate", rate=0.5, seeds=3),
)


def limit_cells(plan: Plan) -> list[Cell]:
    """A cell of each row."""
    start, cells = configure(plan, "dt-fixup", _LAYERS), []
    training = start.training
    for row in _ROWS:
        update = replace(training.update, learning_rate=row.rate * training.update.learning_rate)
        config = replace(
            start,
            model=replace(start.model, stream_limit=row.stream),
            training=replace(training, update=update),
        )
        cells.append(
            Cell(row.title, f"N = {_LAYERS}", f"{row.name}-n{_LAYERS}", config, seeds_at(plan.budget, row.seeds))
        )
    return cells


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
