"""Answers in a notebook: everything escaped, the alternatives below the query."""

from dataclasses import replace

from dtfixup.sql.ask.answers import Alternative, Answer, Timing, Verdict
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.linking.links import Links


def answer(*queries: str) -> Answer:
    schema = open_dataset(sample_folder()).schemas["river_ferry"]
    tree = SqlReader(schema).read("SELECT name FROM captain")
    share = 1 / len(queries)
    return Answer(
        "older <than> 3?",
        Verdict.UNSURE,
        tuple(Alternative(sql, share, 0.0, tree) for sql in queries),
        (),
        Links((), ()),
        schema,
        Dialect.SQLITE,
        Timing(0.0, 0.0, 0.0, 0.0),
        doubts=("no word says <why>",),
    )


def test_a_notebook_shows_question_query_doubts_and_alternatives() -> None:
    page = answer("SELECT 1 < 2", "SELECT '&'")._repr_html_()
    assert "<b>older &lt;than&gt; 3?</b>" in page
    assert "<pre><code>SELECT 1 &lt; 2</code></pre>" in page
    assert "unsure; no word says &lt;why&gt;" in page
    assert page.count("<tr>") == 1
    assert "<td>50 %</td><td><code>SELECT &#x27;&amp;&#x27;</code></td>" in page


def test_guesses_are_listed_and_no_query_is_shown() -> None:
    page = replace(answer("SELECT 1"), verdict=Verdict.NO_LINK)._repr_html_()
    assert "<pre>" not in page
    assert "no link" in page
    assert page.count("<tr>") == 1
