"""`make demo`: five questions to the bundled databases, the score on all bundled questions, and what to do next.

In: a model. Out, on the screen: the SQL and rows of each question, with a remark if the model is not sure. The
questions are not in the acceptance set, and wrong answers are shown too.
"""

import os
from pathlib import Path

import torch
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from dtfixup.errors import GuardError
from dtfixup.sql.ask.acceptance import Acceptance, accept
from dtfixup.sql.ask.opened import OpenedDatabase, open_database
from dtfixup.sql.ask.parser import TextToSql, default_model
from dtfixup.sql.ask.view import remark, rows_table, sql_view
from dtfixup.sql.execution.run import run_query
from dtfixup.sql.linking.view import printable

QUESTIONS = (
    ("film_festival", "Which films in French are longer than 100 minutes? Show the title and the runtime."),
    ("film_festival", "What is the average score of each film? Show the title, the best first."),
    ("public_library", "How many books are there in each language?"),
    ("river_ferry", "Which captains have never been on a sailing?"),
    ("bike_repair", "What are the names of the customers in Utrecht who own an electric bike?"),
)
"""Database and question."""
_ROWS, _DEADLINE = 5, 5.0
_INDENT = (0, 0, 1, 2)


def show_ask_demo(model: str | Path | None, console: Console) -> Acceptance:
    """Ask, run and show the questions; then ask the acceptance set."""
    file = Path(default_model() if model is None else model)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in `dtfixup ask`: a second thread gains nothing
    torch.set_num_threads(1)
    parser = TextToSql.load(file)
    opened = {name: open_database(f"sample:{name}") for name, _ in QUESTIONS}
    for name, question in QUESTIONS:
        _show_answer(parser, opened[name], name, question, console)
    score = accept(file)  # as `dtfixup sql acceptance`
    for line in (
        "on your own database:  dtfixup ask shop.sqlite",
        "the page:              dtfixup serve shop.sqlite",
        score.line,
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return score


def _show_answer(parser: TextToSql, database: OpenedDatabase, name: str, question: str, console: Console) -> None:
    answer = parser.ask(question, database)
    console.print(Text.assemble((question, "bold"), (f"  {name}, {1000 * answer.timing.total:.0f} ms", "dim")))
    if (sentence := remark(answer, parser.sure_above, list_follows=False)) is not None:
        console.print(Padding(Text(printable(sentence), "yellow"), (0, 0, 0, 2)))
    if answer.sql is None:
        return
    console.print(Padding(sql_view(answer.sql), (0, 0, 0, 2)))
    try:
        rows = run_query(database, answer.sql, deadline=_DEADLINE, max_rows=_ROWS)
        console.print(Padding(rows_table(rows), _INDENT))
    except GuardError as error:
        console.print(Padding(Text(printable(str(error)), "red"), _INDENT))
