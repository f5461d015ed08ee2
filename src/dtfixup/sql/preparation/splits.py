"""Prepare splits of a dataset when they are needed, and answer one with a model.

In: a folder in Spider's layout or a prepared dataset, and a model. Out: `Prepared`, or the queries for every question.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from dtfixup.encoders import load_tokenizer
from dtfixup.errors import DataError
from dtfixup.files import cache_folder
from dtfixup.sql.model.decoding import decode
from dtfixup.sql.model.predictions import Prediction
from dtfixup.sql.model.prepared import INDEX, Prepared, open_prepared
from dtfixup.sql.model.search import corpus_for
from dtfixup.sql.model.store import load_model
from dtfixup.sql.preparation.prepare import prepare


class SplitAnswers(NamedTuple):
    """A model's queries for every question of a split, best first."""

    prepared: Prepared
    examples: list[int]
    beams: list[list[Prediction]]


def open_or_prepare(data: Path, encoder: str, splits: Sequence[str], *, synthetic: int = 0) -> Prepared:
    """Open a prepared dataset, or prepare one in Spider's layout into the cache."""
    if (data / INDEX).is_file():
        return _open_checked(data, encoder, splits)
    if not (data / "tables.json").is_file():
        raise DataError(f"{data} is neither a folder in Spider's layout, with tables.json, nor a prepared dataset")
    name = f"{data.resolve()}\0{encoder}\0{','.join(splits)}\0{synthetic}"
    folder = cache_folder() / "prepared" / hashlib.sha256(name.encode()).hexdigest()[:16]
    prepare(data, folder, encoder=encoder, splits=splits, synthetic=synthetic)
    return open_prepared(folder)


def _open_checked(data: Path, encoder: str, splits: Sequence[str]) -> Prepared:
    prepared = open_prepared(data)
    if prepared.index["encoder"]["tokenizer_sha256"] != load_tokenizer(encoder).sha256:
        raise DataError(
            f"{data} was prepared for {prepared.index['encoder']['name']}, whose tokenizer is not that of {encoder}: "
            f"prepare it for {encoder}, or give the Spider folder itself"
        )
    for split in splits:
        prepared.split(split)  # an error if there is no such split
    return prepared


def answer_split(model: Path, data: Path, split: str, beam: int) -> SplitAnswers:
    """Write queries for every question of a split."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    trained = load_model(model, device)
    prepared = open_or_prepare(data, trained.encoder, [split])
    examples = np.asarray(prepared.split(split))
    corpus = corpus_for(trained.model, prepared, device)
    beams = decode(trained.model, corpus, prepared, examples, beam=beam, progress=True)
    return SplitAnswers(prepared, examples.tolist(), beams)
