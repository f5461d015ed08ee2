"""The kinship task for a network: stories to tensors, MiniLM below, N relation-aware layers above.

Each sentence goes through the frozen encoder alone, so only the new layers can combine facts. A fact gives three
vectors (subject, relation word, object), and so does the question. Relations say which items share a sentence, and
which are the same person.
Legend: B batch, S sentences, L = 3 S items, W words, D width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from rich.progress import track
from torch import Tensor, nn

from dtfixup.demo.kinship import ANSWERS, Story
from dtfixup.encoders import Encoder
from dtfixup.fixup import Strategy
from dtfixup.transformer import StackConfig, TransformerStack

ITEMS = 3  # subject, relation word, object; the question: person, "related", relative
NONE, SAME_PERSON = 0, 1
_IN_FACT, _IN_QUESTION = 2, 2 + ITEMS * ITEMS
RELATIONS = _IN_QUESTION + ITEMS * ITEMS
_QUESTION_ITEM = 1  # the answer is read off the question's relation word


@dataclass(frozen=True)
class Stories:
    """Stories as tensors: each sentence is a row of the encoded table, the question comes first."""

    sentence_BS: Tensor
    keep_BL: Tensor
    relation_BLL: Tensor
    answer_B: Tensor
    steps_B: Tensor

    def __len__(self) -> int:
        return len(self.answer_B)

    def inputs(self, rows: Tensor | slice) -> tuple[Tensor, Tensor, Tensor]:
        return self.sentence_BS[rows], self.keep_BL[rows], self.relation_BLL[rows]

    def batches(self, size: int) -> list[tuple[Tensor, Tensor, Tensor]]:
        return [self.inputs(slice(start, start + size)) for start in range(0, len(self), size)]


class Sentences:
    """Distinct sentences, numbered in the order of their first use."""

    def __init__(self) -> None:
        self.number: dict[tuple[str, ...], int] = {}
        self.places: list[tuple[int, int, int]] = []

    def add(self, words: tuple[str, ...], places: tuple[int, int, int]) -> int:
        if words not in self.number:
            self.number[words] = len(self.number)
            self.places.append(places)
        return self.number[words]

    def encode(self, encoder: Encoder, *, batch_size: int = 256) -> Tensor:
        """One row of three item vectors per sentence: the word states at its places."""
        rows = []
        words = list(self.number)
        with torch.no_grad():
            for start in track(range(0, len(words), batch_size), "encode sentences", transient=True):
                states_BWD, _ = encoder.word_states(encoder.tokenize_words(words[start : start + batch_size]))
                places_BI = torch.tensor(self.places[start : start + batch_size])
                index_BID = places_BI[..., None].expand(-1, -1, states_BWD.shape[-1])
                rows.append(states_BWD.gather(1, index_BID))
        return torch.cat(rows)


def to_tensors(stories: Sequence[Story], sentences: Sentences) -> Stories:
    """Number the sentences of the stories and lay out their items and relations."""
    most = 1 + max(len(story.facts) for story in stories)
    sentence_BS = torch.zeros(len(stories), most, dtype=torch.long)
    keep_BL = torch.zeros(len(stories), ITEMS * most, dtype=torch.bool)
    relation_BLL = torch.full((len(stories), ITEMS * most, ITEMS * most), NONE)
    for row, story in enumerate(stories):
        people: list[str | None] = []
        for place, (words, places) in enumerate(_sentences_of(story)):
            sentence_BS[row, place] = sentences.add(words, places)
            people += [words[places[0]], None, words[places[2]]]
        keep_BL[row, : len(people)] = True
        relation_BLL[row, : len(people), : len(people)] = _relations(people)
    return Stories(
        sentence_BS,
        keep_BL,
        relation_BLL,
        torch.tensor([ANSWERS.index(story.answer) for story in stories]),
        torch.tensor([story.steps for story in stories]),
    )


def _sentences_of(story: Story) -> Iterator[tuple[tuple[str, ...], tuple[int, int, int]]]:
    """Words and item places of the question and of each fact."""
    yield ("How", "is", story.person, "related", "to", story.relative_of, "?"), (2, 3, 5)
    for fact in story.facts:
        yield (fact.subject, "is", "the", fact.relation, "of", fact.object, "."), (0, 3, 5)


def _relations(people: list[str | None]) -> Tensor:
    count = len(people)
    place = torch.arange(count)
    sentence, item = place // ITEMS, place % ITEMS
    pair = ITEMS * item[:, None] + item[None, :]
    inside = torch.where(sentence[:, None] == 0, _IN_QUESTION, _IN_FACT) + pair
    same_person = torch.tensor([[a is not None and a == b for b in people] for a in people])
    across = torch.where(same_person, SAME_PERSON, NONE)
    return torch.where(sentence[:, None] == sentence[None, :], inside, across)


class KinshipModel(nn.Module):
    """Encoded sentences, a projection to the stack's width, the new layers, one linear layer on top."""

    def __init__(self, table_SID: Tensor, config: StackConfig, strategy: Strategy) -> None:
        super().__init__()
        self.table_SID: Tensor
        self.register_buffer("table_SID", table_SID, persistent=False)
        self.project = nn.Linear(table_SID.shape[-1], config.dim)
        self.new_layers = TransformerStack(config, strategy)
        self.head = nn.Linear(config.dim, len(ANSWERS))

    def forward(self, sentence_BS: Tensor, keep_BL: Tensor, relation_BLL: Tensor) -> Tensor:
        """Scores of the answers, [B, answers]."""
        x_BLD = self.project(self.table_SID[sentence_BS].flatten(1, 2))
        y_BLD = self.new_layers(x_BLD, keep_BL, relation_BLL)
        return self.head(y_BLD[:, _QUESTION_ITEM])
