"""The weights of a finished run get into a model on the same encoder, and into no other."""

from pathlib import Path

import pytest
import torch
from torch import nn

from dtfixup.errors import CheckpointError
from dtfixup.weights.tensors import read_tensors, save_weights
from dtfixup.weights.trained import freeze_if_untrained, frozen_checksum, frozen_names, load_trained, weights_file


def model_of(encoder_seed: int, head_seed: int) -> nn.ModuleDict:
    parts = {}
    for name, seed in (("encoder", encoder_seed), ("head", head_seed)):
        torch.manual_seed(seed)
        parts[name] = nn.Linear(3, 3)
    return nn.ModuleDict(parts)


@pytest.mark.parametrize("factor", [0.0, 0.1])
def test_a_frozen_encoder_must_be_the_same_and_a_trained_one_is_in_the_file(factor: float, tmp_path: Path) -> None:
    trained = model_of(0, 1)
    freeze_if_untrained(trained["encoder"], factor)
    fingerprint = {"encoder": "some", "encoder_factor": factor, "frozen": frozen_checksum(trained)}
    save_weights(tmp_path / "last.safetensors", trained, {}, left_out=frozen_names(trained))
    file = weights_file(tmp_path)
    assert file == weights_file(file) == tmp_path / "last.safetensors"
    assert len(read_tensors(file)[0]) == (4 if factor else 2)
    for other in (model_of(0, 2), model_of(3, 2)):
        if factor or torch.equal(other["encoder"].weight, trained["encoder"].weight):
            load_trained(file, other, other["encoder"], fingerprint)
            assert all(torch.equal(*pair) for pair in zip(other.parameters(), trained.parameters(), strict=True))
        else:
            with pytest.raises(CheckpointError, match="another encoder than some here: its frozen weights differ"):
                load_trained(file, other, other["encoder"], fingerprint)


def test_the_folder_of_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no last\.safetensors, so its run has not finished"):
        weights_file(tmp_path)
