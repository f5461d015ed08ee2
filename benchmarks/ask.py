"""How long a question takes on this machine: warm, part by part, and cold, from the command line to the answer.

`python benchmarks/ask.py [--model DIR] [--questions N] [--threads N] [--starts N] [--json FILE]`, on the bundled
databases; the shipped model if none is given. A warm question is over a database that is open; a cold one is a new
process. One thread, as `dtfixup sql ask` uses.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from measure import Benchmark, percentiles, show

from dtfixup.files import file_sha256
from dtfixup.sql.ask.answers import Answer
from dtfixup.sql.ask.parser import TextToSql, default_model, open_database
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.weights.trained import weights_file


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.option("--model", type=Path)
    benchmark.option("--questions", type=int, default=60)
    benchmark.option("--threads", type=int, default=1)
    benchmark.option("--starts", type=int, default=5)
    benchmark.option("--beam", type=int, default=5)
    options = benchmark.start()
    torch.set_num_threads(options.threads)
    dataset = open_dataset(sample_folder())
    model = options.model or default_model()
    answers = warm(model, dataset, options.questions, options.beam)
    metrics = percentiles([answer.timing.total for answer in answers], "warm_p{}")
    for part in ("link", "search", "write"):
        metrics |= percentiles([getattr(answer.timing, part) for answer in answers], part + "_p{}")
    metrics |= percentiles(cold(model, dataset, options.starts), "cold_p{}")
    print(f"{len(answers)} questions, beam {options.beam}, {options.threads} threads, milliseconds")
    show(metrics)
    config = {"beam": options.beam, "questions": len(answers), "starts": options.starts, "threads": options.threads}
    config["model_sha256"] = file_sha256(weights_file(model))
    benchmark.finish("sql-ask", metrics, data_hash="bundled databases", config=config)


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


if __name__ == "__main__":
    main()
