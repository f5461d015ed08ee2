"""Vanilla and relation-aware transformer layers: the textbook form, and faster ones that equal it."""

from dtfixup.transformer.attention import Attention
from dtfixup.transformer.kernel_choice import Kernel
from dtfixup.transformer.layer import StackConfig, TransformerLayer
from dtfixup.transformer.relation_attention import RelationAttention
from dtfixup.transformer.stack import TransformerStack

__all__ = ["Attention", "Kernel", "RelationAttention", "StackConfig", "TransformerLayer", "TransformerStack"]
