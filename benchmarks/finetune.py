"""What `dtfixup sql finetune` brings: the shipped model, taught the questions of one database at a time.

`python benchmarks/finetune.py [--data SPIDER] [--databases NAME ...] [--model DIR] [--json FILE]`. Without `--data`,
the bundled databases with a quarter of their 40 questions held out; with it, databases of Spider's dev split, a fifth
held out, those with the most questions by default. Two minutes each on two cores. A file that is there already keeps
its runs, and gets those of databases that were not yet measured on this model.
"""

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import Benchmark
from rich.console import Console
from rich.table import Table

from dtfixup.encoders import encoder_identity
from dtfixup.files import file_sha256, read_json, write_json
from dtfixup.provenance import begin, provenance
from dtfixup.sql.ask.parser import default_model
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.finetune.run import finetune, open_finetuning
from dtfixup.sql.finetune.task import FinetuneConfig
from dtfixup.weights.trained import weights_file

_LARGEST = 6
_SEED = 1
SHARES = ("right_before", "right_after", "exact_before", "exact_after")
"""Of held-out questions, in percent."""


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.option("--data", type=Path)
    benchmark.option("--databases", nargs="+")
    benchmark.option("--model", type=Path)
    options = benchmark.start()
    dataset = open_dataset(options.data or sample_folder())
    weights = weights_file(options.model or default_model())
    hold_out = 0.2 if options.data else 0.25
    runs: list[dict[str, Any]] = read_json(options.out)["runs"] if options.out and options.out.is_file() else []
    model = file_sha256(weights)
    known = {run["database"]: run for run in runs if run.get("model_sha256") == model}
    splits = ["dev"] if options.data else ["train", "dev"]
    examples = [each for split in splits for each in dataset.split(split)]
    counts = Counter(example.database for example in examples)
    asked = options.databases or [name for name, _ in counts.most_common(_LARGEST)]
    for database in asked:
        if database not in known:
            pairs = [[each.question, each.query] for each in examples if each.database == database]
            known[database] = run_one(dataset.database_file(database), pairs, weights, hold_out)
            runs.append(known[database])
            if options.out:
                write_json(options.out, {"name": "sql-finetune", "runs": runs})
    Console().print(table([known[database] for database in asked]))


def run_one(database: Path, rows: list[list[str]], weights: Path, hold_out: float) -> dict[str, Any]:
    """Teach one database's questions, and tell what came of it; the model is not kept."""
    started = begin()
    base = FinetuneConfig()
    config = replace(base, hold_out=hold_out, training=replace(base.training, seed=_SEED))
    with TemporaryDirectory() as folder:
        pairs = Path(folder, "pairs.csv")
        with pairs.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([["question", "sql"], *rows])
        opened = open_finetuning(pairs, database, weights, config)
        run = finetune(opened, Path(folder, "run"))
        if run is None:
            raise SystemExit("stopped: the same command does this database again")
        command = f"dtfixup sql finetune --pairs FILE --database FILE --out DIR --seed {_SEED} --hold-out {hold_out}"
        data_hash = opened.pairs.data_hash
        identity = encoder_identity("minilm")
        record = provenance("sql-finetune", command, started, seed=_SEED, encoder=identity, data_hash=data_hash)
        return {**record, "database": database.stem, "model_sha256": file_sha256(weights), "metrics": {**run.metrics}}


def table(runs: list[dict[str, Any]]) -> Table:
    """A row for each database, and one for all held-out questions together."""
    shown = Table("database", "pairs", "held out", "right, %", "exact, %", "kept", "seconds")
    right: Counter[str] = Counter()
    total = 0
    for run in runs:
        metrics: Mapping[str, float] = run["metrics"]
        shares = {name: metrics[f"held_out_{name}"] for name in SHARES}
        held_out, kept = int(metrics["pairs_held_out"]), "tuned" if metrics["kept_tuned"] else "as it was"
        pairs, seconds = f"{metrics['pairs_used']:.0f}", f"{run['wall_seconds']:.0f}"
        shown.add_row(run["database"], pairs, str(held_out), *before_and_after(shares), kept, seconds)
        right.update({name: round(held_out * share / 100) for name, share in shares.items()})
        total += held_out
    shown.add_section()
    shown.add_row("all", "", str(total), *before_and_after({name: 100 * right[name] / total for name in SHARES}))
    return shown


def before_and_after(shares: Mapping[str, float]) -> list[str]:
    return [f"{shares[f'{name}_before']:.1f} → {shares[f'{name}_after']:.1f}" for name in ("right", "exact")]


if __name__ == "__main__":  # answers are run in processes of their own
    main()
