"""A model loads from its file as it was saved: every weight is the file's, and none is random."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dtfixup.errors import CheckpointError
from dtfixup.sql.grammar.rules import sql_grammar
from dtfixup.sql.model import store
from dtfixup.sql.model.store import load_model, vocabulary_sha256
from dtfixup.weights.tensors import read_tensors, write_tensors
from tests.sql.asked import save_run, tiny_run
from tests.sql.tiny_model import tiny_encoder, tiny_model


def changed(folder: Path, **content: Any) -> Path:
    """The tiny run's file with another content."""
    tensors, before = read_tensors(tiny_run() / "last.safetensors")
    return write_tensors(folder / "changed.safetensors", tensors, {**before, **content})


def test_every_weight_is_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """New modules are not initialised, so a weight that the file did not fill would be NaN here."""
    weights = tiny_model().state_dict()
    for name in ("empty", "empty_like"):
        plain = getattr(torch, name)

        def filled(*sizes: Any, plain: Any = plain, **options: Any) -> torch.Tensor:
            made = plain(*sizes, **options)
            return made.fill_(float("nan")) if made.is_floating_point() and made.device.type != "meta" else made

        monkeypatch.setattr(torch, name, filled)
    again = load_model(tiny_run()).model.state_dict()
    assert weights.keys() == again.keys()
    for name, tensor in weights.items():
        assert torch.equal(tensor, again[name]), name
        assert torch.isfinite(tensor).all(), name


def test_loading_draws_no_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_encoder()
    monkeypatch.setattr(store, "load_frozen_encoder", lambda name: encoder)
    before = torch.random.get_rng_state()
    load_model(tiny_run())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_file_for_another_grammar_is_refused(tmp_path: Path) -> None:
    assert load_model(changed(tmp_path, vocabulary=vocabulary_sha256())).content["vocabulary"]
    with pytest.raises(CheckpointError, match=r"another grammar than this version's: use dtfixup 9\.9"):
        load_model(changed(tmp_path, vocabulary="0" * 64, version="9.9"))


def test_the_vocabulary_notices_rules_that_changed_places(monkeypatch: pytest.MonkeyPatch) -> None:
    before = vocabulary_sha256()
    grammar = sql_grammar()
    first, second, *others = grammar.rules
    monkeypatch.setattr(store, "sql_grammar", lambda: replace(grammar, rules=(second, first, *others)))
    assert vocabulary_sha256() != before


@pytest.mark.parametrize("other", [{"dim": 64}, {"seed": 1}])
def test_another_encoder_is_refused(other: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "load_frozen_encoder", lambda name: tiny_encoder(**other))
    with pytest.raises(CheckpointError, match=r"trained on another encoder than .* its frozen weights differ"):
        load_model(tiny_run())


def test_files_that_hold_no_model_say_so(tmp_path: Path) -> None:
    for content in ({"fingerprint": None}, {"fingerprint": {"model": {"layers": "many"}}}, {"fingerprint": []}):
        with pytest.raises(CheckpointError, match="has no SQL-SP model"):
            load_model(changed(tmp_path, **content))
    with pytest.raises(CheckpointError, match=r"has no last\.safetensors, so its run has not finished"):
        load_model(tmp_path)


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    (run := tmp_path / "run").mkdir()
    encoder = load_model(tiny_run()).encoder
    file = save_run(run, tiny_model(relevance_weight=0.1), encoder) / "last.safetensors"
    tensors, content = read_tensors(file)
    del tensors["relevance.weight"]
    with pytest.raises(CheckpointError, match=r"lacks relevance\.weight: it was written by another model"):
        load_model(write_tensors(file, tensors, content))
