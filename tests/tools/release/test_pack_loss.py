"""What packing costs: exact match of both files, queries that changed, and which part of the model they come from."""

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from dtfixup.encoders import load_frozen_encoder
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.evaluation.evaluate import judge
from dtfixup.sql.evaluation.failures import Failure
from dtfixup.sql.model.config import smoke
from dtfixup.sql.model.decoder import DecoderConfig
from dtfixup.sql.model.model import SqlSpModel
from dtfixup.sql.model.packing import pack_model
from dtfixup.sql.model.prepared import Prepared, open_prepared
from dtfixup.sql.model.store import load_model
from dtfixup.sql.preparation.prepare import prepare
from dtfixup.training.config import to_json
from dtfixup.weights.tensors import save_weights
from dtfixup.weights.trained import frozen_checksum, frozen_names
from tools.release import pack_loss
from tools.release.pack_loss import Decoded, PackLoss, decode_dev, measure_loss, rounding_by_part, show_loss

FERRY = open_dataset(sample_folder()).schemas["river_ferry"]
GOLD = "SELECT name FROM pier ORDER BY name"


def decoded(queries: Sequence[str]) -> Decoded:
    return Decoded(list(queries), [judge(GOLD, query, FERRY) for query in queries])


def test_metrics_are_percentages_of_both() -> None:
    full = decoded([GOLD, GOLD, "SELECT name FROM pier", GOLD])
    packed = decoded([GOLD, "SELECT city FROM pier ORDER BY name", "SELECT city FROM pier", GOLD])
    loss = PackLoss(full, packed, 140.79, 44.94, 35)
    assert loss.metrics == {
        "dev_exact_full": 75,
        "dev_exact_packed": 50,
        "lost_points": 25,
        "changed_share": 50,
        "megabytes": 44.94,
        "megabytes_full": 140.79,
        "dev_wrong": 2,
        "dev_exact_packed_easy": 50,
    }
    assert loss.failures == {Failure.SHOWN_COLUMNS.value: 2, Failure.ORDER.value: 1}
    text = StringIO()
    show_loss(loss, Console(file=text, width=100))
    assert "lost_points                25.00" in text.getvalue()
    assert "all" in text.getvalue()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("prepared")
    prepare(sample_folder(), folder, splits=["dev"], workers=1, show_progress=False)
    whole = open_prepared(folder)
    first, _ = whole.index["splits"]["dev"]
    return replace(whole, index={**whole.index, "splits": {"dev": [first, first + 4]}})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fresh weights whose scores are far from even, on the bundled encoder, whose layers are in the file."""
    folder = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    decoder = DecoderConfig(action_dim=32, node_dim=16, lstm_dim=64, heads=4)
    config = replace(smoke().model, layers=1, decoder=decoder)
    model = SqlSpModel(config, load_frozen_encoder())
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            parameter.mul_(3.0)
    made_of = {"model": to_json(config), "order": smoke().order, "encoder": "minilm", "encoder_factor": 0.1}
    made_of |= {"frozen": frozen_checksum(model)}
    save_weights(folder / "last.safetensors", model, {"fingerprint": made_of}, left_out=frozen_names(model))
    return folder


def test_both_files_are_decoded(run: Path, prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = run / "last.safetensors"
    done = pack_model(run, tmp_path / "packed.safetensors", megabytes=12.0)
    loss = measure_loss(full, done.path, prepared, beam=2)
    assert len(loss.full.queries) == len(loss.packed.queries) == 4
    assert loss.full.queries == decode_dev(load_model(full), prepared, 2).queries
    assert loss.megabytes == done.megabytes < loss.megabytes_full
    stored = sum(
        np.prod(tensor.shape) for name, tensor in load_model(full).model.named_parameters() if tensor.requires_grad
    )
    assert loss.parameters == stored


def test_one_part_is_rounded_at_a_time(run: Path, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model that is decoded differs from the file's in the part alone."""
    before = load_model(run).model.state_dict()
    seen: list[set[str]] = []

    def look(trained: pack_loss.TrainedModel, *rest: object) -> Decoded:
        now = trained.model.state_dict()
        seen.append({name.split(".")[0] for name in now if not torch.equal(now[name], before[name])})
        return decoded([GOLD, "SELECT city FROM pier"])

    monkeypatch.setattr(pack_loss, "decode_dev", look)
    changed = rounding_by_part(run / "last.safetensors", decoded([GOLD, GOLD]), prepared)
    assert changed == {"changed_share_encoder": 50, "changed_share_stack": 50, "changed_share_rest": 50}
    assert seen[:2] == [{"encoder"}, {"stack"}]
    assert {"decoder", "items", "project_words"} <= seen[2]
    assert not seen[2] & {"encoder", "stack"}
