"""The acceptance score: right answers, shares by database and hardness, queries that do not run."""

import json
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from dtfixup.cli.main import main
from dtfixup.files import read_json
from dtfixup.sql.ask import acceptance
from dtfixup.sql.ask.acceptance import Acceptance, Reply, accept, ask_all, judge_replies, show_acceptance
from dtfixup.sql.ask.answers import Verdict
from dtfixup.sql.database.dataset import Dataset, Example
from dtfixup.sql.evaluation.failures import Failure
from tests.sql.asked import tiny_parser, tiny_run
from tests.sql.sample_questions import ask_the_sample

CHOSEN = {"train": (0, 1, 60), "dev": (0, 1)}


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """A few of the bundled questions."""
    return ask_the_sample(tmp_path / "few", **CHOSEN)


def examples_of(dataset: Dataset) -> list[Example]:
    return [*dataset.split("train"), *dataset.split("dev")]


def judged(dataset: Dataset, replies: list[Reply]) -> Acceptance:
    items = judge_replies(examples_of(dataset), replies, dataset, variants=1, workers=1, show_progress=False)
    config = {"beam": 5, "variants": 1, "workers": 1, "model_sha256": "a", "encoder": "minilm", "seed": 3}
    return Acceptance(tuple(items), 1.0, 2.0, {**config, "data_hash": "d"})


def gold_replies(dataset: Dataset) -> list[Reply]:
    return [Reply(Verdict.SURE, example.query) for example in examples_of(dataset)]


def test_gold_queries_are_all_right(dataset: Dataset) -> None:
    found = judged(dataset, gold_replies(dataset))
    whole = found.shares["all"]
    assert (whole.count, whole.exact, whole.execution) == (5, 100, 100)
    assert sum(found.shares[name].count for name in found.databases) == 5
    levels = {"easy", "medium", "hard", "extra"} & found.shares.keys()
    assert sum(found.shares[name].count for name in levels) == 5
    assert found.metrics["failed_to_run"] == found.metrics["no_query"] == 0
    assert found.metrics["acceptance_execution_of_sure"] == 100
    assert found.line == "acceptance set, 5 questions: exact 100.0 %, execution 100.0 %, every query runs (2 s)"


def test_wrong_answers_are_told_apart(dataset: Dataset) -> None:
    gold = [example.query for example in examples_of(dataset)]
    replies = [
        Reply(Verdict.UNSURE, gold[0]),
        Reply(Verdict.SURE, "SELECT 1", error="no such thing"),
        Reply(Verdict.NO_LINK, None, guess=gold[2]),
        Reply(Verdict.NO_LINK, None),
        Reply(Verdict.SURE, gold[4]),
    ]
    found = judged(dataset, replies)
    assert [item.right for item in found.judged] == [True, False, False, False, True]
    assert [item.exact for item in found.judged] == [True, False, False, False, True]
    assert [item.failures for item in found.judged[2:4]] == [(Failure.NO_QUERY,)] * 2
    metrics = found.metrics
    assert (metrics["acceptance_exact"], metrics["acceptance_execution"]) == (40, 40)
    assert (metrics["no_query"], metrics["exact_but_not_printed"], metrics["failed_to_run"]) == (2, 1, 1)
    assert (metrics["sure"], metrics["acceptance_execution_of_sure"]) == (2, 50)
    assert "1 queries do not run" in found.line


def test_a_query_that_differs_by_a_literal_is_exact_with_other_rows(dataset: Dataset) -> None:
    """Exact match does not look at literals, rows do."""
    replies = gold_replies(dataset)
    index, query = next((index, reply.sql) for index, reply in enumerate(replies) if reply.sql and "= '" in reply.sql)
    replies[index] = Reply(Verdict.SURE, query.replace("= '", "= 'no such ", 1))
    item = judged(dataset, replies).judged[index]
    assert (item.exact, item.right, item.failures) == (True, False, (Failure.VALUES,))


def test_the_result_file_has_where_it_came_from_and_what_was_wrong(dataset: Dataset) -> None:
    replies = gold_replies(dataset)
    replies[0] = Reply(Verdict.NO_LINK, None)
    content = judged(dataset, replies).to_json(0.0)
    json.dumps(content, allow_nan=False)
    assert (content["name"], content["seed"], content["data_hash"]) == ("sql-acceptance", 3, "d")
    assert content["metrics"]["acceptance_exact"] == 80
    assert content["failures"] == {Failure.NO_QUERY.value: 1}
    [wrong] = content["wrong"]
    assert wrong["question"] == examples_of(dataset)[0].question
    assert (wrong["predicted"], wrong["kinds"]) == (None, [Failure.NO_QUERY.value])


def test_the_table_names_failures_and_ends_in_the_line(dataset: Dataset) -> None:
    replies = gold_replies(dataset)
    replies[0] = Reply(Verdict.SURE, "SELECT [bold]", error="near [bold]: syntax error")
    found = judged(dataset, replies)
    output = StringIO()
    show_acceptance(found, Console(file=output, width=200), failures=3)
    text = output.getvalue()
    assert "got    SELECT [bold]" in text
    assert f"does not run: {examples_of(dataset)[0].question}: near [bold]: syntax error" in text
    assert text.rstrip().endswith(found.line)


def echo(task: tuple[str, Path]) -> Reply:
    if "captain" in task[0].lower():
        sys.exit(3)
    return Reply(Verdict.SURE, task[0])


def test_replies_keep_their_order_and_a_lost_worker_is_a_failure(dataset: Dataset) -> None:
    words = ["one", "two", "Who is the captain?", "four"]
    asked = [Example("river_ferry", word, "SELECT 1") for word in words]
    replies = ask_all(echo, asked, dataset, workers=2, show_progress=False)
    assert [reply.sql for reply in replies] == ["one", "two", None, "four"]
    assert "exit code 3" in replies[2].error


def test_a_model_is_asked_as_a_user_asks_it(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = [
        tiny_parser().ask(example.question, dataset.database_file(example.database), 2).sql
        for example in examples_of(dataset)
    ]
    found = accept(tiny_run(), beam=2, variants=1, workers=2, dataset=dataset, show_progress=False)
    assert [item.reply.sql for item in found.judged] == expected
    assert found.metrics["failed_to_run"] == 0
    monkeypatch.setattr(acceptance, "open_dataset", lambda folder: dataset)
    out = tmp_path / "acceptance.json"
    main(["sql", "acceptance", "--model", str(tiny_run()), "--beam", "2", "--variants", "1", "--save", str(out)])
    assert capsys.readouterr().out.rstrip().splitlines()[-1].startswith("acceptance set, 5 questions: exact")
    result = read_json(out)
    assert result["metrics"]["questions"] == 5
    assert len(result["config"]["model_sha256"]) == 64


def test_a_query_that_does_not_run_is_an_exit_code(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = gold_replies(dataset)
    replies[0] = Reply(Verdict.SURE, "SELECT 1", error="no")
    found = judged(dataset, replies)
    monkeypatch.setattr(acceptance, "accept", lambda *_, **__: found)
    with pytest.raises(SystemExit) as ended:
        main(["sql", "acceptance"])
    assert ended.value.code == 1
    assert "1 queries do not run" in capsys.readouterr().out
