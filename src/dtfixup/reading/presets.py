"""The configuration of a reading run, and its presets as functions.

`paper` is the paper's run with RoBERTa-large, `minilm` ours with the bundled encoder, `smoke` a small run for a CPU,
`own_data` a run on your own file of questions or texts. A file of JSON or YAML fields, or options of the command line,
change fields of a preset.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch

from dtfixup.errors import ConfigError
from dtfixup.reading.model import ReadingConfig
from dtfixup.training.config import TrainingConfig
from dtfixup.training.precision import Precision
from dtfixup.training.update import UpdateConfig


@dataclass(frozen=True)
class ReadingRunConfig:
    """Everything that determines a reading run, except the data."""

    encoder: str = "minilm"
    """Pre-trained encoder, by name or folder."""
    encoder_factor: float = 0.1
    """Learning rate of the encoder, as a multiple of the run's; 0 freezes the encoder."""
    model: ReadingConfig = field(default_factory=ReadingConfig)
    """Shape of the model."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Training schedule."""
    hold_out: float = 0.0
    """Share of the training examples to hold out and evaluate on; 0 evaluates on val."""

    def __post_init__(self) -> None:
        if self.encoder_factor < 0:
            raise ConfigError(f"encoder_factor cannot be negative, got {self.encoder_factor}")
        if not 0 <= self.hold_out < 1:
            raise ConfigError(f"hold_out is a share from 0 to below 1, such as 0.1; got {self.hold_out}")


def paper() -> ReadingRunConfig:
    """The paper's run (appendix D): RoBERTa-large and four new layers of its width."""
    return ReadingRunConfig(
        encoder="roberta-large",
        encoder_factor=1e-5 / 3e-4,
        model=ReadingConfig(dim=1024),
        training=_schedule(3e-4),
    )


def minilm() -> ReadingRunConfig:
    """The bundled encoder of 22.7M parameters, N = 4, tuned on held-out training examples of ReClor."""
    return ReadingRunConfig(encoder_factor=0.3, training=_schedule(1e-4))


def smoke() -> ReadingRunConfig:
    """Two narrow layers on a frozen encoder, two epochs: a check that everything runs."""
    return ReadingRunConfig(
        encoder_factor=0.0,
        model=ReadingConfig(layers=2, dim=64, heads=4, mlp_dim=128),
        training=TrainingConfig(epochs=2, batch_size=8, evaluate_every=1, power=1.0),
    )


def own_data(layers: int = 12, epochs: int = 12) -> ReadingRunConfig:
    """For your own file of examples: holds out a tenth, and trains in fp32 on a CPU.

    The learning rate is higher than in `minilm`, because such files are smaller and give fewer steps.
    """
    config = ReadingRunConfig(training=_schedule(3e-4))
    precision = Precision.BF16 if torch.cuda.is_available() else Precision.FP32
    return replace(
        config,
        model=replace(config.model, layers=layers),
        training=replace(config.training, epochs=epochs, precision=precision),
        hold_out=0.1,
    )


def _schedule(learning_rate: float) -> TrainingConfig:
    return TrainingConfig(
        epochs=12,
        batch_size=24,
        precision=Precision.BF16,
        power=1.0,
        evaluate_every=2,
        update=UpdateConfig(learning_rate=learning_rate, betas=(0.9, 0.98), epsilon=1e-6, weight_decay=0.01),
    )


PRESETS: Mapping[str, Callable[[], ReadingRunConfig]] = {"paper": paper, "minilm": minilm, "smoke": smoke}
