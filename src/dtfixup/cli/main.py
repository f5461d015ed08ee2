"""The command line: finds the verb that was typed, reads its options and calls it."""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.markup import escape

from dtfixup.cli.options import STOPPED
from dtfixup.cli.verbs import FAMILIES, find_verb, overview
from dtfixup.errors import ConfigError, DtFixupError, needs_extra

_HELP = ("--help", "-h", "help")


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `dtfixup`."""
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
    except DtFixupError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader of the output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise  # not about a file that somebody named
        _fail(f"{error.filename}: {error.strerror}. Name another file or folder, or make room for this one")
    except KeyboardInterrupt:
        sys.exit(STOPPED)


def _run(words: list[str]) -> None:
    if not words or words[0] in _HELP:
        print(overview())
    elif words == ["--version"]:
        print(f"dtfixup {version('dtfixup')}")
    elif words[0] in FAMILIES and (len(words) == 1 or words[1] in _HELP):
        print(overview(words[0]))
    elif words[0].startswith("-"):
        raise ConfigError(f"{words[0]} comes before the verb; options follow it, and dtfixup --help lists the verbs")
    elif Path(words[0]).is_file():
        raise ConfigError(f"{words[0]} is a file, not a verb; to ask it: dtfixup ask {words[0]}")
    else:
        name, verb = find_verb(words)
        with needs_extra("cli", "the command line"):
            from dtfixup.cli.parse import read_call
        function = verb.load(name)
        read_call(function, words[len(name.split()) :], name)()


def _fail(message: str) -> NoReturn:
    Console(stderr=True).print(f"[bold red]error[/]: {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(2)
