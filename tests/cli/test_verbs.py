"""The table of verbs, and what holds for every verb."""

import re
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfixup.cli.main import main
from dtfixup.cli.parse import options_of
from dtfixup.cli.verbs import ENTRY_POINTS, FAMILIES, SAME, VERBS, find_verb, overview
from dtfixup.errors import ConfigError

OWN = [name for name, verb in VERBS.items() if verb.function is not None]
ELSEWHERE = [name for name, verb in VERBS.items() if verb.function is None]


@pytest.mark.parametrize("name", [*OWN, *SAME])
def test_every_verb_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*name.split(), "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: dtfixup {name} ")
    assert "None" not in text


def test_every_verb_is_in_the_help() -> None:
    for name, verb in VERBS.items():
        assert re.search(rf"^  {name} +{re.escape(verb.summary)}$", overview(), re.M)
    for family in FAMILIES:
        for name in (*VERBS, *SAME):
            assert (f"\n  {name} " in overview(family)) == name.startswith(f"{family} ")
    assert max(map(len, overview().splitlines())) <= 100


def test_every_flag_has_hyphens_and_one_type_and_help() -> None:
    types = defaultdict(set)
    for name in OWN:
        for option, action in options_of(VERBS[name].load(name)).items():
            assert "_" not in option, (name, option)
            assert action.help, (name, option)
            is_flag = action.nargs == 0
            types[option].add("flag" if is_flag else action.metavar or tuple(action.choices))
    several = {option: kinds for option, kinds in types.items() if len(kinds) > 1}
    # A number of databases to train the SQL model, a share of the examples elsewhere: fields of their configurations.
    assert several.pop("--hold-out") == {"INT", "FLOAT"}
    several.pop("--synthetic")  # a number of examples to prepare, a multiple of the real ones to train
    several.pop("--precision")  # TF32 is for training on a GPU alone
    assert several == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sql", "aks"], "there is no verb 'sql aks'; did you mean 'sql ask'?"),
        (["train"], "there is no verb 'train'; did you mean 'sql train' or 'reading train'?"),
        (["reading", "anwser"], "there is no verb 'reading anwser'; did you mean 'reading answer'?"),
        (["zzzzzz"], "there is no verb 'zzzzzz'; dtfixup --help lists them"),
    ],
)
def test_a_wrong_verb_gets_the_nearest(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        find_verb(words)
    assert str(error.value) == message


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with a verb of its own code, `sql errors`."""
    (tmp_path / "some_tables.py").write_text(
        "def errors(count: int = 1) -> None:\n"
        '    """Count.\n\n    Args:\n        count: How many.\n    """\n'
        "    print('errors', count)\n"
    )
    info = tmp_path / "some_tables-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-tables\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nsql.errors = some_tables:errors\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


@pytest.mark.usefixtures("package")
def test_a_verb_of_another_package_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    main(["sql", "errors", "--count", "3"])
    assert capsys.readouterr().out == "errors 3\n"


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_package_that_is_missing_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, refusal: Callable[..., str]
) -> None:
    monkeypatch.setattr(sys, "path", [])
    assert "comes with the folder paper/ of the repository: `make setup`" in refusal(*name.split())
