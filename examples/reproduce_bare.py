"""Experiments on a GPU machine that has torch, transformers and Fabric, and nothing else that dtfixup needs.

`PYTHONPATH=src:paper python examples/reproduce_bare.py spider-tune --spider PREPARED --encoder FOLDER`, where PREPARED
is what `dtfixup sql prepare --synthetic 40000` made on another machine. The same command goes on after any end: runs
whose results are in the folder of `--out` are not repeated.
"""

import argparse
from pathlib import Path

from dtfixup_paper.reproduce import Sources, plan, write_tuned
from dtfixup_paper.runs.sweep import run_sweep
from dtfixup_paper.tables.cells import Budget, Setup
from dtfixup_paper.tables.settings import published_settings, read_settings

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("names", nargs="+", help="names of experiments")
parser.add_argument("--spider", type=Path, help="prepared dataset")
parser.add_argument("--reclor", type=Path, help="folder with train and val")
parser.add_argument("--encoder", help="folder of the encoder")
parser.add_argument("--settings", type=Path, help="settings file that tuning wrote")
parser.add_argument("--budget", type=Budget, default=Budget.GPU, choices=list(Budget))
parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the result files")
parser.add_argument("--work", help="folder to train in; by default runs in the folder for the results")
parser.add_argument("--seconds", type=float, help="start no run that would not end within so many seconds")
given = parser.parse_args()

settings = published_settings() if given.settings is None else read_settings(given.settings)
setup = Setup(given.budget, given.encoder, settings)
runs = plan(given.names, setup, command=f"dtfixup reproduce {' '.join(given.names)}")
sources = Sources(given.spider, given.reclor)
outcomes = run_sweep(runs, sources, given.out, work=given.work, budget_seconds=given.seconds)
print(write_tuned(given.names, setup, outcomes, given.out))
