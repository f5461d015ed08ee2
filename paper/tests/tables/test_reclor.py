"""The ReClor experiments: what their settings become."""

import pytest
from dtfixup_paper.tables.reclor import configure
from dtfixup_paper.tables.settings import NO_LAYERS, RECLOR, ReclorSettings

from dtfixup.reading.presets import minilm


def test_settings_become_a_configuration() -> None:
    settings = ReclorSettings(6e-4, encoder_rate=3e-5, dropout=0.2, warmup=0.1)
    config = configure(minilm(), "standard", 8, settings, 4, 4638)
    assert (config.model.strategy, config.model.layers, config.model.input_dropout) == ("standard", 8, 0.2)
    assert config.training.update.learning_rate * config.encoder_factor == pytest.approx(3e-5)
    assert (config.training.seed, config.training.warmup) == (4, 233), "a tenth of 12 epochs of 194 updates"
    assert config.training.epochs == minilm().training.epochs
    assert configure(minilm(), NO_LAYERS, 0, settings, 4, 4638).model.layers == 0


def test_the_defaults_are_the_presets() -> None:
    assert configure(minilm(), "dt-fixup", 4, RECLOR.of("dt-fixup", 4), 1, 4638) == minilm()
    for strategy in (NO_LAYERS, "standard"):
        assert all(settings.warmup > 0 for settings in RECLOR.tables[strategy].values()), "as is usual with layer norms"
