import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.sql.ask.answers import Answer
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.view import percent
from dtfixup.sql.linking.view import Mark, printable
from dtfixup.web.page.answer_view import break_lines, highlight, list_alternatives, list_links, percentages
from tests.sql.asked import tiny_parser
from tests.web.shops import make_shop


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> OpenedDatabase:
    return OpenedDatabase(make_shop(tmp_path_factory.mktemp("shop") / "shop.sqlite"))


def ask(question: str, opened: OpenedDatabase) -> Answer:
    return tiny_parser().ask(question, opened, 1)


def test_words_are_marked_by_what_they_say(opened: OpenedDatabase) -> None:
    answer = ask("What is the age of pets in Vienna?", opened)
    marked = {text: mark for text, mark in highlight(answer) if mark is not None}
    assert marked == {"age": Mark.COLUMN, "pets": Mark.TABLE, "Vienna": Mark.VALUE}
    shown = {words: target for words, target, _ in list_links(answer)}
    assert shown == {"age": "pets.age", "pets": "pets", "Vienna": "owners.city = Vienna"}


@pytest.mark.parametrize(
    "question",
    ["pets", "  How many pets\tare\nthere ?!", "Vienna, Linz and Rex's owner's city", "owners' cities", "Rex Rex"],
)
def test_the_pieces_are_the_question(question: str, opened: OpenedDatabase) -> None:
    answer = ask(question, opened)
    assert "".join(text for text, _ in highlight(answer)) == printable(answer.question)
    assert all(text for text, _ in highlight(answer))


def test_alternatives_are_shown_with_their_shares(opened: OpenedDatabase) -> None:
    answer = tiny_parser().ask("How many pets are there?", opened, 3)
    shown = list_alternatives(answer, 0.5)
    assert [sql for _, sql in shown] == [each.sql for each in answer.alternatives]
    assert shown[0][0].startswith(f"{percent(answer.alternatives[0].probability, 0.5)}  SELECT")
    unlikely = replace(answer, alternatives=(replace(answer.alternatives[0], probability=0.004),))
    assert list_alternatives(unlikely, 0.5)[0][0].startswith("< 1 %  SELECT")
    assert percentages(unlikely, 0.5) == {answer.alternatives[0].sql: "< 1 %"}
    assert list_alternatives(replace(answer, alternatives=()), 0.5) == []


@given(
    st.lists(st.sampled_from(["SELECT a", " FROM b", " WHERE", " 'x FROM y'", '"GROUP BY"', " ORDER BY c", "\n", " "]))
)
def test_a_query_over_several_lines_is_the_same_query(parts: list[str]) -> None:
    sql = "".join(parts)
    outside = re.compile(r"""('[^']*'|"[^"]*")|\s+""")
    plain = [outside.sub(lambda match: match[1] or " ", text) for text in (sql, break_lines(sql))]
    assert plain[0] == plain[1]


def test_clauses_have_lines_of_their_own() -> None:
    sql = "SELECT count(*) FROM pets AS T1 JOIN owners AS T2 ON T1.owner = T2.id WHERE T2.city = 'FROM Linz' LIMIT 1"
    assert break_lines(sql).split("\n") == [
        "SELECT count(*)",
        "FROM pets AS T1",
        "JOIN owners AS T2 ON T1.owner = T2.id",
        "WHERE T2.city = 'FROM Linz'",
        "LIMIT 1",
    ]
