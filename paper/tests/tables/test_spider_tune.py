"""The tuning grids on Spider."""

from collections import Counter

import pytest
from dtfixup_paper.tables.cells import Budget, Setup, metric_of
from dtfixup_paper.tables.spider_tune import DRAWS, draws, tune_cells

from dtfixup.sql.model.config import SqlSpConfig, paper

GPU, PAPER = Setup(Budget.GPU), Setup(Budget.PAPER)


def test_tuning_looks_at_held_out_databases_alone() -> None:
    cells = tune_cells(GPU)
    assert all(isinstance(cell.config, SqlSpConfig) and cell.config.hold_out == 20 for cell in cells)
    assert {metric_of(cell.config) for cell in cells} == {"held_out_exact"}


def test_every_strategy_has_a_grid() -> None:
    cells = tune_cells(GPU)
    tried = Counter((cell.config.model.strategy, cell.config.model.layers) for cell in cells)
    assert tried["dt-fixup", 24] == DRAWS == 12
    assert min(tried["standard", 8], tried["standard", 24], tried["pre-ln", 24]) >= 4
    for strategy in ("standard", "pre-ln"):
        own = [cell.config for cell in cells if cell.config.model.strategy == strategy]
        assert len({config.training.warmup for config in own}) > 1
        assert len({config.training.update.learning_rate for config in own}) > 2
        assert len({config.model.input_dropout for config in own}) > 1


def test_the_papers_budget_moves_the_encoders_rate_as_the_paper_does() -> None:
    configs = [cell.config for cell in tune_cells(PAPER)]
    assert {config.model.strategy for config in configs} == {"dt-fixup", "standard", "pre-ln", "admin", "deepnorm"}
    assert {config.encoder_factor for config in configs} == {paper().encoder_factor}


def test_draws_are_from_the_papers_grid_and_always_the_same() -> None:
    drawn, grid = draws(GPU), draws(PAPER)
    assert len(set(grid)) == 5 * 4 * 3
    assert len(set(drawn)) == 12
    assert drawn == draws(GPU)
    known = {(each.learning_rate, each.dropout, each.label_smoothing) for each in grid}
    assert {(each.learning_rate, each.dropout, each.label_smoothing) for each in drawn} < known
    assert all(each.encoder_rate == pytest.approx(0.2 * each.learning_rate) for each in drawn)
