"""What the tables of the paper are made of: cells, each of them some training runs that differ by their seed alone.

An experiment is a function from a setup, which all runs of a call have in common, to its cells. A cell names the path
of its results; one that several tables have names the same path in each, so it is trained once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from dtfixup.reading import presets as reading_presets
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.sql.model import config as sql_presets
from dtfixup.sql.model.config import SqlSpConfig
from dtfixup_paper.runs.run import encoder_name
from dtfixup_paper.tables.settings import ReclorSettings, Settings, SpiderSettings, published_settings

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


SPIDER_START = {Budget.SMOKE: sql_presets.smoke, Budget.GPU: sql_presets.minilm, Budget.PAPER: sql_presets.paper}
RECLOR_START = {
    Budget.SMOKE: reading_presets.smoke,
    Budget.GPU: reading_presets.minilm,
    Budget.PAPER: reading_presets.paper,
}
"""The preset of each budget."""


@dataclass(frozen=True)
class Setup:
    """What all runs of a call have in common."""

    budget: Budget
    encoder: str | None = None
    """By name or folder, instead of the budget's."""
    settings: Settings = field(default_factory=published_settings)

    @property
    def has_usual_encoder(self) -> bool:
        """Whether the encoder is the budget's own, in whatever precision.

        >>> Setup(Budget.GPU, "folder/minilm-fp16").has_usual_encoder, Setup(Budget.GPU, "mpnet").has_usual_encoder
        (True, False)
        """
        return self.encoder is None or encoder_name(self.encoder) == SPIDER_START[self.budget]().encoder

    @property
    def settings_note(self) -> str:
        """A remark where the settings were not chosen for the encoder; empty where they were."""
        if self.has_usual_encoder or self.budget is Budget.SMOKE:
            return ""
        if self.budget is Budget.PAPER:
            return "The settings are the paper's, which has another encoder, and not tuned."
        if self.settings != published_settings():
            return ""
        return (
            "The settings were chosen with MiniLM. `dtfixup reproduce tune` writes those of another encoder to a file "
            "for --settings."
        )

    def path(self, experiment: str, variant: str) -> str:
        """`<experiment>/<variant>`; another budget or encoder than that of `results/` is in the name.

        >>> Setup(Budget.GPU, "folder/minilm-fp16").path("spider-depth", "dt-fixup-n2")
        'spider-depth/dt-fixup-n2'
        >>> Setup(Budget.PAPER, "folder/mpnet").path("spider-depth", "dt-fixup-n2")
        'spider-depth-paper-mpnet/dt-fixup-n2'
        """
        parts = [experiment] if self.budget is Budget.GPU else [experiment, self.budget.value]
        if self.encoder is not None and not self.has_usual_encoder:
            parts.append(encoder_name(self.encoder))
        return f"{'-'.join(parts)}/{variant}"

    def start_spider(self) -> SqlSpConfig:
        """The budget's preset for Spider, on the setup's encoder."""
        config = SPIDER_START[self.budget]()
        return config if self.encoder is None else replace(config, encoder=self.encoder)

    def start_reclor(self) -> ReadingRunConfig:
        """The budget's preset for ReClor, on the setup's encoder."""
        config = RECLOR_START[self.budget]()
        return config if self.encoder is None else replace(config, encoder=self.encoder)

    def layers(self, layers: int) -> int:
        """How many layers stand for so many: a quarter of them where no number means anything.

        >>> [Setup(Budget.SMOKE).layers(layers) for layers in (2, 4, 8, 24)], Setup(Budget.GPU).layers(24)
        ([1, 1, 2, 6], 24)
        """
        return max(1, layers // 4) if self.budget is Budget.SMOKE else layers

    def seeds(self, seeds: int) -> int:
        """How many seeds stand for so many on a GPU; the paper has five of everything."""
        return {Budget.SMOKE: 1, Budget.PAPER: 5}.get(self.budget, seeds)


@dataclass(frozen=True)
class Trial:
    """One entry of a tuning grid."""

    strategy: str
    layers: int
    """As the paper counts."""
    settings: SpiderSettings | ReclorSettings


@dataclass(frozen=True)
class Cell:
    """One entry of a table."""

    row: str
    """As the table shows it, such as "DT-Fixup"."""
    column: str
    """As the table shows it, such as "N = 24"."""
    path: str
    """Of its result files, without the seed, such as "spider-depth/dt-fixup-n24"."""
    config: RunConfig
    """That of the first seed."""
    seeds: int
    paper: str = ""
    """What the paper has in this place, as it prints it; empty where it has nothing."""
    trial: Trial | None = None
    """Of tuning: what is tried."""
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
    """Where the paper has it, such as "Table 5, Spider"; "ours" where it does not."""
    cells: Callable[[Setup], Sequence[Cell]]
    remark: str = ""
    """What a reader must know beside the table, in a sentence or two."""
    gpu_remark: str = ""
    """A remark on the budget gpu alone."""


def metric_of(config: RunConfig) -> str:
    """The metric that a table shows of a run."""
    split, measure = ("dev", "exact") if isinstance(config, SqlSpConfig) else ("val", "accuracy")
    return f"{'held_out' if config.hold_out else split}_{measure}"
