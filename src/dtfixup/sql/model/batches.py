"""Examples → the padded tensors of a batch, on the device, without Python per example.

In: all `ExampleArrays` as tensors on one device (`Corpus`), and the example numbers of a batch. Out: `Batch`. Every
step is a gather, so a CUDA graph can hold it: new example numbers give a new batch of the same shape.

A schema that is too long for the encoder is laid out over several windows, each with the whole question before it;
items are never cut or left out. Training may shuffle the schema items. A column's name is followed by the text of its
first linked candidate (an anchor text, as in BRIDGE), which only the encoder reads.

Legend: B batch, W words, I items (columns, then tables), N = W + I, J words of an item, K windows, T tokens of a
window, S steps, V candidates, U tokens of a candidate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import torch
from torch import Tensor

from dtfixup.errors import DataError
from dtfixup.sql.grammar.rules import Choice, ColumnKind
from dtfixup.sql.linking.relations import DISTANCE, Relation
from dtfixup.sql.model.prepared import ExampleArrays
from dtfixup.sql.model.shapes import ANCHOR_TOKENS, Shape, Sizes
from dtfixup.weights.arrays import Array


class Order(StrEnum):
    """The order in which the encoder reads the items of a schema."""

    STORED = "stored"
    """Columns, then tables, in the order of the schema."""
    SHUFFLED = "shuffled"
    """All items in random order."""


@dataclass(frozen=True)
class Batch:
    """Padded tensors; `keep` is False for padding."""

    keep_B: Tensor
    """False for a row of padding."""
    token_BKT: Tensor
    token_keep_BKT: Tensor
    slot_BKT: Tensor
    """The word of each token: question words, then J slots of each item; -1 for none."""
    word_keep_BW: Tensor
    item_word_keep_BIJ: Tensor
    item_kind_BI: Tensor
    """`ColumnKind` of a column, one past the last for a table."""
    column_keep_BI: Tensor
    """True for columns."""
    item_used_BI: Tensor
    """True for columns that the derivation chooses, and their tables."""
    keep_BN: Tensor
    relation_BNN: Tensor
    choice_BS: Tensor
    index_BS: Tensor
    state_BS: Tensor
    parent_BS: Tensor
    step_keep_BS: Tensor
    value_kind_BV: Tensor
    value_column_BV: Tensor
    value_first_BV: Tensor
    value_last_BV: Tensor
    value_source_BV: Tensor
    value_keep_BV: Tensor
    value_token_BVU: Tensor
    value_token_keep_BVU: Tensor

    @property
    def words(self) -> int:
        return self.word_keep_BW.shape[1]


TABLE_KIND = len(ColumnKind)
"""The item kind of a table, after the kinds of columns."""


class Corpus:
    """Examples as tensors on a device; `assemble` makes batches of them."""

    def __init__(
        self,
        examples: ExampleArrays,
        device: torch.device | str = "cpu",
        *,
        max_tokens: int = 512,
        anchors: bool = True,
    ) -> None:
        self.device = torch.device(device)
        self.max_tokens = max_tokens
        self.anchors = anchors
        self.sizes = Sizes(examples.arrays, max_tokens, anchors)
        self._special = examples.special
        self._arrays = {
            name: torch.from_numpy(_never_empty(name, array)).to(self.device)
            for name, array in examples.arrays.items()
            if name not in _TEXTS
        }
        if (relation := self._arrays["relation"]).numel() and int(relation.max()) >= len(Relation):
            raise DataError("the examples have relation ids that this version does not know: prepare them again")
        self._item_length_I = self._arrays["item_tokens.start"].diff()
        self._item_table_I, self._item_kind_I = self._tables_and_kinds()
        self._to_item_K = torch.tensor(_TO_ITEM, device=self.device)
        self._from_item_K = torch.tensor(_FROM_ITEM, device=self.device)

    def _tables_and_kinds(self) -> tuple[Tensor, Tensor]:
        """The table, within its database, and the kind of every item of the dataset."""
        items, columns = self._arrays["items.start"], self._arrays["columns.start"]
        database_I = self._range(len(items) - 1).repeat_interleave(items.diff())
        position_I = self._range(len(database_I)) - items[database_I]
        columns_I = columns.diff()[database_I]
        is_column_I = position_I < columns_I
        column_I = torch.where(is_column_I, columns[database_I] + position_I, 0)
        table_I = torch.where(is_column_I, self._arrays["column.table"][column_I].long(), position_I - columns_I)
        return table_I, self._gather("column.kind", column_I, is_column_I, TABLE_KIND)

    def shape_of(self, examples: Sequence[int] | Array) -> Shape:
        """The smallest shape that holds these examples."""
        return self.sizes.shape(np.asarray(examples))

    def assemble(self, example_B: Tensor, shape: Shape, order: Order = Order.STORED) -> Batch:
        """Make a batch of examples, with a row of padding for -1. A random order draws from PyTorch's own stream."""
        shape = replace(shape, tokens=min(shape.tokens, self.max_tokens))  # a rounded shape may be longer
        real_B = example_B >= 0
        example_B = example_B.clamp_min(0)
        a = self._arrays
        database_B = a["example.database"][example_B].long()
        words_B = torch.where(real_B, a["example.words"][example_B].long(), 0)
        first_B = a["items.start"][database_B]
        items_B = torch.where(real_B, a["items.start"][database_B + 1] - first_B, 0)
        columns_B = torch.where(real_B, a["columns.start"][database_B + 1] - a["columns.start"][database_B], 0)
        word_W, item_I = self._range(shape.words), self._range(shape.items)
        word_keep_BW = word_W < words_B[:, None]
        steps = self._steps(example_B, real_B, shape.steps)
        item_keep_BI = item_I < items_B[:, None]
        item_BI = torch.where(item_keep_BI, first_B[:, None] + item_I, 0)
        used_BI = self._used(item_BI, item_I < columns_B[:, None], steps)
        kind_BI = self._item_kind_I[item_BI]
        values = self._values(example_B, real_B, shape.values, shape.value_tokens)
        anchor_BI = self._anchors(example_B, values, shape.items)
        token_BKT, token_keep_BKT, slot_BKT = self._tokens(
            example_B, real_B, item_BI, item_keep_BI, anchor_BI, shape, order
        )
        return Batch(
            keep_B=real_B,
            token_BKT=token_BKT,
            token_keep_BKT=token_keep_BKT,
            slot_BKT=slot_BKT,
            word_keep_BW=word_keep_BW,
            item_word_keep_BIJ=self._item_words(item_BI, item_keep_BI, shape.item_words),
            item_kind_BI=kind_BI,
            column_keep_BI=(item_I < columns_B[:, None]) & item_keep_BI,
            item_used_BI=used_BI & item_keep_BI,
            keep_BN=torch.cat([word_keep_BW, item_keep_BI], 1),
            relation_BNN=self._relations(example_B, database_B, items_B, word_keep_BW, item_keep_BI, kind_BI),
            **steps,
            **values,
        )

    def _used(self, item_BI: Tensor, is_column_BI: Tensor, steps: dict[str, Tensor]) -> Tensor:
        """[B, I]: the columns that the derivation chooses, and their tables."""
        batch, items = item_BI.shape
        is_column_BS = (steps["choice_BS"] == Choice.COLUMN) & (steps["index_BS"] >= 0)
        chosen_BS = torch.where(is_column_BS, steps["index_BS"], items)
        empty_BI = torch.zeros(batch, items + 1, dtype=torch.bool, device=self.device)
        column_BI = empty_BI.scatter(1, chosen_BS, True)[:, :items]
        table_BI = self._item_table_I[item_BI]
        used_table_BI = torch.where(column_BI & is_column_BI, table_BI, items)
        table_used_BT = empty_BI.scatter(1, used_table_BI, True)[:, :items]
        return torch.where(is_column_BI, column_BI, table_used_BT.gather(1, table_BI))

    def _range(self, size: int) -> Tensor:
        return torch.arange(size, device=self.device)

    def _rows(self, start: str, row_B: Tensor, real_B: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """The positions of rows of a flat array, padded to `size`, and a mask that is False for padding."""
        first_B = self._arrays[f"{start}.start"][row_B]
        length_B = self._arrays[f"{start}.start"][row_B + 1] - first_B
        keep = (self._range(size) < length_B[..., None]) & real_B[..., None]
        return torch.where(keep, first_B[..., None] + self._range(size), 0), keep

    def _gather(self, name: str, position: Tensor, keep: Tensor, fill: int) -> Tensor:
        return torch.where(keep, self._arrays[name][position].long(), fill)

    def _item_words(self, item_BI: Tensor, keep_BI: Tensor, size: int) -> Tensor:
        last_BI = (self._arrays["item_tokens.start"][item_BI + 1] - 1).clamp_min(0)
        count_BI = self._arrays["item_token.word"][last_BI].long() + 1
        return (self._range(size) < count_BI[..., None]) & keep_BI[..., None]

    # The encoder's input.

    def _order(self, keep_BI: Tensor, order: Order) -> Tensor:
        """[B, I]: the item at each position."""
        batch, items = keep_BI.shape
        if order is Order.STORED:
            return self._range(items).expand(batch, -1)
        key_BI = torch.rand(batch, items, device=self.device)
        return key_BI.masked_fill(~keep_BI, torch.inf).argsort(dim=1, stable=True)

    def _anchors(self, example_B: Tensor, values: dict[str, Tensor], items: int) -> Tensor:
        """[B, I]: the first candidate that is linked to each column, in the numbering of the dataset; -1 for none."""
        column_BV = values["value_column_BV"]
        count = column_BV.shape[1]
        none_BI = torch.full((len(column_BV), items + 1), count, device=self.device)
        linked_BV = torch.where(values["value_keep_BV"] & (column_BV >= 0), column_BV, items)
        first_BI = none_BI.scatter_reduce(1, linked_BV, self._range(count).expand_as(column_BV), "amin")[:, :items]
        anchor_BI = self._arrays["values.start"][example_B][:, None] + first_BI
        return torch.where((first_BI < count) & self.anchors, anchor_BI, -1)

    def _tokens(
        self,
        example_B: Tensor,
        real_B: Tensor,
        item_BI: Tensor,
        item_keep_BI: Tensor,
        anchor_BI: Tensor,
        shape: Shape,
        order: Order,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """[B, K, T]: token ids, a mask that is False for padding, and word slots."""
        a = self._arrays
        ordered_BI = self._order(item_keep_BI, order)
        item_BI, anchor_BI = item_BI.gather(1, ordered_BI), anchor_BI.gather(1, ordered_BI)
        name_BI = self._item_length_I[item_BI]
        text_BI = a["value_tokens.start"][anchor_BI.clamp_min(0)]
        text_length_BI = (a["value_tokens.start"][anchor_BI.clamp_min(0) + 1] - text_BI).clamp_max(ANCHOR_TOKENS)
        text_length_BI = torch.where(anchor_BI >= 0, text_length_BI, 0)
        length_BI = torch.where(item_keep_BI.gather(1, ordered_BI), name_BI + text_length_BI + 1, 0)
        end_BI = length_BI.cumsum(1)
        start_BI = end_BI - length_BI
        question_B = a["tokens.start"][example_B]
        asked_B = torch.where(real_B, a["tokens.start"][example_B + 1] - question_B, 0)
        head_B = asked_B + 2  # the first token, the question, a separator

        # If the items do not fit into one window, those that begin in [k u, (k + 1) u) go to window k. They end at most
        # the longest item after (k + 1) u.
        room_B = self.max_tokens - head_B
        unit_B = torch.where(end_BI[:, -1] <= room_B, room_B, room_B - length_BI.amax(1)).clamp_min(1)
        window_K = self._range(shape.windows)
        first_BK = torch.searchsorted(start_BI, unit_B[:, None] * window_K)  # the first item of each window
        opening_BK = torch.cat([start_BI, end_BI[:, -1:]], 1).gather(1, first_BK)
        position_BKT = self._range(shape.tokens) - head_B[:, None, None] + opening_BK[..., None]
        flat_BP = position_BKT.flatten(1).clamp_min(0)
        owner_BP = torch.searchsorted(end_BI, flat_BP, right=True)
        at_BP = owner_BP.clamp_max(item_BI.shape[1] - 1)
        inside_BP = flat_BP - start_BI.gather(1, at_BP)
        is_item_BKT = (
            (position_BKT >= opening_BK[..., None])
            & (owner_BP < item_BI.shape[1]).view_as(position_BKT)
            & (start_BI.gather(1, at_BP) // unit_B[:, None]).view_as(position_BKT).eq(window_K[:, None])
        )
        is_separator_BKT = (inside_BP == length_BI.gather(1, at_BP) - 1).view_as(position_BKT)
        past_name_BP = inside_BP - name_BI.gather(1, at_BP)
        is_name_BKT = is_item_BKT & (past_name_BP < 0).view_as(position_BKT)
        is_text_BKT = is_item_BKT & ~is_name_BKT & ~is_separator_BKT
        token_BP = a["item_tokens.start"][item_BI.gather(1, at_BP)] + inside_BP
        token_BKT = torch.where(is_name_BKT, token_BP.view_as(position_BKT), 0)
        text_BKT = torch.where(is_text_BKT, (text_BI.gather(1, at_BP) + past_name_BP).view_as(position_BKT), 0)
        item_slot_BKT = (
            shape.words
            + ordered_BI.gather(1, at_BP).view_as(position_BKT) * shape.item_words
            + a["item_token.word"][token_BKT].long()
        )

        at_T = self._range(shape.tokens)
        used_BK = (window_K == 0) | (opening_BK < end_BI[:, -1:])
        is_question_BT = (at_T >= 1) & (at_T <= asked_B[:, None])
        asked_BT = torch.where(is_question_BT, question_B[:, None] + at_T - 1, 0)
        id_BKT = torch.where(is_item_BKT, a["item_token.id"][token_BKT].long(), self._special.pad)
        id_BKT = torch.where(is_text_BKT, a["value_token.id"][text_BKT].long(), id_BKT)
        id_BKT = torch.where(is_item_BKT & is_separator_BKT, self._special.sep, id_BKT)
        head_id_BT = torch.where(is_question_BT, a["token.id"][asked_BT].long(), self._special.sep)
        head_id_BT[:, 0] = self._special.cls
        is_head_BT = at_T < head_B[:, None]
        head_slot_BT = torch.where(is_question_BT, a["token.word"][asked_BT].long(), -1)
        id_BKT = torch.where(is_head_BT[:, None], head_id_BT[:, None], id_BKT)
        slot_BKT = torch.where(is_name_BKT, item_slot_BKT, head_slot_BT[:, None])
        keep_BKT = (is_head_BT[:, None] | is_item_BKT) & used_BK[..., None]
        return torch.where(keep_BKT, id_BKT, self._special.pad), keep_BKT, torch.where(keep_BKT, slot_BKT, -1)

    # Relations.

    def _relations(
        self,
        example_B: Tensor,
        database_B: Tensor,
        items_B: Tensor,
        word_keep_BW: Tensor,
        item_keep_BI: Tensor,
        kind_BI: Tensor,
    ) -> Tensor:
        """[B, N, N]: the ids that `relations.expand` gives for one example; 0 for padding."""
        a = self._arrays
        word_W, item_I = self._range(word_keep_BW.shape[1]), self._range(item_keep_BI.shape[1])
        step = items_B[:, None, None]
        both_BII = item_keep_BI[:, :, None] & item_keep_BI[:, None, :]
        place_BII = a["relations.start"][database_B, None, None] + item_I[:, None] * step + item_I
        among_BII = self._gather("relation", torch.where(both_BII, place_BII, 0), both_BII, 0)
        both_BWI = word_keep_BW[:, :, None] & item_keep_BI[:, None, :]
        place_BWI = a["links.start"][example_B, None, None] + word_W[:, None] * step + item_I
        link_BWI = self._gather("link", torch.where(both_BWI, place_BWI, 0), both_BWI, 0)
        to_BWI = torch.where(both_BWI, link_BWI + self._to_item_K[kind_BI][:, None], 0)
        from_BIW = torch.where(both_BWI, link_BWI + self._from_item_K[kind_BI][:, None], 0).mT
        distance_WW = (word_W[None, :] - word_W[:, None]).clamp(-DISTANCE, DISTANCE) + int(Relation.WORD_SAME)
        distance_BWW = torch.where(word_keep_BW[:, :, None] & word_keep_BW[:, None, :], distance_WW, 0)
        whole = torch.cat([torch.cat([distance_BWW, to_BWI], 2), torch.cat([from_BIW, among_BII], 2)], 1)
        return whole.to(torch.uint8)

    # The derivation and its literals.

    def _steps(self, example_B: Tensor, real_B: Tensor, size: int) -> dict[str, Tensor]:
        place, keep = self._rows("steps", example_B, real_B, size)
        named = {f"{name}_BS": self._gather(f"step.{name}", place, keep, fill) for name, fill in _STEP_FIELDS}
        return {**named, "step_keep_BS": keep}

    def _values(self, example_B: Tensor, real_B: Tensor, size: int, tokens: int) -> dict[str, Tensor]:
        place, keep = self._rows("values", example_B, real_B, size)
        named = {f"value_{name}_BV": self._gather(f"value.{name}", place, keep, fill) for name, fill in _VALUE_FIELDS}
        token, token_keep = self._rows("value_tokens", place, keep, tokens)
        return {
            **named,
            "value_keep_BV": keep,
            "value_token_BVU": self._gather("value_token.id", token, token_keep, self._special.pad),
            "value_token_keep_BVU": token_keep,
        }


def _never_empty(name: str, array: Array) -> Array:
    """A copy with at least one row, which padding can gather: a question may have no steps and no candidates."""
    if name.endswith(".start"):
        return np.append(array, array[-1]) if len(array) == 1 else np.array(array)
    return np.array(array) if len(array) else np.zeros(1, array.dtype)


_TEXTS = {"question", "questions.start", "query", "queries.start", "value_text", "value_texts.start"}
_STEP_FIELDS = (("choice", 0), ("index", -1), ("state", 0), ("parent", -1))
_VALUE_FIELDS = (("kind", 0), ("column", -1), ("first", -1), ("last", -1), ("source", 0))
_PER_KIND = {ColumnKind.STAR: (Relation.WORD_STAR_NONE, Relation.STAR_WORD_NONE)}
_COLUMN = (Relation.WORD_COLUMN_NONE, Relation.COLUMN_WORD_NONE)
_TABLE = (Relation.WORD_TABLE_NONE, Relation.TABLE_WORD_NONE)
_TO_ITEM, _FROM_ITEM = zip(*(_PER_KIND.get(kind, _COLUMN) for kind in ColumnKind), _TABLE, strict=True)
"""By item kind, the relation of an unlinked word to the item, and of the item to the word."""
