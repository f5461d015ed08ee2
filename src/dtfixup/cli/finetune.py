"""The verb `dtfixup sql finetune`: a user's question/SQL pairs in, a model that knows their words out.

The table of scores goes to standard output, everything else to standard error.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dtfixup.cli.options import STOPPED, locate
from dtfixup.cli.parse import Settings

# Before torch is loaded: on a busy machine, threads that wait for each other by spinning take most of the time.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
from dtfixup.sql.finetune.task import FinetuneConfig, Keep
from dtfixup.sql.linking.view import printable

if TYPE_CHECKING:
    from dtfixup.sql.ask.opened import OpenedDatabase
    from dtfixup.sql.finetune.run import FinetuneRun, Finetuning

NOT_BETTER = 3
"""Exit code of a run that finished without a better model."""
_LISTED = 20
"""Pairs that are listed one by one; a file has them all."""


def finetune(
    pairs: Path,
    database: str,
    out: Path,
    model: Path | None = None,
    deadline: float = 10.0,
    keep: Keep = Keep.BETTER,
    names: Path | None = None,
    namespace: str | None = None,
    resume: bool = False,
    settings: Annotated[FinetuneConfig, Settings(hidden=frozenset({"encoder"}))] = FinetuneConfig(),  # noqa: B008, it is frozen
) -> None:
    """Teach a trained model your own questions, and measure it on some of them before and after.

    Exit code: 0 the folder has the tuned model, 2 error, 3 the tuned model was not better and the folder has the model
    as it was, 130 stopped; go on with --resume.

    Args:
        pairs: CSV, JSON or JSON lines with columns question and sql, the SQL as the database takes it.
        database: SQLite file, or a URL such as postgresql://user@host/name or mysql://user@host/name.
        out: Folder for the model, scores and logs.
        model: Folder of a finished run, or a file of weights; the shipped model by default.
        deadline: Seconds that a query may run.
        keep: The model that the folder gets: better is the one that answers the held-out pairs better.
        names: YAML file with natural names of tables, columns and abbreviations.
        namespace: A PostgreSQL schema, or another database of a MySQL server.
        resume: Go on with the run in the folder.
    """
    from dtfixup.sql.ask.opened import OpenedDatabase
    from dtfixup.sql.database.names import read_names
    from dtfixup.sql.finetune import run as finetune_run

    console = Console(stderr=True)
    natural = None if names is None else read_names(names)
    opened_database = OpenedDatabase(locate(database), names=natural, namespace=namespace)
    opened = finetune_run.open_finetuning(pairs, opened_database, model, settings)
    _show_pairs(opened, console)
    # Local paths and URLs, which may hold a password, are masked so that result files can be published.
    command = f"dtfixup sql finetune --pairs FILE --database {opened.database.dialect.name} --out DIR"
    run = finetune_run.finetune(
        opened, out, keep=keep, deadline=deadline, command=command, resume=resume, console=console
    )
    if run is None:
        sys.exit(STOPPED)
    ask_options = ["--model", str(out)]
    ask_options += [] if names is None else ["--names", str(names)]
    ask_options += [] if namespace is None else ["--namespace", namespace]
    _show_run(run, opened, ask_options, console)
    if not run.kept_tuned:
        sys.exit(NOT_BETTER)


def _show_pairs(opened: "Finetuning", console: Console) -> None:
    """Show how many pairs can be learnt from, and each pair that cannot."""

    def show(text: str) -> None:
        console.print(escape(printable(text)), highlight=False, soft_wrap=True)

    for sentence in opened.database.read().left_out:
        show(f"left out of the database: {sentence}")
    if opened.was_tuned:
        show("the model was fine-tuned before: with another --seed, questions held out now may have been learnt then")
    pairs, split = opened.pairs, opened.split
    show(
        f"{len(pairs.usable):,} of {len(pairs.usable) + len(pairs.unusable):,} pairs can be used: "
        f"{len(split.train):,} to learn from, {len(split.held_out):,} held out"
    )
    if pairs.unusable:
        show("left out: " + ", ".join(f"{fault} ({count})" for fault, count in pairs.counts.items()))
        for pair in pairs.unusable[:_LISTED]:
            show(f"  line {pair.line}: {pair.reason}")
        if len(pairs.unusable) > _LISTED:
            show(f"  and {len(pairs.unusable) - _LISTED:,} more, which pairs.json will list")
    if pairs.unlinked:
        lines = ", ".join(str(pair.line) for pair in pairs.unlinked[:_LISTED])
        more = ", ..." if len(pairs.unlinked) > _LISTED else ""
        show(
            f"learnt, but answered with no_link, tuned or not, as nothing in the database has its words: line {lines}"
            f"{more}. Give a table or column the word by --names"
        )


def _show_run(run: "FinetuneRun", opened: "Finetuning", ask_options: Sequence[str], console: Console) -> None:
    """Show the scores, what they leave out, and the command that asks the model."""
    from dtfixup.sql.finetune.pairs import Fault

    table = Table(title=f"{len(run.before.pairs)} held-out questions", title_justify="left")
    for heading in ("", "before", "after"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, first, second in (
        ("right answer, %", run.before.right, run.after.right),
        ("exact query, %", run.before.exact, run.after.exact),
    ):
        table.add_row(name, *("-" if value is None else f"{value:.1f}" for value in (first, second)))
    Console().print(table)
    if count := opened.pairs.counts.get(Fault.MISSING_VALUE):
        kind = f"{'pair' if count == 1 else 'pairs'} with a {Fault.MISSING_VALUE}"
        Console().print(
            f"not in these scores: {count:,} {kind}, which no answer can have", highlight=False, soft_wrap=True
        )
    for position, reason in run.before.summary.unjudged:
        line = run.before.pairs[position].pair.line
        text = f"the query of line {line} is not judged by its rows: {reason}"
        console.print(escape(printable(text)), highlight=False)
    if run.is_better:
        outcome = "the tuned model is better"
    else:
        outcome = "the tuned model is not better" + (": the model stays as it was" if not run.kept_tuned else "")
    ask = _ask_command(run.after.pairs[0].pair.question, opened.database, ask_options)
    console.print(escape(printable(f"{outcome}. Use it: {ask}")), highlight=False, soft_wrap=True)
    if not run.kept_tuned:
        console.print("the tuned weights are in tuned.safetensors, beside it", highlight=False)


def _ask_command(question: str, database: "OpenedDatabase", options: Sequence[str]) -> str:
    """The command that asks the model; a URL is shown without password and options."""
    command = shlex.join(["dtfixup", "sql", "ask", question, "--database", database.shown, *options])
    url = database.location.url
    is_shortened = url is not None and bool(url.password or url.query)
    return f"{command} (put in the URL's password and options)" if is_shortened else command
