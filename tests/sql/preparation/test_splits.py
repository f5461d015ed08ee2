"""Splits are prepared into the cache when needed; a dataset for another tokenizer is refused."""

import json
import shutil
from pathlib import Path

import pytest

from dtfixup.errors import DataError
from dtfixup.files import read_json
from dtfixup.sql.preparation.splits import open_or_prepare
from tests.sql.tiny_model import prepared_sample


def test_data_prepared_for_another_tokenizer_is_refused(encoder_folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "encoder"
    shutil.copytree(encoder_folder, other)
    settings = read_json(other / "tokenizer_config.json")
    (other / "tokenizer_config.json").write_text(json.dumps({**settings, "do_lower_case": False}))
    with pytest.raises(DataError, match="was prepared for minilm, whose tokenizer is not that of"):
        open_or_prepare(prepared_sample().folder, str(other), ["dev"])


def test_a_prepared_dataset_is_opened_as_it_is() -> None:
    folder = prepared_sample().folder
    assert open_or_prepare(folder, "minilm", ["dev"]).folder == folder
    with pytest.raises(DataError, match="has no split 'test'"):
        open_or_prepare(folder, "minilm", ["test"])


def test_a_folder_without_tables_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="neither a folder in Spider's layout"):
        open_or_prepare(tmp_path, "minilm", ["dev"])
