"""Presets of SQL-SP, and fields that a file or option changes."""

from dataclasses import replace

import pytest

from dtfixup.errors import ConfigError
from dtfixup.sql.model.batches import Order
from dtfixup.sql.model.config import PRESETS, SqlSpConfig, minilm, paper, smoke
from dtfixup.training.config import changed, from_json, named, to_json


def test_presets_are_the_papers_and_ours() -> None:
    assert (paper().model.layers, paper().training.epochs, paper().training.batch_size) == (24, 60, 16)
    assert (paper().model.input_dropout, paper().model.decoder.label_smoothing) == (0.6, 0.2)
    assert not paper().model.freeze_embeddings
    assert minilm().model.freeze_embeddings
    assert minilm().model.layers == 24
    for make in PRESETS.values():
        assert from_json(SqlSpConfig, to_json(make())) == make()
    with pytest.raises(ConfigError, match="no preset 'large': choose one of paper, minilm, smoke"):
        named(PRESETS, "large")


def test_changes_reach_nested_fields_and_unknown_ones_are_refused() -> None:
    config = changed(smoke(), {"model": {"decoder": {"dropout": 0.5}}, "order": "stored"})
    assert config.model.decoder == replace(smoke().model.decoder, dropout=0.5)
    assert config.order is Order.STORED
    with pytest.raises(ConfigError, match='no field "depth"'):
        changed(smoke(), {"model": {"depth": 3}})
    with pytest.raises(ConfigError, match="order is one of stored, shuffled, got 'grouped'"):
        changed(smoke(), {"order": "grouped"})


def test_a_removed_field_of_an_older_file_is_dropped_if_it_changed_nothing() -> None:
    older = to_json(smoke())
    older["model"]["added_limit"] = 0.0
    assert from_json(SqlSpConfig, older) == smoke()
    older["model"]["added_limit"] = 1.0
    with pytest.raises(ConfigError, match=r"model\.added_limit = 1\.0 is not supported: this version reads 0\.0 only"):
        from_json(SqlSpConfig, older)
