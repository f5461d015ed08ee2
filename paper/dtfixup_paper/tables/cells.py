"""What the tables of the paper are made of: cells, each some training runs that differ by their seed alone.

An experiment is a function from a plan, which is how much time there is and which settings were chosen, to its cells.
The runner trains their configurations (`reproduce.py`), the report finds the results by the configurations again and
sets them beside the paper's numbers (`report.py`); neither depends on how a file is called, so a run that belongs to
two tables is trained once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic

from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup_paper.tables.settings import RECLOR, SPIDER, Choices, ReclorSettings, SettingsT, SpiderSettings

RunConfig = SqlSpConfig | ReadingRunConfig
TITLES = {
    "dt-fixup": "DT-Fixup",
    "standard": "standard",
    "pre-ln": "pre-LN",
    "t-fixup": "T-Fixup",
    "rezero": "ReZero",
    "admin": "Admin",
    "deepnorm": "DeepNorm",
    "unscaled": "Xavier, no layer norms",
}
"""What tables call the strategies."""


class Budget(StrEnum):
    """How much time an experiment may take."""

    SMOKE = "smoke"
    """Seconds on a CPU: shows that everything runs, and no number means anything."""
    GPU = "gpu"
    """Minutes on a GPU with the bundled encoder: what `results/` holds."""
    PAPER = "paper"
    """The paper's own configuration: RoBERTa-large, all its epochs and seeds."""


@dataclass(frozen=True)
class Plan:
    """What cells depend on."""

    budget: Budget
    spider: Choices[SpiderSettings] = SPIDER
    reclor: Choices[ReclorSettings] = RECLOR


@dataclass(frozen=True)
class Tried(Generic[SettingsT]):
    """One entry of a grid of tuning."""

    strategy: str
    layers: int
    """As the paper counts."""
    settings: SettingsT
    config: RunConfig
    """Of the first seed; evaluated on what is held out."""


@dataclass(frozen=True)
class Cell:
    """One entry of a table."""

    row: str
    """As the table shows it, such as "DT-Fixup"."""
    column: str
    """As the table shows it, such as "N = 24"."""
    variant: str
    """Part of the names of files, such as "dt-fixup-n24"."""
    config: RunConfig
    """That of the first seed."""
    seeds: int
    paper: str = ""
    """What the paper has in this place, as it prints it; empty where it has nothing."""
    is_chosen: bool = False
    """Of tuning: other experiments are trained with these settings."""

    def config_of(self, seed: int) -> RunConfig:
        return replace(self.config, training=replace(self.config.training, seed=seed))


@dataclass(frozen=True)
class Experiment:
    """One table or figure."""

    name: str
    title: str
    reference: str
    """Where it stands in the paper, such as "Table 5, Spider"; "ours" where it does not."""
    cells: Callable[[Plan], Sequence[Cell]]
    remark: str = ""
    """What a reader must know beside the table, in a sentence or two."""
    gpu_remark: str = ""
    """What is so with the budget gpu alone."""


def layers_at(budget: Budget, layers: int) -> int:
    """How many layers stand for so many in a budget: a quarter of them where no number means anything.

    >>> [layers_at(Budget.SMOKE, layers) for layers in (2, 4, 8, 24)], layers_at(Budget.GPU, 24)
    ([1, 1, 2, 6], 24)
    """
    return max(1, layers // 4) if budget is Budget.SMOKE else layers


def seeds_at(budget: Budget, seeds: int) -> int:
    """Runs of a cell that has so many on a GPU; the paper has five of all."""
    return {Budget.SMOKE: 1, Budget.PAPER: 5}.get(budget, seeds)


def metric_of(config: RunConfig) -> str:
    """The metric that a table shows of a run."""
    split, measure = ("dev", "exact") if isinstance(config, SqlSpConfig) else ("val", "accuracy")
    return f"{'held_out' if config.hold_out else split}_{measure}"
