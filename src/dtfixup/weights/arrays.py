"""Numpy arrays in safetensors files: the same input gives the same bytes, and reading maps the file into memory.

The library's own writer shuffles the metadata from call to call, and its numpy reader copies every array.
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from dtfixup.errors import DataError

Array = NDArray[Any]
_DTYPES = {
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


def write_arrays(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays by name."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    position = 0
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))  # keeps every array aligned
    for name, array in ordered:
        offsets = [position, position + array.nbytes]
        header[name] = {"dtype": _DTYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": offsets}
        position += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for _, array in ordered:
            stream.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def map_arrays(path: Path) -> dict[str, Array]:
    """Map the arrays of a file into memory, by name; they cannot be written to."""
    try:
        with safe_open(path, framework="pt") as file:
            arrays = {name: file.get_tensor(name).numpy() for name in file.keys()}  # noqa: SIM118, it is no mapping
    except FileNotFoundError:
        raise DataError(f"{path} is missing: make it again") from None
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} is damaged ({error}): make it again") from None
    for array in arrays.values():
        array.flags.writeable = False
    return arrays
