"""Links on a terminal and as JSON."""

import json

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dtfixup.sql.language.words import split_words
from dtfixup.sql.linking.links import link
from dtfixup.sql.linking.view import links_json, render
from tests.sql.record_shop import CONTENT, SCHEMA


def test_colours_and_legend() -> None:
    question = "Which French artists have the most albums?"
    words = split_words(question)
    text = render(question, words, link(words, SCHEMA, CONTENT), SCHEMA)
    assert text.plain.splitlines() == [
        question,
        "  French → artist.country = 'France' (world)",
        "  artists → table artist",
        "  albums → table album",
        "",
        "value  column  table  part of a name",
    ]
    coloured = {text.plain[span.start : span.end]: span.style for span in text.spans}
    assert coloured["French"] == coloured["value"] != coloured["artists"] == coloured["table"]
    console = Console(force_terminal=True, width=100)
    with console.capture() as capture:
        console.print(text)
    assert "\x1b[" in capture.get()


def test_questions_with_markup_are_shown_as_they_are() -> None:
    question = "albums [bold]by[/bold] [red"
    words = split_words(question)
    assert render(question, words, link(words, SCHEMA, CONTENT), SCHEMA).plain.startswith(question + "\n")


def test_control_characters_do_not_reach_the_terminal() -> None:
    question = "albums \x1b[2J\x07 by French\nartists"
    words = split_words(question)
    text = render(question, words, link(words, SCHEMA, CONTENT), SCHEMA)
    assert text.plain.splitlines()[0] == "albums  [2J  by French artists"
    assert "French" in {text.plain[span.start : span.end] for span in text.spans}


def test_json_holds_words_and_every_link() -> None:
    question = "French albums of two"
    words = split_words(question)
    links = link(words, SCHEMA, CONTENT)
    rows = json.loads(links_json(question, words, links, SCHEMA))
    assert rows["question"] == question
    assert rows["words"][1] == {"text": "albums", "lemma": "album", "start": 7, "end": 13}
    assert (len(rows["names"]), len(rows["values"])) == (len(links.names), len(links.values))
    table = {"start": 1, "end": 2, "text": "albums", "item": "table", "name": "album", "match": "exact"}
    assert table in rows["names"]
    value = {"column": "artist.country", "value": "France", "match": "world", "strength": 0.8}
    assert {"start": 0, "end": 1, "text": "French", **value} in rows["values"]


@given(st.text())
def test_any_question_can_be_shown(question: str) -> None:
    words = split_words(question)
    links = link(words, SCHEMA, CONTENT)
    assert json.loads(links_json(question, words, links, SCHEMA))["question"] == question
    shown = render(question, words, links, SCHEMA).plain
    assert all(shown[word.start : word.end] == word.text for word in words if word.text.isprintable())
