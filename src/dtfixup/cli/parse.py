"""A typed function as a command: tyro makes its options and its help.

In: a verb's function and the words after the verb. Out: the call, with every value read. The fields of a parameter
`settings` are options too: `model.layers` is `--model.layers`, and a field of `SHORT_NAMES` also goes by its own name,
`--layers`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast, get_type_hints

import tyro
import yaml
from docstring_parser import parse_from_object
from tyro.conf import DisallowNone, EnumChoicesFromValues, FlagCreatePairsOff, arg
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
    """Annotates the parameter of a verb whose fields are options themselves."""

    presets: Mapping[str, Callable[[], Any]] | None = None
    """Settings to begin with, by name; otherwise the parameter's default."""
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
    command: Callable[..., Any] = function
    call, surplus = tyro.cli(
        command,
        prog=f"dtfixup {name}",
        description=parse_from_object(function).description,
        args=words,
        return_unknown_args=True,
        config=_MARKERS,
        registry=_registry(function, words),
    )
    if not surplus:
        return cast(Callable[[], None], call)
    option = next((word.partition("=")[0] for word in surplus if word.startswith("-")), None)
    if option is None:
        raise ConfigError(f"dtfixup {name} does not expect {' '.join(surplus)}; put text of several words in quotes")
    nearest = get_close_matches(option.replace("_", "-"), options_of(function), 1)
    advice = f"did you mean {nearest[0]}?" if nearest else f"dtfixup {name} --help lists its options"
    raise ConfigError(f"dtfixup {name} has no option {option}; {advice}")


def parser_of(function: Callable[..., None]) -> Any:
    """The argparse parser of a verb's function: its description, and its options by group."""
    description = parse_from_object(function).description
    return tyro.extras.get_parser(function, description=description, config=_MARKERS, registry=_registry(function, ()))


def options_of(function: Callable[..., None]) -> Mapping[str, Any]:
    """Every option of a verb's function, with its argparse action."""
    return {option: action for action in parser_of(function)._actions for option in action.option_strings}


def read_fields(path: Path) -> Mapping[str, Any]:
    """Fields of a configuration from a YAML or JSON file."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read as YAML or JSON: {error}") from None
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path} must hold fields of a configuration, such as `model: {{layers: 8}}`")
    return content


def _registry(function: Callable[..., None], words: Sequence[str]) -> ConstructorRegistry:
    """tyro's rules, and one for the function of a verb and its settings."""

    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        if info.type is function:
            return _verb(function, words)
        if is_dataclass(info.type):
            return StructConstructorSpec(info.type, _fields(info.default, is_nested=True))
        return None

    registry = ConstructorRegistry()
    registry.struct_rule(rule)
    return registry


def _verb(function: Callable[..., None], words: Sequence[str]) -> StructConstructorSpec:
    """The parameters of a function as options that make its call; instead of its settings, their fields."""
    hints, texts = get_type_hints(function, include_extras=True), _texts(function)
    options: list[StructFieldSpec] = []
    fields_of_settings: list[str] = []
    start: Any = None
    parameter_of_settings = ""
    for name, parameter in inspect.signature(function).parameters.items():
        marks = getattr(hints[name], "__metadata__", ())
        settings = next((mark for mark in marks if isinstance(mark, Settings)), None)
        if settings is None:
            default = tyro.MISSING_NONPROP if parameter.default is parameter.empty else parameter.default
            options.append(_option(name, hints[name], texts, default))
            continue
        start, parameter_of_settings = parameter.default, name
        if settings.presets is not None:
            start = _settings_at_start(settings.presets, words)
            options += _fields(Start())
        shown = [field for field in _fields(start) if field.name not in settings.hidden]
        fields_of_settings = [field.name for field in shown]
        options += shown

    def call(**values: Any) -> Callable[[], None]:
        if start is not None:
            values[parameter_of_settings] = replace(start, **{name: values[name] for name in fields_of_settings})
        return partial(function, **{name: values[name] for name in hints if name in values})

    return StructConstructorSpec(call, tuple(options))


def _settings_at_start(presets: Mapping[str, Callable[[], Any]], words: Sequence[str]) -> Any:
    """A preset, changed by the fields of a file."""
    from dtfixup.training.config import changed, named

    start, _ = tyro.cli(
        Start, default=Start(), args=words, return_unknown_args=True, add_help=False, console_outputs=False
    )
    settings = named(presets, start.preset)
    return settings if start.config is None else changed(settings, read_fields(start.config))


def _fields(settings: Any, *, is_nested: bool = False) -> tuple[StructFieldSpec, ...]:
    """The fields of a dataclass as options; its values are the defaults."""
    hints, texts = get_type_hints(type(settings)), _texts(type(settings))
    names = [field.name for field in fields(settings)]
    return tuple(_option(name, hints[name], texts, getattr(settings, name), is_nested=is_nested) for name in names)


def _texts(documented: Callable[..., Any]) -> dict[str, str]:
    """Help of parameters and fields: the `Args` of a docstring, and attribute docstrings."""
    described = parse_from_object(documented).params
    return {parameter.arg_name: " ".join((parameter.description or "").split()) for parameter in described}


def _option(
    name: str, hint: Any, texts: Mapping[str, str], default: Any, *, is_nested: bool = False
) -> StructFieldSpec:
    """An option with its help, which names the default only if it says something."""

    def name_default(text: str) -> str:
        return "" if text in _OBVIOUS else f"[{text}]"

    aliases = ["--" + name.replace("_", "-")] if is_nested and name in SHORT_NAMES else None
    described: Any = Annotated[hint, arg(help=texts.get(name), help_behavior_hint=name_default, aliases=aliases)]
    return StructFieldSpec(name, described, default)
