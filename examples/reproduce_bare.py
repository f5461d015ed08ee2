"""Experiments on a GPU machine that has torch, transformers and Fabric, and nothing else that dtfixup needs.

`PYTHONPATH=src python examples/reproduce_bare.py spider-tune --spider PREPARED --encoder FOLDER --at-once 3`, where
PREPARED is what `dtfixup sql prepare --synthetic 40000` made on another machine. The same command goes on after any
end; results of runs that are in the folder of `--out` are not repeated.
"""

import argparse
from pathlib import Path

from dtfixup_paper.reproduce import Sources, train_in_parts
from dtfixup_paper.runs.sweep import run_sweep
from dtfixup_paper.tables.cells import Budget

if __name__ == "__main__":  # worker processes read this file, too
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", help="names of experiments: tuning comes first, then first seeds")
    parser.add_argument("--spider", type=Path, help="prepared dataset")
    parser.add_argument("--reclor", type=Path, help="folder with train and val")
    parser.add_argument("--encoder", help="folder of the encoder")
    parser.add_argument("--budget", type=Budget, default=Budget.GPU, choices=list(Budget))
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the result files")
    parser.add_argument("--work", help="folder to train in; by default runs in the folder for the results")
    parser.add_argument("--seconds", type=float, help="start no run that would not end within so many seconds")
    parser.add_argument("--at-once", type=int, default=1, help="runs that share the GPU; more than one use MPS")
    given = parser.parse_args()
    sources = Sources(given.spider, given.reclor, given.encoder)
    train_in_parts(
        given.names,
        given.budget,
        sources,
        given.out,
        lambda runs, seconds, before: run_sweep(
            runs,
            given.out,
            work=given.work,
            budget_seconds=seconds,
            at_once=given.at_once,
            mps=given.at_once > 1,
            before=before,
        ),
        command=f"dtfixup reproduce {' '.join(given.names)}",
        budget_seconds=given.seconds,
    )
