"""Padded sizes of batches: the sizes of each example, and the smallest shape that holds several.

In: the arrays of a prepared dataset. Out: `Shape`s. This is numpy, because shapes are chosen on the host.
Legend: N examples, F fields of a shape, V candidates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dtfixup.errors import DataError
from dtfixup.weights.arrays import Array


@dataclass(frozen=True, order=True)
class Shape:
    """The padded sizes of a batch."""

    words: int
    items: int
    item_words: int
    windows: int
    tokens: int
    steps: int
    values: int
    value_tokens: int


ANCHOR_TOKENS = 8
"""The longest value after a column's name, in tokens; longer ones are cut."""


class Sizes:
    """The sizes of every example, from which shapes are made."""

    def __init__(self, a: Mapping[str, Array], max_tokens: int, anchors: bool) -> None:
        database_N = np.asarray(a["example.database"], np.int64)
        item_length = np.diff(a["item_tokens.start"])
        first = np.asarray(a["items.start"][:-1])
        schema_tokens = np.add.reduceat(item_length + 1, first)
        longest = np.maximum.reduceat(item_length + 1, first)
        words = np.asarray(a["item_token.word"], np.int64)[np.maximum(a["item_tokens.start"][1:] - 1, 0)] + 1
        value_length = np.diff(a["value_tokens.start"])
        values = np.diff(a["values.start"])
        head_N = np.diff(a["tokens.start"]) + 2
        room_N = max_tokens - head_N
        total_N, longest_N = schema_tokens[database_N], longest[database_N]
        if anchors:
            total_N = total_N + _anchor_tokens(a)
            longest_N = longest_N + ANCHOR_TOKENS
        fits_N = total_N <= room_N
        is_cramped_N = ~fits_N & (room_N < 2 * longest_N)
        if is_cramped_N.any():
            raise DataError(
                f"the question of example {int(is_cramped_N.argmax())} leaves no room for the schema in the encoder's "
                f"{max_tokens} tokens: shorten it, or use an encoder with longer inputs"
            )
        windows_N = np.where(fits_N, 1, -(-total_N // np.maximum(room_N - longest_N, 1)))
        ends = np.maximum.reduceat(np.append(value_length, 0), np.minimum(a["values.start"][:-1], len(value_length)))
        self.table_NF = np.stack(
            [
                np.asarray(a["example.words"], np.int64),
                np.diff(a["items.start"])[database_N],
                np.maximum.reduceat(words, first)[database_N],
                windows_N,
                np.where(fits_N, head_N + total_N, max_tokens),
                np.diff(a["steps.start"]),
                values,
                np.where(values > 0, ends, 0),
            ],
            axis=1,
        )

    def column(self, name: str) -> Array:
        """One size of every example, by its name in `Shape`."""
        column: Array = self.table_NF[:, list(Shape.__dataclass_fields__).index(name)]
        return column

    def shape(self, examples: Array) -> Shape:
        """The smallest shape that holds these examples."""
        if not len(examples):
            raise DataError("a batch needs at least one example")
        return Shape(*(max(int(size), 1) for size in self.table_NF[examples].max(0)))


def _anchor_tokens(a: Mapping[str, Array]) -> Array:
    """Per example, the tokens of the first candidate of each column."""
    count_N = np.diff(a["values.start"])
    example_V = np.repeat(np.arange(len(count_N)), count_N)
    column_V = np.asarray(a["value.column"], np.int64)
    length_V = np.minimum(np.diff(a["value_tokens.start"]), ANCHOR_TOKENS)
    linked = (column_V >= 0).nonzero()[0]
    _, first = np.unique(example_V[linked] * (1 << 16) + column_V[linked], return_index=True)
    rows = linked[first]
    return np.bincount(example_V[rows], weights=length_V[rows], minlength=len(count_N)).astype(np.int64)


def round_up(shape: Shape) -> Shape:
    """Round sizes up, so that batches have few different shapes."""
    units = {"words": 8, "items": 8, "tokens": 8, "steps": 8, "values": 8, "value_tokens": 4}
    return replace(shape, **{name: -(-getattr(shape, name) // unit) * unit for name, unit in units.items()})
