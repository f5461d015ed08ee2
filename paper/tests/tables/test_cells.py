"""What the tables of the paper consist of: which configurations, with which settings."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from dtfixup_paper.reproduce import EXPERIMENTS, cost_of
from dtfixup_paper.runs.run_identity import known_by
from dtfixup_paper.runs.sweep import read_results
from dtfixup_paper.tables.cells import Budget, Cell, Plan, metric_of
from dtfixup_paper.tables.reclor import configure as configure_reading
from dtfixup_paper.tables.settings import NO_LAYERS, RECLOR, SpiderSettings
from dtfixup_paper.tables.spider import configure
from dtfixup_paper.tables.spider_tune import DRAWS, draws

from dtfixup.fixup import STRATEGIES, MuChoice
from dtfixup.reading.presets import minilm as minilm_reading
from dtfixup.reading.presets import paper as paper_reading
from dtfixup.sql.model.config import SqlSpConfig, minilm, paper

RESULTS = Path(__file__).parents[3] / "results"


def cells(name: str, budget: Budget = Budget.GPU) -> dict[str, Cell]:
    """By variant."""
    return {cell.variant: cell for cell in EXPERIMENTS[name].cells(Plan(budget))}


def test_depth_is_the_papers_table() -> None:
    found = cells("spider-depth")
    assert {(cell.config.model.layers, cell.config.model.strategy) for cell in found.values()} == {
        (layers, strategy) for layers in (2, 4, 8, 16, 24, 32) for strategy in ("standard", "dt-fixup")
    }
    assert {cell.config.model.layers: cell.seeds for cell in found.values()} == {2: 3, 4: 2, 8: 3, 16: 2, 24: 3, 32: 2}
    assert (found["standard-n16"].paper, found["dt-fixup-n24"].paper) == ("20.44 ± 1.11", "73.79 ± 0.49")
    for cell in found.values():
        training = cell.config.training
        assert (training.epochs, training.batch_size) == (16, 32)
        assert training.evaluate_every == (2 if cell.config.model.layers in (2, 8, 24) else 8), "often for the curves"
        assert (training.warmup > 0) == (cell.config.model.strategy == "standard")
        assert isinstance(cell.config, SqlSpConfig)
        assert (cell.config.synthetic, cell.config.beam, cell.config.hold_out) == (0.0, 5, 0)
        assert metric_of(cell.config) == "dev_exact"


def test_the_papers_budget_is_the_papers_preset() -> None:
    assert configure(Plan(Budget.PAPER), "dt-fixup", 24) == paper()
    assert cells("spider-hardness", Budget.PAPER)["dt-fixup-n24-full"].config == paper()
    standard = configure(Plan(Budget.PAPER), "standard", 8)
    assert standard.training.update == paper().training.update
    assert standard.training.warmup > 0
    main_table, depth = cells("reclor-main", Budget.PAPER), cells("reclor-depth", Budget.PAPER)
    assert main_table["dt-fixup-n4"].config == paper_reading()
    assert depth["dt-fixup-n4"].config.training.update.learning_rate == 1e-4, "the ablation study's"
    assert all(cell.seeds == 5 for cell in depth.values())


def test_tuning_in_the_papers_budget_moves_the_encoders_rate_as_the_paper_does() -> None:
    configs = [cell.config for cell in cells("spider-tune", Budget.PAPER).values()]
    assert {config.model.strategy for config in configs} == {"dt-fixup", "standard", "pre-ln", "admin", "deepnorm"}
    assert {config.encoder_factor for config in configs} == {paper().encoder_factor}


@pytest.mark.parametrize("name", ["spider-tune", "reclor-tune"])
def test_what_tuning_chose_is_marked_once_in_every_grid(name: str) -> None:
    marked = Counter(cell.column for cell in cells(name).values() if cell.is_chosen)
    assert marked == dict.fromkeys({cell.column for cell in cells(name).values()}, 1)
    assert not any(cell.is_chosen for cell in cells(name, Budget.SMOKE).values())


def test_settings_become_a_configuration() -> None:
    settings = SpiderSettings(2e-4, encoder_rate=1e-4, dropout=0.5, label_smoothing=0.1, warmup=0.1)
    config = configure(Plan(Budget.GPU), "standard", 8, settings, epochs=2.0, batch=(40, 3))
    model, training = config.model, config.training
    assert (model.layers, model.strategy, model.input_dropout) == (8, "standard", 0.5)
    assert (model.decoder.dropout, model.decoder.label_smoothing) == (0.5, 0.1)
    assert (config.encoder_factor, training.update.learning_rate) == (0.5, 2e-4)
    assert (training.epochs, training.batch_size, training.accumulate) == (32, 40, 3)
    assert training.warmup == round(0.1 * 32 * 59), "a tenth of the updates, of 120 of the 7,000 examples each"


def test_the_defaults_are_the_presets_but_for_length() -> None:
    config, preset = configure(Plan(Budget.GPU), "dt-fixup", 24, SpiderSettings()), minilm()
    update = config.training.update
    updates = 16 * 219
    assert 1 / (1 - update.average) == pytest.approx(0.08 * updates, rel=0.01), "as large a share as the preset's"
    own = replace(preset.training.update, average=update.average)
    training = replace(preset.training, epochs=16, evaluate_every=8, update=own)
    assert config == replace(preset, synthetic=0.0, training=training)
    short = configure(Plan(Budget.GPU), "t-fixup", 24, epochs=0.25)
    assert 1 / (1 - short.training.update.average) == pytest.approx(0.08 * updates / 4, rel=0.01)


def test_main_has_the_papers_lengths() -> None:
    found = cells("spider-main")
    assert {variant: cell.config.training.epochs for variant, cell in found.items()} == {
        "standard-n8": 16, "standard-n8-longer": 27, "dt-fixup-n8": 16, "dt-fixup-n24": 16, "t-fixup-n24-short": 4,
        "dt-fixup-n24-full": 28,
    }  # fmt: skip
    assert found["t-fixup-n24-short"].seeds == 5
    paper_lengths = {cell.config.training.epochs for cell in cells("spider-main", Budget.PAPER).values()}
    assert paper_lengths == {60, 100}


def test_hardness_is_trained_already() -> None:
    (cell,) = EXPERIMENTS["spider-hardness"].cells(Plan(Budget.GPU))
    assert cell.config == minilm()
    assert cost_of(["spider-hardness"], Plan(Budget.GPU), read_results(RESULTS)).there == 5
    assert cost_of(["spider-hardness"], Plan(Budget.GPU), [], "other").seconds_left > 0


def test_batches_differ_in_size_alone() -> None:
    found = cells("spider-batch")
    sizes = {name: cell.config.training.batch_size * cell.config.training.accumulate for name, cell in found.items()}
    assert sizes == {
        "standard-n8-batch16": 16, "dt-fixup-n8-batch16": 16, "standard-n8-batch32": 32, "dt-fixup-n8-batch32": 32,
        "dt-fixup-n8-batch120": 120,
    }  # fmt: skip
    small, large = found["dt-fixup-n8-batch16"].config.training, found["dt-fixup-n8-batch120"].config.training
    assert small.update == replace(large.update, average=small.update.average)
    assert small.epochs == large.epochs
    assert known_by(found["dt-fixup-n8-batch32"].config) == known_by(cells("spider-depth")["dt-fixup-n8"].config)


def test_choices_of_mu_differ_in_mu_alone() -> None:
    found = cells("mu-choice")
    start = cells("spider-depth")["dt-fixup-n24"].config
    assert known_by(found["max-limit"].config) == known_by(start), "it is trained already"
    assert isinstance(start, SqlSpConfig)
    configs = [cell.config for cell in found.values() if isinstance(cell.config, SqlSpConfig)]
    assert len(configs) == len(found)
    for config in configs:
        model = replace(start.model, stream_limit=config.model.stream_limit)
        assert known_by(replace(start, mu=config.mu, model=model)) == known_by(config)
    assert Counter(config.model.stream_limit for config in configs) == {2.0: 5, 0.0: 5}
    assert {config.mu for config in configs} == set(MuChoice)


def test_tuning_looks_at_held_out_databases_alone() -> None:
    found = list(cells("spider-tune").values())
    assert all(isinstance(cell.config, SqlSpConfig) and cell.config.hold_out == 20 for cell in found)
    assert {metric_of(cell.config) for cell in found} == {"held_out_exact"}
    tried = Counter((cell.config.model.strategy, cell.config.model.layers) for cell in found)
    assert tried["dt-fixup", 24] == DRAWS == 12
    assert min(tried["standard", 8], tried["standard", 24], tried["pre-ln", 24]) >= 4
    for strategy in ("standard", "pre-ln"):
        own = [cell.config for cell in found if cell.config.model.strategy == strategy]
        assert len({config.training.warmup for config in own}) > 1
        assert len({config.training.update.learning_rate for config in own}) > 2
        assert len({config.model.input_dropout for config in own}) > 1


def test_draws_are_from_the_papers_grid_and_the_same_for_everybody() -> None:
    drawn, grid = draws(Budget.GPU), draws(Budget.PAPER)
    assert len(set(grid)) == 5 * 4 * 3
    assert len(set(drawn)) == 12
    assert drawn == draws(Budget.GPU)
    known = {(each.learning_rate, each.dropout, each.label_smoothing) for each in grid}
    assert {(each.learning_rate, each.dropout, each.label_smoothing) for each in drawn} < known
    assert all(each.encoder_rate == pytest.approx(0.2 * each.learning_rate) for each in drawn)


def test_peers_are_all_strategies_on_both_tasks() -> None:
    found = EXPERIMENTS["init-peers"].cells(Plan(Budget.GPU))
    places = Counter((cell.config.model.strategy, cell.column) for cell in found)
    assert len(places) == len(found) == len(STRATEGIES) * 4
    for cell in found:
        is_tuned_so = cell.variant.startswith("spider-pre-ln")  # on ReClor it was best without
        warms_up = STRATEGIES[cell.config.model.strategy].warmup != "none" or is_tuned_so
        assert (cell.config.training.warmup > 0) == warms_up, cell.variant


def test_peers_that_were_not_tuned_have_the_rates_of_one_that_was() -> None:
    found = {cell.variant: cell.config for cell in EXPERIMENTS["init-peers"].cells(Plan(Budget.GPU))}
    for task in ("spider", "reclor"):
        for layers in (8, 24):
            for strategy in ("t-fixup", "rezero", "unscaled"):
                own, tuned = (found[f"{task}-{name}-n{layers}"] for name in (strategy, "dt-fixup"))
                assert own.training == replace(tuned.training, evaluate_every=own.training.evaluate_every)
                assert (own.encoder_factor, own.model.input_dropout) == (
                    tuned.encoder_factor,
                    tuned.model.input_dropout,
                )


def test_reclor_is_trained_as_its_own_command_does() -> None:
    for name, cell in cells("reclor-depth").items():
        model = cell.config.model
        settings = RECLOR.of(model.strategy, model.layers)
        assert cell.config == configure_reading(minilm_reading(), model.strategy, model.layers, settings, 1, 4638), name
    main_table = cells("reclor-main")
    none = configure_reading(minilm_reading(), NO_LAYERS, 0, RECLOR.of(NO_LAYERS, 0), 1, 4638)
    assert main_table["no-new-layers"].config == none
    assert {name: cell.seeds for name, cell in main_table.items()} == {
        "no-new-layers": 5,
        "standard-n4": 5,
        "dt-fixup-n4": 5,
    }
    seeds = {f"{strategy}-n{layers}": 3 for strategy in ("standard", "dt-fixup") for layers in (4, 8, 16, 24)}
    assert {name: cell.seeds for name, cell in cells("reclor-depth").items()} == {
        **seeds, "pre-ln-n16": 2, "pre-ln-n24": 2,
    }  # fmt: skip
    tuned = cells("reclor-tune")
    assert all(cell.config.hold_out == 0.1 for cell in tuned.values()), "val is not looked at"
    assert "standard-n4-lr3e-4-enc3e-5-drop0.4-warm0.3" in tuned
