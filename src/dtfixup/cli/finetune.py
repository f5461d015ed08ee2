"""The verb `dtfixup sql finetune`: a user's question/SQL pairs in, a model that knows their words out.

What is said goes to standard error but for the table of scores, which goes to standard output. Exit codes are those of
`ExitCode`.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dtfixup.cli import options as cli_options

if TYPE_CHECKING:
    from dtfixup.sql.ask.opened import OpenedDatabase
    from dtfixup.sql.finetune.run import FinetuneRun, Finetuning

_LISTED = 20
"""Pairs that are told of one by one; a file has them all."""


class ExitCode(IntEnum):
    """What a script can tell; 2 is every command's for an error."""

    TUNED = 0
    NOT_BETTER = 3
    """The run finished, and the model to use is the one it began with."""
    STOPPED = cli_options.STOPPED


def finetune(
    pairs: Path,
    database: str,
    out: Path,
    model: Path | None = None,
    hold_out: float | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    seed: int | None = None,
    beam: int | None = None,
    deadline: float = 10.0,
    keep: Literal["better", "tuned"] = "better",
    names: Path | None = None,
    namespace: str | None = None,
    resume: bool = False,
) -> None:
    """Teach a trained model your own questions, and measure it on some of them before and after.

    Exit code: 0 the folder has the tuned model, 2 error, 3 the tuned model was not better and the folder has the model
    as it was, 130 stopped; go on with --resume.

    Args:
        pairs: CSV, JSON or JSON lines with columns question and sql, the SQL as the database takes it.
        database: SQLite file, or a URL such as postgresql://user@host/name or mysql://user@host/name.
        out: Folder for the model, scores and logs.
        model: Folder of a finished run, or a file of weights.
        hold_out: Share of the pairs that is not learnt but measured on, 0.2.
        epochs: Passes over the others.
        batch_size: Pairs of a step.
        learning_rate: Higher learns more of the pairs, and forgets more of the rest.
        seed: Of which pairs are held out, and of their order in training.
        beam: How many queries to look for when the model is measured, 5.
        deadline: Seconds that a query may take when answers are run.
        keep: better leaves the model in the folder that answers the held-out pairs better; tuned leaves the tuned one.
        names: YAML file with natural names of tables, columns and abbreviations.
        namespace: A PostgreSQL schema, or another database of a MySQL server.
        resume: Go on with the run in the folder.
    """
    # On a machine with other work too, threads that wait for each other by spinning take most of the time.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from dtfixup.sql.ask.opened import OpenedDatabase
    from dtfixup.sql.database.names import read_names
    from dtfixup.sql.finetune import run as sql_finetune
    from dtfixup.sql.finetune.task import FinetuneConfig, Keep
    from dtfixup.training.config import changed

    chosen = {
        "hold_out": hold_out,
        "beam": beam,
        "training": {
            "epochs": epochs,
            "batch_size": batch_size,
            "seed": seed,
            "update": {"learning_rate": learning_rate},
        },
    }
    config = changed(FinetuneConfig(), cli_options.given(chosen))
    console = Console(stderr=True)
    known = None if names is None else read_names(names)
    opened = sql_finetune.open_finetuning(
        pairs, OpenedDatabase(database, names=known, namespace=namespace), model, config
    )
    _show_pairs(opened, console)
    # Paths and URLs of this machine are nobody's business, and a URL may hold a password.
    command = f"dtfixup sql finetune --pairs FILE --database {opened.database.dialect.name} --out DIR"
    run = sql_finetune.finetune(
        opened, out, keep=Keep(keep), deadline=deadline, command=command, resume=resume, console=console
    )
    if run is None:
        sys.exit(ExitCode.STOPPED)
    given_to_ask = ["--model", str(out)]
    given_to_ask += [] if names is None else ["--names", str(names)]
    given_to_ask += [] if namespace is None else ["--namespace", namespace]
    _show_run(run, opened, given_to_ask, console)
    sys.exit(ExitCode.TUNED if run.kept_tuned else ExitCode.NOT_BETTER)


def _show_pairs(opened: "Finetuning", console: Console) -> None:
    """What can be learnt from, and each pair that cannot."""

    def say(text: str) -> None:
        console.print(escape(_shown(text)), highlight=False, soft_wrap=True)

    for sentence in opened.database.read().left_out:
        say(f"left out of the database: {sentence}")
    if opened.was_tuned:
        say("the model was fine-tuned before: with another --seed, questions held out now may have been learnt then")
    pairs, split = opened.pairs, opened.split
    say(
        f"{len(pairs.usable):,} of {len(pairs.usable) + len(pairs.unusable):,} pairs can be used: "
        f"{len(split.train):,} to learn from, {len(split.held_out):,} held out"
    )
    if pairs.unusable:
        say("left out: " + ", ".join(f"{fault} ({count})" for fault, count in pairs.counts.items()))
        for pair in pairs.unusable[:_LISTED]:
            say(f"  line {pair.line}: {pair.reason}")
        if len(pairs.unusable) > _LISTED:
            say(f"  and {len(pairs.unusable) - _LISTED:,} more, which pairs.json will list")
    if pairs.unlinked:
        lines = ", ".join(str(pair.line) for pair in pairs.unlinked[:_LISTED])
        more = ", ..." if len(pairs.unlinked) > _LISTED else ""
        say(
            f"learnt, but answered with no_link, tuned or not, as nothing in the database has its words: line {lines}"
            f"{more}. Give a table or column the word by --names"
        )


def _show_run(run: "FinetuneRun", opened: "Finetuning", given_to_ask: Sequence[str], console: Console) -> None:
    """Scores, what they leave out of account, and the command that asks the model; `given_to_ask` are its options."""
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
    if count := opened.pairs.counts.get(Fault.UNSAID_VALUE):
        told = f"{count:,} {'pair' if count == 1 else 'pairs'} with a {Fault.UNSAID_VALUE}, which no answer can have"
        Console().print(f"not in these scores: {told}", highlight=False, soft_wrap=True)
    for position, reason in run.before.summary.unjudged:
        line = run.before.pairs[position].pair.line
        console.print(escape(_shown(f"the query of line {line} is not judged by its rows: {reason}")), highlight=False)
    if run.is_better:
        said = "the tuned model is better"
    else:
        said = "the tuned model is not better" + (": the model stays as it was" if not run.kept_tuned else "")
    ask = _ask_command(run.after.pairs[0].pair.question, opened.database, given_to_ask)
    console.print(escape(_shown(f"{said}. Use it: {ask}")), highlight=False, soft_wrap=True)
    if not run.kept_tuned:
        console.print("the tuned weights are in tuned.safetensors, beside it", highlight=False)


def _ask_command(question: str, database: "OpenedDatabase", options: Sequence[str]) -> str:
    """What to type to ask the model; a URL is without password and options, as messages show it."""
    command = shlex.join(["dtfixup", "sql", "ask", question, "--database", database.shown, *options])
    url = database.location.url
    is_shortened = url is not None and bool(url.password or url.query)
    return f"{command} (put in the URL's password and options)" if is_shortened else command


def _shown(text: str) -> str:
    from dtfixup.sql.linking.view import printable

    return printable(text)
