"""Smaller files of weights: matrices in 8 bits with a scale per row, everything else in half precision.

In: named float32 tensors and a limit in bytes. Out: the tensors to write instead, and how each is stored;
`unpack_into` restores float32. 8 bits cost a matrix about 0.7 % of its norm, and more if a few weights of a row are far
larger than the others. The matrices that lose most are therefore kept in half precision, as far as the limit allows.
Legend: R rows, C columns.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dtfixup.errors import CheckpointError

FORMAT = 1
"""Version of `Packed.description`; raise it when older files cannot be read."""
SCALE = "/scale"
"""Suffix of the name of a matrix's scales."""
_LEVELS = 127
_LEAST_ENTRIES = 4096
"""Smaller matrices gain too little."""


class Storage(StrEnum):
    """How a tensor is stored."""

    INT8 = "int8"
    """Whole numbers from -127 to 127; the largest weight of a row is 127 times the row's scale."""
    HALF = "half"
    PLAIN = "plain"
    """Unchanged, for tensors that are not float32."""


_DTYPES = {Storage.INT8: torch.int8, Storage.HALF: torch.float16}


@dataclass(frozen=True)
class Packed:
    """Tensors to write to a file."""

    tensors: Mapping[str, Tensor]
    stored: Mapping[str, Storage]
    errors: Mapping[str, float]
    """The norm of each tensor's loss, as a share of the tensor's norm."""

    @property
    def description(self) -> dict[str, Any]:
        """What `unpack_into` must know, as JSON values."""
        return {"format": FORMAT, "tensors": {name: kind.value for name, kind in self.stored.items()}}

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())


def pack_tensors(tensors: Mapping[str, Tensor], *, room: int | None, first: Collection[str] = ()) -> Packed:
    """Pack tensors into at most `room` bytes; None stores every weight in half precision.

    The tensors named in `first` get half precision before all others.
    """
    for name, tensor in tensors.items():
        if not _is_finite(tensor):
            raise CheckpointError(f"{name} has weights that are not finite: the run broke, pack one that did not")
    stored = {
        name: Storage.HALF if tensor.dtype == torch.float32 else Storage.PLAIN for name, tensor in tensors.items()
    }
    if room is not None:
        _shrink(stored, tensors, room, first)
    held: dict[str, Tensor] = {}
    errors: dict[str, float] = {}
    for name, tensor in tensors.items():
        parts = _stored(name, tensor, stored[name])
        held |= parts
        errors[name] = _share_lost(tensor, _restored(name, parts, stored[name]))
    return Packed(held, stored, errors)


def _shrink(stored: dict[str, Storage], tensors: Mapping[str, Tensor], room: int, first: Collection[str]) -> None:
    """Store matrices in 8 bits, then those that lose most in half precision again, while there is room."""
    lost: dict[str, float] = {}
    saved: dict[str, int] = {}
    for name, tensor in tensors.items():
        if stored[name] is not Storage.HALF or tensor.dim() != 2 or tensor.numel() < _LEAST_ENTRIES:
            continue
        parts = _stored(name, tensor, Storage.INT8)
        saving = 2 * tensor.numel() - sum(part.nbytes for part in parts.values())
        if saving > 0:  # the scales of a narrow matrix take more than its weights
            stored[name], saved[name] = Storage.INT8, saving
            lost[name] = _share_lost(tensor, _restored(name, parts, Storage.INT8))
    in_half = sum(
        tensor.nbytes if stored[name] is Storage.PLAIN else 2 * tensor.numel() for name, tensor in tensors.items()
    )
    least = in_half - sum(saved.values())
    if least > room:
        raise CheckpointError(
            f"the weights take at least {least / 1e6:.1f} MB, and {room / 1e6:.1f} MB are left for them: allow more"
        )
    left = room - least
    for name in sorted(lost, key=lambda name: (name not in first, -lost[name], name)):
        if lost[name] and saved[name] <= left:
            stored[name] = Storage.HALF
            left -= saved[name]


def _stored(name: str, tensor: Tensor, storage: Storage) -> dict[str, Tensor]:
    if storage is Storage.PLAIN:
        return {name: tensor}
    if storage is Storage.HALF:
        half = tensor.half()
        if not _is_finite(half):
            largest = float(tensor.abs().max())
            raise CheckpointError(f"{name} has a weight of {largest:g}, too large for half precision")
        return {name: half}
    scale_R = tensor.abs().amax(1) / _LEVELS
    # A row of zeros stays zeros, and so does one of weights so small that the scale is 0.
    whole_RC = torch.where(scale_R[:, None] > 0, tensor / scale_R[:, None], 0.0).round().clamp(-_LEVELS, _LEVELS)
    return {name: whole_RC.to(torch.int8), name + SCALE: scale_R}


def rounded(tensor: Tensor, storage: Storage) -> Tensor:
    """A tensor after storing and restoring it."""
    return _restored("", _stored("", tensor, storage), storage)


def _restored(name: str, parts: Mapping[str, Tensor], storage: Storage) -> Tensor:
    if storage is Storage.PLAIN:
        return parts[name]
    return _restore(torch.empty(parts[name].shape), name, parts, storage)


def _restore(target: Tensor, name: str, parts: Mapping[str, Tensor], storage: Storage) -> Tensor:
    target.copy_(parts[name])
    return target.mul_(parts[name + SCALE][:, None]) if storage is Storage.INT8 else target


def _share_lost(tensor: Tensor, restored: Tensor) -> float:
    norm = float(torch.linalg.vector_norm(tensor.double()))
    return float(torch.linalg.vector_norm(tensor.double() - restored.double())) / norm if norm else 0.0


def unpack_into(
    targets: Mapping[str, Tensor], found: Mapping[str, Tensor], description: Mapping[str, Any], path: str | Path
) -> None:
    """Restore the tensors of a packed file into those of the same names; anything that does not fit changes nothing."""
    stored = read_description(description, path)
    require_names(stored, targets, path)
    expected = {name: kind(_DTYPES.get(stored[name], target.dtype), target.shape) for name, target in targets.items()}
    scaled = [name for name in targets if stored[name] is Storage.INT8]
    expected |= {name + SCALE: kind(torch.float32, targets[name].shape[:1]) for name in scaled}
    require_fit(found, expected, path)
    for name, tensor in found.items():
        if not _is_finite(tensor):
            raise CheckpointError(f"{name} in {path} has weights that are not finite: pack the model again")
    with torch.no_grad():
        for name, target in targets.items():
            _restore(target, name, found, stored[name])


def read_description(description: Mapping[str, Any], path: str | Path) -> dict[str, Storage]:
    """How each tensor of a packed file is stored."""
    version = description.get("format") if isinstance(description, Mapping) else None
    if version != FORMAT:
        raise CheckpointError(
            f"{path} is packed in format {version}, and this version of dtfixup reads {FORMAT}: use the version that "
            "packed it, or pack the model again"
        )
    try:
        return {str(name): Storage(kind) for name, kind in description["tensors"].items()}
    except (KeyError, AttributeError, ValueError) as error:
        raise CheckpointError(f"{path} does not say how its tensors are stored, it is damaged: {error}") from None


def require_names(names: Collection[str], expected: Collection[str], path: str | Path) -> None:
    """Refuse a file that lacks a tensor or has one too many."""
    if missing := [name for name in expected if name not in names]:
        raise CheckpointError(f"{path} lacks {some_of(missing)}: it was written by another model or version")
    if unknown := [name for name in names if name not in expected]:
        raise CheckpointError(
            f"{path} has {some_of(unknown)}, unknown here: it was written by another model or version"
        )


def require_fit(found: Mapping[str, Tensor], expected: Mapping[str, str], path: str | Path) -> None:
    """Refuse a file whose tensors have other names or kinds than expected."""
    require_names(found, expected, path)
    for name, here in expected.items():
        if (there := kind(found[name].dtype, found[name].shape)) != here:
            raise CheckpointError(f"{name} is {there} in {path}, but {here} here: the sizes were set otherwise")


def kind(dtype: torch.dtype, shape: torch.Size) -> str:
    """What two tensors must share to be copied into each other, such as "float32 [2, 3]"."""
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"


def some_of(names: Sequence[str]) -> str:
    """The first name, and how many more there are."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more tensors"


def _is_finite(tensor: Tensor) -> bool:
    """Check the smallest and the largest, which are NaN if any weight is: many times faster in half precision."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    return all(bool(torch.isfinite(end)) for end in torch.aminmax(tensor))
