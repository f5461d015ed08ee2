"""The acceptance set: the bundled questions, asked as a user asks them.

In: a model file. Out: `Acceptance`: for each of the 240 bundled questions, whether the printed query is exact, whether
it gives the gold query's rows, and whether it runs; and shares by database and hardness. No model was trained or tuned
on these questions. The schema is reflected from the SQLite file, the query is `Answer.sql`, and a question without a
printed query counts as wrong. Each process asks one question at a time, as a user does.
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
from rich.progress import track
from rich.table import Table

from dtfixup.encoders import encoder_identity
from dtfixup.errors import GuardError
from dtfixup.files import file_sha256
from dtfixup.processes import Lost, run_supervised
from dtfixup.provenance import provenance
from dtfixup.sql.ask.answers import Verdict
from dtfixup.sql.ask.opened import OpenedDatabase, open_database
from dtfixup.sql.ask.parser import TextToSql, default_model
from dtfixup.sql.database.dataset import Dataset, Example, open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import Schema
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
"""Files of the bundled dataset, with names of Spider's layout; the acceptance set is both."""
_DEADLINE, _ROWS = 5.0, 100  # as `dtfixup ask --run`
_PATIENCE = 180.0  # seconds for a question, including the time to load the model


@dataclass(frozen=True)
class Reply:
    """The reply to a question, as a user gets it."""

    verdict: Verdict
    sql: str | None
    """The printed query."""
    guess: str | None = None
    """The likeliest query, if none was printed because nothing links to the schema."""
    error: str = ""
    """Why the printed query does not run."""


@dataclass(frozen=True)
class JudgedReply:
    """A question, its reply, and what is right in it."""

    example: Example
    reply: Reply
    hardness: Hardness
    exact: bool
    is_exact_guess: bool
    """Whether the query was not printed, but would have been exact."""
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

    @classmethod
    def of(cls, judged: Sequence[JudgedReply]) -> "Share":
        count = len(judged)
        exact, right = sum(item.exact for item in judged), sum(item.right for item in judged)
        return cls(count, 100 * exact / count, 100 * right / count)


@dataclass(frozen=True)
class Acceptance:
    """The replies to all questions, judged."""

    judged: tuple[JudgedReply, ...]
    ask_seconds: float
    seconds: float
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shares(self) -> dict[str, Share]:
        """By database, then by hardness, then `all`."""
        groups = {name: [item for item in self.judged if item.example.database == name] for name in self.databases}
        groups |= {level.value: [item for item in self.judged if item.hardness is level] for level in Hardness}
        return {name: Share.of(group) for name, group in {**groups, ALL: list(self.judged)}.items() if group}

    @property
    def databases(self) -> list[str]:
        return sorted({item.example.database for item in self.judged})

    @property
    def failed(self) -> list[JudgedReply]:
        """The replies whose printed query does not run."""
        return [item for item in self.judged if item.reply.error]

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics by flat names, such as `acceptance_exact` and `acceptance_execution_hard`."""
        metrics: dict[str, float] = {}
        for name, share in self.shares.items():
            suffix = "" if name == ALL else f"_{name}"
            metrics[f"acceptance_exact{suffix}"] = round(share.exact, 4)
            metrics[f"acceptance_execution{suffix}"] = round(share.execution, 4)
        sure = [item for item in self.judged if item.reply.verdict is Verdict.SURE]
        metrics |= {
            "questions": len(self.judged),
            "failed_to_run": len(self.failed),
            "no_query": sum(item.reply.sql is None for item in self.judged),
            "exact_but_not_printed": sum(item.is_exact_guess for item in self.judged),
            "sure": len(sure),
            "ask_seconds": round(self.ask_seconds, 1),
            "seconds": round(self.seconds, 1),
        }
        if sure:
            metrics["acceptance_execution_of_sure"] = round(Share.of(sure).execution, 4)
        return metrics

    @property
    def line(self) -> str:
        """A summary in one line."""
        whole, failed = self.shares[ALL], len(self.failed)
        ran = "every query runs" if not failed else f"{failed} queries do not run"
        return (
            f"acceptance set, {whole.count} questions: exact {whole.exact:.1f} %, "
            f"execution {whole.execution:.1f} %, {ran} ({self.seconds:.0f} s)"
        )

    def to_json(self, started: float) -> dict[str, Any]:
        """The content of a result file; `started` comes from `provenance.begin`."""
        record = provenance(
            "sql-acceptance",
            f"dtfixup sql acceptance [--model FILE] --beam {self.config['beam']} --variants {self.config['variants']}",
            started,
            seed=self.config["seed"],
            encoder=encoder_identity(self.config["encoder"]),
            data_hash=self.config["data_hash"],
        )
        wrong = [item for item in self.judged if not item.right]
        return {
            **record,
            "config": {name: self.config[name] for name in ("beam", "variants", "workers", "model_sha256")},
            "metrics": self.metrics,
            "failures": dict(count_failures(item.failures for item in wrong)),
            "wrong": [_failure_row(item) for item in wrong],
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
        model: the folder of a finished run or a file of weights; the shipped model by default.
        beam: number of queries to look for.
        variants: comparisons on randomised content, as in `dtfixup sql evaluate`.
        workers: processes; one per core by default, at most four.
        dataset: a dataset to ask instead of the bundled one.
        show_progress: show progress bars.
    """
    started = time.monotonic()
    file = weights_file(default_model() if model is None else model)
    content = read_content(file)
    workers = workers or min(os.cpu_count() or 1, 4)
    dataset = open_dataset(sample_folder()) if dataset is None else dataset
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
        "data_hash": dataset.folder.name,  # the bundled dataset's folder is named by the hash of its bytes
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
    """The replies to all questions, in order; `ask` is importable by name, or a partial of a function that is."""
    tasks = [(example.question, dataset.database_file(example.database)) for example in examples]
    replies: dict[int, Reply] = {}
    running = run_supervised(ask, tasks, workers=workers, deadline=_PATIENCE)
    for position, reply in track(running, "asking", len(tasks), disable=not show_progress, transient=True):
        replies[position] = Reply(Verdict.UNSURE, None, error=reply.reason) if isinstance(reply, Lost) else reply
    return [replies[position] for position in range(len(tasks))]


def _ask(model: str, beam: int, task: tuple[str, Path]) -> Reply:
    """Ask a question and run its query, as `dtfixup ask --run` does; in a worker process."""
    question, file = task
    database = _database(file)
    answer = _parser(model).ask(question, database, beam)
    if answer.sql is None:
        return Reply(answer.verdict, None, answer.alternatives[0].sql if answer.alternatives else None)
    try:
        with open_guarded(database, deadline=_DEADLINE, max_rows=_ROWS) as connection:
            connection.run(answer.sql)
    except GuardError as failure:
        return Reply(answer.verdict, answer.sql, error=str(failure))
    return Reply(answer.verdict, answer.sql)


@lru_cache(maxsize=1)
def _parser(model: str) -> TextToSql:
    torch.set_num_threads(1)  # the other cores run other workers
    return TextToSql.load(model)


@lru_cache(maxsize=16)
def _database(file: Path) -> OpenedDatabase:
    return open_database(file)


def judge_replies(
    examples: Sequence[Example],
    replies: Sequence[Reply],
    dataset: Dataset,
    *,
    variants: int = 3,
    workers: int | None = None,
    show_progress: bool = True,
) -> list[JudgedReply]:
    """Judge the printed queries by exact match and by execution."""
    both = list(zip(examples, replies, strict=True))
    pairs = [Pair(example.database, example.query, reply.sql) for example, reply in both if reply.sql is not None]
    executed = iter(evaluate_execution(pairs, dataset, variants=variants, workers=workers, show_progress=show_progress))
    no_query = ExecutionVerdict(ExecutionOutcome.PREDICTION_FAILED, "no query")
    return [
        _judge(example, reply, dataset.schemas[example.database], no_query if reply.sql is None else next(executed))
        for example, reply in both
    ]


def _judge(example: Example, reply: Reply, schema: Schema, execution: ExecutionVerdict) -> JudgedReply:
    verdict = judge_any(example.query, reply.sql, schema)
    failures = failures_of(verdict)
    if reply.sql is None:
        failures = (Failure.NO_QUERY,)
    elif verdict.exact and execution.outcome is not ExecutionOutcome.EQUAL:
        failures = (Failure.VALUES,)
    return JudgedReply(
        example,
        reply,
        verdict.hardness,
        exact=verdict.exact,
        is_exact_guess=judge_any(example.query, reply.guess, schema).exact,
        execution=execution,
        failures=failures,
    )


def _failure_row(item: JudgedReply) -> dict[str, Any]:
    return {
        "database": item.example.database,
        "hardness": item.hardness.value,
        "question": item.example.question,
        "gold": item.example.query,
        "predicted": item.reply.sql,
        "exact": item.exact,
        "kinds": [kind.value for kind in item.failures],
        "reason": item.execution.reason,
    }


def show_acceptance(acceptance: Acceptance, console: Console, *, failures: int = 0) -> None:
    """Print the shares, some failures, every query that does not run, and the summary."""
    table = Table(title="acceptance set, %", title_justify="left")
    for heading in ("", "questions", "exact", "execution"):
        table.add_column(heading, justify="right" if heading else "left")
    shares = list(acceptance.shares.items())
    for count, (name, share) in enumerate(shares, start=1):
        is_last = count in (len(acceptance.databases), len(shares) - 1)
        table.add_row(name, str(share.count), f"{share.exact:.1f}", f"{share.execution:.1f}", end_section=is_last)
    console.print(table)
    lines = []
    for item in [item for item in acceptance.judged if not item.right][:failures]:
        predicted = item.reply.sql or "no query"
        lines += [item.example.question, f"  wanted {item.example.query}", f"  got    {predicted}"]
    lines += [f"does not run: {item.example.question}: {item.reply.error}" for item in acceptance.failed]
    for line in [*lines, acceptance.line]:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
