"""Words, lemmas, quotation marks and spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.sql.language.words import (
    STOP_WORDS,
    begins_sentence,
    closest_word,
    compact,
    is_english,
    is_stop_word,
    lemma,
    name_lemmas,
    quoted_spans,
    runs,
    split_words,
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("singer's songs", "singer|'s|songs"),
        ("the students' names", "the|students|'|names"),
        ("it doesn't, they can't", "it|does|n't|,|they|ca|n't"),
        ("the letter 'S' or 'd'", "the|letter|'|S|'|or|'|d|'"),
        ("pop-rock in A340-300", "pop|-|rock|in|A340|-|300"),
        ("first_name", "first|_|name"),
        ("above 57.5.", "above|57.5|."),
        ("1,000.50 and 12,34", "1,000.50|and|12|,|34"),
        ("$50, 5% or €3", "$|50|,|5|%|or|€|3"),
        ("on 2018-03-17 07:13:53 or 8/30/2015?", "on|2018-03-17|07:13:53|or|8/30/2015|?"),
        ("the 3rd of 1980s", "the|3rd|of|1980s"),
        ("U.S. and Ph.D. holders.", "U.S.|and|Ph.D.|holders|."),
        ("mail to ann.lee@mail.example.org!", "mail|to|ann.lee@mail.example.org|!"),
        ("“Hey” or \u2018you\u2019", "“|Hey|”|or|\u2018|you|\u2019"),
        ("Café naïve e\u0301t\u0301e", "Café|naïve|e\u0301t\u0301e"),
        ("", ""),
        (" \t\n", ""),
    ],
)
def test_words_of_a_question(question: str, expected: str) -> None:
    assert "|".join(word.text for word in split_words(question)) == expected


@given(st.text())
def test_every_visible_character_is_in_one_word(question: str) -> None:
    words = split_words(question)
    covered = [position for word in words for position in range(word.start, word.end)]
    assert covered == sorted(set(covered))
    assert all(question[word.start : word.end] == word.text for word in words)
    assert all(character.isspace() for position, character in enumerate(question) if position not in set(covered))
    assert all(word.text and word.lemma and not word.lemma.isspace() for word in words)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Cities", "city"),
        ("sung", "sing"),
        ("Koreans", "korean"),
        ("koreans", "korean"),
        ("n't", "not"),
        ("n\u2019t", "not"),
        ("A340", "a340"),
        ("Xyzzy", "xyzzy"),
    ],
)
def test_lemmas(word: str, expected: str) -> None:
    assert lemma(word) == expected


def test_names_and_questions_share_their_lemmas() -> None:
    assert name_lemmas("Stadium IDs (old_ones)") == ("stadium", "id", "old", "one")
    assert name_lemmas("*") == ()


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("has 'Hey' in it", ["Hey"]),
        ('the song "Hey, you" and "no"', ["Hey, you", "no"]),
        ("the singers' song 'Hey'", ["Hey"]),
        ("singer's 'rock' and singers' roll", ["rock"]),
        ("names like \u2018Swift\u2019 or “Taylor”", ["Swift", "Taylor"]),
        ("hometown `` Little Lever '' or `x`", ["Little Lever", "x"]),
        ("a \u2019T\u2019 inside", ["T"]),
        ("an empty '' one and a lone 'start", []),
        ("a lone 'start of 'rock'", ["rock"]),
        ("text ' Korea ' .", ["Korea"]),
        ("the album 'Don't stop'", ["Don't stop"]),
        ('("inside")', ["inside"]),
    ],
)
def test_quoted_spans(question: str, expected: list[str]) -> None:
    words = split_words(question)
    assert [question[words[a].start : words[b - 1].end] for a, b in quoted_spans(words)] == expected


@given(st.text(alphabet="ab '\"`\u2018\u2019“”«».,", max_size=30))
def test_quoted_spans_are_spans(question: str) -> None:
    words = split_words(question)
    assert all(0 <= start < end <= len(words) for start, end in quoted_spans(words))


@given(st.text())
def test_compact_is_its_own_compact(text: str) -> None:
    assert compact(compact(text)) == compact(text)
    assert compact(f" {text}, ") == compact(text)


def test_spelling_is_corrected_for_long_words_only() -> None:
    assert closest_word("appelation", ["appellation", "area"]) == "appellation"
    assert closest_word("artits", ["artist"]) == "artist"
    assert closest_word("rock", ["rocks"]) is None
    assert closest_word("rocks", ["rockers"]) == "rockers"
    assert closest_word("singer", ["ginger ale"]) is None
    assert closest_word("singer", []) is None


def test_english_is_told_from_mistakes() -> None:
    assert is_english("department")
    assert not is_english("Carribean")


@given(st.text(alphabet="ab c,'", max_size=20), st.integers(1, 4))
def test_runs_hold_no_marks_and_come_longest_first(question: str, longest: int) -> None:
    words = split_words(question)
    found = list(runs(words, longest))
    assert [len(run) for _, _, run in found] == sorted((len(run) for _, _, run in found), reverse=True)
    for start, end, run in found:
        assert run == [word for word in words[start:end] if not word.is_mark]
        assert not words[start].is_mark
        assert not words[end - 1].is_mark
    spoken = sum(not word.is_mark for word in words)
    assert len(found) == sum(spoken - length + 1 for length in range(1, min(longest, spoken) + 1))


def test_stop_words_in_any_form() -> None:
    words = split_words("What Singers has The of")
    assert [is_stop_word(word) for word in words] == [True, False, True, True, True]
    assert "name" not in STOP_WORDS


def test_sentences_begin_after_a_full_stop() -> None:
    words = split_words("Give names. Order them")
    assert [word.text for position, word in enumerate(words) if begins_sentence(words, position)] == ["Give", "Order"]
