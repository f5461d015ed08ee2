"""`dt_fixup_`: what it sets, what it leaves alone, what it refuses."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import BertConfig, CamembertConfig, ElectraConfig, RobertaConfig, XLMRobertaConfig
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.camembert.modeling_camembert import CamembertLayer
from transformers.models.electra.modeling_electra import ElectraLayer
from transformers.models.roberta.modeling_roberta import RobertaLayer
from transformers.models.xlm_roberta.modeling_xlm_roberta import XLMRobertaLayer

from dtfixup.errors import AlreadyAppliedError, ConfigError, InputNormError, LoadedWeightsError, StrategyError
from dtfixup.fixup import (
    FusedRows,
    InputNorm,
    LayerWeights,
    Role,
    dt_fixup_,
    measure_input_norm,
    strategy_named,
)
from dtfixup.fixup.apply import same_device
from dtfixup.transformer import StackConfig, TransformerStack

N, D, MLP, MU = 3, 32, 48, 3.7
VANILLA = 1 / (2 * MU * math.sqrt(N))
RELATION = 1 / math.sqrt(N * (4 * MU * MU + 2 * MU + 2))
OURS = ("attention.value.weight", "attention.output.weight", "mlp.up.weight", "mlp.down.weight")


def ours(strategy: str = "dt-fixup", **options: object) -> TransformerStack:
    return TransformerStack(StackConfig(layers=N, dim=D, heads=2, mlp_dim=MLP, **options), strategy)


def pytorch(**options: object) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(D, 2, MLP, **options)
    nested = layer.self_attn.batch_first and not layer.norm_first
    return nn.TransformerEncoder(layer, N, norm=nn.LayerNorm(D), enable_nested_tensor=nested)


class Scale(nn.Module):
    """A normalisation of one's own, which only the layer's description can tell."""

    def forward(self, x: Tensor) -> Tensor:
        return x / x.norm(dim=-1, keepdim=True)


class Fused(nn.Module):
    """A layer of one's own with [q; k; v] in one weight, gates, and a norm nobody knows."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, MLP), nn.Linear(MLP, D)
        self.gate, self.scalar = nn.Parameter(torch.full((D,), 0.3)), nn.Parameter(torch.tensor(0.7))
        self.norm, self.rms = Scale(), nn.RMSNorm(D)

    def fixup_weights(self) -> LayerWeights:
        query, key, value = (FusedRows(self.qkv.weight, start, start + D) for start in (0, D, 2 * D))
        return LayerWeights(
            value=[value],
            output=[self.out.weight],
            mlp=[self.up.weight, self.down.weight],
            unscaled=[query, key],
            norms=[self.norm],
        )


@dataclass(frozen=True)
class Kind:
    """How to build a stack, the endings of what must be scaled, and by how much."""

    name: str
    build: Callable[[], nn.Module]
    scaled: tuple[str, ...]
    factor: float = VANILLA


TORCH = ("in_proj_weight:v", "out_proj.weight", "linear1.weight", "linear2.weight")
KINDS = [
    Kind("vanilla", ours, OURS),
    Kind("vanilla bias", lambda: ours(bias=True), OURS),
    Kind("relation", lambda: ours(relations=9), (*OURS, "relation_value_RZ"), RELATION),
    Kind("relation bias", lambda: ours(relations=9, bias=True), (*OURS, "relation_value_RZ"), RELATION),
    Kind("torch post", pytorch, TORCH),
    Kind("torch post batch first", lambda: pytorch(batch_first=True), TORCH),
    Kind("torch post no bias", lambda: pytorch(bias=False), TORCH),
    Kind("torch pre", lambda: pytorch(norm_first=True), TORCH),
    Kind("torch pre batch first no bias", lambda: pytorch(norm_first=True, batch_first=True, bias=False), TORCH),
    Kind(
        "custom fused",
        lambda: nn.ModuleList(Fused() for _ in range(N)),
        ("qkv.weight:v", "out.weight", "up.weight", "down.weight"),
    ),
]
KINDS_OF_HUGGING_FACE = [
    (BertLayer, BertConfig),
    (RobertaLayer, RobertaConfig),
    (XLMRobertaLayer, XLMRobertaConfig),
    (CamembertLayer, CamembertConfig),
    (ElectraLayer, ElectraConfig),
]


def hugging_face_layers(kind: type[nn.Module], config: type) -> nn.ModuleList:
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    shape = config(hidden_size=D, num_attention_heads=2, intermediate_size=MLP, **dropout)
    shape._attn_implementation = "eager"
    return nn.ModuleList(kind(shape) for _ in range(N))


KINDS += [
    Kind(
        layer.__name__,
        partial(hugging_face_layers, layer, config),
        ("self.value.weight", "attention.output.dense.weight", "intermediate.dense.weight", "output.dense.weight"),
    )
    for layer, config in KINDS_OF_HUGGING_FACE
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def matrices(stack: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every parameter by name, a fused projection as its three parts."""
    for name, parameter in stack.named_parameters():
        if name.endswith(("in_proj_weight", "qkv.weight")):
            yield from zip((f"{name}:q", f"{name}:k", f"{name}:v"), parameter.detach().chunk(3), strict=True)
        else:
            yield name, parameter.detach()


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(module: nn.Module, before: dict[str, Tensor]) -> bool:
    after = module.state_dict()
    return after.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in before)


@every_kind
def test_measured_factor_is_the_formula_for_every_scaled_tensor(kind: Kind) -> None:
    stack = kind.build()
    unscaled = copy.deepcopy(stack)
    strategy_named("unscaled").initialise_(unscaled, generator=seeded())
    report = dt_fixup_(stack, MU, generator=seeded())
    raw, scaled = dict(matrices(unscaled)), 0
    for name, tensor in matrices(stack):
        if name.endswith(kind.scaled):
            torch.testing.assert_close(tensor / raw[name], torch.full_like(tensor, kind.factor), rtol=1e-6, atol=0)
            scaled += 1
        else:
            assert torch.equal(tensor, raw[name]), name
    assert scaled == N * len(kind.scaled)
    factors = [row.measured_factor for row in report.tensors if row.factor != 1]
    assert factors == pytest.approx([kind.factor] * scaled, rel=1e-6)


@every_kind
def test_every_logical_matrix_is_xavier_and_every_bias_zero(kind: Kind) -> None:
    stack = kind.build()
    dt_fixup_(stack, MU, generator=seeded())
    for name, tensor in matrices(stack):
        if tensor.ndim == 2:
            bound = math.sqrt(6 / sum(tensor.shape)) * (kind.factor if name.endswith(kind.scaled) else 1)
            assert 0.95 * bound < tensor.abs().max() <= bound * (1 + 1e-6), name
            assert tensor.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.15), name
        elif "gate" not in name and "scalar" not in name:
            assert not tensor.any(), name


@every_kind
def test_no_layer_norm_is_left(kind: Kind) -> None:
    stack = kind.build()
    norms = [name for name, module in stack.named_modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm | Scale)]
    report = dt_fixup_(stack, MU)
    assert not any(isinstance(module, nn.LayerNorm | nn.RMSNorm | Scale) for module in stack.modules())
    assert sorted(report.norms_removed) == sorted(norms)


def test_layers_that_pytorch_copied_come_apart() -> None:
    first, second, _ = (stack := pytorch()).layers
    assert torch.equal(first.linear1.weight, second.linear1.weight)
    dt_fixup_(stack, MU)
    assert not torch.equal(first.linear1.weight, second.linear1.weight)
    assert not torch.equal(first.self_attn.in_proj_weight, second.self_attn.in_proj_weight)


def test_vectors_that_are_no_biases_are_kept() -> None:
    layer = Fused()
    report = dt_fixup_([layer], MU)
    assert (layer.gate == 0.3).all()
    assert layer.scalar == 0.7
    assert [row.name for row in report.tensors if row.role is Role.KEPT] == ["0.gate", "0.scalar"]


def test_each_layer_of_a_mixed_stack_uses_its_own_formula() -> None:
    layers = [ours().layers[0], ours(relations=5).layers[0], ours().layers[0]]
    report = dt_fixup_(layers, MU)
    found = {row.name[0]: row.measured_factor for row in report.tensors if row.role is Role.OUTPUT}
    assert found == pytest.approx({"0": VANILLA, "1": RELATION, "2": VANILLA}, rel=1e-6)
    assert (report.layers, report.relation_layers) == (3, 1)


def test_a_weight_shared_by_all_layers_is_scaled_once() -> None:
    stack = ours()
    for layer in stack.layers[1:]:
        layer.mlp.up = stack.layers[0].mlp.up
    report = dt_fixup_(stack, MU)
    bound = VANILLA * math.sqrt(6 / (D + MLP))
    assert 0.95 * bound < stack.layers[2].mlp.up.weight.abs().max() <= bound * (1 + 1e-6)
    assert [row.name for row in report.tensors].count("layers.0.mlp.up.weight") == 1
    assert len(report.tensors) == N * 6 - 2


@pytest.mark.parametrize("nested", [False, True])
def test_a_layer_that_is_applied_three_times_counts_three_times_and_is_scaled_once(nested: bool) -> None:
    layer = ours().layers[0]
    report = dt_fixup_(nn.ModuleDict({"inner": nn.ModuleList([layer] * 3)}) if nested else [layer] * 3, MU)
    assert (report.layers, len(report.tensors)) == (3, 6)
    bound = VANILLA * math.sqrt(6 / (D + D))
    assert 0.95 * bound < layer.attention.value.weight.abs().max() <= bound * (1 + 1e-6)


def test_a_generator_makes_it_reproducible_and_leaves_the_global_stream_alone() -> None:
    stacks = [ours() for _ in range(3)]
    state = torch.get_rng_state()
    for stack, seed in zip(stacks, (5, 5, 6), strict=True):
        dt_fixup_(stack, MU, generator=seeded(seed))
    assert torch.equal(torch.get_rng_state(), state)
    assert same(stacks[0], snapshot(stacks[1]))
    assert not same(stacks[0], snapshot(stacks[2]))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("cuda", "cuda:1", True),
        ("cuda", "cuda:0", False),
        ("cuda", "cuda", True),
        ("cuda:0", "cuda:0", True),
        ("cuda:2", "cuda:0", False),
        ("cpu", "cpu:0", True),
        ("mps", "mps:0", True),
        ("cpu", "cuda", False),
        ("cpu", "cuda:0", False),
    ],
)
def test_a_gpu_without_a_number_is_the_current_one(
    one: str, other: str, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert same_device(torch.device(one), torch.device(other)) is same
    assert same_device(torch.device(other), torch.device(one)) is same


def test_a_generator_on_another_gpu_than_the_weights_is_refused() -> None:
    layer = Fused()
    with FakeTensorMode():  # on a second GPU as far as its attributes tell
        layer.qkv.weight = nn.Parameter(torch.empty(3 * D, D, device="cuda:1"))
    with pytest.raises(ConfigError, match=r"generator is on cuda:0, but qkv\.weight.* on cuda:1: make"):
        dt_fixup_(layer, MU, generator=SimpleNamespace(device=torch.device("cuda", 0)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_generator_may_be_on_the_gpu_of_the_weights(device: str) -> None:
    report = dt_fixup_(ours().to("cuda"), MU, generator=torch.Generator(device).manual_seed(0))
    assert report.input_norm == MU


def test_a_number_and_a_measured_norm_do_the_same() -> None:
    stacks, x = [ours(), ours()], torch.randn(2, 3, D)
    norm = measure_input_norm(stacks[0], stacks[0], [x], progress=False)
    assert isinstance(norm, InputNorm)
    reports = [dt_fixup_(stack, mu, generator=seeded()) for stack, mu in zip(stacks, (norm, norm.max), strict=True)]
    assert reports[0] == reports[1]
    assert same(stacks[0], snapshot(stacks[1]))


@pytest.mark.parametrize("again", [lambda s: s, lambda s: list(s.layers), lambda s: s.layers[1]])
def test_a_second_call_is_refused_even_as_a_new_list(again: Callable[[nn.Module], object]) -> None:
    stack = ours()
    dt_fixup_(stack, MU)
    before = snapshot(stack)
    with pytest.raises(AlreadyAppliedError, match="initialised by dt-fixup before"):
        dt_fixup_(again(stack), MU, reinitialise=True)
    assert same(stack, before)


@pytest.mark.parametrize("trained", ["layers.1.norm2.weight", "layers.0.norm1.bias", "norm.weight"])
def test_trained_norms_are_refused_unless_their_loss_is_wanted(trained: str) -> None:
    stack = pytorch()
    stack.get_parameter(trained).data[0] = 0.5
    before = snapshot(stack)
    with pytest.raises(LoadedWeightsError, match=f"{trained.rpartition('.')[0]} and 0 more.*reinitialise=True"):
        dt_fixup_(stack, MU)
    assert same(stack, before)
    assert dt_fixup_(stack, MU, reinitialise=True).layers == N


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf])
def test_an_unusable_input_norm_is_refused_before_anything_is_touched(mu: float) -> None:
    stack = pytorch()
    before = snapshot(stack)
    with pytest.raises(InputNormError, match="positive finite number"):
        dt_fixup_(stack, mu)
    assert same(stack, before)
    assert dt_fixup_(stack, MU).layers == N


@pytest.mark.parametrize("strategy", ["rezero", "admin", "deepnorm"])
def test_a_stack_with_other_skip_connections_is_refused(strategy: str) -> None:
    stack = ours(strategy)
    before = snapshot(stack)
    with pytest.raises(StrategyError, match=f"built for {strategy}.*build it for dt-fixup"):
        dt_fixup_(stack, MU)
    assert same(stack, before)
