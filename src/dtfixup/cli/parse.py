"""A typed function as a command: tyro makes its options and help.

In: a verb's function and the words after the verb. Out: the call, with every value read. The fields of a parameter
annotated with `Settings` are options too: `model.layers` is `--model.layers`, and a field of `SHORT_NAMES` also goes by
its own name, `--layers`.
"""

import inspect
import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tyro
import yaml
from docstring_parser import parse_from_object
from tyro.conf import DisallowNone, EnumChoicesFromValues, FlagCreatePairsOff, Suppress, arg
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructFieldSpec, StructTypeInfo

from dtfixup.errors import ConfigError

SHORT_NAMES = frozenset(
    {
        "accumulate",
        "batch_size",
        "epochs",
        "kernel",
        "layers",
        "learning_rate",
        "max_tokens",
        "precision",
        "seed",
        "strategy",
        "warmup",
    }
)
"""Fields of nested settings that need no prefix."""
_MARKERS = (FlagCreatePairsOff, EnumChoicesFromValues, DisallowNone)
_OBVIOUS = ("", "None", "False", "True")
"""Defaults that help leaves out."""


@dataclass(frozen=True)
class Settings:
    """Annotates a parameter whose fields are options; with presets, one of them gives the defaults."""

    presets: Mapping[str, Callable[[], Any]] | None = None
    hidden: frozenset[str] = frozenset()
    """Fields that are no options."""


@dataclass(frozen=True)
class Start:
    """Options that say what the settings begin with."""

    preset: str = "minilm"
    """Settings to begin with: paper, minilm or smoke."""
    config: Path | None = None
    """YAML or JSON file with the fields that differ from the preset; options on the command line win."""


def read_call(function: Callable[..., None], words: Sequence[str], name: str) -> Callable[[], None]:
    """The call that the words after a verb ask for; `--help` prints help and exits."""
    command, registry = _command_of(function, words)
    message = io.StringIO()
    try:
        with redirect_stderr(message), registry:
            call: Callable[[], None] = tyro.cli(command, prog=f"dtfixup {name}", args=words, config=_MARKERS)
    except SystemExit as stop:
        if stop.code != 2:
            raise
        reason = _wrong_option(_actions(command, registry), words, name) or _without_frame(message.getvalue())
        _, is_surplus, surplus = reason.partition("Unrecognized options: ")
        if is_surplus:
            reason = f"dtfixup {name} does not expect {surplus}; put text of several words in quotes"
        raise ConfigError(reason) from None
    return call


def parser_of(function: Callable[..., None]) -> Any:
    """The argparse parser of a verb's function: its description, and its options by group."""
    return _parser(*_command_of(function, ()))


def options_of(function: Callable[..., None]) -> Mapping[str, Any]:
    """Every option of a verb's function, with its argparse action."""
    return _actions(*_command_of(function, ()))


def read_fields(path: Path) -> Mapping[str, Any]:
    """Fields of a configuration from a YAML or JSON file."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read as YAML or JSON: {error}") from None
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path} must hold fields of a configuration, such as `model: {{layers: 8}}`")
    return content


def _command_of(
    function: Callable[..., None], words: Sequence[str]
) -> tuple[Callable[..., Callable[[], None]], ConstructorRegistry]:
    """A function with the same parameters that returns the call instead of making it, and how to read its settings."""
    hints = get_type_hints(function, include_extras=True)
    texts = _texts(function)
    registry = ConstructorRegistry()
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        hint, default = hints[parameter.name], parameter.default
        for settings in (mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Settings)):
            hint = Annotated[hint, arg(name="")]
            registry.struct_rule(partial(_fields_as_options, hidden=settings.hidden))
            if settings.presets is not None:
                default = _settings_at_start(settings.presets, words)
                start = Annotated[Start, arg(name="")]
                parameters.append(inspect.Parameter("_start", inspect.Parameter.KEYWORD_ONLY, annotation=start))
        hint = _with_help(hint, texts.get(parameter.name))
        parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))

    def command(**values: Any) -> Callable[[], None]:
        values.pop("_start", None)
        return partial(function, **values)

    command.__doc__ = parse_from_object(function).description
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command, registry


def _settings_at_start(presets: Mapping[str, Callable[[], Any]], words: Sequence[str]) -> Any:
    """A preset, changed by the fields of a file."""
    from dtfixup.training.config import changed, named

    start, _ = tyro.cli(
        Start, args=list(words), config=_MARKERS, return_unknown_args=True, add_help=False, console_outputs=False
    )
    settings = named(presets, start.preset)
    return settings if start.config is None else changed(settings, read_fields(start.config))


def _fields_as_options(info: StructTypeInfo, hidden: frozenset[str]) -> StructConstructorSpec | None:
    """A rule of tyro: the fields of a dataclass, with short names, and attribute docstrings as help."""
    kind = info.type
    if not is_dataclass(kind):
        return None
    texts, hints = _texts(kind), get_type_hints(kind)
    specs = []
    for field in fields(kind):
        hint = _with_help(hints[field.name], texts.get(field.name))
        if field.name in hidden:
            hint = Annotated[hint, Suppress]
        if field.name in SHORT_NAMES:
            hint = Annotated[hint, arg(aliases=["--" + field.name.replace("_", "-")])]
        default = getattr(info.default, field.name, field.default)
        specs.append(StructFieldSpec(field.name, hint, default))
    return StructConstructorSpec(kind, tuple(specs))


def _texts(documented: Callable[..., Any]) -> dict[str, str]:
    """Help of parameters and fields: the `Args` of a docstring, and attribute docstrings."""
    return {
        found.arg_name: " ".join((found.description or "").split()) for found in parse_from_object(documented).params
    }


def _with_help(hint: Any, text: str | None) -> Any:
    """The type of an option with its help, which names a default only if it says something."""

    def name_default(default: str) -> str:
        return "" if default in _OBVIOUS else f"[{default}]"

    return Annotated[hint, arg(help=text, help_behavior_hint=name_default)]


def _actions(command: Callable[..., Any], registry: ConstructorRegistry) -> Mapping[str, Any]:
    parser = _parser(command, registry)
    return {option: action for action in parser._actions for option in action.option_strings}


def _parser(command: Callable[..., Any], registry: ConstructorRegistry) -> Any:
    with registry:
        return tyro.extras.get_parser(command, config=_MARKERS)


def _wrong_option(actions: Mapping[str, Any], words: Sequence[str], name: str) -> str | None:
    """An option that does not exist, or options that are missing; None if neither is the reason."""
    before = words[: words.index("--")] if "--" in words else words
    typed = [word.partition("=")[0].replace("_", "-") for word in before if re.match(r"--?[a-zA-Z]", word)]
    for option in typed:
        if option not in actions:
            nearest = get_close_matches(option, actions, 1)
            advice = f"did you mean {nearest[0]}?" if nearest else f"dtfixup {name} --help lists its options"
            return f"dtfixup {name} has no option {option}; {advice}"
    required = {action.option_strings[-1]: action for action in actions.values() if action.required}
    missing = [option for option, action in required.items() if not set(action.option_strings) & set(typed)]
    return f"dtfixup {name} needs {', '.join(missing)}; dtfixup {name} --help says more" if missing else None


def _without_frame(box: str) -> str:
    """tyro's message as one line: without its title, its frame and the part that points to the help."""
    lines = [line.strip("│ ") for line in box.splitlines()[1:]]
    if lines and _is_rule(lines[0]):  # below the title, where the terminal takes no box
        del lines[0]
    end = next((number for number, line in enumerate(lines) if _is_rule(line)), len(lines))
    return " ".join(filter(None, lines[:end]))


def _is_rule(line: str) -> bool:
    return line != "" and set(line) <= set("─-╰╯")
