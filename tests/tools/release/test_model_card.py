"""The model card: every number is from a result file, and files that do not belong together are refused."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dtfixup.errors import DataError
from dtfixup.sql.evaluation.failures import Failure
from dtfixup.sql.model.config import minilm
from dtfixup.training.config import to_json
from tools.release.model_card import card, main, write_card

LEVELS = ("", "_easy", "_medium", "_hard", "_extra")


def training() -> dict[str, Any]:
    metrics = {}
    for place, level in enumerate(LEVELS):
        metrics |= {f"dev_exact{level}": 60.3 + place, f"dev_execution{level}": 66.7 + place}
        metrics |= {f"dev_exact{level}_executable": 71.9 + place, f"dev_execution{level}_executable": 77.1 + place}
    return {
        "name": "sql-minilm",
        "command": "dtfixup sql train --preset minilm --data DIR --out DIR --seed 11",
        "commit": "abcdef123456",
        "seed": 11,
        "encoder": "minilm",
        "encoder_sha256": "e1",
        "data_hash": "d1",
        "hardware": "a machine",
        "wall_seconds": 1477.5,
        "config": to_json(minilm()),
        "metrics": metrics,
    }


def packing() -> dict[str, Any]:
    metrics = {
        "dev_exact_full": 60.31,
        "dev_exact_packed": 60.12,
        "lost_points": 0.19,
        "changed_share": 1.35,
        "megabytes": 44.94,
        "megabytes_full": 140.79,
        "dev_wrong": 288,
        **{f"dev_exact_packed{level}": 50.4 + place for place, level in enumerate(LEVELS) if level},
    }
    return {
        "name": "sql-pack",
        "command": "python benchmarks/pack_loss.py --model FILE --packed FILE --data DIR --beam 7",
        "commit": "abcdef123456",
        "encoder_sha256": "e1",
        "data_hash": "d1",
        "hardware": "a laptop",
        "config": {"beam": 7, "questions": 1034, "parameters": 35_188_930, "model_sha256": "m1"},
        "metrics": metrics,
        "failures": {Failure.GROUP.value: 91, Failure.ORDER.value: 33},
    }


def acceptance() -> dict[str, Any]:
    shares = {"": (48.3, 57.9), "_clinic": (41.2, 55.6), "_easy": (88.8, 92.4)}
    metrics: dict[str, float] = {}
    for name, (exact, execution) in shares.items():
        metrics |= {f"acceptance_exact{name}": exact, f"acceptance_execution{name}": execution}
    metrics |= {"questions": 240, "failed_to_run": 0, "no_query": 13, "sure": 171, "acceptance_execution_of_sure": 69.6}
    wrong = [
        {"question": "Who | what?", "gold": "SELECT a | b", "predicted": "SELECT c", "kinds": [Failure.GROUP.value]},
        {"question": "Both?", "gold": "G", "predicted": "P", "kinds": [Failure.GROUP.value, Failure.ORDER.value]},
        {"question": "None?", "gold": "G", "predicted": None, "kinds": [Failure.NO_QUERY.value]},
    ]
    return {
        "name": "sql-acceptance",
        "command": "dtfixup sql acceptance --model FILE --beam 5 --variants 3",
        "commit": "abcdef123456",
        "hardware": "a laptop",
        "config": {"model_sha256": "m1"},
        "metrics": metrics,
        "failures": {Failure.GROUP.value: 2, Failure.NO_QUERY.value: 1},
        "wrong": wrong,
    }


def written(folder: Path, *contents: dict[str, Any]) -> list[Path]:
    paths = []
    for place, content in enumerate(contents):
        paths.append(folder / f"{place}.json")
        paths[-1].write_text(json.dumps(content))
    return paths


def numbers(content: Any) -> Iterator[float]:
    """Every number in a result file, in its texts too."""
    if isinstance(content, dict):
        for value in content.values():
            yield from numbers(value)
    elif isinstance(content, list):
        for value in content:
            yield from numbers(value)
    elif isinstance(content, str):
        yield from map(float, re.findall(r"\d+(?:\.\d+)?", content))
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield float(content)


OURS = {4.0, 2.0, 2018.0, 6.0, 256.0, 8.0}
"""Of licences, the year of a paper, MiniLM-L6, SHA-256 and 8 bits."""


def test_every_number_is_from_a_result_file() -> None:
    sources = (training(), packing(), acceptance())
    known = {round(number, digits) for source in sources for number in numbers(source) for digits in (0, 1, 2)}
    known |= {round(number / 1e6, 1) for number in numbers(packing())} | {float(len(acceptance()["wrong"]))}
    text = card(*sources)
    shown = [float(found.replace(",", "")) for found in re.findall(r"(?<![\w`])\d[\d,]*(?:\.\d+)?", text)]
    assert len(shown) > 60
    odd = [number for number in shown if not {number, round(number, 1)} & known and number not in OURS]
    assert not odd


def test_the_card_says_what_it_must() -> None:
    text = card(training(), packing(), acceptance())
    for part in (
        "| **all** | 60.3 | 66.7 | 71.9 | 77.1 | 60.1 |",
        "| extra | 64.3 | 70.7 | 75.9 | 81.1 | 54.4 |",
        "| clinic | 41.2 | 55.6 |",
        "60.31 and 60.12",
        "packing costs 0.19 points; 1.35 %",
        "CC BY-SA 4.0",
        "35.2 million weights",
        "`m1`",
        "1,478 s for this run",
        "171 answers are called sure, and 69.6 %",
        f"| {Failure.GROUP.value} | 91 | 2 |",
        f"| {Failure.NO_QUERY.value} |  | 1 |",
        "*Who | what?*",
        "dtfixup sql train --preset minilm",
    ):
        assert part in text or part in " ".join(text.split()), part
    assert "Both?" not in text, "an example shows one kind"
    assert text.index("| clinic |") < text.index("| easy | 88.8") < text.index("| **all** | 48.3")
    assert text.endswith("\n")
    assert "  - got nothing\n" in text
    prose = [line for line in text.splitlines() if not line.startswith(("|", "  - ", "- "))]
    assert max(map(len, prose)) <= 120
    assert not re.search(r"[ \t]+\n", text), "no blanks at the ends of lines"


def test_another_encoder_file_is_named() -> None:
    sentence = "The shipped file was measured with the encoder of SHA-256"
    other = card(training(), {**packing(), "encoder_sha256": "e2"}, acceptance())
    assert sentence not in " ".join(card(training(), packing(), acceptance()).split())
    assert f"{sentence} `e2`" in " ".join(other.split())


def test_the_command_writes_the_same_card_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(tmp_path, training(), packing(), acceptance())
    options = [f"--{name}={path}" for name, path in zip(("training", "packing", "acceptance"), paths, strict=True)]
    out = tmp_path / "card.md"
    monkeypatch.setattr("sys.argv", ["model_card", *options, f"--out={out}"])
    main()
    first = out.read_text()
    assert first == card(training(), packing(), acceptance())
    main()
    assert out.read_text() == first


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    unscored = {**training(), "metrics": {"dev_exact": 60.3}}
    other_model = {**acceptance(), "config": {"model_sha256": "m2"}}
    other_data = {**packing(), "data_hash": "d2"}
    without = {key: value for key, value in packing().items() if key != "failures"}
    for contents, message in (
        ((unscored, packing(), acceptance()), "complete it by `dtfixup sql score` first"),
        ((training(), packing(), other_model), "are about different files of weights"),
        ((training(), other_data, acceptance()), "are about different data"),
        ((training(), acceptance(), packing()), r"1\.json is no result file of `benchmarks/pack_loss\.py`"),
        (([], packing(), acceptance()), r"0\.json is no result file of a run"),
        ((training(), without, acceptance()), r"1\.json lacks failures: make it again"),
    ):
        with pytest.raises(DataError, match=message):
            write_card(*written(tmp_path, *contents), tmp_path / "card.md")
    assert not (tmp_path / "card.md").exists()
