"""The bundled encoder without transformers, whose import takes longer than the answer to a question.

In: MiniLM's folder. Out: `LeanEncoder`, for use and not for training, with the weight names and states of Hugging
Face's `BertModel` and no dropout; and its tokenizer. Tests compare both with transformers.
Legend: B batch, T tokens, D width, H heads, E width of a head.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer as RawTokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from dtfixup.errors import DataError, EncoderError
from dtfixup.files import read_json


class LeanEncoder(nn.Module):
    """Replaces `Encoder` for token ids when nothing is trained."""

    def __init__(self, model: "LeanBert", name: str) -> None:
        super().__init__()
        self.model = model
        self.name = name

    @property
    def dim(self) -> int:
        return self.model.embeddings.word_embeddings.embedding_dim

    @property
    def max_tokens(self) -> int:
        return self.model.embeddings.position_embeddings.num_embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The last hidden states, [B, T, D]; `attention_mask` [B, T] is 1 or True for real tokens."""
        states: Tensor = self.model(input_ids, attention_mask != 0)
        return states


class LeanBert(nn.Module):
    """BERT's forward pass; the modules have the names in Hugging Face's files."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.embeddings = _Embeddings(config)
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList(_Layer(config) for _ in range(config["num_hidden_layers"]))}
        )

    def forward(self, token_BT: Tensor, keep_BT: Tensor) -> Tensor:
        x_BTD = self.embeddings(token_BT)
        for layer in self.encoder["layer"].children():
            x_BTD = layer(x_BTD, keep_BT)
        return x_BTD

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embeddings.word_embeddings


class _Embeddings(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        dim = config["hidden_size"]
        self.word_embeddings = _empty_embedding(config["vocab_size"], dim)
        self.position_embeddings = _empty_embedding(config["max_position_embeddings"], dim)
        self.token_type_embeddings = _empty_embedding(config["type_vocab_size"], dim)
        self.LayerNorm = nn.LayerNorm(dim, eps=config["layer_norm_eps"])

    def forward(self, token_BT: Tensor) -> Tensor:
        position_TD = self.position_embeddings.weight[: token_BT.shape[1]]
        normed: Tensor = self.LayerNorm(
            self.word_embeddings(token_BT) + self.token_type_embeddings.weight[0] + position_TD
        )
        return normed


def _empty_embedding(rows: int, dim: int) -> nn.Embedding:
    """An embedding without random numbers; the meta device would save them too, but imports torch's compiler."""
    return nn.Embedding(rows, dim, _weight=torch.empty(rows, dim))


class _Layer(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        dim, inner, eps = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]
        self.attention = nn.ModuleDict({"self": _Attention(dim, config["num_attention_heads"])})
        self.attention["output"] = _Output(dim, dim, eps)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(dim, inner)})
        self.output = _Output(inner, dim, eps)

    def forward(self, x_BTD: Tensor, keep_BT: Tensor) -> Tensor:
        x_BTD = self.attention["output"](self.attention["self"](x_BTD, keep_BT), x_BTD)
        changed: Tensor = self.output(F.gelu(self.intermediate["dense"](x_BTD)), x_BTD)
        return changed


class _Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x_BTD: Tensor, keep_BT: Tensor) -> Tensor:
        q_BHTE, k_BHTE, v_BHTE = (
            project(x_BTD).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        seen_BHTE = F.scaled_dot_product_attention(q_BHTE, k_BHTE, v_BHTE, attn_mask=keep_BT[:, None, None])
        return seen_BHTE.transpose(1, 2).flatten(2)


class _Output(nn.Module):
    def __init__(self, inner: int, dim: int, eps: float) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, dim)
        self.LayerNorm = nn.LayerNorm(dim, eps=eps)

    def forward(self, inner: Tensor, x_BTD: Tensor) -> Tensor:
        normed: Tensor = self.LayerNorm(self.dense(inner) + x_BTD)
        return normed


def lean_encoder(folder: Path) -> LeanEncoder:
    """MiniLM in float32 and evaluation mode."""
    try:
        model = LeanBert(read_json(folder / "config.json"))
        tensors = load_file(folder / "model.safetensors")
        model.load_state_dict({name: tensors[name] for name in model.state_dict()}, assign=True)
    except (OSError, KeyError, RuntimeError, SafetensorError, DataError) as error:
        raise EncoderError(f"the encoder in {folder} cannot be read, it may be damaged: {error}") from error
    return LeanEncoder(model, "minilm").eval()


def lean_tokenizer(folder: Path) -> RawTokenizer:
    """MiniLM's tokenizer, without truncation and padding."""
    try:
        tokenizer = RawTokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the library raises no other class
        raise EncoderError(f"the tokenizer in {folder} cannot be read, it may be damaged: {error}") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def cut_lean(tokenizer: RawTokenizer, texts: list[str]) -> list[list[int]]:
    """Token ids of each text, without special tokens."""
    return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
