"""What the page does with a request."""

import asyncio
import os
from pathlib import Path

import pytest

from dtfixup.sql.execution.guarded import Rows
from dtfixup.web.page.ask import MOST_HISTORY, AnswerView, PageActions, add_to_history, view_rows
from dtfixup.web.store.catalogue import Entry
from tests.web.shops import NO_LINK, QUESTION, make_shop


def test_a_question_is_answered(actions: PageActions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions.service.parser, "sure_above", 0.0)
    shown = asyncio.run(actions.ask("shop", QUESTION, "me"))
    assert "".join(text for text, _ in shown.pieces) == QUESTION
    assert "<b>pets</b>" in shown.links
    assert shown.sql.startswith("SELECT")
    assert len(shown.alternatives) > 1
    assert (shown.notice, shown.opens_alternatives) == ("", False)


def test_not_sure_is_said_and_opens_the_alternatives(actions: PageActions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions.service.parser, "sure_above", 1.0)
    shown = asyncio.run(actions.ask("shop", QUESTION, "me"))
    assert "Not sure." in shown.notice
    assert "one of the queries below" in shown.notice
    assert shown.opens_alternatives


def test_no_link_is_said_and_nothing_is_guessed(actions: PageActions) -> None:
    shown = asyncio.run(actions.ask("shop", NO_LINK, "me"))
    assert "No link to this database." in shown.notice
    assert (shown.sql, shown.alternatives, shown.percentages) == ("", (), {})


@pytest.mark.parametrize("name", ["nothing", "upload-0123", "../../etc/passwd", "/etc/passwd"])
def test_unknown_databases_are_told(actions: PageActions, name: str) -> None:
    for said in (
        asyncio.run(actions.ask(name, QUESTION, "me")).notice,
        asyncio.run(actions.run(name, "SELECT 1", "me")).notice,
        asyncio.run(actions.schema(name, "me")),
    ):
        assert 'role="alert"' in said


def test_rows_are_shown_with_nulls_and_kinds(actions: PageActions) -> None:
    ran = asyncio.run(actions.run("shop", "SELECT name, age FROM pets ORDER BY id", "me"))
    assert ran.columns == ("name", "age")
    assert ran.rows == (("Rex", 3), ("Tom", 7), ("Mia", "NULL"))
    assert ran.kinds == ("str", "number")
    assert "3 rows." in ran.notice
    assert "<figure" in asyncio.run(actions.run("shop", "SELECT name, age FROM pets WHERE age > 0", "me")).chart
    assert "no query to run" in asyncio.run(actions.run("shop", "  ", "me")).notice


def test_nothing_is_kept_of_who_left(actions: PageActions) -> None:
    actions.begin_turn("me")
    assert actions.turn_of("me") == 1
    actions.leave("me")
    assert not actions.turns


def test_a_cut_is_said() -> None:
    assert "The first 1 row; there are more." in view_rows(Rows(("a",), [(1,)], True)).notice
    empty = view_rows(Rows(("a",), [], False))
    assert "No rows: nothing in the database fits." in empty.notice
    assert empty.kinds == ("str",), "no numbers, so nothing stands to the right"
    assert "Save as CSV" not in empty.notice


def test_fractions_are_shown_short() -> None:
    values = (109857.14285714286, 1 / 3, 1.23456789e-7, -2.5, 1e300, 12345678901234567890)
    assert view_rows(Rows(("a",), [(value,) for value in values], False)).rows == (
        (109857.142857,), (0.333333,), (1.23457e-07,), (-2.5,), (1e300,), ("12345678901234567890",),
    )  # fmt: skip


def test_errors_are_escaped(actions: PageActions) -> None:
    said = asyncio.run(actions.run("shop", 'SELECT "<img src=x onerror=alert(1)>" FROM nothing', "me")).notice
    assert "<img" not in said
    assert "<img" not in asyncio.run(actions.ask("<img src=x>", "x", "me")).notice


def test_an_upload_is_the_visitors_own(actions: PageActions) -> None:
    folder = actions.uploads.incoming / os.urandom(8).hex()
    folder.mkdir()
    taken = asyncio.run(actions.upload(make_shop(folder / "mine.db"), "mine.db", "me"))
    assert isinstance(taken, Entry)
    name = taken.name
    assert taken.label == "mine.db"
    assert "<svg" in asyncio.run(actions.schema(name, "me"))
    assert asyncio.run(actions.run(name, "SELECT count(*) FROM pets", "me")).rows == ((3,),)
    asked = asyncio.run(actions.ask(name, QUESTION, "me"))
    assert asked.sql
    assert asked.label == "mine.db"
    assert 'role="alert"' in asyncio.run(actions.run(name, "SELECT 1", "you")).notice
    actions.uploads.forget("me")
    assert "upload the file again" in asyncio.run(actions.run(name, "SELECT 1", "me")).notice


def test_a_file_that_is_no_database_is_told(actions: PageActions, tmp_path: Path) -> None:
    said = asyncio.run(actions.upload(tmp_path / "nothing", "nothing", "me"))
    assert isinstance(said, str)
    assert "names no file that was uploaded" in said


def test_a_full_disk_is_told(actions: PageActions, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(actions.uploads, "take", full)
    said = asyncio.run(actions.upload(Path("x"), "x", "me"))
    assert isinstance(said, str)
    assert "No space left on device" in said


def test_history_holds_each_question_once_and_not_too_many() -> None:
    history: list[AnswerView] = []
    for number in range(2 * MOST_HISTORY):
        history = add_to_history(history, AnswerView(f"question {number}", "shop"))
    assert len(history) == MOST_HISTORY
    again = add_to_history(history, AnswerView(history[3].question, "shop"))
    assert len(again) == MOST_HISTORY
    assert again[0].question == history[3].question
