"""The same short trainings in turn and at once: what sharing a GPU gains, and what a sweep costs beside its runs.

    python benchmarks/two_at_once.py [--data PREPARED] [--at-once K] [--mps] [--layers N] [--epochs E] [--out FILE.json]

`ratio` is the wall time of a sweep of K runs in turn over that of the same runs at once, worker processes and their
start included; `ratio_without_start` leaves the start out, which a long sweep pays once. `overhead` is the wall time of
the sweep in turn over the sum of its runs' own training seconds: at most 1.15 on a GPU with runs of a minute or more.
Without data, tiny questions are made up and trained on the CPU or GPU: that everything runs is all it shows then.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from dtfixup_paper.runs.sweep import Outcome, Run, State, run_sweep
from dtfixup_paper.tables.cells import Budget, Plan, RunConfig, metric_of
from dtfixup_paper.tables.reclor import TrainReading
from dtfixup_paper.tables.spider import TrainSpider, configure
from rich.console import Console

from dtfixup.encoders import encoder_identity
from dtfixup.files import write_json
from dtfixup.provenance import begin, provenance
from dtfixup.reading.presets import smoke
from dtfixup.reading.train import ReadingSource
from dtfixup.sql.model.prepared import open_prepared
from dtfixup.training.config import to_json

ALLOWED = 1.15
MADE_UP_EPOCHS, EPOCHS, LAYERS = 20, 2, 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="prepared dataset; made-up questions by default")
    parser.add_argument("--encoder", help="by name or folder; minilm, or a tiny one for made-up questions, by default")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--mps", action="store_true", help="with NVIDIA's Multi-Process Service")
    parser.add_argument("--layers", type=int, help=f"of a model for the dataset; {LAYERS} by default")
    parser.add_argument("--epochs", type=int, help=f"{EPOCHS}, or {MADE_UP_EPOCHS} of made-up questions, by default")
    parser.add_argument("--out", type=Path, help="result file")
    options = parser.parse_args()
    if options.at_once < 2:
        parser.error("--at-once is 2 or more")
    started, count = begin(), options.at_once
    command = f"python benchmarks/two_at_once.py{' --data DIR' * bool(options.data)} --at-once {count}"
    command += f" --encoder {Path(options.encoder).name}" if options.encoder else ""
    command += " --mps" * options.mps
    for name in ("layers", "epochs"):
        command += f" --{name} {value}" if (value := getattr(options, name)) is not None else ""
    runs, short = runs_of(options, count, options.epochs), runs_of(options, 1, epochs=1)
    with TemporaryDirectory() as folder:
        _sweep(short, Path(folder, "first"))  # what is cached on disk, and this process's GPU, are there after it
        turn, in_turn = _sweep(runs, Path(folder, "turn"))
        once, at_once = _sweep(runs, Path(folder, "once"), at_once=count, mps=options.mps)
    own = sum(_metric(each, "train_seconds") for each in in_turn)
    metrics = {
        "runs": count,
        "in_turn_seconds": round(turn, 1),
        "at_once_seconds": round(once, 1),
        "ratio": round(turn / once, 3),
        "ratio_without_start": round(turn / max(each.seconds or 0.0 for each in at_once), 3),
        "own_seconds_in_turn": round(own, 1),
        "own_seconds_at_once": round(sum(_metric(each, "train_seconds") for each in at_once), 1),
        "overhead": round(turn / own, 3),
    }
    for name, value in metrics.items():
        print(f"{name:22} {value:8g}")
    if options.data:
        print(f"overhead: {'at most' if metrics['overhead'] <= ALLOWED else 'MORE THAN'} {ALLOWED}")
    if options.out:
        run = runs[0]
        encoder = run.config.encoder
        record = provenance(
            "two-at-once" + "-mps" * options.mps,
            command,
            started,
            seed=run.seed,
            encoder=encoder_identity(encoder),
            data_hash=run.data_hash,
        )
        record["dtype"] = run.config.training.precision.value
        config = {**to_json(run.config), "encoder": Path(encoder).name}
        print(f"result: {write_json(options.out, {**record, 'config': config, 'metrics': metrics})}")


def runs_of(options: argparse.Namespace, count: int, epochs: int | None) -> list[Run]:
    """Runs that differ by their seed."""
    config: RunConfig
    if options.data is None:
        from dtfixup_paper.tables.smoke import small_encoder, small_reclor

        source = ReadingSource(small_reclor())
        config = replace(smoke(), encoder=options.encoder or str(small_encoder()))
        config = replace(config, training=replace(config.training, epochs=epochs or MADE_UP_EPOCHS))
        data_hash = source.data.data_hash
    else:
        config = configure(Plan(Budget.GPU), "dt-fixup", options.layers or LAYERS)
        config = replace(config, encoder=options.encoder or config.encoder)
        config = replace(config, training=replace(config.training, epochs=epochs or EPOCHS))
        data_hash = str(open_prepared(options.data).index["data_hash"])
    runs = []
    for seed in range(1, count + 1):
        seeded = replace(config, training=replace(config.training, seed=seed, evaluate_every=0))
        train = (
            TrainReading(seeded, source, "two-at-once", "")
            if options.data is None
            else TrainSpider(seeded, options.data.absolute(), "two-at-once", "")
        )
        runs.append(Run("two-at-once", "run", seed, seeded, data_hash, train, metric_of(seeded)))
    return runs


def _sweep(runs: Sequence[Run], out: Path, at_once: int = 1, mps: bool = False) -> tuple[float, list[Outcome]]:
    """Wall seconds, and what became of the runs; the program ends where one has no result."""
    before = time.monotonic()
    outcomes = run_sweep(runs, out, at_once=at_once, mps=mps, console=Console(quiet=True))
    seconds = time.monotonic() - before
    for each in outcomes:
        if each.state is not State.FINISHED:
            raise SystemExit(f"{each.run.name} {each.state}: {(each.content or {}).get('reason', 'it was stopped')}")
    return seconds, outcomes


def _metric(outcome: Outcome, name: str) -> float:
    assert outcome.content is not None  # it is finished
    return float(outcome.content["metrics"][name])


if __name__ == "__main__":
    main()
