"""The weights of a finished run: where they are, and how they get into a model of the same sizes.

A file leaves out the parameters that the run did not train. They come with the encoder that the file names; a checksum
in the file makes sure that they are the same.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from dtfixup.errors import CheckpointError
from dtfixup.weights.tensors import checksum, load_weights

LAST = "last.safetensors"
"""The weights at the end of the schedule, in a run's folder."""


def weights_file(path: str | Path) -> Path:
    """`path` itself if it is a file, else the last weights in a run's folder."""
    path = Path(path)
    if not path.is_dir():
        return path
    if not (path / LAST).is_file():
        raise CheckpointError(
            f"{path} has no {LAST}, so its run has not finished: continue it with --resume, or name a file of weights"
        )
    return path / LAST


def frozen_names(model: nn.Module) -> list[str]:
    """Names of the parameters that are not trained, which files leave out."""
    return [name for name, parameter in model.named_parameters() if not parameter.requires_grad]


def frozen_checksum(model: nn.Module) -> str:
    """Checksum of the parameters that files leave out."""
    parameters = dict(model.named_parameters())
    return checksum({name: parameters[name].detach().cpu() for name in frozen_names(model)})


def freeze_if_untrained(encoder: nn.Module, factor: float) -> None:
    """Freeze an encoder whose learning-rate factor is 0."""
    if not factor:
        encoder.requires_grad_(False)


def load_trained(file: Path, model: nn.Module, encoder: nn.Module, fingerprint: Mapping[str, Any]) -> None:
    """Load a run's weights into a model of the same sizes; `fingerprint` is the run's, from the file."""
    freeze_if_untrained(encoder, fingerprint["encoder_factor"])
    if fingerprint["frozen"] != frozen_checksum(model):
        raise CheckpointError(
            f"{file} was trained on another encoder than {fingerprint['encoder']} here: its frozen weights differ. Use "
            "that encoder"
        )
    load_weights(file, model, left_out=frozen_names(model))
