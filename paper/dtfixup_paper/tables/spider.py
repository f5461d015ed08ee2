"""What the Spider experiments have in common: the configuration of a strategy at a depth, and its cell of a table.

In: a setup, a strategy, a depth. Out: the configuration of a run, or a cell.
"""

from dataclasses import replace

from dtfixup.sql.model.config import SqlSpConfig
from dtfixup_paper.tables.cells import TITLES, Budget, Cell, Setup
from dtfixup_paper.tables.settings import SpiderSettings, settings_at

DEPTH_STRATEGIES = ("standard", "dt-fixup")
"""The strategies of Table 5."""
CURVES = tuple((strategy, layers) for layers in (2, 8, 24) for strategy in DEPTH_STRATEGIES)
"""Strategies and depths of Figure 2."""
CURVE_EVERY = 2
"""Epochs between two evaluations of them. Others are evaluated less often: one evaluation takes 200 updates' time."""
_EPOCHS = 16
_EXAMPLES = {Budget.SMOKE: 24, Budget.GPU: 7000, Budget.PAPER: 7000}
_AVERAGED = 0.08  # share of the updates that the moving average reaches back over: the preset's, 1,000 of 12,488
_PAPER = SpiderSettings(4e-4, encoder_rate=8e-3 * 4e-4, dropout=0.6)  # appendix C.5, for all models alike


def base(setup: Setup) -> SqlSpConfig:
    """What all runs start from: the paper's 7,000 examples alone, none made up."""
    config = setup.start_spider()
    if setup.budget is Budget.PAPER:
        return config
    if setup.budget is Budget.SMOKE:
        return replace(config, beam=1, training=replace(config.training, epochs=1, evaluate_every=1))
    return replace(config, synthetic=0.0, training=replace(config.training, epochs=_EPOCHS, evaluate_every=8))


def configure(
    setup: Setup,
    strategy: str,
    layers: int,
    settings: SpiderSettings | None = None,
    *,
    epochs: float = 1.0,
    batch: tuple[int, int] | None = None,
) -> SqlSpConfig:
    """The configuration of a run's first seed.

    Args:
        setup: what to start from.
        strategy: how the new layers are made trainable.
        layers: N, as the paper counts; a smoke run has fewer.
        settings: those chosen for the strategy by default; in the paper's budget the paper's, but for warm-up.
        epochs: as a multiple of the budget's.
        batch: examples of a planned batch, and how many of them make up an update.
    """
    start = base(setup)
    if settings is None:
        settings = settings_at(setup.settings.spider, strategy, layers)
        if setup.budget is Budget.PAPER:
            settings = replace(_PAPER, warmup=settings.warmup)
    training, decoder = start.training, start.model.decoder
    size, accumulate = batch or (training.batch_size, training.accumulate)
    count = max(1, round(epochs * training.epochs))
    updates = count * -(-_EXAMPLES[setup.budget] // (size * accumulate))
    average = round(1 - 1 / max(1.0, _AVERAGED * updates), 4) if training.update.average else 0.0
    decoder = replace(decoder, dropout=settings.dropout, label_smoothing=settings.label_smoothing)
    model = replace(start.model, layers=setup.layers(layers), strategy=strategy, input_dropout=settings.dropout)
    is_frozen = not start.encoder_factor
    return replace(
        start,
        encoder_factor=0.0 if is_frozen else round(settings.encoder_rate / settings.learning_rate, 6),
        model=replace(model, decoder=decoder),
        training=replace(
            training,
            epochs=count,
            batch_size=size,
            accumulate=accumulate,
            warmup=round(settings.warmup * updates),
            update=replace(training.update, learning_rate=settings.learning_rate, average=average),
        ),
    )


def depth_cell(
    setup: Setup, strategy: str, layers: int, seeds: int, paper: str = "", *, row: str = "", column: str = ""
) -> Cell:
    """The cell of a strategy at a depth, with the settings chosen for it: every table that shows it shares its runs."""
    config = configure(setup, strategy, layers)
    if setup.budget is Budget.GPU and (strategy, layers) in CURVES:
        config = replace(config, training=replace(config.training, evaluate_every=CURVE_EVERY))
    if strategy in DEPTH_STRATEGIES:
        path = setup.path("spider-depth", f"{strategy}-n{layers}")
    else:
        path = setup.path("init-peers", f"spider-{strategy}-n{layers}")
    return Cell(row or TITLES[strategy], column or f"N = {layers}", path, config, setup.seeds(seeds), paper)
