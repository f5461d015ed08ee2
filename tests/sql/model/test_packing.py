"""A packed model gives the answers of the run's own file; whatever is wrong with one is said."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dtfixup.cli.main import main
from dtfixup.encoders.load import minilm_path
from dtfixup.errors import CheckpointError, ConfigError, DataError
from dtfixup.sql.ask.parser import TextToSql
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.model.model import SqlSpModel
from dtfixup.sql.model.packing import pack_model
from dtfixup.sql.model.store import load_model
from dtfixup.weights.packed import SCALE, Storage
from dtfixup.weights.tensors import read_content, read_tensors, write_tensors
from tests.sql.asked import save_run, tiny_run
from tests.sql.tiny_model import CONFIG, tiny_encoder, tiny_model

QUESTION = "How many piers are in Vienna?"
TIGHT = 0.248
"""Megabytes that hold the wide run with nothing to spare."""


@pytest.fixture(scope="module")
def wide_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose matrices are large enough for 8 bits; the one that loses most is not of the encoder."""
    folder = tmp_path_factory.mktemp("wide")
    encoder = tiny_encoder(dim=64)
    encoder.model.save_pretrained(folder / "encoder")
    for file in [*minilm_path().glob("*token*"), minilm_path() / "vocab.txt"]:
        shutil.copy(file, folder / "encoder")
    torch.manual_seed(0)
    model = SqlSpModel(replace(CONFIG, dim=64, mlp_dim=128), encoder).eval()
    with torch.no_grad():
        model.project_words.weight[:, 0] = 9.0
    (folder / "run").mkdir()
    return save_run(folder / "run", model, str(folder / "encoder"))


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return pack_model(tiny_run(), tmp_path / "packed.safetensors").path


def result_file(folder: Path, **changes: Any) -> Path:
    model = read_content(tiny_run() / "last.safetensors")["fingerprint"]["model"]
    metrics = {"dev_exact": 71.5, "dev_exact_easy": 90.1, "step_ms": 7.0}
    content = {"name": "sql-x", "seed": 4, "data_hash": "d", "config": {"model": model}, "metrics": metrics, **changes}
    (folder / "result.json").write_text(json.dumps(content))
    return folder / "result.json"


@pytest.mark.parametrize("keep", [Storage.INT8, Storage.HALF])
def test_a_packed_model_answers_as_the_run_does(keep: Storage, tmp_path: Path) -> None:
    done = pack_model(tiny_run(), tmp_path / "packed.safetensors", keep=keep)
    ferry = open_dataset(sample_folder()).database_file("river_ferry")
    answers = [TextToSql.load(path).ask(QUESTION, ferry) for path in (tiny_run(), done.path)]
    assert answers[0].alternatives
    assert answers[0].alternatives[0].sql == answers[1].alternatives[0].sql
    scores = [answer.alternatives[0].score for answer in answers]
    assert scores[0] == pytest.approx(scores[1], abs=0.05)
    assert scores[0] != scores[1], "the weights are not the same to the last bit"


def test_weights_come_back_in_float32_and_near(wide_run: Path, tmp_path: Path) -> None:
    done = pack_model(wide_run, tmp_path / "packed.safetensors", megabytes=TIGHT)
    assert {*done.stored.values()} == {Storage.INT8, Storage.HALF}
    before, after = (load_model(path).model.state_dict() for path in (wide_run, done.path))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert after[name].dtype == torch.float32
        lost = float((after[name] - tensor).norm()) / max(float(tensor.norm()), 1e-30)
        assert lost <= (0.05 if done.stored.get(name) is Storage.INT8 else 1e-3), name


def test_a_limit_that_cannot_be_kept_writes_nothing(wide_run: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"the weights take at least 0\.2 MB, and 0\.1 MB .* allow more"):
        pack_model(wide_run, tmp_path / "p.safetensors", megabytes=0.15)
    assert not list(tmp_path.iterdir())
    roomy = pack_model(wide_run, tmp_path / "p.safetensors", megabytes=45)
    assert set(roomy.stored.values()) == {Storage.HALF}
    assert roomy.bytes < 0.6 * roomy.bytes_before


def test_the_encoder_is_kept_in_half_precision_first(wide_run: Path, tmp_path: Path) -> None:
    tensors, _ = read_tensors(wide_run / "last.safetensors")
    matrices = [name for name, tensor in tensors.items() if tensor.numel() >= 4096]
    of_encoder = {name for name in matrices if name.startswith("encoder.")}
    assert len(of_encoder) == 6
    tight = pack_model(wide_run, tmp_path / "p.safetensors", megabytes=TIGHT)
    assert max(tight.errors, key=lambda name: tight.errors[name]) == "project_words.weight"
    states = set()
    for limit in (TIGHT, 0.26, 0.272, 0.28):
        done = pack_model(wide_run, tmp_path / "p.safetensors", megabytes=limit)
        assert done.bytes <= limit * 1e6
        half = {name for name in matrices if done.stored[name] is Storage.HALF}
        assert half <= of_encoder or of_encoder <= half
        states.add((bool(half & of_encoder), of_encoder <= half, bool(half - of_encoder)))
    assert states == {(False, False, False), (True, False, False), (True, True, False), (True, True, True)}


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    written = {pack_model(tiny_run(), tmp_path / f"{place}.safetensors").path.read_bytes() for place in range(5)}
    assert len(written) == 1


def test_a_packed_file_is_not_packed_again(packed: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is packed already: .* pack the run's own file"):
        pack_model(packed, tmp_path / "again.safetensors")


def test_weights_that_are_not_finite_are_not_packed(tmp_path: Path) -> None:
    (run := tmp_path / "run").mkdir()
    model = tiny_model()
    with torch.no_grad():
        model.project_words.weight[0, 0] = float("nan")
    save_run(run, model, load_model(tiny_run()).encoder)
    with pytest.raises(CheckpointError, match=r"project_words\.weight has weights that are not finite"):
        pack_model(run, tmp_path / "packed.safetensors")
    assert not (tmp_path / "packed.safetensors").exists()


def test_accuracy_and_threshold_go_into_the_file(tmp_path: Path) -> None:
    done = pack_model(tiny_run(), tmp_path / "p.safetensors", result=result_file(tmp_path), sure_above=0.7)
    content = read_content(done.path)
    assert content["accuracy"] == {
        "name": "sql-x",
        "seed": 4,
        "data_hash": "d",
        "metrics": {"dev_exact": 71.5, "dev_exact_easy": 90.1},
    }
    assert done.result_checked is False, "the file does not name a seed"
    assert TextToSql.load(done.path).sure_above == 0.7
    assert content["fingerprint"] == read_content(tiny_run() / "last.safetensors")["fingerprint"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"model": {"layers": 9}}}, "do not belong together: they differ in model\\. Give the result file"),
        ({"metrics": {"step_ms": 7.0}}, "states no accuracy: its metrics are step_ms"),
        ({"metrics": None}, "is no result file of a run"),
    ],
)
def test_result_files_that_do_not_fit_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        pack_model(tiny_run(), tmp_path / "p.safetensors", result=result_file(tmp_path, **changes))


@pytest.mark.parametrize(
    ("training", "evaluation", "difference"),
    [
        ({"seed": 4, "graphs": None}, {"step": 8, "exact": 71.4}, None),
        ({"seed": 5, "graphs": None}, {"step": 8, "exact": 71.4}, "seed"),
        ({"seed": 4, "graphs": True}, {"step": 8, "exact": 71.4}, "graphs"),
        ({"seed": 4, "graphs": None}, {"step": 8, "exact": 71.3}, "evaluation"),
        ({}, {"step": 6, "exact": 71.4}, "evaluation, seed"),
    ],
)
def test_the_result_of_another_run_is_refused(
    training: dict[str, Any], evaluation: dict[str, Any], difference: str | None, tmp_path: Path
) -> None:
    (run := tmp_path / "run").mkdir()
    said = {"config": {"seed": 4, "graphs": None}, "evaluation": {"step": 8, "exact": 71.4}}
    save_run(run, tiny_model(), load_model(tiny_run()).encoder, **said)
    sizes = read_content(run / "last.safetensors")["fingerprint"]["model"]
    curve = [{"step": 4, "exact": 71.4}, evaluation]
    result = result_file(tmp_path, config={"model": sizes, "training": training}, curve=curve)
    if difference is None:
        assert pack_model(run, tmp_path / "p.safetensors", result=result).result_checked
        return
    with pytest.raises(DataError, match=rf"do not belong together: they differ in {difference}\. Give"):
        pack_model(run, tmp_path / "p.safetensors", result=result)
    assert not (tmp_path / "p.safetensors").exists()


def test_settings_that_cannot_work_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keeps int8 or half"):
        pack_model(tiny_run(), tmp_path / "p.safetensors", keep=Storage.PLAIN)
    with pytest.raises(ConfigError, match="sure_above is a probability"):
        pack_model(tiny_run(), tmp_path / "p.safetensors", sure_above=1.5)


Change = Callable[[dict[str, Tensor], dict[str, Any]], object]


def rewritten(file: Path, change: Change) -> Path:
    """A packed file with something changed, and a checksum that fits."""
    tensors, content = read_tensors(file)
    change(tensors, content)
    return write_tensors(file, tensors, content)


def spoil(tensors: dict[str, Tensor]) -> None:
    tensors["project_words.bias"] = torch.full_like(tensors["project_words.bias"], float("nan"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors, content: tensors.pop("project_words.weight"), r"lacks project_words\.weight"),
        (lambda tensors, content: tensors.update(more=torch.ones(1)), "has more, unknown here"),
        (
            lambda tensors, content: tensors.update({"project_words.bias": torch.ones(5).half()}),
            r"project_words\.bias is float16 \[5\] in .* but float16 \[32\] here: the sizes were set otherwise",
        ),
        (lambda tensors, content: spoil(tensors), r"project_words\.bias .* not finite: pack the model again"),
        (
            lambda tensors, content: content["packed"].update(format=99),
            "packed in format 99, and this version of dtfixup reads 1: use the version that packed it",
        ),
        (lambda tensors, content: content["fingerprint"].update(frozen="0"), "was trained on another encoder than"),
        (lambda tensors, content: content.update(vocabulary="0"), "was made for another grammar"),
    ],
    ids=["missing", "unknown", "shape", "nan", "format", "encoder", "grammar"],
)
def test_packed_files_that_cannot_be_used_say_so(change: Change, message: str, packed: Path) -> None:
    load_model(rewritten(packed, lambda tensors, content: None))
    with pytest.raises(CheckpointError, match=message):
        load_model(rewritten(packed, change))


def test_a_missing_scale_is_named(wide_run: Path, tmp_path: Path) -> None:
    done = pack_model(wide_run, tmp_path / "p.safetensors", megabytes=TIGHT)
    name = next(name for name, storage in done.stored.items() if storage is Storage.INT8)
    with pytest.raises(CheckpointError, match=rf"lacks {name}{SCALE}: it was written by another model"):
        load_model(rewritten(done.path, lambda tensors, content: tensors.pop(name + SCALE)))


@pytest.mark.parametrize("left", [0, 7, 3000, 60_000])
def test_a_truncated_file_is_refused(left: int, packed: Path) -> None:
    os.truncate(packed, left)
    with pytest.raises(CheckpointError, match="cannot be read, it is truncated or damaged"):
        load_model(packed)


def test_one_changed_bit_is_noticed(packed: Path) -> None:
    data = bytearray(packed.read_bytes())
    data[-100] ^= 4
    packed.write_bytes(data)
    with pytest.raises(CheckpointError, match="is damaged: its checksum"):
        load_model(packed)


def test_the_verb_packs_and_says_what_was_lost(
    wide_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "packed.safetensors"
    options = ["--model", str(wide_run), "--out", str(out)]
    main(["sql", "pack", *options, "--megabytes", str(TIGHT), "--sure-above", "0.6"])
    said = capsys.readouterr().out.replace("\n", " ")
    assert "MB of" in said
    assert " int8, " in said
    assert "lost most, of their norm: " in said
    assert read_content(out)["sure_above"] == 0.6
    main(["sql", "pack", *options, "--storage", "half"])
    assert set(read_content(out)["packed"]["tensors"].values()) == {"half"}


def test_the_verb_says_that_a_result_could_not_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", str(tiny_run()), "--out", str(tmp_path / "packed.safetensors")]
    main(["sql", "pack", *options])
    assert "checked" not in capsys.readouterr().out
    result = result_file(tmp_path)
    main(["sql", "pack", *options, "--result", str(result)])
    said = f"{tiny_run()} does not say what run it is of: whether {result} is of the same could not be checked\n"
    assert said in capsys.readouterr().out
