"""What a depth check measures: the slopes of the theorems, and numbers worked out by hand.

Legend: B batch, L length, D width.
"""

import copy
import json
import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from dtfixup.errors import DepthCheckError, InputNormError, StrategyError
from dtfixup.fixup import STRATEGIES, DepthReport, depth_check, strategy_named
from dtfixup.transformer import Kernel, StackConfig, TransformerStack

D, RATE = 4, 1e-6
MEASURES = ("grad_norm", "grad_norm_biases", "update", "update_with_biases", "layer_update")
KEEP_BL = torch.tensor([[True, True, True, True], [True, True, False, False]])


class Model(nn.Module):
    """Our stack with biases and nothing around it."""

    def __init__(self, depth: int, strategy: str = "dt-fixup", **shape: object) -> None:
        super().__init__()
        shape = {"dim": D, "heads": 2, "mlp_dim": 2 * D, "bias": True, **shape}
        self.new_layers = TransformerStack(StackConfig(layers=depth, kernel=Kernel.PLAIN, **shape), strategy)

    def forward(self, x_BLD: Tensor, keep_BL: Tensor | None = None, relation_BLL: Tensor | None = None) -> Tensor:
        return self.new_layers(x_BLD, keep_BL, relation_BLL)


class TorchModel(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.below = nn.Linear(3, D)
        self.new_layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 2 * D, batch_first=True), depth)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.new_layers(self.below(x), src_key_padding_mask=padding)


class BertModel(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        config = BertConfig(hidden_size=D, num_attention_heads=2, intermediate_size=2 * D, num_hidden_layers=depth)
        config._attn_implementation = "eager"
        self.new_layers = nn.ModuleList(BertLayer(config) for _ in range(depth))

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        for layer in self.new_layers:
            output = layer(x, (1 - attention_mask.to(x))[:, None, None] * torch.finfo(x.dtype).min)
            x = output[0] if isinstance(output, tuple) else output
        return x


def vectors(*shape: int, norm: float = 1.0, seed: int = 0) -> Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return norm * x / x.norm(dim=-1, keepdim=True)


def check(build: Callable[..., nn.Module], batches: object, depths: object = (2,), **options: object) -> DepthReport:
    return depth_check(build, batches, depths, progress=False, **{"strategies": ["dt-fixup"], **options})


def numbers(report: DepthReport) -> list[float]:
    return [getattr(row, measure) for row in report.rows for measure in MEASURES]


@pytest.fixture(scope="module")
def scaling() -> DepthReport:
    """Vanilla and relation-aware stacks of width 64 on inputs of norm 10, two batches with padding."""
    keep_BL = torch.arange(6) < torch.tensor([[6], [3], [5]])
    report = DepthReport(())
    for relations in (0, 3):
        ids = (torch.arange(36).remainder(3).view(1, 6, 6).expand(3, 6, 6),) if relations else ()
        batches = [(vectors(3, 6, 64, norm=10, seed=seed), keep_BL, *ids) for seed in (0, 1)]
        shape = {"dim": 64, "heads": 4, "mlp_dim": 128, "relations": relations}
        strategies = ["dt-fixup", "t-fixup", "unscaled"]
        report += check(lambda depth, s=shape: Model(depth, **s), batches, (2, 4, 8, 16), strategies=strategies)
    return report


@pytest.mark.parametrize("stack", ["vanilla", "relation"])
@pytest.mark.parametrize(
    ("strategy", "optimizer", "measure", "expected", "tolerance"),
    [
        ("dt-fixup", "sgd", "grad_norm", 0.0, 0.05),  # Theorem 3.1
        ("dt-fixup", "sgd", "update", 0.0, 0.05),
        ("dt-fixup", "sgd", "layer_update", 0.0, 0.05),  # Theorem 3.2
        ("dt-fixup", "sgd", "grad_norm_biases", 0.5, 0.02),
        ("dt-fixup", "sgd", "update_with_biases", 1.0, 0.05),
        ("dt-fixup", "adam", "update", 0.5, 0.05),
        ("t-fixup", "sgd", "grad_norm", 0.25, 0.08),
    ],
)
def test_slopes_are_those_of_the_theorems_and_of_what_they_leave_out(
    scaling: DepthReport, stack: str, strategy: str, optimizer: str, measure: str, expected: float, tolerance: float
) -> None:
    assert scaling.slope(stack, strategy, optimizer, measure) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("stack", ["vanilla", "relation"])
def test_unscaled_weights_explode(scaling: DepthReport, stack: str) -> None:
    for measure in MEASURES:
        values = [getattr(row, measure) for row in scaling.groups()[stack, "unscaled", "sgd"]]
        assert all(later > 2 * earlier for earlier, later in pairwise(values)), measure
        assert scaling.slope(stack, "unscaled", "sgd", measure) > 2, measure


def test_no_branch_moves_more_in_a_deeper_stack(scaling: DepthReport) -> None:
    for stack in ("vanilla", "relation"):
        rows = scaling.groups()[stack, "dt-fixup", "sgd"]
        assert [len(row.layer_updates) for row in rows] == [4, 8, 16, 32]
        largest = [max(row.layer_updates) for row in rows]
        assert max(largest) < 1.3 * min(largest)


def gradient_by_hand(model: nn.Module, batch: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """uᵀ J from the whole Jacobian, u the direction of seed 0 over the real vectors."""
    direction = torch.randn(batch[0].shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    direction = direction.masked_fill(~KEEP_BL[..., None], 0)
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    jacobian = jacrev(lambda parameters: functional_call(model, parameters, batch))(parameters)
    unit = direction / direction.norm()
    return {name: torch.tensordot(unit, part, dims=3) for name, part in jacobian.items()}


def branches_by_hand(model: Model, x_BLD: Tensor, keep_BL: Tensor, *ids: Tensor) -> Iterator[Tensor]:
    for layer in model.new_layers.layers:
        yield (attended_BLD := layer.attention(x_BLD, keep_BL, *ids))
        x_BLD = x_BLD + attended_BLD
        yield (mlp_BLD := layer.mlp(x_BLD))
        x_BLD = x_BLD + mlp_BLD


@pytest.mark.parametrize("strategy", ["dt-fixup", "t-fixup"])
@pytest.mark.parametrize("relations", [0, 3])
@torch.no_grad()
def test_every_number_is_what_a_computation_by_hand_gives(relations: int, strategy: str) -> None:
    ids = (torch.arange(32).remainder(3).view(2, 4, 4),) if relations else ()
    batch = (vectors(2, 4, D), KEEP_BL, *ids)
    model = Model(2, relations=relations)
    with torch.enable_grad():
        report = check(lambda depth: model, [batch], strategies=[strategy], learning_rate=RATE)
    batch = tuple(part.double() if part.is_floating_point() else part for part in batch)
    gradient = gradient_by_hand(model, batch)
    biases = {name for name in gradient if name.endswith("bias")}
    direction = {"sgd": lambda g: g, "adam": torch.sign}

    def moved(optimizer: str, left_out: set[str]) -> Model:
        stepped = copy.deepcopy(model)
        for name, parameter in stepped.named_parameters():
            parameter -= 0 if name in left_out else RATE * direction[optimizer](gradient[name])
        return stepped

    def size(after: Tensor, before: Tensor) -> float:
        return (after - before)[KEEP_BL].norm().item() / RATE

    for row in report.rows:
        for names, found in ((gradient.keys() - biases, row.grad_norm), (biases, row.grad_norm_biases)):
            assert found == pytest.approx(math.hypot(*(gradient[name].norm().item() for name in names)), rel=1e-9)
        weights_moved, all_moved = moved(row.optimizer, biases), moved(row.optimizer, set())
        assert row.update == pytest.approx(size(weights_moved(*batch), model(*batch)), rel=1e-5)
        assert row.update_with_biases == pytest.approx(size(all_moved(*batch), model(*batch)), rel=1e-5)
        branches = zip(branches_by_hand(weights_moved, *batch), branches_by_hand(model, *batch), strict=True)
        assert row.layer_updates == pytest.approx([4 * size(*pair) for pair in branches], rel=1e-5)


def test_several_batches_give_the_root_mean_square_of_each_alone() -> None:
    batches = [vectors(2, 4, D, seed=seed) * (1 + seed) for seed in (0, 1)]
    together = check(Model, batches, strategies=["t-fixup"])
    alone = [check(Model, [batch], strategies=["t-fixup"]) for batch in batches]
    for measure in MEASURES[:-1]:
        for row, *parts in zip(together.rows, *(report.rows for report in alone), strict=True):
            expected = math.hypot(*(getattr(part, measure) for part in parts)) / math.sqrt(2)
            assert getattr(row, measure) == pytest.approx(expected, rel=1e-6)


def test_afterwards_the_weights_are_those_of_the_initialisation() -> None:
    built = []
    check(lambda depth: built.append(Model(depth)) or built[-1], [vectors(2, 4, D)], strategies=["t-fixup"], seed=3)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        fresh = Model(2).double()
        strategy_named("t-fixup").initialise_(fresh.new_layers)
    for parameter, expected in zip(built[0].parameters(), fresh.parameters(), strict=True):
        assert torch.equal(parameter, expected)


def test_dropout_is_off_and_only_the_stack_learns() -> None:
    class Headed(Model):
        def __init__(self, depth: int, rate: float) -> None:
            super().__init__(depth, dropout=rate, input_dropout=rate)
            self.head = nn.Linear(D, 2).requires_grad_(False)
            self.train()

        def forward(self, x_BLD: Tensor) -> Tensor:
            return self.head(super().forward(x_BLD))

    reports = [check(lambda depth, rate=rate: Headed(depth, rate), [vectors(2, 4, D)]) for rate in (0.0, 0.9)]
    assert numbers(reports[0]) == pytest.approx(numbers(reports[1]), rel=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_is_measured_on_a_model_that_is_built_for_it(strategy: str) -> None:
    report = check(Model, [(vectors(2, 4, D), KEEP_BL)], (1, 3), strategies=[strategy])
    assert [(row.strategy, row.depth, row.optimizer) for row in report.rows] == [
        (strategy, depth, optimizer) for depth in (1, 3) for optimizer in ("sgd", "adam")
    ]
    assert all(math.isfinite(number) for number in numbers(report))
    assert all(row.grad_norm > 0 and row.update > 0 for row in report.rows)


def padded_batches(kind: str) -> tuple[Callable[..., nn.Module], list[object]]:
    """A model, and the same batch with three contents of its padding."""
    width = 3 if kind == "torch" else D
    contents = [vectors(2, 4, width).masked_fill(~KEEP_BL[..., None], value) for value in (0.0, 1.0, -50.0)]
    if kind == "torch":
        return TorchModel, [(x, ~KEEP_BL) for x in contents]
    if kind == "bert":
        return BertModel, [{"x": x, "attention_mask": KEEP_BL.long()} for x in contents]
    return Model, [(x, KEEP_BL) for x in contents]


@pytest.mark.parametrize("strategy", ["dt-fixup", "t-fixup", "unscaled"])
@pytest.mark.parametrize("kind", ["ours", "torch", "bert"])
def test_padding_does_not_count(kind: str, strategy: str) -> None:
    build, batches = padded_batches(kind)
    reports = [check(build, [batch], strategies=[strategy]) for batch in batches]
    assert {row.stack for row in reports[0].rows} == {"vanilla"}
    assert all(0 < number < math.inf for number in numbers(reports[0]))
    for report in reports[1:]:
        assert numbers(report) == pytest.approx(numbers(reports[0]), rel=1e-6)


def test_a_given_mask_and_a_given_call_are_used() -> None:
    x_BLD = vectors(2, 4, D)
    batch = {"states": x_BLD, "real": KEEP_BL}
    options = {"keep": "real", "forward": lambda model, batch: model(batch["states"])}
    all_count = check(Model, [x_BLD])
    assert numbers(check(Model, [batch], **{**options, "keep": None})) == numbers(all_count)
    assert numbers(check(Model, [batch], **options)) != pytest.approx(numbers(all_count), rel=1e-3)


@pytest.mark.parametrize("stack", ["new_layers.layers", lambda model: list(model.new_layers.layers)])
def test_the_stack_is_found_by_a_path_or_a_function(stack: object) -> None:
    x_BLD = vectors(2, 4, D)
    assert numbers(check(Model, [x_BLD], stack=stack)) == pytest.approx(numbers(check(Model, [x_BLD])), rel=1e-9)


def test_a_seed_decides_everything_and_the_global_stream_is_left_alone() -> None:
    x_BLD = vectors(2, 4, D)
    state = torch.manual_seed(7).get_state()
    first = numbers(depth_check(Model, [x_BLD], [2], strategies=["t-fixup"]))
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(7)
    assert numbers(check(Model, [x_BLD], strategies=["t-fixup"])) == pytest.approx(first, rel=1e-9)
    assert numbers(check(Model, [x_BLD], strategies=["t-fixup"], seed=1)) != pytest.approx(first, rel=1e-3)


def test_numbers_beyond_the_precision_are_missing_in_json_and_not_an_error() -> None:
    batch = 1e20 * vectors(2, 4, D)
    report = check(Model, [batch], (2, 4), strategies=["unscaled"], dtype=torch.float32)
    found = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert found["rows"][0]["update"] is None
    assert found["slopes"][0]["update"] is None
    assert " - " in str(report)


@pytest.mark.parametrize(
    ("build", "options", "error", "message"),
    [
        (Model, {"batches": []}, DepthCheckError, "no batches: give a few real ones"),
        (Model, {"depths": []}, DepthCheckError, r"at least 1: got \[\]"),
        (Model, {"depths": (0, 2)}, DepthCheckError, r"at least 1: got \[0, 2\]"),
        (Model, {"stack": "old_layers"}, DepthCheckError, "Model has no part 'old_layers': say where"),
        (lambda depth: Model(3), {}, DepthCheckError, r"build_model\(2\) gave a stack of 3 layers"),
        (Model, {"strategies": ["magic"]}, StrategyError, "no strategy 'magic'"),
        (lambda depth: Model(depth), {"strategies": ["standard"]}, StrategyError, "standard needs layers"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    build: object, options: dict[str, object], error: type[Exception], message: str
) -> None:
    options = {"batches": [vectors(2, 4, D)], **options}
    with pytest.raises(error, match=message):
        check(build, **options)


@pytest.mark.parametrize(
    ("strategy", "error", "message"),
    [("dt-fixup", InputNormError, "did not call the stack"), ("t-fixup", DepthCheckError, "did not call the stack")],
)
def test_a_stack_that_is_never_called_is_refused(strategy: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check(Model, [vectors(2, 4, D)], strategies=[strategy], forward=lambda model, batch: batch)


def test_a_stack_that_returns_no_tensor_is_refused() -> None:
    class Dictionary(TransformerStack):
        def forward(self, *arguments: Tensor) -> dict[str, Tensor]:
            return {"states": super().forward(*arguments)}

    def build(depth: int) -> Model:
        model = Model(depth)
        model.new_layers = Dictionary(model.new_layers.config)
        return model

    with pytest.raises(DepthCheckError, match="a layer returned dict: expected a tensor"):
        check(build, [vectors(2, 4, D)])
