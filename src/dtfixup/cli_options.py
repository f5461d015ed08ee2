"""What verbs that train have in common: fields from files, options that were given, commands without folders."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dtfixup.errors import ConfigError


def fields_of(path: Path) -> Mapping[str, Any]:
    """Fields of a configuration from a YAML or JSON file."""
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read as YAML or JSON: {error}") from None
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{path} must hold fields of a configuration, such as `model: {{layers: 8}}`")
    return fields


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Without the options that were left out."""
    kept = {name: given(value) if isinstance(value, Mapping) else value for name, value in options.items()}
    return {name: value for name, value in kept.items() if value is not None and value != {}}


def without_paths(arguments: list[str]) -> list[str]:
    """The command as a result file keeps it: folders of this machine are nobody's business."""
    hidden = {
        "--data": "DIR",
        "--encoder": "ENCODER",
        "--out": "DIR",
        "--model": "DIR",
        "--result": "FILE",
        "--fields": "FILE",
        "--config": "FILE",
    }
    shown = list(arguments)
    for place, argument in enumerate(arguments):
        option, has_value, _ = argument.partition("=")
        if option in hidden and has_value:
            shown[place] = f"{option}={hidden[option]}"
        elif option in hidden and place + 1 < len(arguments):
            shown[place + 1] = hidden[option]
    return shown
