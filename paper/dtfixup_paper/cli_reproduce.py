"""The verb `dtfixup reproduce`: every table and figure, by name."""

import hashlib
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, arg

from dtfixup.cli.options import POOL, exit_if_stopped, this_command
from dtfixup.errors import ConfigError

if TYPE_CHECKING:
    from dtfixup_paper.reproduce import Sources
    from dtfixup_paper.runs.run import Run
    from dtfixup_paper.tables.cells import Setup

LIST = "list"
_console = Console()


def reproduce(
    names: Annotated[Positional[tuple[str, ...]], arg(metavar="[NAME ...]")] = (),
    *,
    budget: str = "gpu",
    seeds: int | None = None,
    encoder: str | None = None,
    settings: Path | None = None,
    data: Path | None = None,
    reclor: Path | None = None,
    out: Path | None = None,
    work: Path | None = None,
    budget_seconds: float | None = None,
    engine: Literal["local", "ray"] = "local",
    at_once: int = 1,
    keep_weights: bool = False,
) -> None:
    """Train the runs of experiments that have no result yet: tables and figures of the paper by name, or all.

    The same command goes on after any end. `dtfixup reproduce list` shows the names, and what they cost; `dtfixup
    report` makes the tables.

    Args:
        names: Names of experiments; tune for both tunings, all for everything, list to see them.
        budget: smoke (seconds on a CPU, no number means anything), gpu (what results holds) or paper (its own encoder).
        seeds: Seeds of every cell, instead of its own number.
        encoder: Encoder by name or folder, instead of the budget's.
        settings: Settings file that tune wrote; by default the settings of the published tables.
        data: Folder in the layout of the Spider download, or what `dtfixup sql prepare --synthetic 40000` made of it.
        reclor: Folder with train and val of ReClor.
        out: Folder for the result files, one for each run; results by default, out/smoke for smoke.
        work: Folder to train in; by default runs in the folder for the results.
        budget_seconds: Start no run that would not end within so many seconds.
        engine: local, or ray for a Ray cluster.
        at_once: Runs to train at the same time on each GPU, with ray.
        keep_weights: Keep the weights of finished runs.
    """
    from dtfixup_paper.reproduce import named, plan, write_tuned
    from dtfixup_paper.runs.run import State
    from dtfixup_paper.runs.sweep import run_sweep
    from dtfixup_paper.tables.cells import Budget, Setup
    from dtfixup_paper.tables.settings import published_settings, read_settings
    from dtfixup_paper.tables.smoke import ENCODER, one_thread, small_encoder

    if not names:
        raise ConfigError("name the experiments to train; dtfixup reproduce list shows them")
    if budget not in set(Budget):
        raise ConfigError(f"there is no budget {budget!r}: choose one of {', '.join(Budget)}")
    if seeds is not None and seeds < 1:
        raise ConfigError(f"seeds is how many runs of every cell to train, 1 or more; got {seeds}")
    if engine == "ray" and budget_seconds is not None:
        raise ConfigError("budget_seconds is for the local engine: leave it out with ray")
    if engine == "local" and at_once != 1:
        raise ConfigError("at_once is for ray: the local engine trains one run after another")
    is_smoke = budget == Budget.SMOKE
    out = out or Path("out/smoke" if is_smoke else "results")
    if is_smoke and encoder is None:
        encoder = ENCODER if names == (LIST,) else str(small_encoder())
    setup = Setup(Budget(budget), encoder, published_settings() if settings is None else read_settings(settings))
    if names == (LIST,):
        _show_list(setup, out, seeds)
        return
    wanted = [experiment.name for experiment in named(names)]
    runs = plan(wanted, setup, seeds=seeds, command=this_command())
    sources, spider = _sources(wanted, runs, setup, data, reclor)
    if setup.settings_note:
        _console.print(setup.settings_note, highlight=False)
    if engine == "ray":
        from dtfixup_paper.runs.cluster import run_on_ray

        gpus = None if at_once == 1 else 1 / at_once
        outcomes = run_on_ray(runs, sources, out, work=work, gpus=gpus, keep_weights=keep_weights)
    else:
        with one_thread() if is_smoke else nullcontext():
            outcomes = run_sweep(
                runs, sources, out, work=work, budget_seconds=budget_seconds, keep_weights=keep_weights
            )
    exit_if_stopped(any(outcome.was_stopped for outcome in outcomes))
    if message := write_tuned(wanted, setup, outcomes, out):
        _console.print(message, soft_wrap=True, highlight=False)
    if "spider-errors" in wanted:
        _classify_errors(setup, spider, out, work or out / "runs", seeds)
    if any(outcome.state is State.FAILED for outcome in outcomes):  # one that diverged has its result
        sys.exit(1)


def _show_list(setup: "Setup", out: Path, seeds: int | None) -> None:
    """Every experiment with its runs and its cost, and results that do not fit the plan."""
    from dtfixup_paper.reproduce import EVERYTHING, EXPERIMENTS, plan
    from dtfixup_paper.runs.run import SETTLED, device_seconds, differences, read_run

    table = Table(title=f"budget {setup.budget}, results in {out}", title_justify="left")
    for heading in ("name", "in the paper", "runs", "there", "GPU minutes", "left"):
        table.add_column(heading, justify="left" if heading in ("name", "in the paper") else "right", overflow="fold")
    unfit: dict[Path, list[str]] = {}
    for name in (*EXPERIMENTS, EVERYTHING):
        runs, measured, expected = plan([name], setup, seeds=seeds), [], []
        for run in runs:
            state, content = read_run(run, out)
            if content is None or state not in SETTLED:
                expected.append(run.cost)
            elif fields := differences(run.config, content):
                unfit[run.file(out)] = fields
                expected.append(run.cost)
            else:
                measured.append(device_seconds(content))
        if name == EVERYTHING:
            table.add_section()
        reference = EXPERIMENTS[name].reference if name in EXPERIMENTS else "runs that several share count once"
        minutes = [f"{seconds / 60:.0f}" for seconds in (sum(measured) + sum(expected), sum(expected))]
        table.add_row(name, reference, str(len(runs)), str(len(measured)), *minutes)
    _console.print(table)
    for file, fields in unfit.items():
        _console.print(f"{file} was trained otherwise: {'; '.join(fields)}", highlight=False, soft_wrap=True)
    if unfit:
        _console.print(
            "These files are not counted. Delete them to train the runs again, or give another --settings or --out.",
            highlight=False,
        )
    _console.print(
        "Minutes: as measured where runs are there, those of runs at once divided among them; else what a simple model "
        "expects on an H200 with one run at a time (paper/README.md).",
        highlight=False,
    )


def _sources(
    names: Sequence[str], runs: "Sequence[Run]", setup: "Setup", data: Path | None, reclor: Path | None
) -> "tuple[Sources, Path | None]":
    """Where the data of some runs are, and the folder in Spider's layout, if there is one."""
    from dtfixup.sql.model.prepared import INDEX
    from dtfixup_paper.reproduce import Sources, needs
    from dtfixup_paper.tables.cells import Budget

    on_spider, on_reclor = needs(runs)
    if setup.budget is Budget.SMOKE:
        from dtfixup_paper.tables.smoke import small_reclor, small_spider

        if on_spider and (data is None or not (data / INDEX).is_file()):
            data = small_spider(data)
        reclor = small_reclor(reclor) if on_reclor else None
    for needed, given, option, what in (
        (on_spider, data, "--data", "the Spider download, or what dtfixup sql prepare made of it"),
        (on_reclor, reclor, "--reclor", "a folder with train and val of ReClor"),
    ):
        if needed and given is None:
            raise ConfigError(f"{', '.join(names)}: give {option}, {what}")
    if not on_spider or data is None:
        return Sources(reclor=reclor), None
    from dtfixup.sql.preparation.splits import open_or_prepare

    pool = POOL if setup.budget is Budget.GPU else 0  # the same data for all experiments of a budget
    prepared = open_or_prepare(data, setup.start_spider().encoder, ["train", "dev"], synthetic=pool)
    return Sources(prepared.folder, reclor), None if prepared.folder == data else data


def _classify_errors(setup: "Setup", spider: Path | None, out: Path, work: Path, seeds: int | None) -> None:
    """Write a file of errors for each finished run of Table 7 that has none for its queries."""
    if spider is None:
        _console.print("spider-errors: to have errors classified, give --data with Spider's databases")
        return
    from dtfixup.provenance import begin
    from dtfixup.sql.database.dataset import open_dataset
    from dtfixup.sql.model.train import BEAMS
    from dtfixup_paper.reproduce import plan
    from dtfixup_paper.runs.run import State, read_run
    from dtfixup_paper.tables.spider_errors import NAME, analyse_run, read_errors, write_errors

    dataset = open_dataset(spider)
    for run in plan([NAME], setup, seeds=seeds):
        if read_run(run, out)[0] is not State.FINISHED:
            continue
        file = out / f"{setup.path(NAME, run.variant)}-seed{run.seed}.json"
        beams = work / run.name / BEAMS
        if not beams.is_file():
            _console.print(f"{run.name}: {beams} is missing: it is where the run was trained", soft_wrap=True)
            continue
        digest = hashlib.sha256(beams.read_bytes()).hexdigest()
        if not file.is_file() or read_errors(file).beams_sha256 != digest:
            started = begin()
            write_errors(file, analyse_run(run.file(out), beams, dataset), this_command(), started)
            _console.print(f"errors: {file}", soft_wrap=True)
