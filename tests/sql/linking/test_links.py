"""Links of questions to names and values; `fixtures/links.txt` says for each question what is expected."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfixup.sql.database.content import ContentIndex, build_index
from dtfixup.sql.database.rows import ColumnValues
from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble
from dtfixup.sql.language.words import split_words
from dtfixup.sql.linking.links import Item, Links, Match, MatchKind, NameLink, ValueLink, ValueMatch, link
from dtfixup.sql.linking.value_links import STRONG
from dtfixup.sql.linking.view import links_json
from tests.sql.record_shop import CONTENT, CONTENTS, EMPTY, QUESTIONS, SCHEMA, read_cases


def _written(question: str, content: ContentIndex | None = CONTENT) -> list[str]:
    """Names and strong values in the form of the fixture."""
    words = split_words(question)
    rows = json.loads(links_json(question, words, link(words, SCHEMA, content), SCHEMA))
    names = [f"{row['text']} -> {row['name']} {row['match']}" for row in rows["names"]]
    strong = [row for row in rows["values"] if row["strength"] >= STRONG]
    return sorted(names + [f"{row['text']} = {row['column']} {row['value']!r} {row['match']}" for row in strong])


@pytest.mark.parametrize("case", read_cases("links.txt"), ids=lambda case: case[0])
def test_links_of_a_question(case: list[str]) -> None:
    question, *expected = case
    assert _written(question) == sorted(line.strip() for line in expected)


def test_weak_values_are_kept_and_not_strong() -> None:
    words = split_words("two albums by artists in IN")
    weak = {(row.value, row.how) for row in link(words, SCHEMA, CONTENT).values if row.strength < STRONG}
    assert ("2", ValueMatch.NUMBER) in weak


def test_without_content_names_numbers_and_dates_remain() -> None:
    question = "artists of age 23 with albums released on November 5th, 2007"
    assert _written(question, None) == _written(question, EMPTY)
    assert "23 = artist.age '23' number" in _written(question, None)
    assert "November 5th, 2007 = album.release_date '2007-11-05' time" in _written(question, None)
    assert not any(" whole" in line for line in _written("French rock", None))


def test_no_words_no_links() -> None:
    assert link((), SCHEMA, CONTENT) == Links((), ())


def test_the_codes_of_each_word() -> None:
    names = (
        NameLink(0, 2, Item.COLUMN, 1, MatchKind.PARTIAL),
        NameLink(1, 2, Item.COLUMN, 1, MatchKind.EXACT),
        NameLink(2, 3, Item.COLUMN, 2, MatchKind.EXACT),
        NameLink(3, 4, Item.COLUMN, 2, MatchKind.PARTIAL),
        NameLink(0, 1, Item.TABLE, 1, MatchKind.EXACT),
        NameLink(0, 2, Item.TABLE, 1, MatchKind.PARTIAL),
    )
    values = (ValueLink(2, 4, 2, "x", ValueMatch.WHOLE, STRONG), ValueLink(0, 4, 1, "y", ValueMatch.PART, STRONG - 0.1))
    columns = len(SCHEMA.columns)
    codes = Links(names, values).codes(4, SCHEMA)
    assert (codes.dtype, codes.shape) == (np.uint8, (4, columns + len(SCHEMA.tables)))
    none, partial, exact, value = Match
    # A value replaces a partial name and an exact name stays; a weak value says nothing.
    assert codes[:, :3].tolist() == [
        [none, partial, none],
        [none, exact, none],
        [none, none, exact],
        [none, none, value],
    ]
    assert codes[:, columns : columns + 2].tolist() == [[none, exact], [none, partial], [none, none], [none, none]]
    assert (codes[:, SCHEMA.stars[1]] == codes[:, columns + 1]).all(), "a star is matched as its table"


def test_the_order_of_links_does_not_change_the_codes() -> None:
    words = split_words("Which French artist has the song name 'Hey' and age 23?")
    links = link(words, SCHEMA, CONTENT)
    turned = Links(links.names[::-1], links.values[::-1])
    assert (links.codes(len(words), SCHEMA) == turned.codes(len(words), SCHEMA)).all()


@settings(max_examples=200)
@given(QUESTIONS, CONTENTS)
def test_links_of_any_text(question: str, content: ContentIndex | None) -> None:
    words = split_words(question)
    links = link(words, SCHEMA, content)
    assert links == link(words, SCHEMA, content)
    for name in links.names:
        assert 0 <= name.start < name.end <= len(words)
        assert 0 <= name.index < len(SCHEMA.tables if name.item is Item.TABLE else SCHEMA.columns)
        assert name.item is Item.TABLE or not SCHEMA.is_star(name.index)
    for value in links.values:
        assert 0 <= value.start < value.end <= len(words)
        assert not SCHEMA.is_star(value.column)
        assert value.value
        assert 0 < value.strength <= 1
    assert links.codes(len(words), SCHEMA)[:, len(SCHEMA.columns) :].max(initial=0) <= Match.EXACT


@given(st.lists(st.text(max_size=8), min_size=3, max_size=3), st.text(max_size=30))
def test_any_stored_text_and_any_name(values: list[str], question: str) -> None:
    schema: Schema = assemble(
        "any", [Table("t", values[0])], [[("a", values[1], ColumnType.TEXT), ("b", "b", ColumnType.TIME)]], [[]], []
    )
    content = build_index([ColumnValues((), True, 3), *(ColumnValues(tuple(set(values)), True, 3) for _ in range(2))])
    asked = f"{question} {values[0]} '{values[1]}' {values[2]}"
    link(split_words(asked), schema, content)
