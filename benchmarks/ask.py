"""How long a question takes on this machine: warm, part by part, and cold, from the command line to the answer.

`python benchmarks/ask.py [--model DIR] [--questions N] [--threads N] [--starts N] [--json FILE]`, on the bundled
databases; the shipped model if none is given. A warm question is over a database that is open; a cold one is a new
process. One thread, as `dtfixup sql ask` uses.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from dtfixup.encoders import encoder_identity
from dtfixup.files import file_sha256, write_json
from dtfixup.provenance import begin, provenance
from dtfixup.sql.ask.answers import Answer
from dtfixup.sql.ask.parser import TextToSql, default_model, open_database
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.weights.trained import weights_file


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dataset = open_dataset(sample_folder())
    model = options.model or default_model()
    started = begin()
    answers = warm(model, dataset, options.questions, options.beam)
    metrics = figures([answer.timing.total for answer in answers], "warm")
    for part in ("link", "search", "write"):
        metrics |= figures([getattr(answer.timing, part) for answer in answers], part)
    metrics |= figures(cold(model, dataset, options.starts), "cold")
    print(f"{len(answers)} questions, beam {options.beam}, {options.threads} threads, milliseconds")
    for name, value in metrics.items():
        print(f"  {name:16}{value:9.1f}")
    if options.json:
        command = f"python benchmarks/ask.py --questions {options.questions} --threads {options.threads}"
        identity = encoder_identity("minilm")
        record = provenance("sql-ask", command, started, seed=0, encoder=identity, data_hash="bundled databases")
        config = {"beam": options.beam, "questions": len(answers), "starts": options.starts}
        config |= {"model_sha256": file_sha256(weights_file(model))}
        write_json(options.json, {**record, "config": config, "metrics": metrics})


def warm(model: Path, dataset: Dataset, count: int, beam: int) -> list[Answer]:
    """Questions over all databases by turns, each over one that was asked before."""
    asker = TextToSql.load(model)
    databases = {name: open_database(dataset.database_file(name)) for name in dataset.schemas}
    questions = [*dataset.split("train"), *dataset.split("dev")]
    for name, database in databases.items():
        asker.ask(next(each.question for each in questions if each.database == name), database, beam)
    chosen = np.linspace(0, len(questions) - 1, min(count, len(questions))).astype(int)
    asked = [questions[place] for place in chosen.tolist()]
    return [asker.ask(each.question, databases[each.database], beam) for each in asked]


def cold(model: Path, dataset: Dataset, starts: int) -> list[float]:
    """Seconds of whole processes."""
    example = dataset.split("dev")[0]
    command = [sys.executable, "-m", "dtfixup", "sql", "ask", example.question, "--model", str(model)]
    command += ["--database", str(dataset.database_file(example.database))]
    seconds = []
    for _ in range(starts):
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            sys.exit(done.stderr)
        seconds.append(time.perf_counter() - started)
    return seconds


def figures(seconds: list[float], name: str) -> dict[str, float]:
    ordered = sorted(seconds)
    return {f"{name}_p50": 1000 * median(ordered), f"{name}_p95": 1000 * ordered[int(0.95 * (len(ordered) - 1))]}


if __name__ == "__main__":
    main()
