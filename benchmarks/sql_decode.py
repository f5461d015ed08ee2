"""How long one question takes on this machine, beam 5 and greedy, part by part; and whole batches of questions.

`python benchmarks/sql_decode.py [--model DIR] [--data PREPARED] [--questions N] [--whole] [--json FILE]`. Without a
model, one of the `minilm` preset with fresh weights, which takes longer than a trained one, because its queries run on.
`--whole` also decodes all of dev, beam 5, twice: as a process does it first, and with kernels loaded. Writing the SQL
is part of `decode_seconds`, not of `search_seconds`.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

from dtfixup import dt_fixup_, initialise_free_
from dtfixup.encoders import encoder_identity, load_encoder
from dtfixup.files import write_json
from dtfixup.provenance import begin, provenance
from dtfixup.sql.model.batches import Corpus
from dtfixup.sql.model.config import minilm
from dtfixup.sql.model.decoding import decode
from dtfixup.sql.model.model import SqlSpModel
from dtfixup.sql.model.prepared import Prepared, open_prepared
from dtfixup.sql.model.search import BeamSearch, corpus_for, search_all
from dtfixup.sql.model.store import load_model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    began = begin()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    prepared = open_prepared(options.data) if options.data else prepared_sample()
    model, encoder = fresh_model(device) if options.model is None else trained(options.model, device)
    corpus = corpus_for(model, prepared, device)
    dev = np.asarray(prepared.split("dev"))
    chosen = dev[np.linspace(0, len(dev) - 1, min(options.questions, len(dev))).astype(int)]
    metrics: dict[str, float] = {}
    for beam in (1, 5):
        seconds = sorted(one_by_one(model, corpus, chosen, beam))
        metrics[f"beam{beam}_p50_ms"] = 1000 * median(seconds)
        metrics[f"beam{beam}_p95_ms"] = 1000 * seconds[int(0.95 * (len(seconds) - 1))]
    started = time.perf_counter()
    search_all(model, corpus, chosen, beam=5)
    metrics["batch_ms_per_question"] = 1000 * (time.perf_counter() - started) / len(chosen)
    metrics["batch_speedup"] = metrics["beam5_p50_ms"] / metrics["batch_ms_per_question"]
    if options.whole:
        metrics |= whole_split(model, corpus, prepared, dev)
    print(f"{len(chosen)} questions on {device}, {torch.get_num_threads()} threads, {model.config.layers} layers")
    for name, value in metrics.items():
        print(f"  {name:24}{value:9.1f}")
    if options.json:
        command = "python benchmarks/sql_decode.py" + "".join(
            f" --{name} {value}"
            for name, value in (("model", "DIR"), ("data", "DIR"), ("questions", options.questions))
            if getattr(options, name)
        )
        command += " --whole" if options.whole else ""
        data_hash = prepared.index["data_hash"]
        record = provenance(
            "sql-decode", command, began, seed=0, encoder=encoder_identity(encoder), data_hash=data_hash
        )
        threads = {"threads": torch.get_num_threads(), "trained": options.model is not None, "whole": options.whole}
        write_json(options.json, record | {"config": threads, "metrics": metrics})


def prepared_sample() -> Prepared:
    from dtfixup.sql.database.sample import sample_folder
    from dtfixup.sql.preparation.prepare import (
        prepare,  # a machine with a GPU gets its data prepared, and has no SQL parser
    )

    folder = tempfile.mkdtemp()
    prepare(sample_folder(), folder, show_progress=False)
    return open_prepared(folder)


def fresh_model(device: str) -> tuple[SqlSpModel, str]:
    torch.manual_seed(0)
    config = minilm()
    model = SqlSpModel(config.model, load_encoder())
    initialise_free_(model, stack=model.stack, loaded=[model.encoder])
    dt_fixup_(model.stack, 12.0)
    return model.to(device).eval(), config.encoder


def trained(path: Path, device: str) -> tuple[SqlSpModel, str]:
    found = load_model(path, device)
    return found.model, found.encoder


def whole_split(model: SqlSpModel, corpus: Corpus, prepared: Prepared, examples: np.ndarray) -> dict[str, float]:
    """Seconds for all questions: the first time, again, and without the writing of SQL."""

    def seconds(run: Callable[[], object]) -> float:
        started = time.perf_counter()
        run()
        return time.perf_counter() - started

    first, again = (seconds(lambda: decode(model, corpus, prepared, examples, beam=5)) for _ in range(2))
    return {
        "decode_seconds_first": round(first, 2),
        "decode_seconds": round(again, 2),
        "search_seconds": round(seconds(lambda: search_all(model, corpus, examples, beam=5)), 2),
        "decoded_questions": len(examples),
    }


def one_by_one(model: SqlSpModel, corpus: Corpus, examples: np.ndarray, beam: int) -> list[float]:
    """Seconds of each question alone, after two that warm up."""
    search, seconds = BeamSearch(model, beam=beam), []
    for example in [*examples[:2], *examples]:
        started = time.perf_counter()
        batch = corpus.assemble(torch.tensor([int(example)], device=corpus.device), corpus.shape_of([example]))
        search(batch)
        seconds.append(time.perf_counter() - started)
    return seconds[2:]


if __name__ == "__main__":
    main()
