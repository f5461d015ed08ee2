"""Files of labelled texts → `LabelledTexts` → `ReadingTokens`, one sequence per text.

In: CSV with the columns `text` and `label`; a label is any word. Out: the texts in the order of the file, and the index
of each text's class. One bad row refuses the whole file: the error names file and row.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from dtfixup.errors import DataError
from dtfixup.reading.examples import read_table
from dtfixup.reading.tokens import ReadingTokens, labels_or_minus_1

_log = logging.getLogger("dtfixup")


@dataclass(frozen=True)
class LabelledTexts:
    """Texts to train on, and the hash of their file."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]
    """Index of each text's class in `classes`."""
    classes: tuple[str, ...]
    """Names of the classes, in alphabetical order."""
    data_hash: str


def read_texts(path: str | Path) -> LabelledTexts:
    """Read a CSV file with the columns `text` and `label`."""
    path = Path(path)
    columns, rows = read_table(path)
    for name in ("text", "label"):
        if name not in columns:
            raise DataError(f"{path} has no column {name}: its first line must name the columns, such as text,label")
    texts, words = ([row[name].strip() for row in rows] for name in ("text", "label"))
    for name, cells in (("text", texts), ("label", words)):
        if "" in cells:
            raise DataError(f"{path}, row {cells.index('') + 1}, {name} is empty: fill it in, or leave the row out")
    classes = tuple(sorted(set(words)))
    if len(classes) < 2:
        raise DataError(f"{path} has {len(classes)} different labels: at least two are needed")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return LabelledTexts(tuple(texts), tuple(classes.index(word) for word in words), classes, digest)


def tokenise_texts(
    texts: Sequence[str], labels: Sequence[int | None], tokenizer: PreTrainedTokenizerBase, *, max_tokens: int
) -> ReadingTokens:
    """Token ids of every text, with the tokenizer's special tokens; warns how many texts were cut to `max_tokens`."""
    if not texts:
        raise DataError("there is no text to read")
    whole = tokenizer(list(texts), return_attention_mask=False, verbose=False)["input_ids"]
    kept = tokenizer(list(texts), return_attention_mask=False, truncation=True, max_length=max_tokens)["input_ids"]
    cut = sum(len(before) > len(after) for before, after in zip(whole, kept, strict=True))
    if cut:
        _log.warning("%s of %s texts were cut to fit %s tokens", f"{cut:,}", f"{len(texts):,}", max_tokens)
    length_N = np.array([len(ids) for ids in kept], np.int64)
    return ReadingTokens(
        token=np.concatenate(kept).astype(np.int32),
        token_start_R=np.cumsum([0, *length_N]),
        second_R=length_N,
        option_start_N=np.arange(len(texts) + 1),
        label_N=labels_or_minus_1(labels),
        pad_id=int(tokenizer.pad_token_id),
        max_tokens=max_tokens,
        cut_contexts=cut,
    )
