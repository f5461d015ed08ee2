"""Our own experiments: what differs within each."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from dtfixup_paper.tables.cells import Budget, Cell, Setup
from dtfixup_paper.tables.ours import limit_cells, mu_cells, peer_cells
from dtfixup_paper.tables.spider import configure

from dtfixup.fixup import STRATEGIES, MuChoice
from dtfixup.sql.model.config import SqlSpConfig

GPU, PAPER = Setup(Budget.GPU), Setup(Budget.PAPER)


def spider_configs(setup: Setup, cells: Callable[[Setup], list[Cell]]) -> dict[str, SqlSpConfig]:
    return {cell.path: cell.config for cell in cells(setup) if isinstance(cell.config, SqlSpConfig)}


def test_choices_of_mu_differ_in_mu_and_the_limit_alone() -> None:
    configs, start = spider_configs(GPU, mu_cells), configure(GPU, "dt-fixup", 24)
    own = {path: config for path, config in configs.items() if path != "spider-depth/dt-fixup-n24"}
    assert len(own) == len(configs) - 1 == 9
    for config in own.values():
        model = replace(start.model, stream_limit=config.model.stream_limit)
        assert replace(start, mu=config.mu, model=model) == config
    assert Counter(config.model.stream_limit for config in configs.values()) == {2.0: 5, 0.0: 5}
    assert {config.mu for config in configs.values()} == set(MuChoice)


def test_limits_differ_in_limit_and_rate_alone() -> None:
    configs, start = spider_configs(GPU, limit_cells), configure(GPU, "dt-fixup", 32)
    assert configs["spider-depth/dt-fixup-n32"] == start
    none, half = configs["limits/none-n32"], configs["limits/half-rate-n32"]
    assert none == replace(start, model=replace(start.model, stream_limit=0.0))
    rate = start.training.update.learning_rate / 2
    update = replace(start.training.update, learning_rate=rate)
    assert half == replace(start, training=replace(start.training, update=update))
    assert "spider-depth-paper/dt-fixup-n32" in spider_configs(PAPER, limit_cells), "the paper has no limit"


def test_peers_are_all_strategies_on_both_tasks() -> None:
    cells = peer_cells(GPU)
    places = Counter((cell.config.model.strategy, cell.column) for cell in cells)
    assert len(places) == len(cells) == len(STRATEGIES) * 4
    for cell in cells:
        is_tuned_so = cell.path.startswith("init-peers/spider-pre-ln")  # on ReClor it was best without
        warms_up = STRATEGIES[cell.config.model.strategy].warmup != "none" or is_tuned_so
        assert (cell.config.training.warmup > 0) == warms_up, cell.path


def test_peers_that_were_not_tuned_have_the_rates_of_one_that_was() -> None:
    configs = {(cell.config.model.strategy, cell.column): cell.config for cell in peer_cells(GPU)}
    for strategy, column in configs:
        if strategy in ("t-fixup", "rezero", "unscaled"):
            own, tuned = configs[strategy, column], configs["dt-fixup", column]
            assert own.training == replace(tuned.training, evaluate_every=own.training.evaluate_every)
            assert own.encoder_factor == tuned.encoder_factor
            assert own.model.input_dropout == tuned.model.input_dropout
