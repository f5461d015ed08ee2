"""Literal candidates; `fixtures/candidates.txt` says for each question what is expected, in order."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfixup.sql.database.content import ContentIndex, build_index, open_content
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.rows import ColumnValues
from dtfixup.sql.database.schema import ColumnType, Table, assemble
from dtfixup.sql.evaluation.link_figures import LinkFigures, read_gold
from dtfixup.sql.grammar.rules import ValueKind
from dtfixup.sql.language.quantities import plain_number
from dtfixup.sql.language.words import split_words
from dtfixup.sql.linking.candidates import Candidate, Source, candidates, covers
from dtfixup.sql.linking.links import link
from tests.sql.record_shop import CONTENT, CONTENTS, EMPTY, QUESTIONS, SCHEMA, read_cases


def _candidates(question: str, content: ContentIndex | None = CONTENT) -> tuple[Candidate, ...]:
    words = split_words(question)
    return candidates(words, question, SCHEMA, content, link(words, SCHEMA, content))


def _texts(question: str, content: ContentIndex | None = CONTENT) -> list[str]:
    return [candidate.text for candidate in _candidates(question, content)]


def _written(candidate: Candidate) -> str:
    where = "" if candidate.column is None else f" {SCHEMA.qualified(candidate.column)}"
    return f"{candidate.source}: {candidate.text!r}{where}" + (" (time)" if candidate.kind is ValueKind.TIME else "")


@pytest.mark.parametrize("case", read_cases("candidates.txt"), ids=lambda case: case[0])
def test_candidates_for_a_question(case: list[str]) -> None:
    question, *expected = case
    assert [_written(candidate) for candidate in _candidates(question)] == [line.strip() for line in expected]


def test_stored_and_written_forms_are_both_there() -> None:
    texts = _texts("the album 'hey you' by zoe from the USA")
    assert {"hey you", "Hey You", "Zoé"} <= set(texts)


def test_blanks_around_stored_values_may_be_left_out() -> None:
    schema = assemble("air", [Table("airport", "airport")], [[("code", "code", ColumnType.TEXT)]], [[]], [])
    content = build_index([ColumnValues((), True, 2), ColumnValues((" CVO", "APG"), True, 2)])
    words = split_words("from CVO")
    found = candidates(words, "from CVO", schema, content, link(words, schema, content))
    assert [candidate.text for candidate in found][:2] == [" CVO", "CVO"]


def test_without_rows_any_word_may_be_a_value() -> None:
    question = "tracks of jazz players in California on MPEG audio file by Steve Smith"
    for content in (None, EMPTY):
        texts = _texts(question, content)
        assert {"jazz", "Jazz", "California", "CA", "MPEG audio file", "Steve Smith", "Steve", "Smith"} <= set(texts)
    assert "players" not in _texts(question)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("albums with more than 3 songs", "4"),
        ("albums with at least three songs", "2"),
        ("albums with 3 or more songs", "2"),
        ("albums with less than 10 songs", "9"),
    ],
)
def test_comparisons_bring_the_number_beside(question: str, text: str) -> None:
    (found,) = [candidate for candidate in _candidates(question) if candidate.text == text]
    assert (found.kind, found.source) == (ValueKind.NUMBER, Source.CONSTANT)


def test_years_bring_their_first_and_last_day() -> None:
    texts = _texts("albums since 2010")
    assert {"2010", "2010-01-01", "2010-12-31"} <= set(texts)
    assert "2007-01-01" not in _texts("albums of November 5th, 2007")
    assert "2010-01-01" not in _texts("artists since 2010")  # no date of theirs is stored


def test_what_telephone_numbers_begin_with() -> None:
    assert "+31" in _texts("phones that start with +31")


def test_part_of_a_value_may_be_all_that_is_meant() -> None:
    found = {candidate.text: candidate.source for candidate in _candidates("all the motors")}
    assert found["Motor City Records"] is Source.SIMILAR
    assert found["motor"] is Source.FRAGMENT


def test_large_numbers_have_no_neighbours() -> None:
    assert not {"2999", "3001"} & set(_texts("more than 3000 or at least 3000 songs"))


@pytest.mark.parametrize(
    ("text", "literal", "expected"),
    [
        ("Hey", "Hey", True),
        ("Hey", "hey", False),
        ("Hey", "Hey you", False),
        ("Hey you", "Hey", False),
        ("5", "5.0", True),
        ("1000", "1,000", True),
        ("5", "50", False),
        ("7", "007", False),
        ("007", "007", True),
        ("", "0", False),
    ],
)
def test_a_literal_is_covered_as_a_whole(text: str, literal: str, expected: bool) -> None:
    assert covers(Candidate(text, ValueKind.TEXT, None, None, None, Source.QUOTED), literal) is expected


def test_the_cap_keeps_the_first() -> None:
    question = "genre of " + ", ".join(f"'word {number}'" for number in range(100))
    assert [candidate.text for candidate in _candidates(question)][:2] == ["word 0", "word 1"]
    assert len(_candidates(question)) == 64


@settings(max_examples=200)
@given(QUESTIONS, CONTENTS)
def test_candidates_for_any_text(question: str, content: ContentIndex | None) -> None:
    found = _candidates(question, content)
    assert found == _candidates(question, content)
    assert len(found) <= 64
    assert len({candidate.text for candidate in found}) == len(found)
    n_words = len(split_words(question))
    for candidate in found:
        assert candidate.text
        assert (candidate.start is None) == (candidate.end is None)
        if candidate.start is not None and candidate.end is not None:
            assert 0 <= candidate.start < candidate.end <= n_words
        assert candidate.column is None or not SCHEMA.is_star(candidate.column)
        if candidate.kind is ValueKind.NUMBER:
            assert plain_number(candidate.text) == candidate.text
    assert {"0", "1"} <= {candidate.text for candidate in found} or len(found) == 64


_QUOTES = set("'\"`\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb")


@given(st.text(min_size=1).map(str.strip).filter(lambda text: text and not _QUOTES & set(text)))
def test_what_is_quoted_is_a_candidate(text: str) -> None:
    assert any(covers(candidate, text) for candidate in _candidates(f"the song named '{text}' please"))


@given(st.integers(0, 10**12))
def test_what_is_counted_is_a_candidate(number: int) -> None:
    (found,) = [candidate for candidate in _candidates(f"over {number:,} albums") if candidate.text == str(number)]
    assert found.kind is ValueKind.NUMBER


@pytest.mark.parametrize(("split", "step", "bar"), [("dev", 1, 0.98), ("train", 5, 0.975)])
def test_spider_queries_find_their_literals(spider_folder: Path, split: str, step: int, bar: float) -> None:
    dataset = open_dataset(spider_folder)
    figures = LinkFigures()
    contents: dict[str, ContentIndex] = {}
    for example in dataset.split(split)[::step]:
        schema = dataset.schemas[example.database]
        if example.database not in contents:
            file = dataset.database_file(example.database)
            contents[example.database] = open_content(schema, file, use_cache=False)
        content = contents[example.database]
        words = split_words(example.question)
        links = link(words, schema, content)
        found = candidates(words, example.question, schema, content, links)
        figures.add(read_gold(example.query, schema), links, found)
    summary = figures.summary()
    assert summary["queries with every literal a candidate"] >= bar
    assert summary["candidates"]["median"] <= 20
    assert summary["candidates"]["most"] <= 64
    assert summary["links"]["columns, name or value"]["recall"] >= 0.9
