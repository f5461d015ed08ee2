"""The examples: those for CSV files stop, go on and learn as they stand, and a page shows their lines."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from dtfixup.encoders import encoder_sha256, load_encoder

ROOT = Path(__file__).parent.parent
PLACES = ("garden", "kitchen", "harbour", "library", "station", "market", "church", "stable")
COLOURS = ("red", "green", "blue", "yellow", "white")
THINGS = ("boat", "door", "lamp", "coat", "cup", "wheel")


def sentences(file: Path) -> None:
    """Praise and blame: a fair coin is right half the time."""
    rows = [("text", "label")]
    for place in PLACES:
        for thing in THINGS:
            rows += [
                (f"I love the {thing} in the {place}.", "praise"),
                (f"I hate the {thing} in the {place}.", "blame"),
            ]
    write(file, rows)


def questions(file: Path) -> None:
    """The right answer stands in the passage: one of two."""
    rows = [("context", "question", "answer_0", "answer_1", "label")]
    for number, (place, thing) in enumerate((place, thing) for place in PLACES for thing in THINGS):
        right, wrong = (COLOURS[(number + shift) % len(COLOURS)] for shift in range(2))
        answers = [f"It is {wrong}."]
        answers.insert(number % 2, f"It is {right}.")
        rows.append((f"The {thing} in the {place} is {right}.", "Which colour?", *answers, str(number % 2)))
    write(file, rows)


def write(file: Path, rows: list[tuple[str, ...]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)


ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}  # two threads wait for each other on a machine that is busy


def command_of(name: str, folder: Path, epochs: int) -> list[str]:
    file = ROOT / "examples" / f"{name}.py"
    return [sys.executable, str(file), str(folder / "own.csv"), str(folder / "model"), "2", str(epochs)]


def accuracy_after(command: list[str]) -> float:
    """What the example says of rows it has not seen; a fair coin has 50."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    assert (Path(command[3]) / "last.safetensors").is_file()
    found = re.search(r"has not seen: (\d+\.\d) %", done.stdout)
    assert found, done.stdout
    return float(found[1])


def test_sentences_are_learned_from_a_csv_file_also_after_a_stop(tmp_path: Path) -> None:
    sentences(tmp_path / "own.csv")
    command = command_of("classify_csv", tmp_path, 4)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ONE_THREAD) as first:
        while first.poll() is None and not (tmp_path / "model" / "config.json").exists():
            time.sleep(0.01)
        first.send_signal(signal.SIGINT)
        shown, said = first.communicate()
    assert (first.returncode, shown) == (0, ""), said
    assert "continue with --resume" in said
    assert accuracy_after([*command, "--resume"]) > 75


def test_questions_are_learned_from_a_csv_file(tmp_path: Path) -> None:
    questions(tmp_path / "own.csv")
    assert accuracy_after(command_of("multiple_choice_csv", tmp_path, 5)) > 75


@pytest.mark.parametrize("name", ["classify_csv", "multiple_choice_csv"])
def test_a_page_shows_the_lines_of_an_example(name: str) -> None:
    source = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    code = [line for line in source.split('"""')[2].splitlines() if line.strip()]
    assert len(code) <= 10
    page = (ROOT / "docs" / "start" / "own_csv.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    shown = [[line for line in block.splitlines() if line.strip()] for block in blocks]
    assert code in shown


def test_the_encoder_of_the_results_can_be_made_again(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "examples" / "halve_encoder.py")]
    done = subprocess.run([*script, str(tmp_path / "minilm-fp16")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    known = json.loads((ROOT / "results" / "spider-depth" / "dt-fixup-n24-seed1.json").read_text(encoding="utf-8"))
    assert known["encoder"] == "minilm-fp16"
    assert encoder_sha256(tmp_path / "minilm-fp16") == known["encoder_sha256"]
    half, whole = load_encoder(tmp_path / "minilm-fp16"), load_encoder("minilm")
    tokens = {
        name: half.tokenizer("Which is larger?", return_tensors="pt")[name] for name in ("input_ids", "attention_mask")
    }
    torch.testing.assert_close(half(**tokens), whole(**tokens), atol=5e-3, rtol=0)
    done = subprocess.run([*script, str(tmp_path / "half")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "call it minilm-fp16" in done.stderr
    assert not (tmp_path / "half").exists()
