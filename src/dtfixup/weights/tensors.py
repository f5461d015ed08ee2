"""Named tensors and a JSON description in one safetensors file, written whole or not at all.

In and out: tensors by name, and `content`, plain JSON values, stored as text in the file's header. A rename puts the
file in place, so a crash or a full disk leaves the earlier file. Reading cannot run code. A checksum finds damage that
does not change the length.
"""

import json
import os
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from dtfixup.errors import CheckpointError, ConfigError
from dtfixup.files import write_atomically
from dtfixup.weights.arrays import write_arrays
from dtfixup.weights.packed import kind, require_fit, some_of, unpack_into

PACKED = "packed"
"""The key of a content that describes how a packed file stores its tensors."""
_CONTENT, _CHECKSUM = "dtfixup", "crc32"


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], content: Mapping[str, Any]) -> Path:
    """Write the file, dtypes unchanged; the same input gives the same bytes."""
    held = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in sorted(tensors.items())}
    header = {_CONTENT: json.dumps(content, allow_nan=False), _CHECKSUM: checksum(held)}

    def write(temporary: Path) -> None:
        save_file(held, temporary, header)
        _to_disk(temporary)

    try:
        target = write_atomically(path, write)
        _to_disk(target.parent)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be written: {error}. An earlier file there is unchanged") from error
    return target


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, on the CPU, and the content of a file."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
            header = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, error) from error
    content = _content(path, header)
    if header.get(_CHECKSUM) != checksum(tensors):
        raise CheckpointError(f"{path} is damaged: its checksum does not fit its tensors")
    return tensors, content


def read_content(path: str | Path) -> dict[str, Any]:
    """The content alone, without the tensors."""
    try:
        with safe_open(path, framework="pt") as file:
            return _content(path, file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, error) from error


def copy_into(targets: Mapping[str, Tensor], found: Mapping[str, Tensor], path: str | Path) -> None:
    """Copy tensors of a file into those of the same names; anything that does not fit changes nothing."""
    require_fit(found, {name: kind(target.dtype, target.shape) for name, target in targets.items()}, path)
    with torch.no_grad():
        for name, target in targets.items():
            target.copy_(found[name])


def model_tensors(model: nn.Module, left_out: Collection[str] = ()) -> dict[str, Tensor]:
    """A model's parameters and buffers by name, tied ones once, without those left out."""
    state = model.state_dict(keep_vars=True)
    if unknown := set(left_out) - set(state):
        raise ConfigError(f"left out of files is {some_of(sorted(unknown))}, but the model has no such tensor")
    named: dict[str, Tensor] = {}
    seen: set[int] = {id(state[name]) for name in left_out}
    for name, tensor in state.items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            named[name] = tensor
    return named


def save_weights(
    path: str | Path, model: nn.Module, content: Mapping[str, Any], *, left_out: Collection[str] = ()
) -> Path:
    """Write the weights of a model, for use without further training."""
    return write_tensors(path, model_tensors(model, left_out), content)


def load_weights(path: str | Path, model: nn.Module, *, left_out: Collection[str] = ()) -> dict[str, Any]:
    """Read a file of weights, packed or not, into a model of the same sizes, and return its content."""
    found, content = read_tensors(path)
    targets = model_tensors(model, left_out)
    if PACKED in content:
        unpack_into(targets, found, content[PACKED], path)
    else:
        copy_into(targets, found, path)
    return content


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """CRC-32 of the names and bytes of tensors on the CPU."""
    value = 0
    for name in sorted(tensors):
        value = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, zlib.crc32(name.encode(), value))
    return f"{value:08x}"


def _content(path: str | Path, header: Mapping[str, str]) -> dict[str, Any]:
    if _CONTENT not in header:
        raise CheckpointError(f"{path} is a safetensors file, but not one that dtfixup wrote")
    try:
        content = json.loads(header[_CONTENT])
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: its description is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is damaged: its description is not a JSON object")
    return content


def save_file(tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str]) -> None:
    """A safetensors file of tensors on the CPU."""
    arrays = {
        name: tensor.view(torch.int16).numpy().view("V2") if tensor.dtype is torch.bfloat16 else tensor.numpy()
        for name, tensor in tensors.items()
    }
    write_arrays(path, arrays, metadata)


def _unreadable(path: str | Path, error: Exception) -> CheckpointError:
    if isinstance(error, FileNotFoundError):
        return CheckpointError(f"{path} does not exist")
    return CheckpointError(f"{path} cannot be read, it is truncated or damaged: {error}")


def _to_disk(path: Path) -> None:
    """A rename may reach the disk before the bytes do; this waits for them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
