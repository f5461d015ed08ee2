"""Dates in questions and in stored values."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.sql.language.dates import Date, are_clocks, date_form, dates_in, render_date
from dtfixup.sql.language.words import split_words

_DAYS = st.dates(datetime.date(1000, 1, 1), datetime.date(2099, 12, 31))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("before November 5th, 2007", (2007, 11, 5, None)),
        ("after 7th September, 1987", (1987, 9, 7, None)),
        ("on the 5th of Nov 2007", (2007, 11, 5, None)),
        ("on Oct. 23 2010", (2010, 10, 23, None)),
        ("in June 2017", (2017, 6, None, None)),
        ("temperature of August there", (None, 8, None, None)),
        ("at 2018-03-17 07:13:53", (2018, 3, 17, "07:13:53")),
        ("on 8/30/2015", (2015, 8, 30, None)),
        ("on 30.12.2001", (2001, 12, 30, None)),
    ],
)
def test_dates_of_a_question(question: str, expected: tuple[int | None, ...]) -> None:
    (date,) = dates_in(split_words(question))
    assert (date.year, date.month, date.day, date.clock) == expected


@pytest.mark.parametrize("question", ["They may march", "May I see them", "in 2017", "99/99/2001", "5 singers", ""])
def test_what_is_not_a_date(question: str) -> None:
    assert dates_in(split_words(question)) == ()


@given(_DAYS, st.sampled_from(["YYYY-MM-DD", "Month D, YYYY", "D Month YYYY", "M/D/YYYY"]))
def test_a_written_date_is_read_again(day: datetime.date, form: str) -> None:
    written = render_date(Date(0, 1, day.year, day.month, day.day), form)
    assert written is not None
    (read,) = dates_in(split_words(f"since {written}, say"))
    assert (read.year, read.month, read.day) == (day.year, day.month, day.day)


@given(st.text())
def test_any_text_has_dates_within_it(question: str) -> None:
    words = split_words(question)
    assert all(0 <= date.start < date.end <= len(words) for date in dates_in(words))


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (["2007-11-05", "2012-03-01"], "YYYY-MM-DD"),
        (["2007-11-05 10:00:00", "2012-03-01 11:30:00"], "YYYY-MM-DD"),
        (["08/30/2015", "01/02/2015"], "MM/DD/YYYY"),
        (["8/30/2015", "11/2/2015"], "M/D/YYYY"),
        (["30/08/2015", "01/12/2015"], "DD/MM/YYYY"),
        (["23-OCT-10", "01-SEP-10"], "DD-MON-YY"),
        (["28-AUG-2011", "7-APR-2001"], "D-MON-YYYY"),
        (["October 3, 1990", "May 12, 2001"], "Month D, YYYY"),
        (["1990-01-01", "1990-01-02", "1990-01-03", "null"], "YYYY-MM-DD"),
        (["1990-01-01", "null"], None),
        (["2001", "1999"], None),
        (["red"], None),
        ([], None),
    ],
)
def test_the_form_of_a_column(values: list[str], form: str | None) -> None:
    assert date_form(values) == form


@given(st.lists(_DAYS, min_size=1), st.sampled_from(["YYYY-MM-DD", "MM/DD/YYYY", "Month D, YYYY", "DD-MON-YYYY"]))
def test_the_form_of_written_dates_is_found(days: list[datetime.date], form: str) -> None:
    written = [render_date(Date(0, 1, day.year, day.month, day.day), form) for day in days]
    assert date_form([text for text in written if text]) == form


@pytest.mark.parametrize(
    ("date", "form", "expected"),
    [
        (Date(0, 1, 2007, 11, 5), "DD-MON-YY", "05-NOV-07"),
        (Date(0, 1, 2007, 11, 5, "10:30"), "YYYY-MM-DD", "2007-11-05 10:30"),
        (Date(0, 1, 2017, 6, None), "YYYY-MM-DD", "2017-06"),
        (Date(0, 1, None, 8, None), "M/D/YYYY", "8/"),
        (Date(0, 1, None, 8, None), "YYYY-MM-DD", "-08-"),
        (Date(0, 1, None, 8, None), "Month D, YYYY", "August"),
        (Date(0, 1, None, 8, 3), "YYYY-MM-DD", "-08-03"),
    ],
)
def test_what_is_known_of_a_date_is_written(date: Date, form: str, expected: str) -> None:
    assert render_date(date, form) == expected


def test_clock_times() -> None:
    assert are_clocks(["07:13:53", "3:45", "10:30 pm"])
    assert not are_clocks(["07:13:53", "noon"])
    assert not are_clocks([])
