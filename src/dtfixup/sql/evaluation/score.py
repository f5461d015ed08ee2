"""Add to the result file of a SQL-SP run what needs the databases: execution accuracy and picked queries.

In: a run's `result.json` and `beams.jsonl`, and the dataset. Out: a `RunScore`, whose metrics are added to the result
file. Exact match is computed again and must equal the run's: otherwise the files do not belong together.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from dtfixup.errors import DataError
from dtfixup.files import read_json, write_json
from dtfixup.provenance import commit
from dtfixup.sql.database.dataset import Dataset, Example
from dtfixup.sql.evaluation.evaluate import ALL, MatchVerdict, Summary, judge, summarise
from dtfixup.sql.evaluation.exact_match import Hardness
from dtfixup.sql.evaluation.execution_accuracy import ExecutionVerdict, Pair, evaluate_execution, summarise_execution
from dtfixup.sql.execution.run import first_that_runs

_AGREEMENT = 0.01
"""Percentages of older result files have two digits."""


@dataclass(frozen=True)
class ExampleScore:
    """One question: the likeliest query, the likeliest that runs, and the whole beam."""

    hardness: Hardness
    exact: bool
    exact_picked: bool
    exact_in_beam: bool
    execution: ExecutionVerdict
    execution_picked: ExecutionVerdict


_METRICS = {
    "exact": "exact{}",
    "execution": "execution{}",
    "exact picked": "exact{}_executable",
    "execution picked": "execution{}_executable",
    "exact in beam": "exact{}_beam",
}
"""The shares of a `LevelScore`, with their names in result files; the level replaces the brackets."""


@dataclass(frozen=True)
class LevelScore:
    """The questions of one hardness level: percentages by the keys of `_METRICS`, None where there are none."""

    count: int
    shares: Mapping[str, float | None]


@dataclass(frozen=True)
class RunScore:
    """The levels of `Hardness`, then `all`, and the questions that execution accuracy leaves out."""

    split: str
    levels: Mapping[str, LevelScore]
    unjudged: tuple[tuple[int, str], ...]
    """Position and reason of questions whose gold query fails or whose worker process was lost."""

    @property
    def metrics(self) -> dict[str, float]:
        """Flat names such as `<split>_exact_easy` and `<split>_execution_executable`; four digits."""
        return {
            f"{self.split}_{_METRICS[heading].format('' if name == ALL else f'_{name}')}": round(share, 4)
            for name, level in self.levels.items()
            for heading, share in level.shares.items()
            if share is not None
        }


def score_run(result: Path, beams: Path, dataset: Dataset, split: str = "dev", *, variants: int = 3) -> RunScore:
    """Score the beams of a run, and add the metrics to its result file; everything else in it stays.

    Args:
        result: the run's result file, which is changed.
        beams: the run's queries, as `write_beams` writes them: one line for each example of the split, in its order.
        dataset: the folder that the run's data was prepared from.
        split: the split that the run was evaluated on.
        variants: databases with randomised content on which rows are compared too, as in `dtfixup sql evaluate`.
    """
    code, content = commit(), read_result(result, split)
    examples = dataset.split(split)
    queries = read_beams(beams, len(examples))
    judged = judge_beams(examples, queries, dataset)
    require_same(content["metrics"], summarise(verdicts[0] for verdicts in judged), split, result, beams)
    score = summarise_scores(_run_beams(examples, queries, judged, dataset, variants), split)
    scored = {"commit": code, "variants": variants, "unjudged": len(score.unjudged)}
    write_json(result, {**content, "metrics": {**content["metrics"], **score.metrics}, "scoring": scored})
    return score


def read_beams(path: str | Path, count: int) -> list[list[str]]:
    """The queries of each example of a split of `count` examples, best first.

    A prepared dataset numbers the examples of all its splits consecutively, so a split may begin at any number.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    lines = text.removesuffix("\n").split("\n") if text else []
    if len(lines) != count:
        raise DataError(
            f"{path} has the queries of {len(lines)} examples, and the split has {count}: give the split that the run "
            "was evaluated on, not databases that were held out for tuning"
        )
    beams: list[list[str]] = []
    expected: int | None = None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            example, beam = int(row["example"]), [str(query) for query, _ in row["beam"]]
        except (ValueError, TypeError, KeyError):
            raise DataError(
                f"{path}: line {number} is not a beam; expected `example`, and `beam` with pairs of query and score"
            ) from None
        if expected is not None and example != expected:
            raise DataError(
                f"{path}: line {number} is example {example}, expected {expected}: the examples of a split have "
                "consecutive numbers"
            )
        expected = example + 1
        beams.append(beam)
    return beams


def judge_beams(
    examples: Sequence[Example], beams: Sequence[Sequence[str]], dataset: Dataset, *, show_progress: bool = True
) -> list[list[MatchVerdict]]:
    """The exact match of every query of every beam; an empty beam counts as one empty query."""
    both = list(zip(examples, beams, strict=True))
    return [
        [judge(example.query, query, dataset.schemas[example.database]) for query in beam or [""]]
        for example, beam in track(both, "exact match", transient=True, disable=not show_progress)
    ]


def _run_beams(
    examples: Sequence[Example],
    beams: Sequence[Sequence[str]],
    judged: Sequence[Sequence[MatchVerdict]],
    dataset: Dataset,
    variants: int,
) -> list[ExampleScore]:
    """Pick the first query that runs from every beam; compare the likeliest and the picked one with the gold query."""
    pairs = list(zip(examples, beams, strict=True))
    picks = []
    for example, beam in track(pairs, "picking queries that run", transient=True):
        picked = first_that_runs(beam, dataset.database_file(example.database))
        picks.append(beam.index(picked) if beam else 0)
    likeliest = [Pair(example.database, example.query, beam[0] if beam else "") for example, beam in pairs]
    # The picked query is mostly the likeliest, which is run once.
    other_picks = {
        position: replace(likeliest[position], predicted=beams[position][pick])
        for position, pick in enumerate(picks)
        if pick
    }
    executed = evaluate_execution([*likeliest, *other_picks.values()], dataset, variants=variants)
    picked_instead = dict(zip(other_picks, executed[len(likeliest) :], strict=True))
    return [
        ExampleScore(
            hardness=verdicts[0].hardness,
            exact=verdicts[0].exact,
            exact_picked=verdicts[pick].exact,
            exact_in_beam=any(verdict.exact for verdict in verdicts),
            execution=executed[position],
            execution_picked=picked_instead.get(position, executed[position]),
        )
        for position, (verdicts, pick) in enumerate(zip(judged, picks, strict=True))
    ]


def summarise_scores(scores: Sequence[ExampleScore], split: str) -> RunScore:
    """Shares by level; questions that could not be executed are left out of the shares of execution."""
    levels = {level.value: _level([score for score in scores if score.hardness is level]) for level in Hardness}
    picked = summarise_execution([score.execution_picked for score in scores])
    likeliest = summarise_execution([score.execution for score in scores])
    unjudged = dict(picked.unjudged) | dict(likeliest.unjudged)
    return RunScore(split, {**levels, ALL: _level(scores)}, tuple(sorted(unjudged.items())))


def _level(scores: Sequence[ExampleScore]) -> LevelScore:
    def share(values: Sequence[bool]) -> float | None:
        return 100 * sum(values) / len(values) if values else None

    def executed(verdicts: Sequence[ExecutionVerdict]) -> float | None:
        summary = summarise_execution(verdicts)
        return 100 * summary.accuracy if summary.judged else None

    return LevelScore(
        len(scores),
        {
            "exact": share([score.exact for score in scores]),
            "execution": executed([score.execution for score in scores]),
            "exact picked": share([score.exact_picked for score in scores]),
            "execution picked": executed([score.execution_picked for score in scores]),
            "exact in beam": share([score.exact_in_beam for score in scores]),
        },
    )


def show_score(score: RunScore, console: Console) -> None:
    """Print one table, and below it every question whose execution could not be judged."""
    table = Table(title=f"{score.split}, %", title_justify="left")
    table.add_column()
    headings = [heading for heading in _METRICS if heading != "exact in beam"]
    for heading in ("count", *headings):
        table.add_column(heading, justify="right")
    for name, level in score.levels.items():
        if name == ALL:
            table.add_section()
        shares = [level.shares[heading] for heading in headings]
        table.add_row(name, str(level.count), *("-" if share is None else f"{share:.1f}" for share in shares))
    console.print(table)
    for position, reason in score.unjudged:
        console.print(f"question {position + 1} is not judged by execution: {reason}", markup=False)


def read_result(path: Path, split: str) -> dict[str, Any]:
    """The result file of a run that was evaluated on a split."""
    content = read_json(path)
    metrics = content.get("metrics") if isinstance(content, dict) else None
    if not isinstance(metrics, dict):
        raise DataError(f"{path} is not a result file: it has no metrics")
    if f"{split}_exact" not in metrics:
        evaluated = sorted(name.removesuffix("_exact") for name in metrics if name.endswith("_exact"))
        raise DataError(
            f"{path} has no {split}_exact: the run was evaluated on {' and '.join(evaluated) or 'nothing'}. Only runs "
            "that were evaluated on a split can be scored"
        )
    return content


def require_same(metrics: Mapping[str, Any], exact: Summary, split: str, result: Path, beams: Path) -> None:
    """Raise unless the queries of `beams` have the exact match of the run's metrics, level by level."""
    for name, level in exact.levels.items():
        if not level.count:
            continue
        key = f"{split}_exact" if name == ALL else f"{split}_exact_{name}"
        recorded, computed = metrics.get(key), 100 * level.exact_match
        if not isinstance(recorded, int | float) or abs(recorded - computed) > _AGREEMENT:
            raise DataError(
                f"{beams} and {result} do not belong together, or the data is not what the run was evaluated on: "
                f"{key} is {recorded} in the result, and these queries give {computed:.2f}"
            )
