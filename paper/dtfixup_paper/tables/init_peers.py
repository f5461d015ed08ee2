"""Ours: every strategy of the library at N = 8 and 24, on both tasks.

Strategies with layer norms have what won their own tuning. T-Fixup, ReZero and Xavier, which have none, are trained
with what was tuned for DT-Fixup (`settings.Choices`).
"""

from dtfixup.fixup import STRATEGIES
from dtfixup_paper.tables.cells import TITLES, Cell, Experiment, Plan, seeds_at
from dtfixup_paper.tables.reclor_cells import configure as configure_reading
from dtfixup_paper.tables.spider import depth_cell

_DEPTHS = (24, 8)


def peer_cells(plan: Plan) -> list[Cell]:
    """Both tasks, the deep stacks first."""
    return [
        cell
        for layers in _DEPTHS
        for strategy in STRATEGIES
        for cell in (
            depth_cell(
                plan, strategy, layers, 2 if layers == _DEPTHS[0] else 1,
                column=f"Spider, N = {layers}", variant=f"spider-{strategy}-n{layers}",
            ),
            Cell(
                TITLES[strategy],
                f"ReClor, N = {layers}",
                f"reclor-{strategy}-n{layers}",
                configure_reading(plan, strategy, layers, ablation=True),
                seeds_at(plan.budget, 1),
            ),
        )
    ]  # fmt: skip


PEERS = Experiment(
    "init-peers",
    "Both tasks: every way to make new layers trainable",
    "ours",
    peer_cells,
    gpu_remark="DT-Fixup, standard, pre-LN, Admin and DeepNorm were tuned, those with layer norms by learning rate, "
    "dropout and warm-up. T-Fixup, ReZero and Xavier have the settings of DT-Fixup, but no limit between layers.",
)
