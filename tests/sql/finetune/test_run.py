"""Whole fine-tuning runs: what they leave behind, when they are stopped, and when they make nothing better."""

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dtfixup.errors import CheckpointError, ConfigError, DataError, SchemaError
from dtfixup.files import read_json
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.evaluation.execution_accuracy import ExecutionOutcome, ExecutionVerdict
from dtfixup.sql.finetune import pair_scores
from dtfixup.sql.finetune import run as run_module
from dtfixup.sql.finetune.run import FinetuneRun, finetune, open_finetuning
from dtfixup.sql.finetune.task import FinetuneConfig, FinetuneTask, Keep
from dtfixup.training.log import read_lines
from dtfixup.weights.tensors import read_tensors
from tests.sql.asked import save_run, tiny_run
from tests.sql.harbour_pairs import CONFIG, PAIRS, changed_training, make_harbours, write_pairs
from tests.sql.tiny_model import tiny_model

QUICK = changed_training(epochs=2, checkpoint_steps=4)
FEW = 24
"""Pairs that are enough for a run whose scores nobody looks at."""


@pytest.fixture(scope="module", autouse=True)
def in_short() -> Iterator[None]:
    """Run queries in this process, and limit the length of an untrained model's queries."""

    def inline(work: Callable[[Any], Any], tasks: list[Any], **_: object) -> Iterator[tuple[int, Any]]:
        yield from ((place, work(task)) for place, task in enumerate(tasks))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_scores, "run_supervised", inline)
        patch.setattr(TextToSql, "steps", 12)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    make_harbours(folder / "harbours.sqlite")
    unusable = [
        ("Which?", "SELECT x FROM nowhere"),
        PAIRS[0],
        ("Which harbours are at home?", "SELECT name FROM harbour WHERE city = 'Atlantis'"),
    ]
    write_pairs(folder / "pairs.csv", [*PAIRS, *unusable])
    write_pairs(folder / "few.csv", PAIRS[:FEW])
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model that all runs begin with; its file says when it is sure."""
    encoder = TextToSql.load(tiny_run()).trained.encoder
    (folder := tmp_path_factory.mktemp("base") / "run").mkdir()
    return save_run(folder, tiny_model(), encoder, sure_above=0.25)


def start(data: Path, base: Path, out: Path, config: FinetuneConfig = QUICK, **settings: Any) -> FinetuneRun | None:
    pairs = data / ("few.csv" if config is QUICK else "pairs.csv")
    return finetune(open_finetuning(pairs, data / "harbours.sqlite", base, config), out, **settings)


@pytest.fixture(scope="module")
def better(data: Path, base: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[FinetuneRun, Path]:
    """A run that learns the pairs, and its folder."""
    out = tmp_path_factory.mktemp("better") / "out"
    run = start(data, base, out, CONFIG, command="test")
    assert run is not None
    return run, out


@pytest.fixture(scope="module")
def quick(data: Path, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short run that nothing stopped."""
    out = tmp_path_factory.mktemp("quick") / "out"
    assert start(data, base, out, keep=Keep.TUNED) is not None
    return out


def test_held_out_questions_are_answered_better(better: tuple[FinetuneRun, Path]) -> None:
    run, _ = better
    assert run.is_better
    assert run.kept_tuned
    assert (run.before.exact, run.after.exact) == (0.0, 100.0)
    assert run.after.right == run.after.execution == 100.0
    assert len(run.after.pairs) == 10


def test_before_and_after_are_shares_of_the_same_pairs(
    data: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five queries one runs into the deadline before, another after; one answer of the rest is right."""
    opened = open_finetuning(data / "few.csv", data / "harbours.sqlite", base, QUICK)
    first_time, second_time, right = (pair.sql for pair in opened.split.held_out[:3])
    late, ran = {(first_time, 1), (second_time, 2)}, Counter[str]()

    def verdict(gold: str, *_: object, **__: object) -> ExecutionVerdict:
        ran[gold] += 1
        if (gold, ran[gold]) in late:
            return ExecutionVerdict(ExecutionOutcome.GOLD_FAILED, "stopped")
        return ExecutionVerdict(ExecutionOutcome.EQUAL if gold == right else ExecutionOutcome.DIFFERENT, gold_rows=(1,))

    monkeypatch.setattr(pair_scores, "execution_verdict", verdict)
    run = finetune(opened, tmp_path / "out", keep=Keep.TUNED)
    assert run is not None
    assert ran[first_time] == ran[second_time] == 2, "the answers changed, so the queries were run again"
    assert run.before.right == run.after.right == run.fit.last["right"] == pytest.approx(100 / 3)
    for row in read_lines(tmp_path / "out" / "held_out.jsonl")[:2]:
        assert row["before"]["reason"] == row["after"]["reason"] == "stopped"


def test_the_folder_is_a_model_to_ask(better: tuple[FinetuneRun, Path], data: Path) -> None:
    _, out = better
    parser = TextToSql.load(out)
    held_out = read_lines(out / "held_out.jsonl")
    for row in held_out[:3]:
        assert parser.ask(row["question"], data / "harbours.sqlite", beam=2).sql == row["after"]["sql"] == row["sql"]
        assert row["before"]["exact"] is False
    assert parser.sure_above == 0.25, "what the base's file says of its use holds on"
    assert parser.trained.content["evaluation"]["exact"] == 100.0


def test_the_result_says_what_was_done(better: tuple[FinetuneRun, Path], data: Path, base: Path) -> None:
    run, out = better
    result = read_json(out / "result.json")
    assert result["metrics"] == dict(run.metrics)
    assert {"held_out_right_before": 0.0, "held_out_right_after": 100.0, "kept_tuned": 1.0}.items() <= result[
        "metrics"
    ].items()
    assert result["metrics"]["pairs_used"] == len(PAIRS)
    assert result["metrics"]["pairs_left_out"] == 3
    assert result["metrics"]["pairs_with_unsaid_values"] == 1
    assert result["metrics"]["pairs_without_link"] == 0
    assert result["config"]["training"]["epochs"] == CONFIG.training.epochs
    pairs = read_json(out / "pairs.json")
    assert [row["line"] for row in pairs["left_out"]] == [len(PAIRS) + place for place in (2, 3, 4)]
    assert pairs["left_out"][-1]["fault"] == "value that is not in the question"
    assert pairs["unlinked_lines"] == []
    assert pairs["held_out_lines"] == [score.pair.line for score in run.before.pairs]
    written = "".join(file.read_text() for file in out.glob("*.json*"))
    assert str(data) not in written
    assert str(base) not in written


def test_nothing_is_left_but_what_is_used(better: tuple[FinetuneRun, Path]) -> None:
    _, out = better
    assert {file.name for file in out.iterdir()} == {
        "last.safetensors",
        "result.json",
        "pairs.json",
        "held_out.jsonl",
        "training",
    }
    assert not list((out / "training").rglob("*.safetensors"))
    assert read_lines(out / "training" / "steps.jsonl")


def test_a_model_that_is_not_better_is_not_kept(data: Path, base: Path, tmp_path: Path) -> None:
    run = start(data, base, tmp_path / "out", changed_training(epochs=1, batch_size=64))
    assert run is not None
    assert not run.is_better
    assert not run.kept_tuned
    kept, tuned = (tmp_path / "out" / name for name in ("last.safetensors", "tuned.safetensors"))
    assert kept.read_bytes() == (base / "last.safetensors").read_bytes()
    assert TextToSql.load(tuned).sure_above == 0.25
    assert any(not torch.equal(tensor, read_tensors(kept)[0][name]) for name, tensor in read_tensors(tuned)[0].items())
    assert read_json(tmp_path / "out" / "result.json")["metrics"]["kept_tuned"] == 0.0


def test_the_tuned_model_is_kept_where_that_is_asked_for(quick: Path, data: Path, base: Path) -> None:
    assert not (quick / "tuned.safetensors").exists()
    first, again = (open_finetuning(data / "few.csv", data / "harbours.sqlite", model) for model in (base, quick))
    assert not first.was_tuned
    assert again.was_tuned


class Kill(BaseException):
    """Ends a run at any place, as a lost power supply does."""


def kill_after(steps: int, monkeypatch: pytest.MonkeyPatch, end: Any) -> None:
    """Let `end` happen after so many losses."""
    plain, counted = FinetuneTask.loss_sum, [0]

    def loss_sum(self: FinetuneTask, *arguments: Any) -> Any:
        counted[0] += 1
        if counted[0] == steps + 1:
            end()
        return plain(self, *arguments)

    monkeypatch.setattr(FinetuneTask, "loss_sum", loss_sum)


def die(*_: object, **__: object) -> None:
    raise Kill


def same_model(one: Path, other: Path) -> bool:
    found, expected = (read_tensors(folder / "last.safetensors")[0] for folder in (one, other))
    return found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in found)


def test_a_killed_run_goes_on_where_it_was(data: Path, base: Path, quick: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        kill_after(6, patch, die)
        with pytest.raises(Kill):
            start(data, base, out, keep=Keep.TUNED)
    assert {file.name for file in out.iterdir()} == {"training"}, "nothing to be taken for a model"
    with pytest.raises(CheckpointError, match=r"holds a run, saved at step 4: continue it with --resume"):
        start(data, base, out, keep=Keep.TUNED)
    assert start(data, base, out, keep=Keep.TUNED, resume=True) is not None
    assert same_model(out, quick)


def test_a_run_that_is_asked_to_stop_saves_and_goes_on(data: Path, base: Path, quick: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        kill_after(2, patch, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert start(data, base, out, keep=Keep.TUNED) is None
    assert not (out / "last.safetensors").exists()
    assert start(data, base, out, keep=Keep.TUNED, resume=True) is not None
    assert same_model(out, quick)


def test_a_kill_between_the_last_files(data: Path, base: Path, quick: Path, tmp_path: Path) -> None:
    """Killed before the weights, the held-out answers and the result, and when all is written; resumed each time."""
    out = tmp_path / "out"
    places = {"save_weights": die, "write_atomically": die, "finish_run": die, "shutil": SimpleNamespace(rmtree=die)}
    for name, end in places.items():
        assert not (out / "result.json").exists()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_module, name, end)
            with pytest.raises(Kill):
                start(data, base, out, keep=Keep.TUNED, resume=out.exists())
    assert (out / "result.json").exists(), "all is there; only room is lost"
    assert same_model(out, quick)


def test_other_pairs_or_another_model_are_no_resumption(data: Path, base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        kill_after(6, patch, die)
        with pytest.raises(Kill):
            start(data, base, out)
    fewer = write_pairs(tmp_path / "fewer.csv", PAIRS[: FEW - 1])
    with pytest.raises(CheckpointError, match=r"finetune\.pairs was"):
        finetune(open_finetuning(fewer, data / "harbours.sqlite", base, QUICK), out, resume=True)
    (other := tmp_path / "other").mkdir()
    model = tiny_model()
    with torch.no_grad():
        next(model.decoder.parameters()).add_(0.1)
    save_run(other, model, TextToSql.load(base).trained.encoder)
    with pytest.raises(CheckpointError, match=r"finetune\.from was"):
        start(data, other, out, resume=True)


def test_what_is_there_is_never_lost(data: Path, base: Path, quick: Path, tmp_path: Path) -> None:
    for resume in (False, True):
        with pytest.raises(CheckpointError, match="holds a finished run"):
            start(data, base, quick, resume=resume)
    own = Path(shutil.copytree(base, tmp_path / "own"))
    with pytest.raises(ConfigError, match="holds the model that the run starts from"):
        start(data, own, own)
    with pytest.raises(CheckpointError, match="holds a model: choose another folder"):
        start(data, base, own)
    assert (own / "last.safetensors").read_bytes() == (base / "last.safetensors").read_bytes()
    assert [file.name for file in own.iterdir()] == ["last.safetensors"]


def test_what_cannot_be_opened_is_told_of(data: Path, base: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        open_finetuning(tmp_path / "none.csv", data / "harbours.sqlite", base)
    with pytest.raises(SchemaError, match="does not exist"):
        open_finetuning(data / "pairs.csv", tmp_path / "none.sqlite", base)
    with pytest.raises(CheckpointError, match="does not exist"):
        open_finetuning(data / "pairs.csv", data / "harbours.sqlite", tmp_path / "none.safetensors")
    with pytest.raises(DataError, match="20 are needed"):
        open_finetuning(write_pairs(tmp_path / "few.csv", PAIRS[:4]), data / "harbours.sqlite", base)


def test_questions_that_the_model_cannot_read_are_listed(data: Path, base: Path, tmp_path: Path) -> None:
    sql = "SELECT name FROM harbour"
    odd = ["x" * 3000, "harbour " * 240 + "unbelievably " * 6, "\ud800?", "\N{PARTY POPPER} !", "..."]
    lines = [{"question": question, "sql": sql} for question in odd]
    lines += [{"question": question, "sql": query} for question, query in PAIRS]
    (path := tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reasons = {pair.line: pair.reason for pair in open_finetuning(path, data / "harbours.sqlite", base).pairs.unusable}
    assert "characters; the limit is 2,000" in reasons[1]
    assert "subwords; the limit is 256" in reasons[2]
    assert "half a surrogate pair" in reasons[3]
    assert set(reasons) == {1, 2, 3}
