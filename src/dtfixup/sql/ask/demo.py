"""`make demo`: five questions to the bundled databases, the score on all bundled questions, and how to go on.

In: a model. Out, on the screen: for each question its SQL, the rows, and a remark where the model is not sure. The
questions are not of the acceptance set; the model answers them as it is, and a wrong answer is shown like a right one.
"""

import os
from pathlib import Path

import torch
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from dtfixup.errors import GuardError
from dtfixup.sql.ask.acceptance import Acceptance, accept
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.parser import TextToSql, default_model
from dtfixup.sql.ask.view import remark, rows_table, sql_view
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
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
    """Ask, run, show; then ask the acceptance set."""
    file = Path(default_model() if model is None else model)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in `dtfixup sql ask`: two threads gain nothing here
    torch.set_num_threads(1)
    parser, dataset = TextToSql.load(file), open_dataset(sample_folder())
    opened: dict[str, OpenedDatabase] = {}
    for database, question in QUESTIONS:
        if database not in opened:
            opened[database] = OpenedDatabase(dataset.database_file(database))
        _show_answer(parser, opened[database], database, question, console)
    found = accept(file)  # what `dtfixup sql acceptance` measures
    for line in (
        "on your own database:  dtfixup sql ask --database FILE --run",
        "the page:              dtfixup serve",
        found.line,
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return found


def _show_answer(parser: TextToSql, database: OpenedDatabase, name: str, question: str, console: Console) -> None:
    answer = parser.ask(question, database)
    console.print(Text.assemble((question, "bold"), (f"  {name}, {1000 * answer.timing.total:.0f} ms", "dim")))
    if (sentence := remark(answer, parser.sure_above, list_follows=False)) is not None:
        console.print(Padding(Text(printable(sentence), "yellow"), (0, 0, 0, 2)))
    if answer.sql is None:
        return
    console.print(Padding(sql_view(answer.sql), (0, 0, 0, 2)))
    try:
        rows = run_query(database.location, answer.sql, deadline=_DEADLINE, max_rows=_ROWS)
        console.print(Padding(rows_table(rows), _INDENT))
    except GuardError as error:
        console.print(Padding(Text(printable(str(error)), "red"), _INDENT))
