"""Configurations of the Spider experiments."""

from dataclasses import replace

import pytest
from dtfixup_paper.tables.cells import Budget, Setup
from dtfixup_paper.tables.settings import SpiderSettings
from dtfixup_paper.tables.spider import configure, depth_cell

from dtfixup.sql.model.config import minilm, paper

GPU, PAPER = Setup(Budget.GPU), Setup(Budget.PAPER)


def test_the_papers_budget_is_the_papers_preset() -> None:
    assert configure(PAPER, "dt-fixup", 24) == paper()
    standard = configure(PAPER, "standard", 8)
    assert standard.training.update == paper().training.update
    assert standard.training.warmup > 0


def test_settings_become_a_configuration() -> None:
    settings = SpiderSettings(2e-4, encoder_rate=1e-4, dropout=0.5, label_smoothing=0.1, warmup=0.1)
    config = configure(GPU, "standard", 8, settings, epochs=2.0, batch=(40, 3))
    model, training = config.model, config.training
    assert (model.layers, model.strategy, model.input_dropout) == (8, "standard", 0.5)
    assert (model.decoder.dropout, model.decoder.label_smoothing) == (0.5, 0.1)
    assert (config.encoder_factor, training.update.learning_rate) == (0.5, 2e-4)
    assert (training.epochs, training.batch_size, training.accumulate) == (32, 40, 3)
    assert training.warmup == round(0.1 * 32 * 59), "a tenth of the updates, of 120 of the 7,000 examples each"


def test_the_defaults_are_the_presets_but_for_length() -> None:
    config, preset = configure(GPU, "dt-fixup", 24, SpiderSettings()), minilm()
    update = config.training.update
    updates = 16 * 219
    assert 1 / (1 - update.average) == pytest.approx(0.08 * updates, rel=0.01), "as large a share as the preset's"
    own = replace(preset.training.update, average=update.average)
    training = replace(preset.training, epochs=16, evaluate_every=8, update=own)
    assert config == replace(preset, synthetic=0.0, training=training)
    short = configure(GPU, "t-fixup", 24, epochs=0.25)
    assert 1 / (1 - short.training.update.average) == pytest.approx(0.08 * updates / 4, rel=0.01)


def test_a_depth_has_the_same_runs_in_every_table() -> None:
    cell = depth_cell(replace(GPU, encoder="x/mpnet"), "standard", 8, 3, row="SQL-SP", column="exact match")
    assert (cell.row, cell.column, cell.path) == ("SQL-SP", "exact match", "spider-depth-mpnet/standard-n8")
    assert (cell.config.encoder, cell.config.training.evaluate_every) == ("x/mpnet", 2)
    assert depth_cell(GPU, "rezero", 8, 1).path == "init-peers/spider-rezero-n8"
