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
    from dtfixup_paper.tables.cells import Budget

LIST = "list"
_console = Console()


def reproduce(
    names: Annotated[Positional[tuple[str, ...]], arg(metavar="[NAME ...]")] = (),
    *,
    budget: str = "gpu",
    seeds: int | None = None,
    encoder: str | None = None,
    data: Path | None = None,
    reclor: Path | None = None,
    out: Path | None = None,
    work: Path | None = None,
    budget_seconds: float | None = None,
    at_once: int = 1,
    mps: bool = False,
    engine: Literal["local", "ray"] = "local",
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
        data: Folder in the layout of the Spider download, or what `dtfixup sql prepare --synthetic 40000` made of it.
        reclor: Folder with train and val of ReClor.
        out: Folder for the result files, one for each run; results by default, out/smoke for smoke.
        work: Folder to train in; by default runs in the folder for the results.
        budget_seconds: Start no run that would not end within so many seconds.
        at_once: Runs to train at the same time; with ray, on each GPU.
        mps: Let NVIDIA's Multi-Process Service share the GPU between runs at the same time.
        engine: local, or ray for a Ray cluster.
        keep_weights: Keep the weights of finished runs.
    """
    from dtfixup_paper.reproduce import named, train_in_parts
    from dtfixup_paper.runs.run_identity import State
    from dtfixup_paper.runs.sweep import Outcome, Run, run_sweep
    from dtfixup_paper.tables.cells import Budget
    from dtfixup_paper.tables.smoke import one_thread

    if not names:
        raise ConfigError("say which experiments to train; dtfixup reproduce list shows them")
    if budget not in set(Budget):
        raise ConfigError(f"there is no budget {budget!r}: choose one of {', '.join(Budget)}")
    if seeds is not None and seeds < 1:
        raise ConfigError(f"seeds is how many runs of every cell to train, 1 or more; got {seeds}")
    chosen = Budget(budget)
    out = out or (Path("out/smoke") if chosen is Budget.SMOKE else Path("results"))
    if names == (LIST,):
        _show_list(chosen, out, encoder, seeds)
        return
    wanted = [experiment.name for experiment in named(names)]
    sources, spider = _sources(wanted, chosen, encoder, data, reclor)
    if engine == "ray" and (budget_seconds is not None or mps):
        raise ConfigError("budget_seconds and mps are for the local engine: leave them out with ray")

    def train(runs: list[Run], seconds: float | None, before: Sequence[Outcome]) -> list[Outcome]:
        if engine == "ray":
            from dtfixup_paper.runs.cluster import run_on_ray

            gpus = None if at_once == 1 else 1 / at_once
            return run_on_ray(runs, out, work=work, gpus=gpus, keep_weights=keep_weights)
        with one_thread() if chosen is Budget.SMOKE else nullcontext():
            return run_sweep(
                runs,
                out,
                work=work,
                budget_seconds=seconds,
                at_once=at_once,
                mps=mps,
                keep_weights=keep_weights,
                before=before,
            )

    outcomes = train_in_parts(
        wanted, chosen, sources, out, train, seeds=seeds, command=this_command(), budget_seconds=budget_seconds
    )
    exit_if_stopped(any(each.was_stopped for each in outcomes))
    if "spider-errors" in wanted:
        _classify_errors(chosen, sources, spider, out, work or out / "runs", seeds)
    if any(outcome.state is State.FAILED for outcome in outcomes):  # one that diverged has its result
        sys.exit(1)


def _show_list(budget: "Budget", out: Path, encoder: str | None, seeds: int | None) -> None:
    """Every experiment with its runs and its cost."""
    from dtfixup_paper.reproduce import EVERYTHING, EXPERIMENTS, cost_of
    from dtfixup_paper.runs.sweep import read_results
    from dtfixup_paper.tables.cells import Budget
    from dtfixup_paper.tables.smoke import ENCODER
    from dtfixup_paper.tables.tuning import plan_of, told

    contents = read_results(out)
    encoder = encoder or (ENCODER if budget is Budget.SMOKE else None)
    plan = plan_of(budget, contents, encoder)
    table = Table(title=f"budget {budget}, results in {out}", title_justify="left")
    for heading in ("name", "in the paper", "runs", "there", "GPU minutes", "left"):
        table.add_column(heading, justify="left" if heading in ("name", "in the paper") else "right", overflow="fold")
    for name in (*EXPERIMENTS, EVERYTHING):
        cost = cost_of([name], plan, contents, encoder, seeds)
        minutes = [f"{seconds / 60:.0f}" for seconds in (cost.seconds, cost.seconds_left)]
        if name == EVERYTHING:
            table.add_section()
        reference = EXPERIMENTS[name].reference if name in EXPERIMENTS else "runs that several share count once"
        table.add_row(name, reference, str(cost.runs), str(cost.there), *minutes)
    _console.print(table)
    if text := told(plan, encoder):
        _console.print(text, highlight=False)
    _console.print(
        "Minutes: as measured where runs are there, those of runs at once divided among them; else what a model of few "
        "numbers expects on an H200 with one run at a time (docs/reproduce.md). There: by configuration; what was "
        "trained on other data than yours, or on data that were prepared otherwise, is trained anew.",
        highlight=False,
    )


def _sources(
    names: list[str], budget: "Budget", encoder: str | None, data: Path | None, reclor: Path | None
) -> "tuple[Sources, Path | None]":
    """Where the data of some experiments are, and the folder in Spider's layout, if there is one."""
    from dtfixup_paper.reproduce import Sources, needs
    from dtfixup_paper.tables.cells import Budget

    on_spider, on_reclor = needs(names, budget)
    if budget is Budget.SMOKE:
        from dtfixup.sql.model.prepared import INDEX
        from dtfixup_paper.tables.smoke import small_encoder, small_reclor, small_spider

        encoder = encoder or str(small_encoder())
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
        return Sources(reclor=reclor, encoder=encoder), None
    from dtfixup.sql.preparation.splits import open_or_prepare
    from dtfixup_paper.tables.spider import base

    pool = POOL if budget is Budget.GPU else 0  # the same data for all experiments of a budget, so that they share runs
    prepared = open_or_prepare(data, encoder or base(budget).encoder, ["train", "dev"], synthetic=pool)
    return Sources(prepared.folder, reclor, encoder), None if prepared.folder == data else data


def _classify_errors(
    budget: "Budget", sources: "Sources", spider: Path | None, out: Path, work: Path, seeds: int | None
) -> None:
    """Write a file of errors for each finished run of table 7 that has none for its queries."""
    if spider is None:
        _console.print("spider-errors: to have errors classified, give --data with Spider's databases")
        return
    from dtfixup.provenance import begin
    from dtfixup.sql.database.dataset import open_dataset
    from dtfixup.sql.model.train import BEAMS
    from dtfixup_paper.reproduce import EXPERIMENTS, label_of
    from dtfixup_paper.runs.run_identity import Settled, State, state_of
    from dtfixup_paper.runs.sweep import read_results, result_file
    from dtfixup_paper.tables.spider_errors import NAME, analyse_run, read_errors, write_errors
    from dtfixup_paper.tables.tuning import plan_of

    contents, dataset = read_results(out), open_dataset(spider)
    settled = Settled(contents)
    for cell in EXPERIMENTS[NAME].cells(plan_of(budget, contents, sources.encoder)):
        for seed in range(1, (seeds or cell.seeds) + 1):
            config = sources.with_encoder(cell.config_of(seed))
            content = settled.find(config, seed, metric="dev_exact")
            if content is None or state_of(content) is not State.FINISHED:
                continue
            label = label_of(NAME, budget, sources.encoder)
            name = f"{label}/{cell.variant}-seed{seed}"
            if "variant" not in content:
                _console.print(f"{name}: the run was not trained by a sweep, see dtfixup sql errors")
                continue
            result, file = result_file(out, content), out / f"{name}.json"
            beams = work / f"{content['experiment']}-{result.stem}" / BEAMS
            if not beams.is_file():
                _console.print(f"{name}: {beams} is not there: it lies where the run was trained")
                continue
            digest = hashlib.sha256(beams.read_bytes()).hexdigest()
            if not file.is_file() or read_errors(file).beams_sha256 != digest:
                started = begin()
                write_errors(file, analyse_run(result, beams, dataset), this_command(), started)
                _console.print(f"errors: {file}")
