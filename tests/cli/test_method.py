"""`dtfixup check` and `dtfixup demo-train`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib import image

from dtfixup.cli.main import main
from dtfixup.demo import side_by_side
from dtfixup.demo.training import DemoConfig


def test_check_prints_writes_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers, picture = tmp_path / "depth.json", tmp_path / "depth.png"
    main(["check", "--depths", "2,4", "--save", str(numbers), "--plot", str(picture), "--strategies", "dt-fixup"])
    content = json.loads(numbers.read_text())
    assert {"stack", "strategy", "optimizer", "depth", "grad_norm", "grad_norm_biases", "update"} <= set(
        content["rows"][0]
    )
    assert {"stack", "strategy", "optimizer", "grad_norm", "update"} <= set(content["slopes"][0])
    assert {(row["stack"], row["optimizer"], row["depth"]) for row in content["rows"]} == {
        (stack, optimizer, depth)
        for stack in ("vanilla", "relation")
        for optimizer in ("sgd", "adam")
        for depth in (2, 4)
    }
    assert {"command", "commit", "hardware", "wall_seconds"} <= set(content)
    assert image.imread(picture).shape[0] > 300
    assert "dt-fixup" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "--depths", "2,x"], "expected numbers separated by commas"),
        (["check", "--depths", "0"], "at least 1"),
        (["check", "--strategies", "magic"], "there is no strategy 'magic'"),
        (["check", "--encoder", "no-such-encoder"], "hf download no-such-encoder"),
        (["check", "--encoder", "[/x]"], "the encoder '[/x]' is not on this machine"),
        (["demo-train", "--steps", "0"], "--steps and --layers are 1 or more; got 0 and 24"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], message: str, refusal: Callable[..., str]) -> None:
    assert message in refusal(*arguments)


def test_demo_train_takes_what_the_options_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(side_by_side, "show_demo", lambda config, out: asked.extend((config, out)))
    main(["demo-train", "--out", str(tmp_path), "--steps", "22", "--layers", "3", "--seed", "5"])
    assert asked == [DemoConfig(seed=5, steps=22, tune_steps=6, layers=3), tmp_path]
