"""How long one question takes on this machine, beam 5 and greedy, part by part; and whole batches of questions.

`python benchmarks/sql_decode.py [--model DIR] [--data PREPARED] [--questions N] [--whole] [--json FILE]`. Without a
model, one of the `minilm` preset with fresh weights, which takes longer than a trained one, because its queries run on.
`--whole` also decodes all of dev, beam 5, twice: as a process does it first, and with kernels loaded. Writing the SQL
is part of `decode_seconds`, not of `search_seconds`.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from measure import Benchmark, best_device, percentiles, show

from dtfixup import dt_fixup_, initialise_free_
from dtfixup.encoders import load_encoder
from dtfixup.sql.model.batches import Corpus
from dtfixup.sql.model.config import minilm
from dtfixup.sql.model.decoding import decode
from dtfixup.sql.model.model import SqlSpModel
from dtfixup.sql.model.prepared import Prepared, open_prepared
from dtfixup.sql.model.search import BeamSearch, corpus_for, search_all
from dtfixup.sql.model.store import load_model


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.option("--model", type=Path)
    benchmark.option("--data", type=Path)
    benchmark.option("--questions", type=int, default=40)
    benchmark.option("--whole", action="store_true")
    options = benchmark.start()
    device = best_device()
    prepared = open_prepared(options.data) if options.data else prepared_sample()
    if options.model is None:
        model, encoder = fresh_model().to(device), "minilm"
    else:
        trained = load_model(options.model, device)
        model, encoder = trained.model, trained.encoder
    corpus = corpus_for(model, prepared, device)
    dev = np.asarray(prepared.split("dev"))
    chosen = dev[np.linspace(0, len(dev) - 1, min(options.questions, len(dev))).astype(int)]
    metrics: dict[str, float] = {}
    for beam in (1, 5):
        metrics |= percentiles(one_by_one(model, corpus, chosen, beam), f"beam{beam}_p{{}}_ms")
    started = time.perf_counter()
    search_all(model, corpus, chosen, beam=5)
    metrics["batch_ms_per_question"] = 1000 * (time.perf_counter() - started) / len(chosen)
    metrics["batch_speedup"] = metrics["beam5_p50_ms"] / metrics["batch_ms_per_question"]
    if options.whole:
        metrics |= whole_split(model, corpus, prepared, dev)
    print(f"{len(chosen)} questions on {device}, {torch.get_num_threads()} threads, {model.config.layers} layers")
    show(metrics)
    config = {"threads": torch.get_num_threads(), "trained": options.model is not None, "whole": options.whole}
    data_hash = prepared.index["data_hash"]
    benchmark.finish("sql-decode", metrics, encoder=encoder, data_hash=data_hash, config=config)


def prepared_sample() -> Prepared:
    from dtfixup.sql.database.sample import sample_folder
    from dtfixup.sql.preparation.prepare import prepare  # a bare GPU box gets prepared data, and has no SQL parser

    folder = tempfile.mkdtemp()
    prepare(sample_folder(), folder, show_progress=False)
    return open_prepared(folder)


def fresh_model() -> SqlSpModel:
    torch.manual_seed(0)
    model = SqlSpModel(minilm().model, load_encoder())
    initialise_free_(model, stack=model.stack, loaded=[model.encoder])
    dt_fixup_(model.stack, 12.0)
    return model.eval()


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
