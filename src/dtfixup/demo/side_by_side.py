"""The kinship demo on the screen: one process per strategy, live bars, a table, a picture, a JSON file."""

import multiprocessing
import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from dtfixup.demo.kinship import generate
from dtfixup.demo.training import (
    PROGRESS_EVERY,
    TRIALS,
    DemoConfig,
    DemoData,
    DemoResult,
    metrics,
    plot,
    prepare_stories,
    run_in_process,
    stories_hash,
)
from dtfixup.encoders import encoder_identity
from dtfixup.errors import DtFixupError
from dtfixup.files import write_json
from dtfixup.provenance import begin, provenance


def show_demo(config: DemoConfig, out: Path) -> list[DemoResult]:
    """Train the strategies, print the results, and write demo.json and demo.png to `out`."""
    started = begin()
    console = Console()
    example = generate(1, (3,), 4)[0]
    console.print("[bold]Task[/]: how are two people related? The facts come in any order; all are needed.")
    console.print(f"[dim]{example}[/] → [bold]{example.answer}[/]")
    console.print(f"{config.train:,} training stories; frozen MiniLM below, {config.layers} new layers above.\n")
    data = prepare_stories(config)
    results = train_side_by_side(config, data, console)
    console.print(_table(results, config))
    for result in results:
        if result.alerts:
            console.print(f"watch: {result.strategy}: {len(result.alerts)} alerts, the first: {result.alerts[0]}")
    command = f"dtfixup demo-train --seed {config.seed} --steps {config.steps} --layers {config.layers}"
    identity = encoder_identity("minilm")
    record = provenance(
        "kinship-demo", command, started, seed=config.seed, encoder=identity, data_hash=stories_hash(data)
    )
    content = {**record, "config": asdict(config), "metrics": metrics(results), "runs": list(map(asdict, results))}
    console.print(f"numbers: {write_json(out / 'demo.json', content)}")
    console.print(f"picture: {plot(results, config, out / 'demo.png')}")
    return results


def _table(results: Sequence[DemoResult], config: DemoConfig) -> Table:
    table = Table(title="validation accuracy, %", title_justify="left")
    for heading in ("strategy", "tried", "rate", "warm-up", "all"):
        table.add_column(heading, justify="left" if heading == "strategy" else "right")
    for count in config.story_steps:
        table.add_column(f"{count} steps", justify="right")
    for result in results:
        shares = (f"{result.by_story_steps[count]:.1f}" for count in config.story_steps)
        settings = (str(result.candidates), f"{result.learning_rate:g}", str(result.warmup or "none"))
        table.add_row(result.strategy, *settings, f"[bold]{result.accuracy:.1f}[/]", *shares)
    return table


def train_side_by_side(config: DemoConfig, data: DemoData, console: Console) -> list[DemoResult]:
    """Train one process per strategy, with a progress bar each."""
    context = multiprocessing.get_context("spawn")
    messages = context.Queue()
    processes = {
        name: context.Process(target=run_in_process, args=(name, config, data, messages), daemon=True)
        for name in TRIALS
    }
    results: dict[str, DemoResult] = {}
    columns = (TextColumn("{task.description:9}"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars, _started(processes):
        tasks = {
            name: bars.add_task(name, total=config.steps + config.tune_steps * (len(TRIALS[name]) - 1), note="starting")
            for name in processes
        }
        while len(results) < len(processes):
            message = next_message(messages, processes, results)
            name = message["strategy"]
            if message["kind"] == "error":
                raise DtFixupError(f"training {name} failed: {message['error']}")
            if message["kind"] == "result":
                results[name] = message["result"]
                note = f"done: {results[name].accuracy:5.1f} %"
                bars.update(tasks[name], completed=bars.tasks[tasks[name]].total, note=note)
            else:
                bars.update(tasks[name], advance=PROGRESS_EVERY, note=_progress_note(message))
                if not console.is_terminal and message["step"] % config.evaluate_every == 0:
                    console.print(f"{name:9} {_progress_note(message)}")
    return [results[name] for name in TRIALS]


@contextmanager
def _started(processes: dict[str, Any]) -> Iterator[None]:
    """Run the processes inside; afterwards all have ended, even after an error."""
    for process in processes.values():
        process.start()
    try:
        yield
    except BaseException:
        for process in processes.values():
            process.terminate()
        raise
    finally:
        for process in processes.values():
            process.join()


def next_message(messages: Any, processes: dict[str, Any], results: dict[str, DemoResult]) -> dict[str, Any]:
    """The next message; a process that died without sending one is an error."""
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
    tuning = f"tuning {message['trial']}  " if "trial" in message else ""
    accuracy = "" if message["accuracy"] is None else f"validation {message['accuracy']:5.1f} %"
    return f"{tuning}step {message['step']:4}  loss {message['loss']:.2f}  {accuracy}"
