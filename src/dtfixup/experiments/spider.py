"""What the Spider experiments have in common: which settings a strategy is trained with, and how a run is trained.

In: a budget, a strategy, a depth. Out: the configuration of a run, or a cell of a table; `TrainSpider` trains one. What
is tuned is in the table `CHOSEN`, from what `spider_tune.py` found on held-out databases. Runs on a bare GPU box.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from dtfixup.experiments.cells import TITLES, Budget, Cell, layers_at, seeds_at, tuned_like, usual_warmup
from dtfixup.experiments.provenance import RESULT
from dtfixup.experiments.run_identity import Content, encoder_name
from dtfixup.experiments.sql_run import train_sql
from dtfixup.files import read_json
from dtfixup.sql.prepared import open_prepared
from dtfixup.sql.presets import SqlSpConfig, minilm, paper, smoke

CURVES = tuple((strategy, layers) for layers in (2, 8, 24) for strategy in ("standard", "dt-fixup"))
"""Strategies and depths whose curves are drawn (figure 2)."""
CURVE_EVERY = 2
"""Epochs between two evaluations of them; others have few on the way, since one takes as long as 200 updates."""
_EPOCHS = 16
_EXAMPLES = {Budget.SMOKE: 24, Budget.GPU: 7000, Budget.PAPER: 7000}
_AVERAGED = 0.08  # share of the updates that the moving average reaches back over: the preset's, 1,000 of 12,488


@dataclass(frozen=True)
class Settings:
    """What is tuned; the defaults are those of the `minilm` preset."""

    learning_rate: float = 5e-4
    """Of everything but the encoder."""
    encoder_rate: float = 1e-4
    """Of the encoder, which the strategies have no part in: not lowered where new layers need a lower rate."""
    dropout: float = 0.3
    """On the stack's input and on the decoder's context."""
    label_smoothing: float = 0.2
    """On columns."""
    warmup: float = 0.0
    """Share of the updates in which the rate rises."""

    def __str__(self) -> str:
        rates = f"rate {self.learning_rate:g}, encoder {self.encoder_rate:g}"
        parts = f"{rates}, dropout {self.dropout:g}, smoothing {self.label_smoothing:g}"
        return parts + (f", warm-up {self.warmup:g}" if self.warmup else "")


CHOSEN: Mapping[str, Mapping[int, Settings]] = {
    "dt-fixup": {2: Settings(8e-4, encoder_rate=1.6e-4, dropout=0.4, label_smoothing=0.0)},
    "standard": {2: Settings(3e-4, warmup=0.1), 16: Settings(1e-4, warmup=0.3)},
    "pre-ln": {2: Settings(6e-4, dropout=0.5, warmup=0.1)},
    "admin": {2: Settings(3e-4, warmup=0.1)},
    "deepnorm": {2: Settings(3e-4, warmup=0.02)},
}
"""For each strategy that was tuned, from which depth on to train with which settings."""
_PAPER = Settings(4e-4, encoder_rate=8e-3 * 4e-4, dropout=0.6)  # appendix C.5, for all models alike


def chosen(strategy: str, layers: int) -> Settings:
    """The settings of the largest depth in the table that is not larger than this one.

    Strategies that were not tuned have the warm-up that they ask for, and all else of the tuned one that is like them.
    """
    if known := CHOSEN.get(strategy):
        return known[max((depth for depth in known if depth <= layers), default=min(known))]
    return replace(chosen(tuned_like(strategy), layers), warmup=usual_warmup(strategy))


def base(budget: Budget) -> SqlSpConfig:
    """What all runs start from: the paper's 7,000 examples alone, none made up."""
    if budget is Budget.PAPER:
        return paper()
    if budget is Budget.SMOKE:
        config = smoke()
        return replace(config, beam=1, training=replace(config.training, epochs=1, evaluate_every=1))
    config = minilm()
    return replace(config, synthetic=0.0, training=replace(config.training, epochs=_EPOCHS, evaluate_every=8))


def is_usual(encoder: str | None, budget: Budget) -> bool:
    """Whether an encoder, by name or folder, is the budget's own; none is.

    >>> is_usual("folder/minilm-fp16", Budget.GPU), is_usual("mpnet", Budget.GPU)
    (True, False)
    """
    return encoder is None or encoder_name(encoder) == base(budget).encoder


def full(budget: Budget) -> SqlSpConfig:
    """Our best: the `minilm` preset, with made-up examples; in other budgets the run without them."""
    return minilm() if budget is Budget.GPU else configure(budget, "dt-fixup", 24)


def configure(
    budget: Budget,
    strategy: str,
    layers: int,
    settings: Settings | None = None,
    *,
    epochs: float = 1.0,
    batch: tuple[int, int] | None = None,
) -> SqlSpConfig:
    """The configuration of a run's first seed.

    Args:
        budget: what to start from.
        strategy: how the new layers are made trainable.
        layers: N, as the paper counts; a smoke run has fewer.
        settings: those chosen for the strategy by default; in the paper's budget the paper's.
        epochs: as a multiple of the budget's.
        batch: examples of a planned batch, and how many of them make up an update.
    """
    start = base(budget)
    if settings is None:
        settings = chosen(strategy, layers)
        settings = replace(_PAPER, warmup=settings.warmup) if budget is Budget.PAPER else settings
    training, decoder = start.training, start.model.decoder
    size, accumulate = batch or (training.batch_size, training.accumulate)
    count = max(1, round(epochs * training.epochs))
    updates = count * -(-_EXAMPLES[budget] // (size * accumulate))
    average = round(1 - 1 / max(1.0, _AVERAGED * updates), 4) if training.update.average else 0.0
    decoder = replace(decoder, dropout=settings.dropout, label_smoothing=settings.label_smoothing)
    model = replace(start.model, layers=layers_at(budget, layers), strategy=strategy, input_dropout=settings.dropout)
    frozen = not start.encoder_factor
    return replace(
        start,
        encoder_factor=0.0 if frozen else round(settings.encoder_rate / settings.learning_rate, 6),
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


def depth_cell(budget: Budget, strategy: str, layers: int, seeds: int, paper: str = "", **names: str) -> Cell:
    """The cell of a strategy at a depth; `names` replace its row, column or variant."""
    known = {"row": TITLES[strategy], "column": f"N = {layers}", "variant": f"{strategy}-n{layers}", **names}
    config = configure(budget, strategy, layers)
    if budget is Budget.GPU and (strategy, layers) in CURVES:
        config = replace(config, training=replace(config.training, evaluate_every=CURVE_EVERY))
    return Cell(known["row"], known["column"], known["variant"], config, seeds_at(budget, seeds), paper)


@dataclass(frozen=True)
class TrainSpider:
    """Trains one run, in any process that sees the prepared dataset."""

    config: SqlSpConfig
    prepared: Path
    """Folder that `dtfixup sql prepare` made."""
    name: str
    command: str

    def __call__(self, folder: Path, resume: bool) -> Content | None:
        done = train_sql(
            self.config,
            open_prepared(self.prepared),
            folder,
            name=self.name,
            command=self.command,
            resume=resume,
            console=Console(quiet=True),
        )
        content: dict[str, Any] | None = read_json(folder / RESULT) if done.metrics else None
        return content
