"""Examples → flat arrays of tokens on the host, once → padded tensors of a batch on the device.

In: `ReadingExample`s and the encoder's tokenizer. Out: `ReadingTokens`, numpy; on a device `ReadingCorpus`, whose
`assemble` gives a `ReadingBatch`. Each option is a sequence of its own, `[CLS] context [SEP] question option [SEP]`,
with the tokenizer's own special tokens (RoBERTa has two separators in the middle). If it is too long, the end of the
context is cut; question and option never are. `assemble` only gathers, so a CUDA graph can hold it: other example
numbers give another batch of the same shape.

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
_UNIT = 8  # padded lengths are multiples of this: GPUs multiply matrices of odd sizes slowly
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
    """Token ids of all sequences, int32."""
    token_start_R: Array
    """Where each sequence starts in `token`, and where the last one ends."""
    second_R: Array
    """Where question and option start in each sequence."""
    option_start_N: Array
    """The first sequence of each example, and the end of the last."""
    label_N: Array
    """The index of the right option; -1 if unknown."""
    pad_id: int
    max_tokens: int
    """Length limit of a sequence."""
    cut_contexts: int
    """Number of examples whose context was cut for at least one option."""

    @property
    def options_N(self) -> Array:
        """Number of options of each example."""
        return np.diff(self.option_start_N)

    @property
    def length_N(self) -> Array:
        """Length of each example's longest sequence."""
        longest: Array = np.maximum.reduceat(np.diff(self.token_start_R), self.option_start_N[:-1])
        return longest

    def shape_of(self, examples: Sequence[int] | Array) -> ReadingShape:
        """The smallest shape that holds these examples."""
        chosen = np.asarray(examples, np.int64)
        return ReadingShape(int(self.options_N[chosen].max()), int(self.length_N[chosen].max()))

    def padded_shape_of(self, examples: Sequence[int] | Array) -> ReadingShape:
        """The same with the length rounded up, to have few different shapes."""
        shape = self.shape_of(examples)
        return replace(shape, tokens=min(-(-shape.tokens // _UNIT) * _UNIT, self.max_tokens))


def tokenise(
    examples: Sequence[ReadingExample], tokenizer: PreTrainedTokenizerBase, *, max_tokens: int
) -> ReadingTokens:
    """Token ids of every option's sequence, at most `max_tokens` each; warns how many contexts were cut."""
    token: list[int] = []
    ends, seconds, cut = [0], [], 0
    for example in examples:
        pairs = [f"{example.question} {answer}" for answer in example.answers]
        encoded = tokenizer([example.context] * len(pairs), pairs, return_attention_mask=False, verbose=False)
        is_cut = False
        for option, ids in enumerate(encoded["input_ids"]):
            part = encoded.sequence_ids(option)
            if 1 not in part or tokenizer.pad_token_id is None:
                raise EncoderError("this encoder's tokenizer does not join two texts, or does not pad: use another one")
            context = [place for place, number in enumerate(part) if number == 0]
            room = max_tokens - (len(ids) - len(context))
            if room < 1:
                raise DataError(
                    f"{example.name}: question and option have {part.count(1)} tokens, and {max_tokens} leave no room "
                    f"for the context: shorten them, or raise max_tokens. The option begins "
                    f"{example.answers[option][:40]!r}"
                )
            if dropped := context[room:]:
                is_cut = True
                ids = ids[: dropped[0]] + ids[dropped[-1] + 1 :]
            token += ids
            seconds.append(part.index(1) - len(dropped))
            ends.append(len(token))
        cut += is_cut
    if cut:
        _log.warning("%s of %s contexts were cut to fit %s tokens", f"{cut:,}", f"{len(examples):,}", max_tokens)
    return ReadingTokens(
        token=np.asarray(token, np.int32),
        token_start_R=np.asarray(ends, np.int64),
        second_R=np.asarray(seconds, np.int64),
        option_start_N=np.cumsum([0, *(len(example.answers) for example in examples)]),
        label_N=labels_or_minus_1([example.label for example in examples]),
        pad_id=int(tokenizer.pad_token_id),
        max_tokens=max_tokens,
        cut_contexts=cut,
    )


def labels_or_minus_1(labels: Sequence[int | None]) -> Array:
    """Labels as numbers, -1 where a label is unknown."""
    return np.array([-1 if label is None else label for label in labels], np.int64)


@dataclass(frozen=True)
class ReadingBatch:
    """Padded tensors; masks named `keep` are True for real entries."""

    token_BOT: Tensor
    token_keep_BOT: Tensor
    second_BOT: Tensor
    """True for the tokens of question and option."""
    option_keep_BO: Tensor
    """False for options that an example does not have, and in empty rows."""
    label_B: Tensor
    """0 if unknown."""
    keep_B: Tensor
    """False for an empty row."""


class ReadingCorpus:
    """Tokenised examples as tensors on a device."""

    def __init__(self, tokens: ReadingTokens, device: torch.device | str = "cpu") -> None:
        self.tokens, self.device = tokens, torch.device(device)
        arrays = (tokens.token, tokens.token_start_R, tokens.second_R, tokens.option_start_N, tokens.label_N)
        held = [torch.from_numpy(np.ascontiguousarray(array)).to(self.device) for array in arrays]
        self._token, self._token_start_R, self._second_R, self._option_start_N, self._label_N = held

    def assemble(self, example_B: Tensor, shape: ReadingShape) -> ReadingBatch:
        """Assemble a batch of examples; -1 is an empty row.

        A missing option repeats the first option, and an empty row repeats another row: attention never sees an empty
        sequence, for which some kernels return NaN, and the stack sees only data.
        """
        keep_B = example_B >= 0
        example_B = torch.where(keep_B, example_B, example_B.amax().clamp_min(0))
        first_B1 = self._option_start_N[example_B][:, None]
        option_BO = first_B1 + torch.arange(shape.options, device=self.device)
        exists_BO = option_BO < self._option_start_N[example_B + 1][:, None]
        option_BO = torch.where(exists_BO, option_BO, first_B1)
        start_BO1 = self._token_start_R[option_BO][..., None]
        length_BO1 = self._token_start_R[option_BO + 1][..., None] - start_BO1
        place_T = torch.arange(shape.tokens, device=self.device)
        token_keep_BOT = place_T < length_BO1
        token_BOT = self._token[torch.where(token_keep_BOT, start_BO1 + place_T, 0)].long()
        return ReadingBatch(
            token_BOT=torch.where(token_keep_BOT, token_BOT, self.tokens.pad_id),
            token_keep_BOT=token_keep_BOT,
            second_BOT=(place_T >= self._second_R[option_BO][..., None]) & token_keep_BOT,
            option_keep_BO=exists_BO & keep_B[:, None],
            label_B=self._label_N[example_B].clamp_min(0),
            keep_B=keep_B,
        )
