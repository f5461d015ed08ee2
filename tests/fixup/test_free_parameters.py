"""`initialise_free_`: Xavier outside the stack, matrix by matrix, and what it leaves alone."""

import math
from collections.abc import Iterable

import pytest
import torch
from torch import Tensor, nn

from dtfixup.fixup import initialise_free_
from dtfixup.transformer import StackConfig, TransformerStack

D = 32


def ours(**options: object) -> TransformerStack:
    return TransformerStack(StackConfig(layers=2, dim=D, heads=2, mlp_dim=48, **options))


def initialised(free: nn.Module) -> list[str]:
    """Initialise the module beside a stack; the names of what was set in it."""
    model = nn.ModuleDict({"free": free, "stack": ours()})
    names = initialise_free_(model, stack=model["stack"], loaded=[], generator=torch.Generator().manual_seed(0))
    return [name.removeprefix("free.") for name in names]


def assert_xavier(matrices: Iterable[Tensor]) -> None:
    for matrix in matrices:
        bound = math.sqrt(6 / sum(matrix.shape))
        assert 0.95 * bound < matrix.abs().max() <= bound


@pytest.mark.parametrize(
    ("kind", "gates"),
    [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1), (nn.LSTMCell, 4), (nn.GRUCell, 3), (nn.RNNCell, 1)],
)
def test_recurrent_weights_are_xavier_per_gate(kind: type[nn.Module], gates: int) -> None:
    several = {"num_layers": 2, "bidirectional": True} if issubclass(kind, nn.RNNBase) else {}
    recurrent = kind(40, 32, **several)
    assert initialised(recurrent) == [name for name, _ in recurrent.named_parameters()]
    for parameter in recurrent.parameters():
        if parameter.ndim == 1:
            assert not parameter.any()
        else:
            assert_xavier(parameter.chunk(gates))


def test_the_projection_of_an_lstm_is_one_matrix() -> None:
    lstm = nn.LSTM(40, 32, proj_size=24)
    initialised(lstm)
    assert_xavier((*lstm.weight_ih_l0.chunk(4), *lstm.weight_hh_l0.chunk(4), lstm.weight_hr_l0))


def test_a_fused_attention_projection_is_three_matrices() -> None:
    attention = nn.MultiheadAttention(D, 2, add_bias_kv=True)
    initialised(attention)
    assert_xavier((*attention.in_proj_weight.chunk(3), attention.out_proj.weight))
    biases = (attention.in_proj_bias, attention.out_proj.bias, attention.bias_k, attention.bias_v)
    assert not any(bias.any() for bias in biases)


def test_unfused_attention_projections_are_matrices_of_their_own() -> None:
    attention = nn.MultiheadAttention(D, 2, kdim=20, vdim=24)
    initialised(attention)
    assert_xavier((attention.q_proj_weight, attention.k_proj_weight, attention.v_proj_weight))


@pytest.mark.parametrize(
    "norm",
    [
        nn.LayerNorm(D),
        nn.LayerNorm((4, D)),
        nn.RMSNorm((4, D)),
        nn.GroupNorm(2, D),
        nn.BatchNorm1d(D),
    ],
    ids=str,
)
def test_norms_stay(norm: nn.Module) -> None:
    for parameter in norm.parameters():
        parameter.data.fill_(9.0)
    assert initialised(norm) == []
    assert all((parameter == 9).all() for parameter in norm.parameters())


def test_free_parameters_are_initialised_and_named_and_the_rest_stays() -> None:
    model = nn.ModuleDict(
        {
            "loaded": nn.Linear(D, D),
            "embedding": nn.Embedding(50, D, padding_idx=2),
            "conv": nn.Conv1d(D, 16, 3),
            "norm": nn.GroupNorm(2, D),
            "stack": ours(bias=True),
            "head": nn.Linear(D, 20),
        }
    )
    for parameter in model.parameters():
        parameter.data.fill_(9.0)
    names = initialise_free_(
        model, stack=model["stack"], loaded=[model["loaded"]], generator=torch.Generator().manual_seed(0)
    )
    assert names == ["embedding.weight", "conv.weight", "conv.bias", "head.weight", "head.bias"]
    for name in ("loaded", "norm", "stack"):
        assert all((parameter == 9).all() for parameter in model[name].parameters()), name
    fans = {"embedding": 50 + D, "conv": 3 * (D + 16), "head": D + 20}
    for name, fan in fans.items():
        bound = math.sqrt(6 / fan)
        assert 0.95 * bound < model[name].weight.abs().max() <= bound, name
    assert not model["conv"].bias.any()
    assert not model["head"].bias.any()
    assert (model["embedding"].weight == 0).all(dim=1).nonzero().flatten().tolist() == [2]


def test_the_padding_row_of_a_loaded_embedding_stays() -> None:
    model = nn.ModuleDict({"embedding": nn.Embedding(5, D, padding_idx=0), "stack": ours()})
    model["embedding"].weight.data.fill_(9.0)
    assert initialise_free_(model, stack=model["stack"].layers, loaded=[model["embedding"]]) == []
    assert (model["embedding"].weight == 9).all()
