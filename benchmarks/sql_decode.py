"""How long one question takes on this machine, beam 5 and greedy, part by part; and whole batches of questions.

`python benchmarks/sql_decode.py [--model DIR] [--data PREPARED] [--questions N] [--json FILE]`. Without a model, one of
the `minilm` preset with fresh weights, which takes longer than a trained one, because its queries run on.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from dtfixup import dt_fixup_, initialise_free_
from dtfixup.encoders import load_encoder
from dtfixup.sql.batch import Corpus, Order
from dtfixup.sql.decoding import corpus_for, search_all
from dtfixup.sql.model import SqlSpModel
from dtfixup.sql.prepare import prepare
from dtfixup.sql.prepared import Prepared, open_prepared
from dtfixup.sql.presets import minilm
from dtfixup.sql.sample import sample_folder
from dtfixup.sql.search import BeamSearch
from dtfixup.sql.store import load_model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    prepared = open_prepared(options.data) if options.data else prepared_sample()
    model, order = fresh_model(device) if options.model is None else trained(options.model, device)
    corpus = corpus_for(model, prepared, device)
    dev = np.asarray(prepared.split("dev"))
    chosen = dev[np.linspace(0, len(dev) - 1, min(options.questions, len(dev))).astype(int)]
    metrics: dict[str, float] = {}
    for beam in (1, 5):
        seconds = sorted(one_by_one(model, corpus, chosen, order, beam))
        metrics[f"beam{beam}_p50_ms"] = 1000 * median(seconds)
        metrics[f"beam{beam}_p95_ms"] = 1000 * seconds[int(0.95 * (len(seconds) - 1))]
    started = time.perf_counter()
    search_all(model, corpus, chosen, order, beam=5)
    metrics["batch_ms_per_question"] = 1000 * (time.perf_counter() - started) / len(chosen)
    metrics["batch_speedup"] = metrics["beam5_p50_ms"] / metrics["batch_ms_per_question"]
    print(f"{len(chosen)} questions on {device}, {torch.get_num_threads()} threads, {model.config.layers} layers")
    for name, value in metrics.items():
        print(f"  {name:24}{value:9.1f}")
    if options.json:
        options.json.write_text(json.dumps(metrics, indent=1))


def prepared_sample() -> Prepared:
    folder = tempfile.mkdtemp()
    prepare(sample_folder(), folder, show_progress=False)
    return open_prepared(folder)


def fresh_model(device: str) -> tuple[SqlSpModel, Order]:
    torch.manual_seed(0)
    config = minilm()
    model = SqlSpModel(config.model, load_encoder())
    initialise_free_(model, stack=model.stack, loaded=[model.encoder])
    dt_fixup_(model.stack, 12.0)
    return model.to(device).eval(), config.reading_order


def trained(path: Path, device: str) -> tuple[SqlSpModel, Order]:
    found = load_model(path, device)
    return found.model, found.order


def one_by_one(model: SqlSpModel, corpus: Corpus, examples: np.ndarray, order: Order, beam: int) -> list[float]:
    """Seconds of each question alone, after two that warm up."""
    search, seconds = BeamSearch(model, beam=beam), []
    for example in [*examples[:2], *examples]:
        started = time.perf_counter()
        batch = corpus.assemble(torch.tensor([int(example)], device=corpus.device), corpus.shape_of([example]), order)
        search(batch)
        seconds.append(time.perf_counter() - started)
    return seconds[2:]


if __name__ == "__main__":
    main()
