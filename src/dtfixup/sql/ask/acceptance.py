"""The product's own acceptance set: the bundled questions, asked as a user asks them.

In: a model file. Out: `Acceptance`: for each of the 240 pairs of `sql/sample.py` whether the printed query is the gold
one (exact match), gives its rows (execution accuracy), and runs at all; shares by database and hardness. No model was
trained or tuned on these pairs. The schema is what the SQLite file tells of itself, the query is `Answer.sql`, and a
question to which no query is printed is a wrong one. Questions are asked in as many processes as there are cores, one
at a time each: threads would wait for each other, and a batch would not be what a user does.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from dtfixup.encoders import encoder_identity
from dtfixup.errors import GuardError
from dtfixup.files import file_sha256
from dtfixup.processes import Lost, run_supervised
from dtfixup.provenance import provenance
from dtfixup.sql.ask.answers import Verdict as Worth
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.parser import TextToSql, default_model
from dtfixup.sql.database.dataset import Dataset, Example, open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.evaluation.evaluate import ALL
from dtfixup.sql.evaluation.exact_match import Hardness
from dtfixup.sql.evaluation.execution_accuracy import ExecutionOutcome, ExecutionVerdict, Pair, evaluate_execution
from dtfixup.sql.evaluation.failures import Failure, count_failures, failures_of
from dtfixup.sql.evaluation.neutral import judge_any
from dtfixup.sql.execution.guarded import open_guarded
from dtfixup.sql.linking.view import printable
from dtfixup.weights.tensors import read_content
from dtfixup.weights.trained import weights_file

SPLITS = ("train", "dev")
"""Files of the bundled dataset; both are of the acceptance set, the names are those of Spider's layout."""
_DEADLINE, _ROWS = 5.0, 100  # as `dtfixup sql ask --run`
_PATIENCE = 180.0  # seconds for a question, loading the model included


@dataclass(frozen=True)
class Reply:
    """What a user got for a question."""

    worth: Worth
    sql: str | None
    """The query that was printed."""
    guess: str | None = None
    """The likeliest query where none was printed for want of a link."""
    error: str = ""
    """Why the printed query does not run."""


@dataclass(frozen=True)
class Judged:
    """A question, its answer and what that is worth."""

    example: Example
    reply: Reply
    hardness: Hardness
    exact: bool
    is_exact_guess: bool
    """The query was not printed, for want of a link, but would have been exact."""
    execution: ExecutionVerdict
    failures: tuple[Failure, ...]

    @property
    def right(self) -> bool:
        """Whether the printed query gives the gold query's rows."""
        return self.execution.outcome is ExecutionOutcome.EQUAL


@dataclass(frozen=True)
class Share:
    """Percentages over some of the questions."""

    count: int
    exact: float
    execution: float


@dataclass(frozen=True)
class Acceptance:
    """All questions, judged."""

    judged: tuple[Judged, ...]
    ask_seconds: float
    seconds: float
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shares(self) -> dict[str, Share]:
        """By database, then by hardness, then `all`."""
        groups = {name: [each for each in self.judged if each.example.database == name] for name in self.databases}
        groups |= {level.value: [each for each in self.judged if each.hardness is level] for level in Hardness}
        return {name: _share(chosen) for name, chosen in {**groups, ALL: list(self.judged)}.items() if chosen}

    @property
    def databases(self) -> list[str]:
        return sorted({each.example.database for each in self.judged})

    @property
    def failed(self) -> list[Judged]:
        """Those whose printed query does not run."""
        return [each for each in self.judged if each.reply.error]

    @property
    def metrics(self) -> dict[str, float]:
        """Flat names, as in `acceptance_exact`, `acceptance_execution_hard`."""
        found: dict[str, float] = {}
        for name, share in self.shares.items():
            suffix = "" if name == ALL else f"_{name}"
            found[f"acceptance_exact{suffix}"] = round(share.exact, 4)
            found[f"acceptance_execution{suffix}"] = round(share.execution, 4)
        sure = [each for each in self.judged if each.reply.worth is Worth.SURE]
        found |= {
            "questions": len(self.judged),
            "failed_to_run": len(self.failed),
            "no_query": sum(each.reply.sql is None for each in self.judged),
            "exact_but_not_printed": sum(each.is_exact_guess for each in self.judged),
            "sure": len(sure),
            "ask_seconds": round(self.ask_seconds, 1),
            "seconds": round(self.seconds, 1),
        }
        if sure:
            found["acceptance_execution_of_sure"] = round(_share(sure).execution, 4)
        return found

    @property
    def line(self) -> str:
        """Everything in one sentence."""
        whole, failed = self.shares[ALL], len(self.failed)
        ran = "every query runs" if not failed else f"{failed} queries do not run"
        return (
            f"acceptance set, {whole.count} questions: exact {whole.exact:.1f} %, "
            f"execution {whole.execution:.1f} %, {ran} ({self.seconds:.0f} s)"
        )

    def to_json(self, started: float) -> dict[str, Any]:
        """A result file; `started` is what `begin` returned."""
        record = provenance(
            "sql-acceptance",
            f"dtfixup sql acceptance [--model FILE] --beam {self.config['beam']} --variants {self.config['variants']}",
            started,
            seed=self.config["seed"],
            encoder=encoder_identity(self.config["encoder"]),
            data_hash=self.config["data_hash"],
        )
        kept = {name: self.config[name] for name in ("beam", "variants", "workers", "model_sha256")}
        wrong = [_failure_row(each) for each in self.judged if not each.right]
        counts = dict(count_failures(each.failures for each in self.judged if not each.right))
        return {
            **record,
            "config": kept,
            "metrics": self.metrics,
            "failures": counts,
            "wrong": wrong,
        }


def accept(
    model: str | Path | None = None,
    *,
    beam: int = 5,
    variants: int = 3,
    workers: int | None = None,
    dataset: Dataset | None = None,
    show_progress: bool = True,
) -> Acceptance:
    """Ask every bundled question.

    Args:
        model: the folder of a finished run or a file of weights; the shipped model where none is named.
        beam: how many queries to look for.
        variants: on how much randomised content the rows are compared too, as in `dtfixup sql evaluate`.
        workers: processes; one for every core, and at most four, by default.
        dataset: stands in for the bundled one.
        show_progress: show bars.
    """
    started = time.monotonic()
    file = weights_file(default_model() if model is None else model)
    content = read_content(file)
    workers = workers or min(os.cpu_count() or 1, 4)
    if dataset is None:
        dataset = open_dataset(sample_folder())
    examples = [example for split in SPLITS for example in dataset.split(split)]
    replies = ask_all(partial(_ask, str(file), beam), examples, dataset, workers=workers, show_progress=show_progress)
    ask_seconds = time.monotonic() - started
    judged = judge_replies(examples, replies, dataset, variants=variants, workers=workers, show_progress=show_progress)
    config = {
        "beam": beam,
        "variants": variants,
        "workers": workers,
        "model_sha256": file_sha256(file),
        "encoder": content.get("fingerprint", {}).get("encoder", ""),
        "seed": content.get("accuracy", {}).get("seed", 0),
        "data_hash": dataset.folder.name,  # the bundled dataset lies under the hash of its bytes
    }
    return Acceptance(tuple(judged), ask_seconds, time.monotonic() - started, config)


def ask_all(
    ask: Callable[[tuple[str, Path]], Reply],
    examples: Sequence[Example],
    dataset: Dataset,
    *,
    workers: int,
    show_progress: bool = True,
) -> list[Reply]:
    """Replies to all questions, in their order; `ask` is importable by name, or a partial of what is."""
    tasks = [(example.question, dataset.database_file(example.database)) for example in examples]
    replies = [Reply(Worth.UNSURE, None, error="it was not asked")] * len(tasks)
    with Progress(disable=not show_progress, transient=True) as bar:
        asking = bar.add_task("asking", total=len(tasks))
        for position, reply in run_supervised(ask, tasks, workers=workers, deadline=_PATIENCE):
            replies[position] = Reply(Worth.UNSURE, None, error=reply.reason) if isinstance(reply, Lost) else reply
            bar.advance(asking)
    return replies


def _ask(model: str, beam: int, task: tuple[str, Path]) -> Reply:
    """In a worker: one question through `TextToSql`, and its query run as `--run` does."""
    question, file = task
    answer = _parser(model).ask(question, _database(file), beam)
    if answer.sql is None:
        return Reply(answer.verdict, None, answer.alternatives[0].sql if answer.alternatives else None)
    try:
        with open_guarded(file, deadline=_DEADLINE, max_rows=_ROWS) as connection:
            connection.run(answer.sql)
    except GuardError as failure:
        return Reply(answer.verdict, answer.sql, error=str(failure))
    return Reply(answer.verdict, answer.sql)


@lru_cache(maxsize=1)
def _parser(model: str) -> TextToSql:
    torch.set_num_threads(1)  # the other cores have workers of their own
    return TextToSql.load(model)


@lru_cache(maxsize=16)
def _database(file: Path) -> OpenedDatabase:
    return OpenedDatabase(file)


def judge_replies(
    examples: Sequence[Example],
    replies: Sequence[Reply],
    dataset: Dataset,
    *,
    variants: int = 3,
    workers: int | None = None,
    show_progress: bool = True,
) -> list[Judged]:
    """Exact match of the plain text, execution accuracy of what was printed."""
    both = list(zip(examples, replies, strict=True))
    pairs = [Pair(example.database, example.query, reply.sql) for example, reply in both if reply.sql is not None]
    executed = iter(evaluate_execution(pairs, dataset, variants=variants, workers=workers, show_progress=show_progress))
    nothing = ExecutionVerdict(ExecutionOutcome.PREDICTION_FAILED, "no query")
    return [
        _judged(example, reply, dataset, nothing if reply.sql is None else next(executed)) for example, reply in both
    ]


def _judged(example: Example, reply: Reply, dataset: Dataset, execution: ExecutionVerdict) -> Judged:
    schema = dataset.schemas[example.database]
    verdict = judge_any(example.query, reply.sql, schema)
    failures = failures_of(verdict)
    if reply.sql is None:
        failures = (Failure.NO_QUERY,)
    elif verdict.exact and execution.outcome is not ExecutionOutcome.EQUAL:
        failures = (Failure.VALUES,)
    return Judged(
        example,
        reply,
        verdict.hardness,
        exact=verdict.exact,
        is_exact_guess=judge_any(example.query, reply.guess, schema).exact,
        execution=execution,
        failures=failures,
    )


def _share(chosen: Sequence[Judged]) -> Share:
    exact, right = (100 * sum(hits) / len(chosen) for hits in ([e.exact for e in chosen], [e.right for e in chosen]))
    return Share(len(chosen), exact, right)


def _failure_row(each: Judged) -> dict[str, Any]:
    return {
        "database": each.example.database,
        "hardness": each.hardness.value,
        "question": each.example.question,
        "gold": each.example.query,
        "predicted": each.reply.sql,
        "exact": each.exact,
        "kinds": [kind.value for kind in each.failures],
        "reason": each.execution.reason,
    }


def show_acceptance(found: Acceptance, console: Console, *, failures: int = 0) -> None:
    """Print the shares, some failures, every query that does not run, and the line that says it all."""
    table = Table(title="acceptance set, %", title_justify="left")
    for heading in ("", "questions", "exact", "execution"):
        table.add_column(heading, justify="right" if heading else "left")
    shares = list(found.shares.items())
    for place, (name, share) in enumerate(shares):
        is_last = place + 1 in (len(found.databases), len(shares) - 1)
        table.add_row(name, str(share.count), f"{share.exact:.1f}", f"{share.execution:.1f}", end_section=is_last)
    console.print(table)
    for each in [each for each in found.judged if not each.right][:failures]:
        predicted = each.reply.sql or "no query"
        for line in (each.example.question, f"  wanted {each.example.query}", f"  got    {predicted}"):
            console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
    for each in found.failed:
        told = f"does not run: {each.example.question}: {each.reply.error}"
        console.print(printable(told), markup=False, highlight=False, soft_wrap=True)
    console.print(found.line, markup=False, highlight=False, soft_wrap=True)
