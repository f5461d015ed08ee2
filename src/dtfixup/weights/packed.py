"""Tensors in less room: matrices as whole numbers of 8 bits with a scale for each row, the rest in half precision.

In: named float32 tensors and the most bytes that they may take. Out: the tensors that a file holds instead, and how
each was stored; `unpack_into` is the way back, into float32. 8 bits cost a matrix some 0.7 % of its norm, and more
where a row has a few weights that are far larger than the others. So the matrices that lose most are kept in half
precision, as far as there is room. Legend: R rows, C columns.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dtfixup.errors import CheckpointError

FORMAT = 1
"""Of the names and meanings in `description`; raised when an older file cannot be read any more."""
SCALE = "/scale"
"""What the name of a matrix is followed by in the name of its scales."""
_LEVELS = 127
_LEAST_ENTRIES = 4096
"""Smaller matrices have too little to gain."""


class Storage(StrEnum):
    """How a tensor is stored."""

    INT8 = "int8"
    """Whole numbers from -127 to 127; the largest weight of a row is 127 times the row's scale."""
    HALF = "half"
    PLAIN = "plain"
    """As it is: what is no float32."""


@dataclass(frozen=True)
class Packed:
    """Tensors as a file holds them."""

    tensors: Mapping[str, Tensor]
    stored: Mapping[str, Storage]
    errors: Mapping[str, float]
    """For each tensor, the norm of what was lost as a share of its own."""

    @property
    def description(self) -> dict[str, Any]:
        """What `unpack_into` must know, as JSON values."""
        return {"format": FORMAT, "tensors": {name: kind.value for name, kind in self.stored.items()}}

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())


def pack_tensors(tensors: Mapping[str, Tensor], *, room: int | None, first: Collection[str] = ()) -> Packed:
    """Store tensors in at most `room` bytes; None keeps every weight in half precision.

    Those named in `first` are kept in half precision before any other is.
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
        if saving > 0:  # a narrow matrix has more of scales than of weights
            stored[name], saved[name] = Storage.INT8, saving
            lost[name] = _share_lost(tensor, _restored(name, parts, Storage.INT8))
    in_half = sum(each.nbytes if stored[name] is Storage.PLAIN else 2 * each.numel() for name, each in tensors.items())
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
    # A row of zeros, or of weights so small that their scale is none, stays zeros.
    whole_RC = torch.where(scale_R[:, None] > 0, tensor / scale_R[:, None], 0.0).round().clamp(-_LEVELS, _LEVELS)
    return {name: whole_RC.to(torch.int8), name + SCALE: scale_R}


def rounded(tensor: Tensor, storage: Storage) -> Tensor:
    """A tensor as it comes back from where it was stored."""
    return _restored("", _stored("", tensor, storage), storage)


def _restored(name: str, parts: Mapping[str, Tensor], storage: Storage) -> Tensor:
    if storage is Storage.PLAIN:
        return parts[name]
    target = torch.empty(parts[name].shape)
    _restore(target, name, parts, storage)
    return target


def _restore(target: Tensor, name: str, found: Mapping[str, Tensor], storage: Storage) -> None:
    target.copy_(found[name])
    if storage is Storage.INT8:
        target.mul_(found[name + SCALE][:, None])


def _share_lost(tensor: Tensor, restored: Tensor) -> float:
    norm = float(torch.linalg.vector_norm(tensor.double()))
    return float(torch.linalg.vector_norm(tensor.double() - restored.double())) / norm if norm else 0.0


def unpack_into(
    targets: Mapping[str, Tensor], found: Mapping[str, Tensor], description: Mapping[str, Any], path: str | Path
) -> None:
    """Fill tensors with those of a packed file; whatever does not fit is found before anything changes."""
    stored = read_description(description, path)
    _require_names(stored, targets, found, path)
    for name, target in targets.items():
        _require_fit(name, target, found, stored[name], path)
    with torch.no_grad():
        for name, target in targets.items():
            _restore(target, name, found, stored[name])


def read_description(description: Mapping[str, Any], path: str | Path) -> dict[str, Storage]:
    """How each tensor of a packed file is stored."""
    made = description.get("format") if isinstance(description, Mapping) else None
    if made != FORMAT:
        raise CheckpointError(
            f"{path} is packed in format {made}, and this version of dtfixup reads {FORMAT}: use the version that "
            "packed it, or pack the model again"
        )
    try:
        return {str(name): Storage(kind) for name, kind in description["tensors"].items()}
    except (KeyError, AttributeError, ValueError) as error:
        raise CheckpointError(f"{path} does not say how its tensors are stored, it is damaged: {error}") from None


def _require_names(
    stored: Mapping[str, Storage], targets: Mapping[str, Tensor], found: Mapping[str, Tensor], path: str | Path
) -> None:
    scales = {name + SCALE for name, storage in stored.items() if storage is Storage.INT8}
    other = "it was written by another model or version"
    for name in targets:
        if name not in stored or name not in found:
            raise CheckpointError(f"{path} lacks {name}: {other}")
    for name in sorted(scales):
        if name not in found:
            raise CheckpointError(f"{path} lacks {name}: it is damaged")
    for name in (*stored, *found):
        if name not in targets and name not in scales:
            raise CheckpointError(f"{path} has {name}, unknown here: {other}")


_KINDS = {Storage.INT8: torch.int8, Storage.HALF: torch.float16}


def _require_fit(name: str, target: Tensor, found: Mapping[str, Tensor], storage: Storage, path: str | Path) -> None:
    tensor = found[name]
    expected = [(tensor, _KINDS.get(storage, target.dtype), target.shape)]
    if storage is Storage.INT8:
        expected.append((found[name + SCALE], torch.float32, target.shape[:1]))
    for part, kind, shape in expected:
        if (part.dtype, part.shape) != (kind, shape):
            raise CheckpointError(
                f"{name} is {_shown(part.dtype, part.shape)} in {path}, but {_shown(kind, shape)} here: the sizes were "
                "set otherwise"
            )
        if not _is_finite(part):
            raise CheckpointError(f"{name} in {path} has weights that are not finite: pack the model again")


def _is_finite(tensor: Tensor) -> bool:
    """By the least and the largest, either of which is NaN where any weight is: many times faster on halves."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    return all(bool(torch.isfinite(end)) for end in torch.aminmax(tensor))


def _shown(kind: torch.dtype, shape: torch.Size) -> str:
    return f"{str(kind).removeprefix('torch.')} {list(shape)}"
