"""Numpy arrays in safetensors files: written without a copy, the same bytes for the same input, and mapped.

The library's own writers copy every array and shuffle the metadata from call to call; its readers copy too.
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtfixup.errors import DataError

Array = NDArray[Any]
_NAMES = {
    "float64": "F64",
    "int64": "I64",
    "float32": "F32",
    "int32": "I32",
    "float16": "F16",
    "void16": "BF16",  # numpy has no bfloat16: two bytes without a meaning stand in for it
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
_TYPES = {name: np.dtype("V2" if kind == "void16" else kind) for kind, name in _NAMES.items()}


def write_arrays(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays by name."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    position = 0
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))  # keeps every array aligned
    for name, array in ordered:
        offsets = [position, position + array.nbytes]
        header[name] = {"dtype": _NAMES[array.dtype.name], "shape": list(array.shape), "data_offsets": offsets}
        position += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for _, array in ordered:
            stream.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def map_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a file by name, mapped into memory and not read."""
    if not path.is_file():
        raise DataError(f"{path} is missing: make it again")
    size = path.stat().st_size
    try:
        with path.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        start = 8 + length
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if start + end != size:
            raise ValueError(f"{size} bytes instead of {start + end}")
        memory = np.memmap(path, np.uint8, mode="r")
        return {
            name: memory[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
            .view(_TYPES[entry["dtype"]])
            .reshape(entry["shape"])
            for name, entry in header.items()
        }
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        raise DataError(f"{path} is damaged ({error}): make it again") from None
