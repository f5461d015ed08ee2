"""The log holds each step once, is plain JSON, and keeps quiet where nobody looks."""

import io
import json
import math
from dataclasses import fields
from pathlib import Path

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dtfixup.errors import DataError, TrainingError
from dtfixup.fixup import Alert, Assumption
from dtfixup.training.log import Interval, JsonLines, RunLog, Thinned, read_lines


def interval(step: int, loss: float | None = 1.5) -> Interval:
    return Interval(step, step / 10, loss, 0.5, 1e-3, 0, 100.0, 2.0)


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def test_lines_after_the_resumed_step_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    lines = JsonLines(path, 0)
    for step in (2, 4, 6):
        lines.write({"step": step})
    with path.open("a") as file:
        file.write('{"step": 8, "lo')  # the process was killed while writing
    lines = JsonLines(path, 4)
    lines.write({"step": 5})
    assert [row["step"] for row in read_lines(path)] == [2, 4, 5]


def test_a_new_run_begins_with_empty_files(tmp_path: Path) -> None:
    (tmp_path / "steps.jsonl").write_text('{"step": 1}\n')
    with RunLog(tmp_path, total=10, console=Console(file=io.StringIO())):
        pass
    assert read_lines(tmp_path / "steps.jsonl") == []


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "steps.jsonl").write_text("step 3\n")
    with pytest.raises(DataError, match=r"steps\.jsonl has a line that is not JSON"):
        RunLog(tmp_path, total=10)


def test_intervals_and_evaluations_are_scalars_too(tmp_path: Path) -> None:
    with RunLog(tmp_path, total=10, console=Console(file=io.StringIO())) as log:
        log.interval(interval(4))
        log.interval(interval(8, loss=None))
        log.evaluation({"step": 8, "epoch": 1, "accuracy": 75.0, "broken": math.nan}, "best accuracy 75")
        log.alert(Alert(7, Assumption.GROWTH, math.inf, 8.0, "it grew"))
    assert scalars(tmp_path, "steps/loss") == [(4, 1.5)]
    assert scalars(tmp_path, "steps/gradient_norm") == [(4, 0.5), (8, 0.5)]
    assert scalars(tmp_path, "evaluations/accuracy") == [(8, 75.0)]
    assert read_lines(tmp_path / "evaluations.jsonl") == [{"step": 8, "epoch": 1, "accuracy": 75.0, "broken": None}]
    alert = {"step": 7, "assumption": "growth through depth", "message": "it grew", "value": None, "limit": 8.0}
    assert read_lines(tmp_path / "alerts.jsonl") == [alert]


def test_tensorboard_forgets_what_a_resume_does_again(tmp_path: Path) -> None:
    for start, loss in ((0, 1.0), (4, 2.0)):
        with RunLog(tmp_path, total=10, step=start, console=Console(file=io.StringIO())) as log:
            for step in range(start + 2, 9, 2):
                log.interval(interval(step, loss))
    assert scalars(tmp_path, "steps/loss") == [(2, 1.0), (4, 1.0), (6, 2.0), (8, 2.0)]
    assert [row["step"] for row in read_lines(tmp_path / "steps.jsonl")] == [2, 4, 6, 8]


def test_a_plain_line_per_epoch_where_there_is_no_terminal(tmp_path: Path) -> None:
    said = io.StringIO()
    with RunLog(tmp_path, total=10, console=Console(file=said)) as log:
        log.interval(interval(4))
        log.evaluation({"step": 4, "epoch": 1, "accuracy": 75.0}, "best accuracy 75")
        log.epoch(1, 3, 12.345)
    assert said.getvalue() == "epoch 1/3  loss 1.5  12.3 ms/step  best accuracy 75\n"


def test_one_line_with_the_time_left_on_a_terminal(tmp_path: Path) -> None:
    said = io.StringIO()
    console = Console(file=said, force_terminal=True, width=120)
    with RunLog(tmp_path, total=10, step=2, best="best accuracy 60", console=console) as log:
        log.interval(interval(4))
        log.epoch(1, 3, 12.3)
        log._bar.refresh()
    assert "4/10" in said.getvalue()
    assert "loss 1.5 best accuracy 60" in said.getvalue()
    assert "ms/step" not in said.getvalue()
    assert "\x1b[?25l" in said.getvalue()  # drawn in place


def test_other_ranks_write_and_say_nothing(tmp_path: Path) -> None:
    said = io.StringIO()
    with RunLog(None, total=10, console=Console(file=said, force_terminal=True)) as log:
        log.interval(interval(4))
        log.print("hello")
        log.epoch(1, 3, 12.3)
    assert said.getvalue() == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TrainingError, match=r"the log cannot be written to .*file: .*Choose another folder"):
        RunLog(tmp_path / "file", total=10)


def test_scalars_of_every_step_are_thinned_to_the_largest() -> None:
    written: list[tuple[str, float, int]] = []

    class Writer:
        def add_scalar(self, tag: str, value: float, step: int) -> None:
            written.append((tag, value, step))

    thinned = Thinned(Writer())  # type: ignore[arg-type]
    for step in range(1, 121):
        thinned.add_scalar("growth", 90.0 if step == 7 else step / 1000, step)
    assert written == [("growth", 90.0, 50), ("growth", 0.1, 100)]


def test_lines_are_json_that_others_read(tmp_path: Path) -> None:
    with RunLog(tmp_path, total=10, console=Console(file=io.StringIO())) as log:
        log.interval(interval(4))
    row = json.loads((tmp_path / "steps.jsonl").read_text())
    assert list(row) == [field.name for field in fields(Interval)]
