"""Decode many examples of a prepared dataset, and score the queries.

In: a model and example numbers. Out: `Prediction`s of each example, best first; exact match in percent, by hardness.
"""

from collections.abc import Sequence

import numpy as np

from dtfixup.sql.evaluation.evaluate import judge
from dtfixup.sql.evaluation.exact_match import Hardness
from dtfixup.sql.model.batches import Corpus
from dtfixup.sql.model.model import SqlSpModel
from dtfixup.sql.model.predictions import Prediction, literals_of, predictions_of
from dtfixup.sql.model.prepared import Prepared
from dtfixup.sql.model.search import search_all
from dtfixup.weights.arrays import Array


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
    beams = search_all(model, corpus, examples, beam=beam, progress=progress)
    return [
        predictions_of(hypotheses, literals_of(prepared, example), prepared.schema_of(example))
        for example, hypotheses in zip(examples.tolist(), beams, strict=True)
    ]


def exact_metrics(prepared: Prepared, examples: Array, queries: Sequence[str]) -> dict[str, float]:
    """Exact match in percent: `exact`, and `exact_easy` to `exact_extra`; an empty query is wrong."""
    right: dict[str, list[bool]] = {"exact": [], **{f"exact_{level}": [] for level in Hardness}}
    for example, query in zip(examples.tolist(), queries, strict=True):
        verdict = judge(prepared.text("query", "queries", example), query, prepared.schema_of(example))
        right["exact"].append(verdict.exact)
        right[f"exact_{verdict.hardness}"].append(verdict.exact)
    return {name: 100 * float(np.mean(hits)) for name, hits in right.items() if hits}
