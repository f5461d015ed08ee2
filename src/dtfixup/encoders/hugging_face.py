"""Describe Hugging Face's encoder layers: which weights are value, output and MLP weights.

The BERT and RoBERTa families share one structure; every class listed here has a test.
"""

from torch import nn
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.camembert.modeling_camembert import CamembertLayer
from transformers.models.electra.modeling_electra import ElectraLayer
from transformers.models.roberta.modeling_roberta import RobertaLayer
from transformers.models.xlm_roberta.modeling_xlm_roberta import XLMRobertaLayer

from dtfixup.errors import UnsupportedLayerError
from dtfixup.fixup import LayerWeights, register_layer

BERT_LIKE = (BertLayer, RobertaLayer, XLMRobertaLayer, CamembertLayer, ElectraLayer)


def register_layers() -> None:
    for kind in BERT_LIKE:
        register_layer(kind, _describe)


def _describe(layer: nn.Module) -> LayerWeights:
    if hasattr(layer, "crossattention"):
        raise UnsupportedLayerError(
            f"this {type(layer).__name__} has cross-attention, and DT-Fixup is derived for encoder layers: "
            "build it with add_cross_attention=False"
        )
    value, output, up, down = (
        _linear(layer, path)
        for path in ("attention.self.value", "attention.output.dense", "intermediate.dense", "output.dense")
    )
    return LayerWeights(
        value=[value.weight],
        output=[output.weight],
        mlp=[up.weight, down.weight],
        branches=[output, down],
    )


def _linear(layer: nn.Module, path: str) -> nn.Linear:
    linear = layer.get_submodule(path)
    assert isinstance(linear, nn.Linear)  # true of every class in BERT_LIKE
    return linear
