"""The bundled encoder without transformers equals the one that transformers loads."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfixup.encoders import Encoder, LeanEncoder, Tokenizer, load_encoder, load_frozen_encoder, load_tokenizer
from dtfixup.encoders.lean import lean_encoder, lean_tokenizer
from dtfixup.encoders.load import minilm_path
from dtfixup.errors import EncoderError


@pytest.fixture(scope="module")
def whole() -> Encoder:
    return load_encoder()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer()


def test_states_and_names_are_those_of_transformers(whole: Encoder) -> None:
    lean = load_frozen_encoder()
    assert isinstance(lean, LeanEncoder)
    assert [name for name, _ in lean.named_parameters()] == [name for name, _ in whole.named_parameters()]
    assert (lean.dim, lean.max_tokens, lean.name) == (whole.dim, whole.max_tokens, whole.name)
    assert not lean.training
    generator = torch.Generator().manual_seed(0)
    token_BT = torch.randint(0, 30522, (3, 40), generator=generator)
    keep_BT = torch.ones(3, 40)
    keep_BT[1, 25:] = 0
    with torch.no_grad():
        expected, found = whole(token_BT, keep_BT), lean(token_BT, keep_BT)
    assert torch.allclose(expected, found, atol=1e-5)
    assert float(expected.abs().max()) > 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_subwords_are_those_of_transformers(whole: Encoder, tokenizer: Tokenizer, words: list[str]) -> None:
    expected = whole.tokenizer(words, add_special_tokens=False)["input_ids"]
    assert tokenizer.pieces(words) == [list(ids) or [whole.tokenizer.unk_token_id] for ids in expected]
    special = (whole.tokenizer.cls_token_id, whole.tokenizer.sep_token_id, whole.tokenizer.pad_token_id)
    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id) == special


def test_a_long_text_is_not_cut() -> None:
    assert len(load_tokenizer().pieces(["word " * 2000])[0]) == 2000


def test_damaged_files_are_told(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(minilm_path(), tmp_path / "copy"))
    for name, damage in (("model.safetensors", b"x" * 100), ("config.json", b"{}")):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(damage)
        with pytest.raises(EncoderError, match="cannot be read, it may be damaged"):
            lean_encoder(folder)
        (folder / name).write_bytes(content)
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(EncoderError, match=r"the tokenizer in .* cannot be read"):
        lean_tokenizer(folder)


def test_the_parser_needs_neither_transformers_nor_the_compiler_of_torch() -> None:
    """Importing them takes longer than answering."""
    program = """
import sys
from dtfixup.encoders import load_frozen_encoder, load_tokenizer
import dtfixup.sql.ask.parser
load_frozen_encoder(), load_tokenizer().pieces(["pier"])
print([name for name in ("transformers", "torch._dynamo", "scipy", "lightning") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
