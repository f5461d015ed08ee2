"""Pre-trained encoders of Hugging Face by name or path; "minilm" is the one that pip brings."""

from dtfixup.encoders.lean import LeanEncoder
from dtfixup.encoders.load import (
    Encoder,
    Tokenizer,
    WordBatch,
    encoder_identity,
    encoder_sha256,
    load_encoder,
    load_reader,
    load_tokenizer,
)
from dtfixup.encoders.pooling import pool_words

__all__ = [
    "Encoder",
    "LeanEncoder",
    "Tokenizer",
    "WordBatch",
    "encoder_identity",
    "encoder_sha256",
    "load_encoder",
    "load_reader",
    "load_tokenizer",
    "pool_words",
]
