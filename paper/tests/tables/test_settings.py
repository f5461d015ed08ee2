"""Which settings a strategy has at a depth, and the file that holds them."""

from dataclasses import replace
from pathlib import Path

import pytest
from dtfixup_paper.tables.settings import (
    ReclorSettings,
    Settings,
    SpiderSettings,
    published_settings,
    read_settings,
    settings_at,
    write_settings,
)

from dtfixup.errors import ConfigError

SHALLOW, DEEP, FIXUP = SpiderSettings(1e-3, warmup=0.2), SpiderSettings(1e-4), SpiderSettings(7e-4)
TUNED = {"standard": {4: SHALLOW, 16: DEEP}, "dt-fixup": {24: FIXUP}}


def test_what_was_chosen_holds_from_its_depth_on() -> None:
    found = [settings_at(TUNED, "standard", layers) for layers in (2, 4, 8, 16, 24)]
    assert found == [SHALLOW, SHALLOW, SHALLOW, DEEP, DEEP]
    assert settings_at(TUNED, "dt-fixup", 2) == FIXUP, "the smallest depth there is"


def test_what_was_not_tuned_has_the_settings_of_what_is_like_it() -> None:
    assert settings_at(TUNED, "admin", 8) == replace(SHALLOW, warmup=0.1), "the standard's, and its own warm-up"
    assert settings_at(TUNED, "deepnorm", 24) == replace(DEEP, warmup=0.02)
    assert settings_at(TUNED, "rezero", 24) == settings_at(TUNED, "t-fixup", 8) == FIXUP


def test_settings_read_as_tables_show_them() -> None:
    assert str(SHALLOW) == "rate 0.001, encoder 0.0001, dropout 0.3, smoothing 0.2, warm-up 0.2"
    assert str(DEEP) == "rate 0.0001, encoder 0.0001, dropout 0.3, smoothing 0.2"
    assert str(ReclorSettings()) == "rate 0.0003, encoder 3e-05, dropout 0.4, warm-up 0"


def test_a_file_holds_all_settings(tmp_path: Path) -> None:
    settings = Settings(TUNED, published_settings().reclor)
    file = write_settings(tmp_path / "settings.yaml", settings, "What won:\nsomething")
    assert read_settings(file) == settings
    assert file.read_text().startswith("# What won:\n# something\nspider:\n")
    file.write_text(file.read_text().replace("0.0007", "7e-4"))
    assert read_settings(file) == settings, "YAML reads 7e-4 as text"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("spider:", "spyder:"), "KeyError: 'spider'"),
        (("learning_rate: 0.0008", "learning_rat: 0.0008"), 'did you mean "learning_rate"'),
        (("learning_rate: 0.0008", "learning_rate: fast"), "could not convert string to float: 'fast'"),
        (("  dt-fixup:", "  dtfixup:"), "no settings of dt-fixup"),
        (("spider:", "spider: ["), "is no settings file"),
        (("spider:", "- "), "is no settings file"),
    ],
)
def test_what_is_no_settings_file_is_refused(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    file = write_settings(tmp_path / "mine.yaml", published_settings(), "")
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(ConfigError, match=r"(?s)mine\.yaml is no settings file .*tune` writes one") as refused:
        read_settings(file)
    assert message in str(refused.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_settings(tmp_path / "nothing.yaml")
