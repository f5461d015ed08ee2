"""The demo as a person sees it: processes, bars, table, files, and what happens when one fails."""

import json
import queue
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib import image

from dtfixup.demo.side_by_side import next_message, show_demo
from dtfixup.demo.training import DemoConfig
from dtfixup.errors import DtFixupError

TINY = DemoConfig(
    train=40, held_out=10, story_steps=(1, 2), layers=2, dim=16, heads=2, mlp_dim=16, batch_size=8, steps=10,
    tune_steps=3, evaluate_every=5,
)  # fmt: skip


def test_three_strategies_train_side_by_side_and_leave_a_table_a_picture_and_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_demo(TINY, tmp_path)
    content = json.loads((tmp_path / "demo.json").read_text())
    assert [run["strategy"] for run in content["runs"]] == ["standard", "pre-ln", "dt-fixup"]
    assert content["metrics"]["dt_fixup_accuracy"] == content["runs"][2]["validation"][-1]
    assert {"name", "command", "commit", "seed", "config", "encoder", "data_hash", "hardware"} <= set(content)
    assert image.imread(tmp_path / "demo.png").shape[0] > 300
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("How is", "validation accuracy", "pre-ln", "done:"))


def test_a_training_process_that_fails_is_an_error_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(DtFixupError, match="cannot be split over 3 heads"):
        show_demo(replace(TINY, heads=3), tmp_path)
    assert not (tmp_path / "demo.json").exists()


def test_a_process_that_died_without_a_word_is_noticed() -> None:
    class Dead:
        exitcode = -9

    class Silent:
        def get(self, timeout: float) -> dict[str, object]:
            raise queue.Empty

    with pytest.raises(DtFixupError, match="pre-ln stopped with exit code -9"):
        next_message(Silent(), {"pre-ln": Dead()}, {})
