"""The tuning before the Spider experiments, on databases of the training split that are held out; dev is not looked at.

DT-Fixup has random draws from the paper's grid (appendix C.5: learning rate 4e-4 to 8e-4, dropout 0.3 to 0.6, label
smoothing 0 to 0.2; the encoder's rate moves with the new layers'), in the paper's budget all of it. The strategies
with layer norms have grids of their own over learning rate, dropout and warm-up, which reach lower rates: what trains
8 such layers may break 24. Grids are the same for every encoder, and where they follow from each other, from what won
with MiniLM: each has, at its middle rate, also the encoder's rate, dropout and label smoothing that won for DT-Fixup,
so that these are nobody's alone. Pre-LN was best at the highest rate of its grid, so a higher one follows, all that won
for DT-Fixup, and other warm-ups. 16 standard layers have only what won at 8 and what won at 24. Admin and DeepNorm,
which are in `init-peers` alone, have three rates with the warm-up that their authors ask for, and at the best of them
more dropout and a longer warm-up.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from dtfixup_paper.tables.cells import TITLES, Budget, Cell, Experiment, Plan, Tried
from dtfixup_paper.tables.settings import SpiderSettings, usual_warmup
from dtfixup_paper.tables.spider import base, configure

DRAWS = 12
_DRAW_SEED = 1
_HELD_OUT = {Budget.SMOKE: 1, Budget.GPU: 20, Budget.PAPER: 20}
_RATES, _DROPOUTS, _SMOOTHINGS = (4e-4, 5e-4, 6e-4, 7e-4, 8e-4), (0.3, 0.4, 0.5, 0.6), (0.0, 0.1, 0.2)
_WON = SpiderSettings(8e-4, encoder_rate=1.6e-4, dropout=0.4, label_smoothing=0.0, warmup=0.1)  # by DT-Fixup, MiniLM
_ADMIN, _DEEPNORM = usual_warmup("admin"), usual_warmup("deepnorm")
_BASELINES: Sequence[tuple[str, int, Sequence[SpiderSettings]]] = (
    (
        "standard",
        8,
        [
            *(
                SpiderSettings(rate, dropout=dropout, warmup=0.1)
                for rate in (1e-4, 3e-4, 6e-4)
                for dropout in (0.3, 0.5)
            ),
            SpiderSettings(3e-4, warmup=0.3),
            replace(_WON, learning_rate=3e-4),
        ],
    ),
    ("standard", 16, [SpiderSettings(3e-4, warmup=0.1), SpiderSettings(1e-4, warmup=0.3)]),
    (
        "standard",
        24,
        [
            *(SpiderSettings(rate, warmup=0.1) for rate in (3e-5, 1e-4, 3e-4)),
            SpiderSettings(1e-4, warmup=0.3),
            SpiderSettings(1e-4, dropout=0.5, warmup=0.1),
            replace(_WON, learning_rate=1e-4),
        ],
    ),
    (
        "pre-ln",
        24,
        [
            *(
                SpiderSettings(rate, dropout=dropout, warmup=0.1)
                for rate in (1e-4, 3e-4, 6e-4)
                for dropout in (0.3, 0.5)
            ),
            replace(_WON, learning_rate=3e-4),
            SpiderSettings(1e-3, dropout=0.5, warmup=0.1),
            _WON,
            *(SpiderSettings(6e-4, dropout=0.5, warmup=warmup) for warmup in (0.0, 0.3)),
        ],
    ),
    (
        "admin",
        24,
        [
            *(SpiderSettings(rate, warmup=_ADMIN) for rate in (1e-4, 3e-4, 6e-4)),
            SpiderSettings(3e-4, dropout=0.5, warmup=_ADMIN),
            SpiderSettings(3e-4, warmup=0.3),
        ],
    ),
    (
        "deepnorm",
        24,
        [
            *(SpiderSettings(rate, warmup=_DEEPNORM) for rate in (1e-4, 3e-4, 6e-4)),
            SpiderSettings(3e-4, dropout=0.5, warmup=_DEEPNORM),
            SpiderSettings(3e-4, warmup=0.1),
        ],
    ),
)
"""Strategy, depth and the settings to try."""


def draws(budget: Budget) -> list[SpiderSettings]:
    """The settings of DT-Fixup to try, in the order of the grid: the same for everybody."""
    start = base(budget)
    grid = [
        SpiderSettings(
            rate, encoder_rate=round(start.encoder_factor * rate, 12), dropout=dropout, label_smoothing=smoothing
        )
        for rate, dropout, smoothing in product(_RATES, _DROPOUTS, _SMOOTHINGS)
    ]
    if budget is Budget.PAPER:
        return grid
    places = np.random.default_rng(_DRAW_SEED).choice(len(grid), DRAWS, replace=False)
    return [grid[place] for place in sorted(places)]


def tried(budget: Budget) -> list[Tried[SpiderSettings]]:
    """All settings of all strategies; a smoke run tries two of each."""
    grids: list[tuple[str, int, Sequence[SpiderSettings]]] = [("dt-fixup", 24, draws(budget)), *_BASELINES]
    few = slice(2 if budget is Budget.SMOKE else None)
    found = []
    for strategy, layers, grid in grids:
        for each in grid[few]:
            settings = _own_encoder(budget, each)
            config = configure(Plan(budget), strategy, layers, settings)
            training = replace(config.training, evaluate_every=0)
            config = replace(config, hold_out=_HELD_OUT[budget], training=training)
            found.append(Tried(strategy, layers, settings, config))
    return found


def _own_encoder(budget: Budget, settings: SpiderSettings) -> SpiderSettings:
    """The settings with an encoder's rate that suits the budget's encoder: the grids above have MiniLM's."""
    if budget is not Budget.PAPER:
        return settings
    return replace(settings, encoder_rate=base(budget).encoder_factor * settings.learning_rate)


def tune_cells(plan: Plan) -> list[Cell]:
    """All that is tried, one run each."""
    return [_cell(plan, each) for each in tried(plan.budget)]


def _cell(plan: Plan, each: Tried[SpiderSettings]) -> Cell:
    settings = each.settings
    parts = [f"lr{settings.learning_rate:g}", f"drop{settings.dropout:g}", f"smooth{settings.label_smoothing:g}"]
    parts += [f"warm{settings.warmup:g}"] if settings.warmup else []
    own = configure(plan, each.strategy, each.layers)
    is_chosen = plan.budget is Budget.GPU and configure(plan, each.strategy, each.layers, settings) == own
    variant = "-".join([f"{each.strategy}-n{each.layers}", *parts])
    title = f"{TITLES[each.strategy]}, N = {each.layers}"
    return Cell(str(settings), title, variant, each.config, seeds=1, is_chosen=is_chosen)


TUNE = Experiment(
    "spider-tune",
    "Spider: tuning on held-out training databases",
    "Appendix C.5",
    tune_cells,
    remark="Some of the training databases are held out and evaluated on; dev is not looked at. DT-Fixup: the paper's "
    "grid, with the budget paper all of it, else random draws from it. Strategies with layer norms: grids of their "
    "own, and what won for DT-Fixup at their rate.",
    gpu_remark="20 databases are held out.",
)
