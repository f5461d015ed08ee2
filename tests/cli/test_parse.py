"""Typed functions as commands."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest

from dtfixup.cli.parse import Settings, options_of, read_call, read_fields
from dtfixup.errors import ConfigError


class Colour(StrEnum):
    RED = "red"
    DARK_BLUE = "dark-blue"


@dataclass(frozen=True)
class Inner:
    """The inner part."""

    layers: int = 2
    """New layers."""
    mlp_dim: int = 8
    """Width."""
    colour: Colour = Colour.RED
    """Colour of
    everything."""
    anchors: bool = True
    """Keep anchors."""

    def __post_init__(self) -> None:
        if self.layers < 0:
            raise ConfigError("layers cannot be negative")


@dataclass(frozen=True)
class Whole:
    """All settings."""

    name: str = "a"
    """A name."""
    secret: str = "s"
    """Not an option."""
    model: Inner = field(default_factory=Inner)
    """The model."""


PRESETS = {"minilm": Whole, "smoke": lambda: Whole(name="small", model=Inner(layers=1))}
CALLS: list[tuple[Path, Whole, bool, tuple[str, ...]]] = []


def verb(
    data: Path,
    settings: Annotated[Whole, Settings(PRESETS, hidden=frozenset({"secret"}))],
    resume: bool = False,
    words: tuple[str, ...] = (),
) -> None:
    """Do it.

    Args:
        data: Folder of data,
            in two lines.
        resume: Go on.
        words: Any words.
    """
    CALLS.append((data, settings, resume, words))


def call(*arguments: str) -> tuple[Path, Whole, bool, tuple[str, ...]]:
    read_call(verb, arguments, "verb")()
    return CALLS.pop()


def test_parsing_calls_nothing() -> None:
    ready = read_call(verb, ["--data", "x"], "verb")
    assert CALLS == []
    ready()
    assert CALLS.pop() == (Path("x"), Whole(), False, ())


def test_nested_fields_have_their_own_and_short_names() -> None:
    options = ["--model.layers", "3", "--model.colour", "dark-blue", "--model.no-anchors", "--name=b"]
    inner = Inner(layers=3, colour=Colour.DARK_BLUE, anchors=False)
    assert call("--data", "x", *options)[1] == replace(Whole(name="b"), model=inner)
    assert call("--layers", "4", "--data", "x")[1].model.layers == 4


def test_a_parameter_is_not_settings_because_of_its_name() -> None:
    files: list[Path | None] = []

    def read(settings: Path | None = None) -> None:
        """Read a file."""
        files.append(settings)

    read_call(read, ["--settings", "a.yaml"], "read")()
    assert files == [Path("a.yaml")]


def test_a_list_ends_at_the_next_option() -> None:
    assert call("--words", "a", "b-c", "--resume", "--data", "x") == (Path("x"), Whole(), True, ("a", "b-c"))


def test_a_file_changes_the_preset_and_options_change_the_file(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("name: file\nmodel: {mlp_dim: 7, layers: 7}\n")
    words = ["--data", "x", "--preset", "smoke"]
    assert call(*words)[1] == Whole(name="small", model=Inner(layers=1))
    words += ["--config", str(tmp_path / "own.yaml")]
    assert call(*words)[1] == Whole(name="file", model=Inner(layers=7, mlp_dim=7))
    assert call(*words, "--layers", "0")[1] == Whole(name="file", model=Inner(layers=0, mlp_dim=7))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--layer", "3"], "dtfixup verb has no option --layer; did you mean --layers?"),
        (["--res"], "dtfixup verb has no option --res; did you mean --resume?"),
        (["--zzzz", "y"], "dtfixup verb has no option --zzzz; dtfixup verb --help lists its options"),
        (["--no-resume"], "dtfixup verb has no option --no-resume; did you mean --resume?"),
        (["--secret", "x"], "dtfixup verb has no option --secret"),
        (["true"], "dtfixup verb does not expect true; put text of several words in quotes"),
        (["--preset", "huge"], "there is no preset 'huge': choose one of minilm, smoke"),
    ],
)
def test_wrong_words_get_advice(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_call(verb, ["--data", "x", *words], "verb")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing from dtfixup verb: --data PATH"),
        (["--data"], "Missing value for argument '--data'. Expected 1 values."),
        (["--data", "x", "--model.colour", "blue"], "invalid choice 'blue' for argument '--model.colour'."),
        (["--data", "x", "--layers", "many"], "Error parsing --layers/--model.layers: invalid literal for int()"),
        (["--data", "x", "--layers", "-1"], "Error parsing model: layers cannot be negative"),
    ],
)
def test_tyro_names_the_option(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        read_call(verb, words, "verb")
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_help_tells_texts_and_defaults(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        read_call(verb, ["--help", "--preset", "smoke"], "verb")
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for part in (
        "--data PATH Folder of data, in two lines. (required)",
        "--resume Go on. --words",
        "--layers INT, --model.layers INT New layers. [1]",
        "--model.colour {red,dark-blue} Colour of everything. [red]",
        "--preset STR Settings to begin with: paper, minilm or smoke. [minilm]",
    ):
        assert part in text
    assert "secret" not in text


def test_options_are_known_without_a_call() -> None:
    assert {"--data", "--model.layers", "--layers", "--resume", "--config"} <= options_of(verb).keys()


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "just words"])
def test_a_file_without_fields_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"own\.yaml (must hold fields|cannot be read)"):
        read_fields(tmp_path / "own.yaml")
