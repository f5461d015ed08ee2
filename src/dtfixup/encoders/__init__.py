"""Pre-trained encoders of Hugging Face by name or path; "minilm" is the one that pip brings."""

from dtfixup.encoders.load import Encoder, WordBatch, encoder_sha256, load_encoder
from dtfixup.encoders.pooling import pool_words

__all__ = ["Encoder", "WordBatch", "encoder_sha256", "load_encoder", "pool_words"]
