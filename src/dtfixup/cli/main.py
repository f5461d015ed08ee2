"""The command line: each verb is a typed function, and jsonargparse makes its options and help."""

import json as json_text
import math
import os
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from dtfixup_paper import cli_report, cli_reproduce
from jsonargparse import ArgumentParser, auto_cli
from rich.console import Console
from rich.markup import escape

from dtfixup.cli import ask as cli_ask
from dtfixup.cli import finetune as cli_finetune
from dtfixup.cli import pack as cli_pack
from dtfixup.cli import reading as cli_reading
from dtfixup.cli import results as cli_results
from dtfixup.cli import serve as cli_serve
from dtfixup.cli import sql as cli_sql
from dtfixup.cli import train as cli_train
from dtfixup.cli.options import STOPPED
from dtfixup.errors import ConfigError, DtFixupError
from dtfixup.files import write_json

_console = Console()


def check(
    depths: str = "2,4,8,16,32,64",
    strategies: str = "dt-fixup,t-fixup,unscaled",
    encoder: str = "minilm",
    json: Path | None = None,
    plot: Path | None = None,
) -> None:
    """Measure update size and gradient norm against depth on the bundled sentences.

    Args:
        depths: Numbers of layers, separated by commas.
        strategies: Strategies, separated by commas.
        encoder: Encoder by name or folder.
        json: File for the numbers.
        plot: PNG file for the picture.
    """
    from dtfixup.demo.depth import check_bundled, sentences_hash
    from dtfixup.encoders import encoder_identity
    from dtfixup.provenance import begin, provenance

    started = begin()
    report = check_bundled(_numbers(depths), tuple(_split(strategies)), encoder=encoder)
    print(report)
    if json is not None:
        command = f"dtfixup check --depths {depths} --strategies {strategies} --encoder {encoder}"
        identity = encoder_identity(encoder)
        record = provenance("depth-check", command, started, seed=0, encoder=identity, data_hash=sentences_hash())
        _console.print(f"numbers: {write_json(json, {**report.to_json(), **record})}")
    if plot is not None:
        _console.print(f"picture: {report.plot(plot)}")


def demo(out: Path = Path("out/demo"), seed: int = 0, steps: int = 1100, layers: int = 24) -> None:
    """Train 24 new layers on MiniLM three ways, side by side on two CPU cores, and draw the curves.

    Args:
        out: Folder for demo.png and demo.json.
        seed: Of weights and batches.
        steps: Training steps of each run.
        layers: Number of new layers.
    """
    from dtfixup.demo.side_by_side import show_demo
    from dtfixup.demo.training import DemoConfig

    if steps < 1 or layers < 1:
        raise ConfigError(f"steps and layers are 1 or more each; got {steps} and {layers}")
    tune_steps = max(1, 3 * steps // 11)  # the default's share, 300 of 1,100
    show_demo(DemoConfig(seed=seed, steps=steps, tune_steps=tune_steps, layers=layers), out)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in _split(text))
    except ValueError:
        raise ConfigError(f"expected numbers separated by commas, such as 2,4,8: got {text!r}") from None


_VERBS: Any = {
    "check": check,
    "demo": demo,
    "serve": cli_serve.serve,
    "reproduce": cli_reproduce.reproduce,
    "report": cli_report.report,
    "sql": {
        "_help": "Text to SQL: ask, link, prepare, train, predict, evaluate, score, errors.",
        "ask": cli_ask.ask,
        "demo": cli_ask.demo,
        "link": cli_sql.link,
        "prepare": cli_sql.prepare,
        "synthesise": cli_sql.synthesise,
        "train": cli_train.train,
        "finetune": cli_finetune.finetune,
        "predict": cli_train.predict,
        "evaluate": cli_sql.evaluate,
        "score": cli_results.score,
        "errors": cli_results.errors,
        "curves": cli_results.curves,
        "pack": cli_pack.pack,
        "acceptance": cli_pack.acceptance,
        "card": cli_pack.card,
    },
    "reading": {
        "_help": "Logical reading comprehension: train, evaluate, predict, answer; experiments: depth, table.",
        "train": cli_reading.train,
        "evaluate": cli_reading.evaluate,
        "predict": cli_reading.predict,
        "answer": cli_reading.answer,
        "depth": cli_reading.depth,
        "table": cli_reading.table,
    },
}
_MAIN_OPTION: dict[tuple[str, ...], str] = {
    ("sql", "ask"): "--question",
    ("sql", "link"): "--question",
    ("reproduce",): "--names",
}
_WITH_FIELDS: tuple[tuple[str, ...], ...] = (("sql", "train"), ("reading", "train"), ("reading", "depth"))
_OTHER_NAMES = {verb: {"--config": "--fields"} for verb in _WITH_FIELDS}  # --config is jsonargparse's
_FLAGS: dict[tuple[str, ...], set[str]] = {
    ("reproduce",): {"--mps", "--keep-weights", "--keep_weights"},
    ("sql", "ask"): {"--run", "--json", "--explain"},
    ("sql", "link"): {"--json"},
    ("sql", "synthesise"): {"--phrases"},
    ("sql", "train"): {"--resume"},
    ("sql", "finetune"): {"--resume"},
    ("reading", "train"): {"--resume"},
    ("reading", "answer"): {"--json"},
    ("reading", "depth"): {"--keep-weights", "--keep_weights"},
}
_LISTS: dict[tuple[str, ...], str] = {
    ("sql", "curves"): "--results",
    ("reading", "answer"): "--options",
    ("reproduce",): "--names",
}


def _listed(rest: list[str], option: str) -> list[str]:
    """The words after an option, up to the next one, as the one JSON list that jsonargparse takes."""
    if option not in rest:
        return rest
    first = rest.index(option) + 1
    last = next((place for place in range(first, len(rest)) if rest[place].startswith("-")), len(rest))
    return [*rest[:first], json_text.dumps(rest[first:last]), *rest[last:]]


def _with_main_option(verb: tuple[str, ...], rest: list[str]) -> list[str]:
    """The words that are no option's value, wherever they stand, as the value of the verb's main option."""
    flags = _FLAGS.get(verb, set())
    loose: list[str] = []
    kept: list[str] = []
    room = 0.0  # values that the last option still takes
    for word in rest:
        if word.startswith("-"):
            room = 0 if "=" in word or word in flags else math.inf if word == _LISTS.get(verb) else 1
            kept.append(word)
        elif room or (word in ("true", "false") and kept and kept[-1] in flags):
            room = max(0, room - 1)
            kept.append(word)
        else:
            loose.append(word)
    return [_MAIN_OPTION[verb], *loose, *kept] if loose else kept


def _spelled_out(arguments: list[str]) -> list[str]:
    """Options as jsonargparse knows them: the name of a verb's main option and the `true` of a flag may be left out,
    words may be joined by hyphens, and some names are ours."""
    words = 1 if arguments and callable(_VERBS.get(arguments[0])) else 2
    verb, rest = tuple(arguments[:words]), arguments[words:]
    if verb in _MAIN_OPTION:
        rest = _with_main_option(verb, rest)
    if verb in _LISTS:
        rest = _listed(rest, _LISTS[verb])
    spelled = []
    others = _OTHER_NAMES.get(verb, {})
    for position, argument in enumerate(rest):
        option, equals, value = argument.partition("=")
        if option.startswith("--"):
            option = "--" + others.get(option, option).removeprefix("--").replace("-", "_")
        spelled.append(f"{option}{equals}{value}")
        following = rest[position + 1] if position + 1 < len(rest) else "-"
        if argument in _FLAGS.get(verb, set()) and following.startswith("-"):
            spelled.append("true")
    return [*verb, *spelled]


class _Parser(ArgumentParser):
    """Names a missing option as it is typed, not by its place among the verbs."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        start, said, missing = message.partition("arguments are required: ")
        options = re.sub(r"[\w.]*\.(\w+)", lambda found: "--" + found[1].replace("_", "-"), missing)
        super().error(start + said + options, ex)


def _fail(told: str) -> NoReturn:
    Console(stderr=True).print(f"[bold red]error[/]: {escape(told)}", highlight=False, soft_wrap=True)
    sys.exit(2)


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `dtfixup`."""
    try:
        given = sys.argv[1:] if arguments is None else arguments
        if given == ["--version"]:
            print(f"dtfixup {version('dtfixup')}")
            return
        spelled = _spelled_out(given)
        auto_cli(_VERBS, args=spelled, as_positional=False, parser_class=_Parser)
    except DtFixupError as error:
        _fail(str(error))
    except BrokenPipeError:  # whoever read the output has gone: nothing more can be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            raise  # no file that somebody named
        _fail(f"{error.filename}: {error.strerror}. Name another file or folder, or make room for this one")
    except KeyboardInterrupt:
        sys.exit(STOPPED)
