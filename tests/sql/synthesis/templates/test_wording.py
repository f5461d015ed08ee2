"""The words of a question: names, values and replaced verbs."""

import pytest

from dtfixup.sql.language.words import split_words
from dtfixup.sql.synthesis.templates.template import SlotKind, TemplateSlot
from dtfixup.sql.synthesis.templates.wording import UnusableError, Wording, value_spans


@pytest.mark.parametrize(
    ("literal", "question", "spans"),
    [
        ("20", "Is 20 or twenty more than 120?", [(1, 2), (3, 4)]),
        ("New York", "From 'new york' to New-York", [(2, 4), (6, 9)]),
        ("York", "From Yorkshire", []),
    ],
)
def test_where_a_question_has_a_value(literal: str, question: str, spans: list[tuple[int, int]]) -> None:
    assert value_spans(literal, split_words(question)) == spans


def test_names_are_nouns_and_free() -> None:
    wording = Wording("Show the name, and the names, of those named names.")
    assert [wording.words[start].text for start, _ in wording.spans_of(("name",))] == ["name", "names", "names"]
    wording.take((2, 3), TemplateSlot(SlotKind.COLUMN, 0))
    assert len(wording.spans_of(("name",))) == 2
    with pytest.raises(UnusableError, match="two things named by the same words"):
        wording.take((1, 3), TemplateSlot(SlotKind.COLUMN, 1))


@pytest.mark.parametrize(
    ("question", "verb", "reworded"),
    [
        ("Show teachers who own dogs.", "own", "Show teachers that have [table]."),
        ("Show courses taught by the dogs.", "taught", "Show courses related to the [table]."),
        ("Show teachers eating by the dogs.", "eating", None),
    ],
)
def test_a_verb_between_tables_becomes_a_general_one(question: str, verb: str, reworded: str | None) -> None:
    wording = Wording(question)
    texts = [word.text for word in wording.words]
    wording.take((texts.index("dogs"), texts.index("dogs") + 1), TemplateSlot(SlotKind.TABLE, 1))
    wording.take((1, 2), TemplateSlot(SlotKind.TABLE, 0))
    assert wording.reword(texts.index(verb)) == (reworded is not None)
    if reworded is not None:
        pieces = wording.pieces()
        text = "".join(piece if isinstance(piece, str) else f"[{piece.kind}]" for piece in pieces)
        assert text == reworded.replace("teachers", "[table]").replace("courses", "[table]")
