"""`dtfixup sql evaluate` on the bundled dataset."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfixup.cli.main import main
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder


def test_evaluate_reads_predictions_and_writes_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = open_dataset(sample_folder()).split("dev")
    predictions, summary = tmp_path / "predictions.txt", tmp_path / "summary.json"
    queries = [example.query for example in examples]
    queries[0] = "SELECT nonsense"
    predictions.write_text("\n".join(queries))
    main(["sql", "evaluate", "--data", str(sample_folder()), "--predictions", str(predictions), "--save", str(summary)])
    content = json.loads(summary.read_text())
    assert content["exact"]["all"]["exact"] == len(examples) - 1
    assert content["execution"]["outcomes"]["equal"] == len(examples) - 1
    assert content["execution"]["outcomes"]["prediction failed"] == 1
    shown = capsys.readouterr().out
    assert "exact match" in shown
    assert "Execution accuracy" in shown


def test_evaluate_writes_pairs_back_in_order(tmp_path: Path) -> None:
    rows = [
        {"db_id": "clinic", "gold": "SELECT count(*) FROM doc", "pred": query, "id": number}
        for number, query in enumerate(["SELECT count(*) FROM doc", "SELECT sup_id FROM doc"])
    ]
    pairs, out = tmp_path / "pairs.jsonl", tmp_path / "out.jsonl"
    pairs.write_text("\n".join(map(json.dumps, rows)))
    main(["sql", "evaluate", "--data", str(sample_folder()), "--pairs", str(pairs), "--out", str(out)])
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["id"], row["exact"], row["parsed"], row["hardness"]) for row in written] == [
        (0, 1, True, "easy"),
        (1, 0, True, "easy"),
    ]
    assert written[1]["partial"]["select"] == 0


@pytest.mark.parametrize(
    ("options", "message"), [([], "give --predictions FILE"), (["--pairs", "pairs.jsonl"], "needs --out")]
)
def test_evaluate_needs_something_to_evaluate(options: list[str], message: str, refusal: Callable[..., str]) -> None:
    assert message in refusal("sql", "evaluate", "--data", str(sample_folder()), *options)
