"""24 layers by DT-Fixup at a rate that suits them and one that breaks them, with a limit on the stream and without.

    python benchmarks/limits.py [--rates 0.003 0.004] [--seeds 11 12 13] [--steps 1100] [--out FILE.json]

Trains the model of `make demo-train` (kinship stories on frozen MiniLM, no data needed) on the CPU, two minutes a run
on one core, as many runs at once as there are cores. A table of validation accuracies comes out; chance is about 6 %.
"""

import argparse
import logging
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

import torch
from dtfixup_paper.report.cells import mean_and_deviation
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dtfixup.demo.training import DemoConfig, DemoData, DemoRun, DemoTrial, prepare_stories, stories_hash
from dtfixup.encoders import encoder_identity
from dtfixup.files import write_json
from dtfixup.provenance import begin, provenance

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="+", default=[3e-3, 4e-3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--steps", type=int, default=DemoConfig.steps)
    parser.add_argument("--out", type=Path, help="result file")
    options = parser.parse_args()
    started = begin()
    config = replace(DemoConfig(), steps=options.steps, evaluate_every=options.steps)
    jobs = [(config, limits, rate, seed) for seed in options.seeds for rate in options.rates for limits in LIMITS]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        trained = list(track(pool.map(train, *zip(*jobs, strict=True)), "training", total=len(jobs)))
    table, metrics = Table(title="validation accuracy, %"), {}
    for heading in ("learning rate", *LIMITS):
        table.add_column(heading, justify="right")
    for rate in options.rates:
        found = {each: [run.accuracy for run in trained if (run.limits, run.rate) == (each, rate)] for each in LIMITS}
        table.add_row(f"{rate:g}", *(mean_and_deviation(values) for values in found.values()))
        metrics |= {f"{name(each)}_{rate:g}": round(fmean(values), 2) for each, values in found.items()}
    Console().print(table)
    if options.out:
        command = f"python benchmarks/limits.py --rates {' '.join(map(str, options.rates))}"
        command += f" --seeds {' '.join(map(str, options.seeds))} --steps {options.steps}"
        record = provenance(
            "limits-kinship",
            command,
            started,
            seed=options.seeds[0],
            encoder=encoder_identity("minilm"),
            data_hash=stories_hash(data()),
        )
        rows = [asdict(each) for each in trained]
        write_json(options.out, {**record, "config": asdict(config), "metrics": metrics, "rows": rows})
        print(f"result: {options.out}")


def name(limits: str) -> str:
    return limits.replace(" μ", "").replace(" ", "_")


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
