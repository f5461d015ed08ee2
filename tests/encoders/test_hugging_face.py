"""DT-Fixup on encoder layers of Hugging Face: what is scaled, what is spared, what is refused.

Legend: B batch, L length, D width, H heads.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertLayer

from dtfixup.encoders import hugging_face
from dtfixup.errors import AlreadyAppliedError, LoadedWeightsError, UnsupportedLayerError
from dtfixup.fixup import dt_fixup_, initialise_free_, measure_input_norm
from dtfixup.transformer import StackConfig, TransformerStack
from tests.fixup.test_apply import KINDS_OF_HUGGING_FACE as KINDS
from tests.fixup.test_apply import D, N, hugging_face_layers, same, snapshot

H, MU = 2, 2.9
SHAPE = {
    "vocab_size": 20,
    "hidden_size": D,
    "num_hidden_layers": N,
    "num_attention_heads": H,
    "intermediate_size": 48,
    "max_position_embeddings": 16,
}
every_kind = pytest.mark.parametrize(("kind", "config"), KINDS, ids=[kind.__name__ for kind, _ in KINDS])


class Reader(nn.Module):
    """A pre-trained encoder, a projection, new layers, a head: the shape of the paper's models."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = BertModel(BertConfig(**SHAPE), add_pooling_layer=False)
        self.project = nn.Linear(D, 16)
        self.stack = TransformerStack(StackConfig(layers=2, dim=16, heads=2, mlp_dim=32))
        self.head = nn.Linear(16, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.head(self.stack(self.project(states), attention_mask.bool()))


BATCH = {
    "input_ids": torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]]),
    "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]),
}


def test_every_registered_class_is_tested_here() -> None:
    assert set(hugging_face.BERT_LIKE) == {kind for kind, _ in KINDS}


@every_kind
def test_a_treated_layer_computes_the_equation_without_norms(kind: type[nn.Module], config: type) -> None:
    layers = hugging_face_layers(kind, config)
    removed = dt_fixup_(layers, 0.2).norms_removed
    assert len(removed) == 2 * N
    assert not any(isinstance(module, nn.LayerNorm) for module in layers.modules())
    layer, x_BLD = layers[0], torch.randn(2, 5, D)
    attention = layer.attention.self
    projections = (attention.query, attention.key, attention.value)
    q, k, v = (project(x_BLD).unflatten(-1, (H, -1)).transpose(1, 2) for project in projections)
    z_BLD = ((q @ k.mT / (D // H) ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
    y_BLD = x_BLD + layer.attention.output.dense(z_BLD)
    y_BLD = y_BLD + layer.output.dense(nn.functional.gelu(layer.intermediate.dense(y_BLD)))
    output = layer(x_BLD)
    output = output[0] if isinstance(output, tuple) else output
    torch.testing.assert_close(output, y_BLD, rtol=1e-5, atol=1e-5)


def test_layers_of_a_freshly_built_model_are_new_layers() -> None:
    model = BertModel(BertConfig(**SHAPE))
    assert dt_fixup_(model.encoder.layer, MU).layers == N
    with pytest.raises(AlreadyAppliedError):
        dt_fixup_(list(model.encoder.layer), MU)


def test_loaded_layers_are_refused_unless_their_loss_is_wanted(tmp_path: Path) -> None:
    BertModel(BertConfig(**SHAPE)).save_pretrained(tmp_path)
    model = BertModel.from_pretrained(tmp_path)
    before = snapshot(model)
    with pytest.raises(LoadedWeightsError, match=r"attention\.self\.query\.weight and .* more.*reinitialise=True"):
        dt_fixup_(model.encoder.layer, MU)
    assert same(model, before)
    assert dt_fixup_(model.encoder.layer, MU, reinitialise=True).layers == N
    assert not torch.equal(model.encoder.layer[0].output.dense.weight, before["encoder.layer.0.output.dense.weight"])


@pytest.mark.parametrize("seed", [0, 1])
def test_the_encoder_stays_bit_for_bit(seed: int) -> None:
    torch.manual_seed(7)
    model = Reader()
    encoder, head = snapshot(model.encoder), snapshot(model.head)
    torch.manual_seed(seed)
    names = initialise_free_(model, stack=model.stack, loaded=[model.encoder])
    assert names == ["project.weight", "project.bias", "head.weight", "head.bias"]
    assert not same(model.head, head)
    head = snapshot(model.head)
    dt_fixup_(model.stack, measure_input_norm(model, model.stack, [BATCH], progress=False))
    assert same(model.encoder, encoder)
    assert same(model.head, head)
    assert sum(isinstance(module, nn.LayerNorm) for module in model.encoder.modules()) == 1 + 2 * N


def test_padding_does_not_count_in_a_hugging_face_model() -> None:
    model = BertModel(BertConfig(**SHAPE))
    padding_row = model.embeddings.word_embeddings.weight.data[0]
    padding_row.copy_(torch.linspace(-1e6, 1e6, D))
    model.embeddings.LayerNorm = nn.Identity()
    found = measure_input_norm(model, model.encoder.layer, [BATCH], progress=False)
    assert found.vectors == 7
    assert found.max < 100
    assert measure_input_norm(model, model.encoder.layer, [BATCH["input_ids"]], progress=False).max > 1e6


def test_cross_attention_is_refused() -> None:
    config = BertConfig(**SHAPE, is_decoder=True, add_cross_attention=True)
    with pytest.raises(UnsupportedLayerError, match=r"BertLayer has cross-attention.*add_cross_attention=False"):
        dt_fixup_([BertLayer(config)], MU)


def test_the_method_knows_layers_of_transformers_without_importing_it() -> None:
    script = """
import sys
from dtfixup.fixup import dt_fixup_
import dtfixup.transformer
assert "transformers" not in sys.modules
from transformers.models.bert.modeling_bert import BertConfig, BertLayer
config = BertConfig(hidden_size=4, num_attention_heads=2, intermediate_size=8)
print(dt_fixup_([BertLayer(config)], 1.0).layers)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


def test_a_subclass_of_a_hugging_face_layer_in_ones_own_module_is_known_at_once() -> None:
    program = """
import dtfixup
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

class Mine(BertLayer):
    pass

report = dtfixup.dt_fixup_([Mine(BertConfig(hidden_size=8, num_attention_heads=2, intermediate_size=16))], 2.0)
print(len(report.tensors))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "12"
