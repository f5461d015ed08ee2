"""The configuration of a run of SQL-SP, and its presets as functions.

`paper` is the paper's run with RoBERTa-large, `minilm` ours with the bundled encoder, `smoke` a small one for a CPU. A
file of JSON or YAML fields, or options of the command line, change fields of a preset.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dtfixup.errors import ConfigError
from dtfixup.fixup import MuChoice
from dtfixup.sql.model.batches import Order
from dtfixup.sql.model.decoder import DecoderConfig
from dtfixup.sql.model.model import ModelConfig
from dtfixup.training.config import TrainingConfig
from dtfixup.training.precision import Precision
from dtfixup.training.update import UpdateConfig


@dataclass(frozen=True)
class SqlSpConfig:
    """Everything that a run of SQL-SP depends on, except the data."""

    encoder: str = "minilm"
    """Pre-trained encoder, by name or folder."""
    encoder_factor: float = 0.1
    """Learning rate of the encoder, as a multiple of the run's; 0 freezes the encoder."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Shape of the model."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Training schedule."""
    mu: MuChoice = MuChoice.MAX
    """Input norm that DT-Fixup takes for mu; the paper takes the maximum."""
    order: Order = Order.SHUFFLED
    """Order of schema items in training; otherwise they are read as stored."""
    splits: str = "train"
    """Splits to train on, separated by commas."""
    synthetic: float = 0.0
    """Made-up examples per epoch, as a multiple of the real ones; resampled every epoch."""
    hold_out: int = 0
    """Training databases to hold out and evaluate on, for tuning; 0 evaluates on dev."""
    beam: int = 5
    """Beam width of the final search."""

    def __post_init__(self) -> None:
        if min(self.encoder_factor, self.hold_out, self.synthetic) < 0:
            raise ConfigError("encoder_factor, hold_out and synthetic cannot be negative")


def paper() -> SqlSpConfig:
    """The paper's run (appendix C.5): RoBERTa-large, N = 24, 60 epochs."""
    return SqlSpConfig(
        encoder="roberta-large",
        encoder_factor=8e-3,
        model=ModelConfig(
            input_dropout=0.6, freeze_embeddings=False, decoder=DecoderConfig(dropout=0.6, label_smoothing=0.2)
        ),
        training=TrainingConfig(epochs=60, batch_size=16, precision=Precision.BF16),
    )


def minilm() -> SqlSpConfig:
    """The bundled encoder of 22.7M parameters, N = 24; minutes on a GPU."""
    return SqlSpConfig(
        encoder_factor=0.2,
        model=ModelConfig(relevance_weight=0.3, stream_limit=2.0),
        synthetic=1.0,
        training=TrainingConfig(
            epochs=28,
            batch_size=32,
            precision=Precision.BF16,
            evaluate_every=4,
            update=UpdateConfig(learning_rate=5e-4, average=0.999),
        ),
    )


def smoke() -> SqlSpConfig:
    """Two narrow layers on a frozen encoder, three epochs: a check that everything runs."""
    return SqlSpConfig(
        encoder_factor=0.0,
        model=ModelConfig(
            layers=2,
            dim=64,
            heads=4,
            mlp_dim=128,
            decoder=DecoderConfig(action_dim=32, node_dim=16, lstm_dim=64, heads=4),
        ),
        training=TrainingConfig(epochs=3, batch_size=8, evaluate_every=3),
        beam=2,
    )


PRESETS: Mapping[str, Callable[[], SqlSpConfig]] = {"paper": paper, "minilm": minilm, "smoke": smoke}
