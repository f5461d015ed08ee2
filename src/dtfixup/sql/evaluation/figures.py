"""How well the language side does on a dataset: the figures that `dtfixup sql prepare --report` writes.

In: a folder in Spider's layout. Out: a JSON-able report, which names examples by their index: round trips through the
grammar, literal coverage, link quality, random walks, the evaluator on gold queries and, where a file of official
verdicts is given, against those.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import sqlglot

from dtfixup.errors import DataError, GuardError, SqlError
from dtfixup.processes import map_supervised
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import Dataset, Example, open_dataset
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.evaluate import judge
from dtfixup.sql.evaluation.link_figures import LinkFigures, read_gold
from dtfixup.sql.evaluation.same_rows import equal_results
from dtfixup.sql.execution.guarded import GuardedConnection, open_guarded
from dtfixup.sql.grammar.joins import Joiner
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.transitions import Masks, first_illegal, steps_of, tree_of
from dtfixup.sql.grammar.tree import nodes, source_rules
from dtfixup.sql.grammar.walks import random_trees
from dtfixup.sql.grammar.writer import SqlWriter
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database, describe_question

_DEADLINE = 30.0
_MAX_ROWS = 200_000


def measure(
    data: str | Path,
    splits: Sequence[str] = ("train", "dev"),
    *,
    verdicts: str | Path | None = None,
    walks: int = 10_000,
    walk_schemas: int = 50,
    workers: int | None = None,
    show_progress: bool = True,
) -> dict[str, Any]:
    """All figures of a dataset. Databases are measured in parallel."""
    dataset = open_dataset(data)
    report: dict[str, Any] = {}
    for split in splits:
        by_database: dict[str, list[tuple[int, Example]]] = {}
        for index, example in enumerate(dataset.split(split)):
            by_database.setdefault(example.database, []).append((index, example))
        tasks = {
            name: (dataset.schemas[name], dataset.database_file(name), examples)
            for name, examples in by_database.items()
        }
        description = f"measuring {split}"
        report[split] = _sum_up(
            map_supervised(_measure_database, tasks, description, workers=workers, show_progress=show_progress)
        )
    if walks:
        chosen = _walkable(dataset)[:walk_schemas]
        walk_tasks = {
            name: (
                dataset.schemas[name],
                dataset.database_file(name),
                walks // len(chosen) + (position < walks % len(chosen)),
            )
            for position, name in enumerate(chosen)
        }
        lists = map_supervised(_walk_database, walk_tasks, "walking", workers=workers, show_progress=show_progress)
        failures = [failure for failures in lists for failure in failures]
        report["walks"] = {
            "walks": walks,
            "schemas": len(chosen),
            "failed": len(failures),
            "failures": failures[:20],
        }
    if verdicts is not None:
        report["verdicts"] = compare_verdicts(verdicts, dataset.schemas)
    return report


def _measure_database(
    task: tuple[Schema, Path, Sequence[tuple[int, Example]]],
) -> tuple[list[dict[str, Any]], LinkFigures]:
    schema, file, examples = task
    measurer = _Measurer(describe_database(schema, open_content(schema, file)))
    with open_guarded(file, deadline=_DEADLINE, max_rows=_MAX_ROWS, filter_text=False) as connection:
        rows = [{"index": index} | measurer.measure(example, connection) for index, example in examples]
    return rows, measurer.links


class _Measurer:
    """Measures the examples of one database."""

    def __init__(self, inputs: DatabaseInputs) -> None:
        schema = inputs.schema
        joiner = Joiner(schema)
        self._inputs = inputs
        self._reader = SqlReader(schema, joiner=joiner)
        self._bare = SqlWriter(schema, joiner, quote_names=False)
        self._writer = SqlWriter(schema, joiner)
        self._masks = Masks(inputs.kinds)
        self.links = LinkFigures()

    def measure(self, example: Example, connection: GuardedConnection) -> dict[str, Any]:
        schema = self._inputs.schema
        question = describe_question(example.question, self._inputs)
        missed = self.links.add(read_gold(example.query, schema), question.links, question.candidates)
        row: dict[str, Any] = {"is_covered": not missed}
        try:
            tree = self._reader.read(example.query)
        except SqlError as error:
            return row | {"unreadable": str(error).removesuffix(f": {example.query}")}
        steps = steps_of(tree)
        again = tree_of(step.action for step in steps)
        row |= {"steps": len(steps), "legal": first_illegal(steps, self._masks) is None}
        row["infers_joins"] = not any(node.rule in source_rules() for node in nodes(tree))
        try:
            verdict = judge(example.query, self._bare.write(again), schema)
            row |= {"exact": verdict.exact, "hardness": verdict.hardness.value}
            row["gold_exact"] = judge(example.query, example.query, schema, official=False).exact
        except SqlError as error:
            row["unjudged"] = str(error)
        row |= _executed(example.query, self._writer.write(again), connection)
        return row


def _executed(gold: str, ours: str, connection: GuardedConnection) -> dict[str, Any]:
    """Whether two queries give the same rows; a gold query that fails is told apart."""
    try:
        wanted = connection.run(gold)
    except GuardError as error:
        return {"gold_fails": str(error)}
    try:
        found = connection.run(ours)
    except GuardError as error:
        return {"executes": False, "why": str(error)}
    if wanted.truncated or found.truncated:  # equal as far as they go proves nothing
        return {"executes": True, "equal": False}
    same = equal_results(wanted.rows, found.rows, ordered=False)
    return {"executes": True, "equal": same, "has_rows": bool(wanted.rows)}


def _sum_up(parts: Sequence[tuple[list[dict[str, Any]], LinkFigures]]) -> dict[str, Any]:
    rows = sorted((row for part, _ in parts for row in part), key=lambda row: row["index"])
    links = LinkFigures()
    for _, found in parts:
        links.merge(found)
    read = [row for row in rows if "unreadable" not in row]
    executed = [row for row in read if "gold_fails" not in row]
    unequal = [row["index"] for row in executed if not row.get("equal")]
    inexact = [row["index"] for row in read if not row.get("exact")]
    steps = sorted(row["steps"] for row in read)
    return {
        "queries": len(rows),
        "readable": len(read),
        "unreadable": [{"index": row["index"], "reason": row["unreadable"]} for row in rows if "unreadable" in row],
        "round_trip_exact": len(read) - len(inexact),
        "round_trip_exact_percent": 100 * (len(read) - len(inexact)) / len(rows),
        "not_exact": inexact,
        "round_trip_equal": len(executed) - len(unequal),
        "gold_fails": [row["index"] for row in read if "gold_fails" in row],
        "not_equal": unequal,
        "gold_returns_rows": sum(row.get("has_rows", False) for row in executed),
        "gold_against_gold_exact": sum(row.get("gold_exact", False) for row in read),
        "hardness": dict(sorted(Counter(row["hardness"] for row in read if "hardness" in row).items())),
        "legal": sum(row["legal"] for row in read),
        "joins_inferred": sum(row["infers_joins"] for row in read),
        "steps_median": median(steps),
        "steps_largest": steps[-1],
        "literals_covered_percent": 100 * sum(links.covered) / len(rows),
        "literals_covered_but_for_case_percent": 100 * sum(links.covered_but_for_case) / len(rows),
        "uncovered": [row["index"] for row in rows if not row["is_covered"]],
        "candidates_median": median(links.counts),
        "candidates_largest": max(links.counts),
        "links": links.summary()["links"],
    }


# Walks: whatever is legal is SQL.


def _walkable(dataset: Dataset) -> list[str]:
    """Databases in order of name; SQLite keeps some table names for itself, and no file can be made with them."""
    return [
        name
        for name, schema in sorted(dataset.schemas.items())
        if not any(table.name.lower().startswith("sqlite_") for table in schema.tables)
    ]


def _walk_database(task: tuple[Schema, Path, int]) -> list[str]:
    """Walks over one database that did not end in SQL that sqlglot parses and SQLite explains."""
    schema, file, count = task
    inputs = describe_database(schema, open_content(schema, file))
    writer = SqlWriter(schema)
    failures = []
    uri = f"{file.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        for tree in islice(random_trees(schema, seed=0, kinds=inputs.kinds), count):
            sql = writer.write(tree)
            try:
                sqlglot.parse_one(sql, read="sqlite")
                connection.execute(f"EXPLAIN {sql}")
            except (sqlglot.errors.SqlglotError, sqlite3.Error) as error:
                failures.append(f"{schema.database}: {error}: {sql}")
    return failures


def compare_verdicts(path: str | Path, schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """Our evaluator against a file of official verdicts."""
    counts: Counter[str] = Counter()
    differ = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        row = json.loads(line)
        if row.get("db_id") not in schemas:
            raise DataError(f"{path}: line {number}: key 'db_id': {row.get('db_id')!r} is not in tables.json")
        ours = judge(row["gold"], row["pred"], schemas[row["db_id"]]).to_json()
        counts["rows"] += 1
        for key, value in ours.items():
            counts[f"{key}_agree"] += value == row[key]
        if any(value != row[key] for key, value in ours.items()):
            differ.append(number)
    return dict(counts) | {"differing_lines": differ}


def flat_metrics(report: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a report in one map, for result files: lists become their length."""
    metrics: dict[str, float] = {}
    for section, content in report.items():
        for name, value in content.items():
            key = f"{section}_{name}"
            if isinstance(value, int | float):
                metrics[key] = value
            elif isinstance(value, list):
                metrics[key] = len(value)
            elif name == "hardness":
                metrics |= {f"{key}_{level}": count for level, count in value.items()}
    return metrics
