"""Stories as tensors, and the model that reads them."""

import pytest
import torch

from dtfixup.demo.kinship import ANSWERS, Fact, Story
from dtfixup.demo.model import RELATIONS, SAME_PERSON, KinshipModel, Sentences, to_tensors
from dtfixup.encoders import load_encoder
from dtfixup.fixup import strategy_named
from dtfixup.transformer import StackConfig

STORIES = [
    Story((Fact("Mary", "mother", "John"), Fact("Susan", "daughter", "John")), "Mary", "Susan", "grandmother", 2),
    Story((Fact("Paul", "son", "Mary"),), "Paul", "Mary", "son", 1),
]


def test_the_question_comes_first_and_people_are_linked() -> None:
    stories = to_tensors(STORIES, Sentences())
    assert stories.keep_BL.sum(1).tolist() == [9, 6]
    same = (stories.relation_BLL[0] == SAME_PERSON).nonzero().tolist()
    mary, susan, john = [0, 3], [2, 6], [5, 8]
    assert sorted(same) == sorted([[a, b], [b, a]][turn] for a, b in (mary, susan, john) for turn in (0, 1))
    assert stories.answer_B.tolist() == [ANSWERS.index("grandmother"), ANSWERS.index("son")]
    assert (stories.relation_BLL[1, 6:] == 0).all()


def test_relations_tell_items_and_kinds_of_sentences_apart() -> None:
    relation_LL = to_tensors(STORIES, Sentences()).relation_BLL[0]
    question, first, second = (relation_LL[i : i + 3, i : i + 3] for i in (0, 3, 6))
    assert torch.equal(first, second)
    assert len(torch.cat([question, first]).unique()) == 18
    assert int(relation_LL.max()) == RELATIONS - 1


def test_equal_sentences_are_encoded_once_at_their_items() -> None:
    sentences = Sentences()
    stories = to_tensors([STORIES[0], STORIES[0]], sentences)
    assert len(sentences.number) == 3
    assert torch.equal(stories.sentence_BS[0], stories.sentence_BS[1])
    encoder = load_encoder("minilm")
    table_SID = sentences.encode(encoder, batch_size=2)
    with torch.no_grad():
        alone, _ = encoder.word_states(encoder.tokenize_words([["Mary", "is", "the", "mother", "of", "John", "."]]))
    row = stories.sentence_BS[0, 1]
    torch.testing.assert_close(table_SID[row], alone[0, [0, 3, 5]], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("strategy", ["dt-fixup", "standard", "pre-ln"])
def test_padding_of_a_batch_does_not_change_an_answer(strategy: str) -> None:
    torch.manual_seed(0)
    model = KinshipModel(torch.randn(5, 3, 12), StackConfig(2, 8, 2, 16, relations=RELATIONS), strategy_named(strategy))
    stories = to_tensors(STORIES, Sentences())
    short = to_tensors(STORIES[1:], Sentences())
    together = model(*stories.inputs(slice(None)))[1]
    alone = model(stories.sentence_BS[1:, :2], short.keep_BL, short.relation_BLL)[0]
    torch.testing.assert_close(together, alone)
