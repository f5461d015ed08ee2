"""How well grammar, linking and evaluation do on a dataset: the figures that `dtfixup sql prepare --report` writes.

In: a folder in Spider's layout. Out: a report for JSON, which names examples by their index: round trips through the
grammar, literal coverage, link quality, random walks, exact match of gold queries with themselves and, if a file of
official verdicts is given, agreement with it.
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
_WALK_SCHEMAS = 50


def measure(
    data: str | Path,
    splits: Sequence[str],
    *,
    verdicts: str | Path | None = None,
    walks: int = 10_000,
    workers: int | None = None,
) -> dict[str, Any]:
    """All figures of a dataset; several databases are measured at a time."""
    dataset = open_dataset(data)
    report = {split: _measure_split(dataset, split, workers) for split in splits}
    if walks:
        report["walks"] = _measure_walks(dataset, walks, workers)
    if verdicts is not None:
        report["verdicts"] = compare_verdicts(verdicts, dataset.schemas)
    return report


def _measure_split(dataset: Dataset, split: str, workers: int | None) -> dict[str, Any]:
    by_database: dict[str, list[tuple[int, Example]]] = {}
    for index, example in enumerate(dataset.split(split)):
        by_database.setdefault(example.database, []).append((index, example))
    tasks = {
        name: (dataset.schemas[name], dataset.database_file(name), examples) for name, examples in by_database.items()
    }
    parts = map_supervised(_measure_database, tasks, f"measuring {split}", workers=workers, show_progress=True)
    links = LinkFigures()
    for _, of_database in parts:
        links.merge(of_database)
    return _sum_up(sorted((row for rows, _ in parts for row in rows), key=lambda row: row["index"]), links)


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
        row |= _compare_rows(example.query, self._writer.write(again), connection)
        return row


def _compare_rows(gold: str, ours: str, connection: GuardedConnection) -> dict[str, Any]:
    """Whether two queries give the same rows, and which of them fails."""
    try:
        gold_result = connection.run(gold)
    except GuardError as error:
        return {"gold_fails": str(error)}
    try:
        result = connection.run(ours)
    except GuardError as error:
        return {"executes": False, "why": str(error)}
    if gold_result.truncated or result.truncated:  # that the beginnings are equal proves nothing
        return {"executes": True, "equal": False}
    same = equal_results(gold_result.rows, result.rows, ordered=False)
    return {"executes": True, "equal": same, "has_rows": bool(gold_result.rows)}


def _sum_up(rows: Sequence[Mapping[str, Any]], links: LinkFigures) -> dict[str, Any]:
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
        "candidates_median": median(links.candidates),
        "candidates_largest": max(links.candidates),
        "links": links.summary()["links"],
    }


def _measure_walks(dataset: Dataset, walks: int, workers: int | None) -> dict[str, Any]:
    """Random walks over the first databases by name: whatever is legal should be SQL."""
    # SQLite keeps some table names for itself, and no file can be made with them.
    names = [
        name
        for name, schema in sorted(dataset.schemas.items())
        if not any(table.name.lower().startswith("sqlite_") for table in schema.tables)
    ][:_WALK_SCHEMAS]
    share, surplus = divmod(walks, len(names))
    tasks = {
        name: (dataset.schemas[name], dataset.database_file(name), share + (position < surplus))
        for position, name in enumerate(names)
    }
    lists = map_supervised(_walk_database, tasks, "walking", workers=workers, show_progress=True)
    failures = [failure for failures in lists for failure in failures]
    return {"walks": walks, "schemas": len(names), "failed": len(failures), "failures": failures[:20]}


def _walk_database(task: tuple[Schema, Path, int]) -> list[str]:
    """Walks over one database whose SQL sqlglot or SQLite rejects."""
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
    """Count the agreement of our verdicts with a file of official ones."""
    counts: Counter[str] = Counter()
    differ = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        row = json.loads(line)
        if row.get("db_id") not in schemas:
            raise DataError(f"{path}: line {number}: key 'db_id': {row.get('db_id')!r} is not in tables.json")
        ours = judge(row["gold"], row["pred"], schemas[row["db_id"]]).to_json()
        agree = {key: value == row[key] for key, value in ours.items()}
        counts.update({"rows": 1} | {f"{key}_agree": int(agrees) for key, agrees in agree.items()})
        if not all(agree.values()):
            differ.append(number)
    return dict(counts) | {"differing_lines": differ}


def flat_metrics(report: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a report in one flat map, with the lengths of its lists."""
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
