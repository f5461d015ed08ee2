"""24 layers by DT-Fixup at a rate that suits them and one that breaks them, with a limit on the stream and without.

    python benchmarks/limits.py [--rates 0.003 0.004] [--seeds 11 12 13] [--steps 1100] [--out FILE.json]

Trains the model of `make demo-train` (kinship stories on frozen MiniLM, no data needed) on the CPU, two minutes a run
on one core, as many runs at once as there are cores. A table of validation accuracies comes out; chance is about 6 %.
"""

import logging
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from multiprocessing import get_context
from statistics import fmean

import torch
from dtfixup_paper.report.cells import mean_and_deviation
from measure import Benchmark
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dtfixup.demo.training import DemoConfig, DemoData, DemoRun, DemoTrial, prepare_stories, stories_hash

LIMITS = {"no limit": 0.0, "stream 2 μ": 2.0}
"""Limits on the length of vectors between layers, as multiples of μ."""


@dataclass(frozen=True)
class Trained:
    """One run and how it ended."""

    limits: str
    rate: float
    seed: int
    accuracy: float
    growth: float
    """Longest vector that a layer put out, over the longest input of the same step."""
    seconds: float


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.option("--rates", type=float, nargs="+", default=[3e-3, 4e-3])
    benchmark.option("--seeds", type=int, nargs="+", default=[11, 12, 13])
    benchmark.option("--steps", type=int, default=DemoConfig.steps)
    options = benchmark.start()
    config = replace(DemoConfig(), steps=options.steps, evaluate_every=options.steps)
    jobs = [(config, limits, rate, seed) for seed in options.seeds for rate in options.rates for limits in LIMITS]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        trained = list(track(pool.map(train, *zip(*jobs, strict=True)), "training", total=len(jobs)))
    table, metrics = Table(title="validation accuracy, %"), {}
    for heading in ("learning rate", *LIMITS):
        table.add_column(heading, justify="right")
    for rate in options.rates:
        values = {each: [run.accuracy for run in trained if (run.limits, run.rate) == (each, rate)] for each in LIMITS}
        table.add_row(f"{rate:g}", *map(mean_and_deviation, values.values()))
        for limits, accuracies in values.items():
            name = limits.replace(" μ", "").replace(" ", "_")
            metrics[f"{name}_{rate:g}"] = round(fmean(accuracies), 2)
    Console().print(table)
    benchmark.finish(
        "limits-kinship",
        metrics,
        seed=options.seeds[0],
        data_hash=stories_hash(data()),
        config=asdict(config),
        rows=[asdict(run) for run in trained],
    )


@cache
def data() -> DemoData:
    return prepare_stories(DemoConfig())


def train(config: DemoConfig, limits: str, rate: float, seed: int) -> Trained:
    """One run, in a process of its own on one thread."""
    torch.set_num_threads(1)
    logging.getLogger("dtfixup").setLevel(logging.ERROR)  # alerts are expected
    started = time.monotonic()
    config = replace(config, stream_limit=LIMITS[limits], seed=seed)
    run = DemoRun("dt-fixup", DemoTrial(rate), config, data())
    run.train_until(config.steps, lambda _: None)
    assert run.monitor is not None
    run.monitor.close()
    growth = run.monitor.summary()["highest_growth"]
    return Trained(limits, rate, seed, run.curve[config.steps], round(growth, 2), round(time.monotonic() - started, 1))


if __name__ == "__main__":
    main()
