"""The paper's tables on Spider: which configurations they have."""

from dataclasses import replace

from dtfixup_paper.tables import spider_tables
from dtfixup_paper.tables.cells import Budget, Setup, metric_of

from dtfixup.sql.model.config import SqlSpConfig, minilm, paper

GPU, PAPER = Setup(Budget.GPU), Setup(Budget.PAPER)


def test_depth_is_the_papers_table() -> None:
    cells = {cell.path.partition("/")[2]: cell for cell in spider_tables.depth_cells(GPU)}
    assert cells.keys() == {f"{name}-n{n}" for n in (2, 4, 8, 16, 24, 32) for name in ("standard", "dt-fixup")}
    assert {cell.config.model.layers: cell.seeds for cell in cells.values()} == {2: 3, 4: 2, 8: 3, 16: 2, 24: 3, 32: 2}
    assert (cells["standard-n16"].paper, cells["dt-fixup-n24"].paper) == ("20.44 ± 1.11", "73.79 ± 0.49")
    for name, cell in cells.items():
        training = cell.config.training
        assert name == f"{cell.config.model.strategy}-n{cell.config.model.layers}"
        assert (training.epochs, training.batch_size) == (16, 32)
        assert training.evaluate_every == (2 if cell.config.model.layers in (2, 8, 24) else 8), "often for the curves"
        assert (training.warmup > 0) == (cell.config.model.strategy == "standard")
        assert isinstance(cell.config, SqlSpConfig)
        assert (cell.config.synthetic, cell.config.beam, cell.config.hold_out) == (0.0, 5, 0)
        assert metric_of(cell.config) == "dev_exact"


def test_main_has_the_papers_lengths() -> None:
    cells = {cell.path: cell for cell in spider_tables.main_cells(GPU)}
    assert {path: cell.config.training.epochs for path, cell in cells.items()} == {
        "spider-depth/standard-n8": 16, "spider-main/standard-n8-longer": 27, "spider-depth/dt-fixup-n8": 16,
        "spider-depth/dt-fixup-n24": 16, "spider-main/t-fixup-n24-short": 4, "sql/minilm": 28,
    }  # fmt: skip
    assert cells["spider-main/t-fixup-n24-short"].seeds == 5
    assert {cell.config.training.epochs for cell in spider_tables.main_cells(PAPER)} == {60, 100}


def test_hardness_is_our_best_model() -> None:
    (cell,) = spider_tables.hardness_cells(GPU)
    assert (cell.path, cell.config) == ("sql/minilm", minilm())
    (cell,) = spider_tables.hardness_cells(PAPER)
    assert (cell.path, cell.config) == ("spider-depth-paper/dt-fixup-n24", paper())


def test_batches_differ_in_size_alone() -> None:
    cells = {cell.path: cell.config.training for cell in spider_tables.batch_cells(GPU)}
    assert {path: training.batch_size * training.accumulate for path, training in cells.items()} == {
        "spider-batch/standard-n8-batch16": 16, "spider-batch/dt-fixup-n8-batch16": 16,
        "spider-depth/standard-n8": 32, "spider-depth/dt-fixup-n8": 32, "spider-batch/dt-fixup-n8-batch120": 120,
    }  # fmt: skip
    small, large = (cells[f"spider-batch/dt-fixup-n8-batch{size}"] for size in (16, 120))
    assert small.update == replace(large.update, average=small.update.average)
    assert small.epochs == large.epochs
