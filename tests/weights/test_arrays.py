"""Arrays come back from a file as they were written, mapped, and the library reads the same."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from dtfixup.errors import DataError
from dtfixup.weights.arrays import map_arrays, write_arrays

ARRAYS = {
    "bytes": np.arange(3, dtype=np.uint8),
    "long": np.arange(6, dtype=np.int64).reshape(2, 3),
    "none": np.zeros((0, 4), np.float32),
    "one": np.array(2.5),
    "turned": np.arange(6, dtype=np.int16).reshape(2, 3).T,
    "truth": np.array([True, False]),
}


def test_arrays_are_mapped_as_they_were_written_and_the_library_reads_them_too(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_arrays(path, ARRAYS, {"b": "1", "a": "2"})
    mapped, loaded = map_arrays(path), load_file(path)
    assert str(path) in Path("/proc/self/maps").read_text()
    assert mapped.keys() == loaded.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert not mapped[name].flags.writeable
        for found in (mapped[name], loaded[name]):
            assert found.dtype == array.dtype
            assert np.array_equal(found, array)
        assert mapped[name].ctypes.data % array.dtype.itemsize == 0, "aligned"


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, arrays in (("x", ARRAYS), ("y", dict(reversed(ARRAYS.items())))):
        write_arrays(tmp_path / name, arrays, {"b": "1", "a": "2"})
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


@pytest.mark.parametrize("damage", [b"", b"\x00" * 7, b"\xff" * 64, b"\x02" + b"\x00" * 7 + b"[]"])
def test_damaged_files_are_refused(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "x").write_bytes(damage)
    with pytest.raises(DataError, match="x is damaged"):
        map_arrays(tmp_path / "x")


def test_truncated_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="x is missing"):
        map_arrays(tmp_path / "x")
    write_arrays(tmp_path / "x", ARRAYS)
    (tmp_path / "x").write_bytes((tmp_path / "x").read_bytes()[:-1])
    with pytest.raises(DataError, match="is damaged"):
        map_arrays(tmp_path / "x")
