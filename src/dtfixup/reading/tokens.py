"""Examples → flat arrays of tokens, once, on the host → padded tensors of a batch, on the device.

In: `ReadingExample`s and the encoder's tokenizer. Out: `ReadingTokens`, numpy; on a device `ReadingCorpus`, whose
`assemble` gives a `ReadingBatch`. Each option is a sequence of its own, `[CLS] context [SEP] question option [SEP]`,
with the tokenizer's own special tokens (RoBERTa has two separators in the middle). Where it is too long, the context
loses its end; question and option are never cut. Every step of `assemble` is a gather, so that a CUDA graph can hold
it: new example numbers give a new batch of the same shape.

Legend: N examples, R sequences (options of all examples), B batch, O options, T tokens.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from dtfixup.errors import DataError, EncoderError
from dtfixup.reading.examples import ReadingExample

Array = npt.NDArray[Any]
_UNIT = 8  # padded lengths are multiples of it: matrix products on GPUs are slow at odd sizes
_log = logging.getLogger("dtfixup")


@dataclass(frozen=True, order=True)
class ReadingShape:
    """The padded sizes of a batch."""

    options: int
    tokens: int


@dataclass(frozen=True)
class ReadingTokens:
    """The sequences of all examples, one after the other."""

    token: Array
    """int32, of all sequences."""
    token_start_R: Array
    """Where each sequence begins in `token`, and the end of the last."""
    second_R: Array
    """Where question and option begin in each sequence."""
    option_start_N: Array
    """The first sequence of each example, and the end of the last."""
    label_N: Array
    """The place of the right option; -1 where it is not known."""
    pad_id: int
    max_tokens: int
    """No sequence is longer."""
    cut_contexts: int
    """Examples whose context was cut for at least one option."""

    @property
    def options_N(self) -> Array:
        """How many options each example has."""
        return np.diff(self.option_start_N)

    @property
    def length_N(self) -> Array:
        """The longest sequence of each example."""
        longest: Array = np.maximum.reduceat(np.diff(self.token_start_R), self.option_start_N[:-1])
        return longest

    def shape_of(self, examples: Sequence[int] | Array) -> ReadingShape:
        """The smallest shape that holds these examples."""
        chosen = np.asarray(examples, np.int64)
        return ReadingShape(int(self.options_N[chosen].max()), int(self.length_N[chosen].max()))

    def padded_shape_of(self, examples: Sequence[int] | Array) -> ReadingShape:
        """The same with its length rounded up, so that few different ones are left."""
        shape = self.shape_of(examples)
        return replace(shape, tokens=min(-(-shape.tokens // _UNIT) * _UNIT, self.max_tokens))


@dataclass(frozen=True)
class SpecialTokens:
    """What a tokenizer puts before, between and after two texts."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> SpecialTokens:
    """The special tokens around a pair of texts, seen on a pair."""
    encoded = tokenizer("a", "b")
    ids, part = encoded["input_ids"], encoded.sequence_ids(0)
    if 0 not in part or 1 not in part or tokenizer.pad_token_id is None:
        raise EncoderError("this encoder's tokenizer does not join two texts, or does not pad: use another encoder")
    first, last = part.index(0), len(part) - part[::-1].index(1)
    middle = [place for place in range(first, last) if part[place] is None]
    return SpecialTokens(tuple(ids[:first]), tuple(ids[place] for place in middle), tuple(ids[last:]))


def tokenise(
    examples: Sequence[ReadingExample], tokenizer: PreTrainedTokenizerBase, *, max_tokens: int
) -> ReadingTokens:
    """Token ids of every option's sequence, none longer than `max_tokens`; warns how many contexts were cut."""
    special = special_tokens(tokenizer)
    contexts = _ids(tokenizer, [example.context for example in examples])
    pairs = iter(_ids(tokenizer, [f"{each.question} {answer}" for each in examples for answer in each.answers]))
    token: list[int] = []
    ends, seconds, cut = [0], [], 0
    for example, context in zip(examples, contexts, strict=True):
        rooms = []
        for answer in example.answers:
            pair = next(pairs)
            rooms.append(max_tokens - special.count - len(pair))
            if rooms[-1] < 1:
                raise DataError(
                    f"{example.name}: question and option have {len(pair)} tokens, and {max_tokens} leave no room for "
                    f"the context: shorten them, or raise max_tokens. The option begins {answer[:40]!r}"
                )
            first = [*special.before, *context[: rooms[-1]], *special.between]
            token += [*first, *pair, *special.after]
            seconds.append(len(first))
            ends.append(len(token))
        cut += len(context) > min(rooms)
    if cut:
        _log.warning("%s of %s contexts were cut to fit %s tokens", f"{cut:,}", f"{len(examples):,}", max_tokens)
    return ReadingTokens(
        token=np.asarray(token, np.int32),
        token_start_R=np.asarray(ends, np.int64),
        second_R=np.asarray(seconds, np.int64),
        option_start_N=np.cumsum([0, *(len(example.answers) for example in examples)]),
        label_N=np.asarray([-1 if each.label is None else each.label for each in examples], np.int64),
        pad_id=int(tokenizer.pad_token_id),
        max_tokens=max_tokens,
        cut_contexts=cut,
    )


def _ids(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[list[int]]:
    found = tokenizer(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)
    ids: list[list[int]] = found["input_ids"]
    return ids


@dataclass(frozen=True)
class ReadingBatch:
    """Padded tensors; `keep` is True for what is real."""

    token_BOT: Tensor
    token_keep_BOT: Tensor
    second_BOT: Tensor
    """True for the tokens of question and option."""
    option_keep_BO: Tensor
    """False for options that an example does not have, and in rows that fill the batch."""
    label_B: Tensor
    """0 where there is none."""
    keep_B: Tensor
    """False for a row that fills the batch."""


class ReadingCorpus:
    """Tokenised examples as tensors on a device."""

    def __init__(self, tokens: ReadingTokens, device: torch.device | str = "cpu") -> None:
        self.tokens, self.device = tokens, torch.device(device)
        arrays = (tokens.token, tokens.token_start_R, tokens.second_R, tokens.option_start_N, tokens.label_N)
        held = [torch.from_numpy(np.ascontiguousarray(array)).to(self.device) for array in arrays]
        self._token, self._token_start_R, self._second_R, self._option_start_N, self._label_N = held

    def assemble(self, example_B: Tensor, shape: ReadingShape) -> ReadingBatch:
        """A batch of the examples; -1 is a row that fills the batch.

        An option that is not there repeats the first, and a row that fills the batch repeats another: attention never
        sees an empty sequence, which some kernels answer with NaN, and the stack nothing that is no data.
        """
        keep_B = example_B >= 0
        example_B = torch.where(keep_B, example_B, example_B.amax().clamp_min(0))
        first_B1 = self._option_start_N[example_B][:, None]
        option_BO = first_B1 + torch.arange(shape.options, device=self.device)
        is_there_BO = option_BO < self._option_start_N[example_B + 1][:, None]
        option_BO = torch.where(is_there_BO, option_BO, first_B1)
        start_BO1 = self._token_start_R[option_BO][..., None]
        length_BO1 = self._token_start_R[option_BO + 1][..., None] - start_BO1
        place_T = torch.arange(shape.tokens, device=self.device)
        token_keep_BOT = place_T < length_BO1
        token_BOT = self._token[torch.where(token_keep_BOT, start_BO1 + place_T, 0)].long()
        return ReadingBatch(
            token_BOT=torch.where(token_keep_BOT, token_BOT, self.tokens.pad_id),
            token_keep_BOT=token_keep_BOT,
            second_BOT=(place_T >= self._second_R[option_BO][..., None]) & token_keep_BOT,
            option_keep_BO=is_there_BO & keep_B[:, None],
            label_B=self._label_N[example_B].clamp_min(0),
            keep_B=keep_B,
        )
