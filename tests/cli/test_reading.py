"""`dtfixup reading` from the command line, end to end on made-up questions."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from dtfixup.cli.main import main
from dtfixup.files import read_json
from dtfixup.reading.examples import ReadingExample
from tests.reading.tiny_reading import encoder_folder, made_up


def rows_of(examples: list[ReadingExample]) -> list[dict[str, object]]:
    return [{key: value for key, value in asdict(example).items() if value is not None} for example in examples]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ReClor's layout: train and val with labels, test without."""
    folder = tmp_path_factory.mktemp("data")
    for split, count in (("train", 40), ("val", 10)):
        (folder / f"{split}.json").write_text(json.dumps(rows_of(made_up(count))))
    unlabelled = [{**row, "label": None} for row in rows_of(made_up(7, seed=3))]
    (folder / "test.json").write_text(json.dumps(unlabelled))
    return folder


@pytest.fixture(scope="module")
def options() -> list[str]:
    return ["--preset", "smoke", "--encoder", str(encoder_folder()), "--max-tokens", "48"]


@pytest.fixture(scope="module")
def finished(data: Path, options: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "out"
    main(["reading", "train", "--data", str(data), "--out", str(folder), *options, "--epochs", "1", "--seed", "3"])
    return folder


def test_train_writes_weights_and_a_result(finished: Path) -> None:
    result = read_json(finished / "result.json")
    assert (finished / "last.safetensors").is_file()
    assert result["name"] == "reading-train"
    assert result["seed"] == 3
    assert result["config"]["training"]["epochs"] == 1
    assert "val_accuracy" in result["metrics"]


def test_options_change_the_file_and_the_file_the_preset(data: Path, options: list[str], tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("training: {epochs: 7, seed: 5}\nmodel: {layers: 1}\n")
    out, copy = tmp_path / "run", tmp_path / "copy.json"
    changes = ["--config", str(tmp_path / "own.yaml"), "--epochs", "1", "--layers", "0", "--hold-out", "0.2"]
    main(["reading", "train", "--data", str(data / "train.json"), "--out", str(out), *options, *changes,
          "--save", str(copy)])  # fmt: skip
    result = read_json(copy)
    assert result == read_json(out / "result.json")
    assert (result["seed"], result["config"]["training"]["epochs"]) == (5, 1)
    assert result["config"]["model"]["layers"] == 0
    assert "held_out_accuracy" in result["metrics"]
    main(["reading", "train", "--data", str(data / "train.json"), "--out", str(out), *options, *changes, "--resume"])


def test_evaluate_says_what_the_run_said(finished: Path, data: Path, tmp_path: Path) -> None:
    main(["reading", "evaluate", "--model", str(finished), "--data", str(data), "--save", str(tmp_path / "e.json")])
    found = read_json(tmp_path / "e.json")
    assert found["examples"] == 10
    assert found["accuracy"] == pytest.approx(read_json(finished / "result.json")["metrics"]["val_accuracy"])


def test_predict_writes_the_submission(finished: Path, data: Path, tmp_path: Path) -> None:
    out, more = tmp_path / "test_preds.npy", tmp_path / "p.jsonl"
    model = ["--model", str(finished), "--data", str(data)]
    main(["reading", "predict", *model, "--out", str(out), "--probabilities", str(more)])
    found = np.load(out, allow_pickle=False)
    assert found.shape == (7,)
    assert np.issubdtype(found.dtype, np.integer)
    rows = [json.loads(line) for line in more.read_text().splitlines()]
    assert [int(np.argmax(row["probabilities"])) for row in rows] == found.tolist()
    assert [row["name"] for row in rows] == [example.name for example in made_up(7, seed=3)]
    main(["reading", "predict", "--model", str(finished), "--data", str(data / "test.json"), "--out", str(out)])
    assert np.load(out).tolist() == found.tolist()


def test_an_answer_is_printed_best_first(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = ["--context", "the boat is here .", "--question", "which [one] ?",
             "--options", "the boat", "a [door]", "a cloud"]  # fmt: skip
    main(["reading", "answer", "--model", str(finished), *typed, "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert {row["option"] for row in rows} == {"the boat", "a [door]", "a cloud"}
    chances = [row["probability"] for row in rows]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) == pytest.approx(1, abs=1e-4)
    main(["reading", "answer", "--model", str(finished), *typed, "--json", "--precision", "bf16"])
    assert len(json.loads(capsys.readouterr().out)) == 3
    file = tmp_path / "asked.json"
    file.write_text(json.dumps({"context": typed[1], "question": typed[3], "answers": typed[5:]}))
    main(["reading", "answer", "--model", str(finished), "--file", str(file)])
    shown = capsys.readouterr().out
    assert "which [one] ?" in shown, "brackets are no markup"
    places = [shown.index(row["option"]) for row in rows]
    assert places == sorted(places)
    assert f"{100 * chances[0]:.1f} %" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--data", "DATA", "--out", "OUT", "--preset", "huge"], "no preset 'huge'"),
        (["train", "--data", "OUT", "--out", "OUT", "--preset", "smoke"], "has no split 'train'"),
        (["train", "--data", "DATA", "--out", "OUT", "--layers", "-1"], "layers cannot be negative"),
        (["evaluate", "--model", "MODEL", "--data", "DATA", "--split", "test"], "row 1, label is missing"),
        (["evaluate", "--model", "OUT", "--data", "DATA"], "OUT does not exist"),
        (["predict", "--model", "MODEL", "--data", "DATA", "--out", "x.txt"], "write it to x.npy"),
        (["answer", "--model", "MODEL"], "give either --file, or --context, --question and --options"),
        (["answer", "--model", "MODEL", "--context", "a", "--file", "b.json"], "give either --file"),
        (["answer", "--model", "MODEL", "--context", "a", "--question", "b"], "options has 0 options"),
    ],
)
def test_what_cannot_be_done_is_refused(
    arguments: list[str], message: str, data: Path, finished: Path, tmp_path: Path, refusal: Callable[..., str]
) -> None:
    paths = {"DATA": str(data), "MODEL": str(finished), "OUT": str(tmp_path / "OUT")}
    assert message in refusal("reading", *(paths.get(argument, argument) for argument in arguments))
