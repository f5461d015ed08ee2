"""What the Spider experiments have in common: which settings a strategy is trained with, and how a run is trained.

In: a plan, a strategy, a depth. Out: the configuration of a run, or a cell of a table; `TrainSpider` trains one. Runs
on a bare GPU box.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from dtfixup.files import read_json
from dtfixup.provenance import RESULT
from dtfixup.sql.model.config import SqlSpConfig, minilm, paper, smoke
from dtfixup.sql.model.prepared import open_prepared
from dtfixup.sql.model.train import train_sql
from dtfixup_paper.runs.run_identity import Content, encoder_name
from dtfixup_paper.tables.cells import TITLES, Budget, Cell, Plan, layers_at, seeds_at
from dtfixup_paper.tables.settings import SpiderSettings

CURVES = tuple((strategy, layers) for layers in (2, 8, 24) for strategy in ("standard", "dt-fixup"))
"""Strategies and depths whose curves are drawn (figure 2)."""
CURVE_EVERY = 2
"""Epochs between two evaluations of them; others have few on the way, since one takes as long as 200 updates."""
_EPOCHS = 16
_EXAMPLES = {Budget.SMOKE: 24, Budget.GPU: 7000, Budget.PAPER: 7000}
_AVERAGED = 0.08  # share of the updates that the moving average reaches back over: the preset's, 1,000 of 12,488


_PAPER = SpiderSettings(4e-4, encoder_rate=8e-3 * 4e-4, dropout=0.6)  # appendix C.5, for all models alike


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


def full(plan: Plan) -> SqlSpConfig:
    """Our best: the `minilm` preset, with made-up examples; in other budgets the run without them."""
    return minilm() if plan.budget is Budget.GPU else configure(plan, "dt-fixup", 24)


def configure(
    plan: Plan,
    strategy: str,
    layers: int,
    settings: SpiderSettings | None = None,
    *,
    epochs: float = 1.0,
    batch: tuple[int, int] | None = None,
) -> SqlSpConfig:
    """The configuration of a run's first seed.

    Args:
        plan: what to start from.
        strategy: how the new layers are made trainable.
        layers: N, as the paper counts; a smoke run has fewer.
        settings: those chosen for the strategy by default; in the paper's budget the paper's, but for warm-up.
        epochs: as a multiple of the budget's.
        batch: examples of a planned batch, and how many of them make up an update.
    """
    budget = plan.budget
    start = base(budget)
    if settings is None:
        settings = plan.spider.of(strategy, layers)
        if budget is Budget.PAPER:
            settings = replace(_PAPER, warmup=settings.warmup)
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


def depth_cell(plan: Plan, strategy: str, layers: int, seeds: int, paper: str = "", **names: str) -> Cell:
    """The cell of a strategy at a depth; `names` replace its row, column or variant."""
    known = {"row": TITLES[strategy], "column": f"N = {layers}", "variant": f"{strategy}-n{layers}", **names}
    config = configure(plan, strategy, layers)
    if plan.budget is Budget.GPU and (strategy, layers) in CURVES:
        config = replace(config, training=replace(config.training, evaluate_every=CURVE_EVERY))
    return Cell(known["row"], known["column"], known["variant"], config, seeds_at(plan.budget, seeds), paper)


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
