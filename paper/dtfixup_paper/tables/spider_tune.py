"""The tuning before the Spider experiments, on databases of the training split that are held out; dev is not used.

DT-Fixup has random draws from the paper's grid (appendix C.5: learning rate 4e-4 to 8e-4, dropout 0.3 to 0.6, label
smoothing 0 to 0.2; the encoder's rate moves with the new layers'). In the paper's budget it has all of the grid. The
strategies with layer norms have grids of their own over learning rate, dropout and warm-up. Those reach lower rates:
what trains 8 such layers may break 24. Each also has, at its middle rate, the other settings that won for DT-Fixup, so
that no strategy alone has these. Grids are the same for every encoder; where they build on each other, on what won with
MiniLM: pre-LN was best at the highest rate of its grid, so a higher one follows, all that won for DT-Fixup, and other
warm-ups. 16 standard layers have what won at 8 and what won at 24. Admin and DeepNorm have three rates with the warm-up
that their authors ask for, and at the best of them more dropout and a longer warm-up.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from dtfixup_paper.tables.cells import TITLES, Budget, Cell, Experiment, Setup, Trial
from dtfixup_paper.tables.settings import SpiderSettings, settings_at, usual_warmup
from dtfixup_paper.tables.spider import base, configure

DRAWS = 12
_DRAW_SEED = 1
_HELD_OUT = {Budget.SMOKE: 1, Budget.GPU: 20, Budget.PAPER: 20}
_RATES, _DROPOUTS, _SMOOTHINGS = (4e-4, 5e-4, 6e-4, 7e-4, 8e-4), (0.3, 0.4, 0.5, 0.6), (0.0, 0.1, 0.2)
_WON = SpiderSettings(8e-4, encoder_rate=1.6e-4, dropout=0.4, label_smoothing=0.0, warmup=0.1)  # by DT-Fixup, MiniLM
_ADMIN, _DEEPNORM = usual_warmup("admin"), usual_warmup("deepnorm")


def _settings(*rates: float, dropouts: Sequence[float] = (0.3,), warmup: float = 0.1) -> list[SpiderSettings]:
    return [SpiderSettings(rate, dropout=dropout, warmup=warmup) for rate in rates for dropout in dropouts]


_WIDE = _settings(1e-4, 3e-4, 6e-4, dropouts=(0.3, 0.5))
_BASELINES: Sequence[tuple[str, int, Sequence[SpiderSettings]]] = (
    ("standard", 8, [*_WIDE, *_settings(3e-4, warmup=0.3), replace(_WON, learning_rate=3e-4)]),
    ("standard", 16, [*_settings(3e-4), *_settings(1e-4, warmup=0.3)]),
    (
        "standard",
        24,
        [
            *_settings(3e-5, 1e-4, 3e-4),
            *_settings(1e-4, warmup=0.3),
            *_settings(1e-4, dropouts=(0.5,)),
            replace(_WON, learning_rate=1e-4),
        ],
    ),
    (
        "pre-ln",
        24,
        [
            *_WIDE,
            replace(_WON, learning_rate=3e-4),
            *_settings(1e-3, dropouts=(0.5,)),
            _WON,
            *(SpiderSettings(6e-4, dropout=0.5, warmup=warmup) for warmup in (0.0, 0.3)),
        ],
    ),
    (
        "admin",
        24,
        [
            *_settings(1e-4, 3e-4, 6e-4, warmup=_ADMIN),
            *_settings(3e-4, dropouts=(0.5,), warmup=_ADMIN),
            *_settings(3e-4, warmup=0.3),
        ],
    ),
    (
        "deepnorm",
        24,
        [
            *_settings(1e-4, 3e-4, 6e-4, warmup=_DEEPNORM),
            *_settings(3e-4, dropouts=(0.5,), warmup=_DEEPNORM),
            *_settings(3e-4),
        ],
    ),
)
"""Strategy, depth and the settings to try."""


def draws(setup: Setup) -> list[SpiderSettings]:
    """The settings of DT-Fixup to try, in the order of the grid: the same in every call."""
    factor = base(setup).encoder_factor
    grid = [
        SpiderSettings(rate, encoder_rate=round(factor * rate, 12), dropout=dropout, label_smoothing=smoothing)
        for rate, dropout, smoothing in product(_RATES, _DROPOUTS, _SMOOTHINGS)
    ]
    if setup.budget is Budget.PAPER:
        return grid
    places = np.random.default_rng(_DRAW_SEED).choice(len(grid), DRAWS, replace=False)
    return [grid[place] for place in sorted(places)]


def tune_cells(setup: Setup) -> list[Cell]:
    """All that is tried, one run each; a smoke run tries two of each grid."""
    grids = [("dt-fixup", 24, draws(setup)), *_BASELINES]
    few = slice(2 if setup.budget is Budget.SMOKE else None)
    return [_cell(setup, strategy, layers, settings) for strategy, layers, grid in grids for settings in grid[few]]


def _cell(setup: Setup, strategy: str, layers: int, settings: SpiderSettings) -> Cell:
    if setup.budget is Budget.PAPER:  # the grids have the encoder's rate that suits MiniLM
        settings = replace(settings, encoder_rate=base(setup).encoder_factor * settings.learning_rate)
    parts = [f"{strategy}-n{layers}", f"lr{settings.learning_rate:g}", f"drop{settings.dropout:g}"]
    parts += [f"smooth{settings.label_smoothing:g}"] + ([f"warm{settings.warmup:g}"] if settings.warmup else [])
    config = configure(setup, strategy, layers, settings)
    return Cell(
        str(settings),
        f"{TITLES[strategy]}, N = {layers}",
        setup.path("spider-tune", "-".join(parts)),
        replace(config, hold_out=_HELD_OUT[setup.budget], training=replace(config.training, evaluate_every=0)),
        seeds=1,
        trial=Trial(strategy, layers, settings),
        is_chosen=setup.budget is Budget.GPU and settings == settings_at(setup.settings.spider, strategy, layers),
    )


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
