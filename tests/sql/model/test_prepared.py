"""A prepared dataset is mapped from its files; one that is missing or of another format is an error."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from dtfixup.errors import DataError
from dtfixup.sql.model.prepared import ARRAYS, INDEX, open_prepared
from tests.sql.tiny_model import prepared_sample


def test_a_missing_dataset_split_or_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no prepared dataset"):
        open_prepared(tmp_path)
    shutil.copytree(prepared_sample().folder, tmp_path / "old")
    index = json.loads((tmp_path / "old" / INDEX).read_text()) | {"format": 0}
    (tmp_path / "old" / INDEX).write_text(json.dumps(index))
    with pytest.raises(DataError, match="has format 0"):
        open_prepared(tmp_path / "old")
    with pytest.raises(DataError, match="no split 'test'"):
        prepared_sample().split("test")


def test_arrays_are_mapped_and_safetensors_reads_them_too() -> None:
    prepared = prepared_sample()
    loaded = load_file(prepared.folder / ARRAYS)
    assert loaded.keys() == prepared.arrays.keys()
    assert str(prepared.folder / ARRAYS) in Path("/proc/self/maps").read_text()
    for name, array in prepared.arrays.items():
        assert not array.flags.writeable
        assert array.dtype == loaded[name].dtype
        assert (array == loaded[name]).all()


@pytest.mark.parametrize(
    ("name", "flat"),
    [
        ("columns", "column.kind"),
        ("item_tokens", "item_token.id"),
        ("relations", "relation"),
        ("tokens", "token.id"),
        ("links", "link"),
        ("steps", "step.state"),
        ("values", "value.kind"),
        ("value_tokens", "value_token.id"),
        ("questions", "question"),
        ("queries", "query"),
        ("value_texts", "value_text"),
    ],
)
def test_every_start_array_spans_its_rows(name: str, flat: str) -> None:
    starts = prepared_sample().arrays[f"{name}.start"]
    assert starts[0] == 0
    assert starts[-1] == len(prepared_sample().arrays[flat])
    assert all(left <= right for left, right in pairwise(starts))
