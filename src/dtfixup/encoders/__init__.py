"""Pre-trained encoders of Hugging Face by name or folder; "minilm" comes with the extra `hf`."""

from dtfixup.errors import needs_extra

with needs_extra("hf", "pre-trained encoders"):
    from dtfixup.encoders.lean import LeanEncoder
    from dtfixup.encoders.load import (
        Encoder,
        Tokenizer,
        WordBatch,
        encoder_identity,
        encoder_sha256,
        load_encoder,
        load_frozen_encoder,
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
    "load_frozen_encoder",
    "load_tokenizer",
    "pool_words",
]
