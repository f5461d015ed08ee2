"""The command line: each verb is a typed function, and jsonargparse makes its options and help."""

import multiprocessing
import queue
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jsonargparse import auto_cli
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

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
    from dtfixup.experiments.depth import check_bundled
    from dtfixup.experiments.provenance import provenance

    started = time.monotonic()
    report = check_bundled(_numbers(depths), tuple(_split(strategies)), encoder=encoder)
    print(report)
    if json is not None:
        record = provenance("depth-check", f"dtfixup check --depths {depths}", started, seed=0, encoder=encoder)
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
    from dtfixup.experiments.kinship import generate
    from dtfixup.experiments.kinship_demo import DemoConfig, data_hash, metrics, plot, prepare
    from dtfixup.experiments.provenance import provenance

    started = time.monotonic()
    config = DemoConfig(seed=seed, steps=steps, tune_steps=max(1, 3 * steps // 11), layers=layers)
    example = generate(1, (3,), 4)[0]
    _console.print("[bold]Task[/]: how are two people related? Facts come in any order; all of them are needed.")
    _console.print(f"[dim]{example}[/] → [bold]{example.answer}[/]")
    _console.print(f"{config.train:,} training stories; frozen MiniLM below, {config.layers} new layers above.\n")
    data = prepare(config)
    results = _train_side_by_side(config, data)
    table = Table(title="validation accuracy, %", title_justify="left")
    for heading in ("strategy", "tried", "learning rate", "warm-up", "all"):
        table.add_column(heading, justify="left" if heading == "strategy" else "right")
    for count in config.story_steps:
        table.add_column(f"{count} steps", justify="right")
    for result in results:
        shares = (f"{result.by_story_steps[count]:.1f}" for count in config.story_steps)
        settings = (str(result.candidates), f"{result.learning_rate:g}", str(result.warmup or "none"))
        table.add_row(result.strategy, *settings, f"[bold]{result.accuracy:.1f}[/]", *shares)
    _console.print(table)
    for result in results:
        if result.alerts:
            _console.print(f"watch: {result.strategy}: {len(result.alerts)} alerts, the first: {result.alerts[0]}")
    record = provenance("kinship-demo", f"dtfixup demo --seed {seed}", started, seed=seed, data_hash=data_hash(data))
    content = {**record, "config": asdict(config), "metrics": metrics(results), "runs": list(map(asdict, results))}
    _console.print(f"numbers: {write_json(out / 'demo.json', content)}")
    _console.print(f"picture: {plot(results, config, out / 'demo.png')}")


def _train_side_by_side(config: Any, data: Any) -> list[Any]:
    """One process per strategy; their progress as one block of bars."""
    from dtfixup.experiments.kinship_demo import CANDIDATES, run_in_process

    context = multiprocessing.get_context("spawn")
    messages = context.Queue()
    processes = {
        name: context.Process(target=run_in_process, args=(name, config, data, messages), daemon=True)
        for name in CANDIDATES
    }
    results: dict[str, Any] = {}
    columns = (TextColumn("{task.description:9}"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn())
    with Progress(*columns, console=_console) as bars:
        tasks = {}
        for name, process in processes.items():
            total = config.steps + config.tune_steps * (len(CANDIDATES[name]) - 1)
            tasks[name] = bars.add_task(name, total=total, note="starting")
            process.start()
        while len(results) < len(processes):
            message = _next_message(messages, processes, results)
            name = message["strategy"]
            if message["kind"] == "error":
                raise DtFixupError(f"training {name} failed: {message['error']}")
            if message["kind"] == "result":
                results[name] = message["result"]
                note = f"done: {results[name].accuracy:5.1f} %"
                bars.update(tasks[name], completed=bars.tasks[tasks[name]].total, note=note)
            else:
                bars.update(tasks[name], advance=10, note=_progress_note(message))
    for process in processes.values():
        process.join()
    return [results[name] for name in CANDIDATES]


def _next_message(messages: Any, processes: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """The next message; a process that died without a word is an error, not a wait for ever."""
    while True:
        try:
            return dict(messages.get(timeout=5))
        except queue.Empty:
            for name, process in processes.items():
                if name not in results and process.exitcode not in (None, 0):
                    raise DtFixupError(
                        f"training {name} stopped with exit code {process.exitcode}: is there enough memory?"
                    ) from None


def _progress_note(message: dict[str, Any]) -> str:
    tuning = f"tuning {message['candidate']}  " if "candidate" in message else ""
    accuracy = "" if message["accuracy"] is None else f"validation {message['accuracy']:5.1f} %"
    return f"{tuning}step {message['step']:4}  loss {message['loss']:.2f}  {accuracy}"


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in _split(text))
    except ValueError:
        raise ConfigError(f"expected numbers separated by commas, such as 2,4,8: got {text!r}") from None


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `dtfixup`."""
    try:
        auto_cli({"check": check, "demo": demo}, args=arguments, as_positional=False)
    except DtFixupError as error:
        Console(stderr=True).print(f"[bold red]error[/]: {error}", highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
