"""Which settings a strategy has at a depth."""

from dataclasses import replace

from dtfixup_paper.tables.settings import Choices, ReclorSettings, SpiderSettings

SHALLOW, DEEP, FIXUP = SpiderSettings(1e-3, warmup=0.2), SpiderSettings(1e-4), SpiderSettings(7e-4)
CHOICES = Choices({"standard": {4: SHALLOW, 16: DEEP}, "dt-fixup": {24: FIXUP}})


def test_what_was_chosen_holds_from_its_depth_on() -> None:
    found = [CHOICES.of("standard", layers) for layers in (2, 4, 8, 16, 24)]
    assert found == [SHALLOW, SHALLOW, SHALLOW, DEEP, DEEP]
    assert CHOICES.of("dt-fixup", 2) == FIXUP, "the smallest depth there is"


def test_what_was_not_tuned_has_the_settings_of_what_is_like_it() -> None:
    assert CHOICES.of("admin", 8) == replace(SHALLOW, warmup=0.1), "the standard's, and its own warm-up"
    assert CHOICES.of("deepnorm", 24) == replace(DEEP, warmup=0.02)
    assert CHOICES.of("rezero", 24) == CHOICES.of("t-fixup", 8) == FIXUP


def test_settings_read_as_tables_show_them() -> None:
    assert str(SHALLOW) == "rate 0.001, encoder 0.0001, dropout 0.3, smoothing 0.2, warm-up 0.2"
    assert str(DEEP) == "rate 0.0001, encoder 0.0001, dropout 0.3, smoothing 0.2"
    assert str(ReclorSettings()) == "rate 0.0003, encoder 3e-05, dropout 0.4, warm-up 0"
