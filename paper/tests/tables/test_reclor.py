"""The ReClor experiments: what their settings become, and which cells they have."""

import pytest
from dtfixup_paper.tables.cells import Budget, Setup
from dtfixup_paper.tables.reclor import configure, depth_cells, main_cells, tune_cells
from dtfixup_paper.tables.settings import NO_LAYERS, ReclorSettings, settings_at

from dtfixup.reading.presets import minilm, paper

GPU, PAPER = Setup(Budget.GPU), Setup(Budget.PAPER)


def test_settings_become_a_configuration() -> None:
    settings = ReclorSettings(6e-4, encoder_rate=3e-5, dropout=0.2, warmup=0.1)
    config = configure(GPU, "standard", 8, settings)
    assert (config.model.strategy, config.model.layers, config.model.input_dropout) == ("standard", 8, 0.2)
    assert config.training.update.learning_rate * config.encoder_factor == pytest.approx(3e-5)
    assert config.training.warmup == 233, "a tenth of 12 epochs of 194 updates"
    assert config.training.epochs == minilm().training.epochs
    assert configure(GPU, NO_LAYERS, 0, settings).model.layers == 0


def test_the_defaults_are_the_presets() -> None:
    assert configure(GPU, "dt-fixup", 4) == minilm()
    for strategy, layers in ((NO_LAYERS, 0), ("standard", 8)):
        assert settings_at(GPU.settings.reclor, strategy, layers).warmup > 0, "as is usual with layer norms"


def test_the_papers_budget_has_the_papers_rates() -> None:
    main, depth = ({cell.path: cell for cell in cells(PAPER)} for cells in (main_cells, depth_cells))
    assert main["reclor-main-paper/dt-fixup-n4"].config == paper()
    ablation = depth["reclor-depth-paper/dt-fixup-n4"].config
    assert ablation.training.update.learning_rate == 1e-4, "the ablation study's"
    assert all(cell.seeds == 5 for cell in depth.values())


def test_tables_have_their_depths_and_seeds() -> None:
    main = {"reclor-main/no-new-layers": 5, "reclor-main/standard-n4": 5, "reclor-main/dt-fixup-n4": 5}
    assert {cell.path: cell.seeds for cell in main_cells(GPU)} == main
    seeds = {f"reclor-depth/{name}-n{layers}": 3 for name in ("standard", "dt-fixup") for layers in (8, 16, 24)}
    assert {cell.path: cell.seeds for cell in depth_cells(GPU)} == {
        **seeds, "reclor-main/standard-n4": 3, "reclor-main/dt-fixup-n4": 3, "reclor-depth/pre-ln-n16": 2,
        "reclor-depth/pre-ln-n24": 2,
    }  # fmt: skip


def test_tuning_does_not_look_at_val() -> None:
    cells = {cell.path: cell for cell in tune_cells(GPU)}
    assert all(cell.config.hold_out == 0.1 for cell in cells.values())
    assert "reclor-tune/standard-n4-lr3e-4-enc3e-5-drop0.4-warm0.3" in cells
