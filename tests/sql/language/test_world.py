"""World knowledge: what questions mention, and what the bundled file holds."""

import pytest

from dtfixup.sql.language.words import compact, split_words
from dtfixup.sql.language.world import Topic, mentions, world


def _names(question: str) -> list[str]:
    return [concept.name for _, _, concepts in mentions(split_words(question)) for concept in concepts]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("French singers", ["France"]),
        ("Frenchmen and Germans", ["France", "Germany"]),
        ("the South Koreans", ["South Korea"]),
        ("asian countries", ["Asia"]),
        ("women and boys", ["female", "male"]),
        ("rejected papers", ["no"]),
        ("in the UK", ["United Kingdom"]),
        ("on Sundays in january", ["Sunday", "January"]),
        ("tell us in or me", []),
        ("they may say no", []),
        ("the 1 of 0", []),
    ],
)
def test_what_a_question_mentions(question: str, expected: list[str]) -> None:
    assert sorted(_names(question)) == sorted(expected)


def test_codes_are_said_in_capitals_only() -> None:
    assert {"Indiana", "India"} == set(_names("shops IN town"))
    assert _names("shops in town") == []


def test_every_form_is_found_as_stored() -> None:
    known = world()
    for concept in known.concepts:
        for form in concept.forms + concept.codes:
            assert concept.topic in known.topics[compact(form)]


def test_topics_are_all_there() -> None:
    assert {concept.topic for concept in world().concepts} == set(Topic)
    assert world().yes.name == "yes"
    assert "age" in world().asked["old"]
    assert "Norway" in {concept.name for concept in world().codes["NO"]}, "YAML's NO is no text"


def test_names_are_not_repeated_within_a_topic() -> None:
    names = [(concept.topic, concept.name) for concept in world().concepts]
    assert len(names) == len(set(names))
