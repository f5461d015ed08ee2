"""What verbs that train or predict have in common: settings, data, answers to a split, what is said at the end."""

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from rich.console import Console

from dtfixup.errors import ConfigError
from dtfixup.files import read_json, write_json

ConfigT = TypeVar("ConfigT")
POOL = 40_000
"""Made-up examples that epochs choose from."""
STOPPED = 130
"""Exit code of a command that was stopped, as a shell has it after Ctrl-C."""


def settings_from(
    presets: Mapping[str, Callable[[], ConfigT]], preset: str, fields: Path | None, options: Mapping[str, Any]
) -> ConfigT:
    """A preset, changed by the fields of a file, and then by the options that were given."""
    from dtfixup.training.config import changed, named

    settings = named(presets, preset)
    if fields is not None:
        settings = changed(settings, fields_of(fields))
    return changed(settings, given(options))


def this_command() -> str:
    """The command as a result file keeps it."""
    return "dtfixup " + shlex.join(without_paths(sys.argv[1:]))


def exit_if_stopped(was_stopped: bool) -> None:
    """End the command as Ctrl-C ends others: a script must not take a run that can go on for a finished one."""
    if was_stopped:
        sys.exit(STOPPED)


def exit_if_failed(has_failed: bool) -> None:
    """A script must not go on where a run of a sweep ended by an error, either; one that diverged has its result."""
    if has_failed:
        sys.exit(1)


def show_result(metrics: Mapping[str, float], folder: Path, copy: Path | None) -> None:
    """The metrics of a finished run, and where its files are; `copy` gets the result file too."""
    from dtfixup.provenance import RESULT

    console = Console()
    for name, value in metrics.items():
        console.print(f"{name:32} {value:g}")
    if copy is not None:
        write_json(copy, read_json(folder / RESULT))
    console.print(f"weights: {folder / 'last.safetensors'}, result: {copy or folder / RESULT}")


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
        "--reclor": "DIR",
        "--encoder": "ENCODER",
        "--out": "DIR",
        "--model": "DIR",
        "--result": "FILE",
        "--fields": "FILE",
        "--config": "FILE",
        "--work": "DIR",
    }
    shown = list(arguments)
    for place, argument in enumerate(arguments):
        option, has_value, _ = argument.partition("=")
        if option in hidden and has_value:
            shown[place] = f"{option}={hidden[option]}"
        elif option in hidden and place + 1 < len(arguments):
            shown[place + 1] = hidden[option]
    return shown
