"""Decode many examples of a prepared dataset, and score the queries.

In: a model and example numbers. Out: `Prediction`s of each example, best first; exact match in percent, by hardness.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from rich.progress import track

from dtfixup.fixup.calls import evaluation_mode
from dtfixup.sql.evaluation.evaluate import judge
from dtfixup.sql.evaluation.exact_match import Hardness
from dtfixup.sql.grammar.transitions import STEP_LIMIT
from dtfixup.sql.model.batches import Corpus
from dtfixup.sql.model.model import SqlSpModel
from dtfixup.sql.model.predictions import Prediction, literals_of, predictions_of
from dtfixup.sql.model.prepared import Prepared
from dtfixup.sql.model.search import BeamSearch, Hypothesis
from dtfixup.sql.model.shapes import rounded
from dtfixup.weights.arrays import Array

MOST_TOKENS = 512
"""The longest window that is used, where an encoder could read longer ones: schemas are lists, not stories."""


def corpus_for(model: SqlSpModel, prepared: Prepared, device: torch.device | str) -> Corpus:
    """A dataset on a device, laid out as the model reads it."""
    tokens = min(model.encoder.max_tokens, MOST_TOKENS)
    return Corpus(prepared, device, max_tokens=tokens, anchors=model.config.anchors)


def search_all(
    model: SqlSpModel,
    corpus: Corpus,
    examples: Array,
    *,
    beam: int,
    batch_size: int = 128,
    limit: int = STEP_LIMIT,
    progress: bool = False,
) -> list[list[Hypothesis]]:
    """Derivations of every example, in the order given; examples of a like size are searched together.

    `limit` is the most steps of a derivation.
    """
    by_size = np.lexsort((examples, corpus.sizes.column("tokens")[examples]))
    search = BeamSearch(model, beam=beam, limit=limit)
    found: list[list[Hypothesis]] = [[] for _ in examples]
    starts = range(0, len(examples), batch_size)
    with evaluation_mode(model.modules()):
        for start in track(starts, "decode", transient=True, disable=not progress):
            places = by_size[start : start + batch_size]
            chosen = examples[places]
            shape = replace(rounded(corpus.shape_of(chosen)), steps=1)
            batch = corpus.assemble(torch.from_numpy(chosen).to(corpus.device), shape)
            for place, hypotheses in zip(places, search(batch), strict=True):
                found[place] = hypotheses
    return found


def decode(
    model: SqlSpModel,
    corpus: Corpus,
    prepared: Prepared,
    examples: Array,
    *,
    beam: int,
    progress: bool = False,
) -> list[list[Prediction]]:
    """Queries for every example, best first, as Spider's script reads them."""
    found = search_all(model, corpus, examples, beam=beam, progress=progress)
    return [
        predictions_of(hypotheses, literals_of(prepared, example), prepared.schema_of(example))
        for example, hypotheses in zip(examples.tolist(), found, strict=True)
    ]


def exact_metrics(prepared: Prepared, examples: Array, queries: Sequence[str]) -> dict[str, float]:
    """Exact match in percent: `exact`, and `exact_easy` to `exact_extra`; an empty query is a wrong one."""
    right: dict[str, list[bool]] = {"exact": [], **{f"exact_{level}": [] for level in Hardness}}
    for example, query in zip(examples.tolist(), queries, strict=True):
        verdict = judge(prepared.text("query", "queries", example), query, prepared.schema_of(example))
        right["exact"].append(verdict.exact)
        right[f"exact_{verdict.hardness}"].append(verdict.exact)
    return {name: 100 * float(np.mean(hits)) for name, hits in right.items() if hits}
