"""Vanilla and relation-aware transformer layers, textbook form."""

from dtfixup.transformer.attention import Attention
from dtfixup.transformer.layer import StackConfig, TransformerLayer
from dtfixup.transformer.relation_attention import Kernel, RelationAttention
from dtfixup.transformer.stack import TransformerStack

__all__ = ["Attention", "Kernel", "RelationAttention", "StackConfig", "TransformerLayer", "TransformerStack"]
