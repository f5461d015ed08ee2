"""A file of tensors is read as it was written, or not at all; writing one never harms the one before."""

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from dtfixup.errors import CheckpointError, ConfigError
from dtfixup.weights.tensors import (
    copy_into,
    load_weights,
    model_tensors,
    read_content,
    read_tensors,
    save_weights,
    write_tensors,
)

DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool)
TENSORS = {"w": torch.arange(5000.0), "b": torch.tensor(3), "none": torch.zeros(0, 2)}


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file may grow above `room` bytes: the system refuses the rest of a write, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 3)
        self.out = nn.Linear(3, 4, bias=False)
        self.out.weight = self.table.weight
        self.norm = nn.BatchNorm1d(3)


@settings(max_examples=20)
@given(st.dictionaries(st.text("abc./", min_size=1), st.tuples(st.sampled_from(DTYPES), st.integers(0, 3))))
def test_a_file_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, kinds: dict) -> None:
    tensors = {name: torch.ones([2] * rank).mul(3).to(dtype) for name, (dtype, rank) in kinds.items()}
    content = {"names": sorted(kinds), "nested": {"half": 0.5, "none": None}}
    path = write_tensors(tmp_path_factory.mktemp("file") / "x.safetensors", tensors, content)
    found, again = read_tensors(path)
    assert again == read_content(path) == content
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_views_are_written_whole(tmp_path: Path) -> None:
    whole = torch.arange(12.0).view(3, 4)
    path = write_tensors(tmp_path / "x.safetensors", {"turned": whole.T, "row": whole[1], "same": whole[1]}, {})
    found, _ = read_tensors(path)
    assert torch.equal(found["turned"], whole.T)
    assert torch.equal(found["row"], whole[1])


@pytest.mark.parametrize("room", [0, 100, 15_000])
def test_a_full_disk_leaves_the_old_file(room: int, tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "x.safetensors", TENSORS, {"step": 1})
    before = path.read_bytes()
    with full_disk(room), pytest.raises(CheckpointError, match=r"cannot be written: .*[Ff]ile too large"):
        write_tensors(path, {**TENSORS, "w": torch.zeros(5000)}, {"step": 2})
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match=r"file/x\.safetensors cannot be written"):
        write_tensors(tmp_path / "file" / "x.safetensors", TENSORS, {})


@pytest.mark.parametrize("left", [0, 4, 300, 20_000])
def test_a_truncated_file_is_refused(left: int, tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "x.safetensors", TENSORS, {})
    os.truncate(path, left)
    with pytest.raises(CheckpointError, match=r"x\.safetensors cannot be read, it is truncated or damaged"):
        read_tensors(path)


def test_one_changed_bit_is_noticed(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "x.safetensors", TENSORS, {})
    data = bytearray(path.read_bytes())
    data[-1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="is damaged: its checksum"):
        read_tensors(path)


def test_files_of_others_and_missing_files_are_named(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match="not one that dtfixup wrote"):
        read_tensors(tmp_path / "other.safetensors")
    for read in (read_tensors, read_content):
        with pytest.raises(CheckpointError, match="does not exist"):
            read(tmp_path / "no.safetensors")


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ({"a": torch.ones(2)}, "lacks b: it was written by another model"),
        ({}, "lacks a and 1 more tensors"),
        ({"a": torch.ones(2), "b": torch.ones(3), "c": torch.ones(1)}, "has c, unknown here"),
        ({"a": torch.ones(2), "b": torch.ones(4)}, r"b is float32 \[4\] in file, but float32 \[3\] here"),
        ({"a": torch.ones(2), "b": torch.ones(3).double()}, r"b is float64 \[3\] in file, but float32 \[3\] here"),
    ],
)
def test_what_does_not_fit_changes_nothing(found: dict[str, torch.Tensor], complaint: str) -> None:
    targets = {"a": torch.zeros(2), "b": torch.zeros(3)}
    with pytest.raises(CheckpointError, match=complaint):
        copy_into(targets, found, "file")
    assert all(not tensor.any() for tensor in targets.values())


def test_weights_of_a_model_with_tied_and_left_out_ones(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Tied()
    model.norm(torch.randn(5, 3))
    path = save_weights(tmp_path / "w.safetensors", model, {"dim": 3}, left_out=["norm.running_var"])
    found, _ = read_tensors(path)
    assert sorted(found) == [
        "norm.bias",
        "norm.num_batches_tracked",
        "norm.running_mean",
        "norm.weight",
        "table.weight",
    ]
    torch.manual_seed(1)
    other = Tied()
    assert load_weights(path, other, left_out=["norm.running_var"]) == {"dim": 3}
    assert torch.equal(other.out.weight, model.out.weight)
    assert other.out.weight is other.table.weight
    assert torch.equal(other.norm.running_mean, model.norm.running_mean)
    assert not torch.equal(other.norm.running_var, model.norm.running_var)


def test_what_is_left_out_must_be_there() -> None:
    with pytest.raises(ConfigError, match=r"left out of files is tabel\.weight"):
        model_tensors(Tied(), ["tabel.weight"])


def test_leaving_out_one_name_of_a_tied_weight_leaves_out_both() -> None:
    assert "out.weight" not in model_tensors(Tied(), ["table.weight"])


def test_the_content_is_plain_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_tensors(tmp_path / "x.safetensors", {}, {"loss": float("nan")})
    header = (write_tensors(tmp_path / "x.safetensors", {}, {"a": 1})).read_bytes()[8:]
    assert json.loads(json.loads(header)["__metadata__"]["dtfixup"]) == {"a": 1}


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    """safetensors' own writer puts the entries of the metadata in another order from call to call."""
    written = {
        write_tensors(tmp_path / f"{place}.safetensors", TENSORS, {"step": 1}).read_bytes() for place in range(10)
    }
    assert len(written) == 1


def test_every_tensor_is_aligned(tmp_path: Path) -> None:
    tensors = {"a": torch.ones(3, dtype=torch.int8), "b": torch.ones(5).half(), "c": torch.ones(1).double()}
    data = write_tensors(tmp_path / "x.safetensors", tensors, {}).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    for name, tensor in tensors.items():
        assert (8 + length + header[name]["data_offsets"][0]) % tensor.element_size() == 0


def test_other_programs_can_read_the_file(tmp_path: Path) -> None:
    found = load_file(write_tensors(tmp_path / "x.safetensors", TENSORS, {"é": 1}))
    assert all(torch.equal(found[name], tensor) for name, tensor in TENSORS.items())


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_a_content_that_is_none_is_damage(text: str, tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "x.safetensors", {"dtfixup": text})
    with pytest.raises(CheckpointError, match=r"x\.safetensors is damaged"):
        read_content(tmp_path / "x.safetensors")
