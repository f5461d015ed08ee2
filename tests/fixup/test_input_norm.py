"""What `measure_input_norm` counts, what it leaves alone, and how it fails."""

import gc
import math
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import rich
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from dtfixup.errors import InputNormError
from dtfixup.fixup import InputNorm, MuChoice, measure_input_norm
from dtfixup.transformer import StackConfig, TransformerStack

D = 4
HUGE = 1e6


class Opaque(nn.Module):
    """A stack of which nothing is known but its input."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


class Through(nn.Module):
    """Hands x to the stack as it is; the masks of the batch are for `keep`."""

    def __init__(self, stack: nn.Module) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, x: Tensor, real: object = None, attention_mask: object = None) -> Tensor:
        del real, attention_mask
        return self.stack(x)


class MaskedThrough(nn.Module):
    """Calls the stack with a padding mask under the stack's own name for it."""

    def __init__(self, stack: nn.Module, mask_name: str) -> None:
        super().__init__()
        self.stack = stack
        self.mask_name = mask_name

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.stack(x, **{self.mask_name: mask})


def vectors(norms: Tensor) -> Tensor:
    """Random directions [..., D] of the given lengths."""
    directions = torch.randn(*norms.shape, D, dtype=torch.float64)
    return (directions / directions.norm(dim=-1, keepdim=True) * norms[..., None]).float()


def measure(batches: object, model: nn.Module | None = None, **options: object) -> InputNorm:
    model = Through(Opaque()) if model is None else model
    return measure_input_norm(model, model.stack, batches, progress=False, **options)


def ours(**shape: int) -> TransformerStack:
    return TransformerStack(StackConfig(layers=2, dim=D, heads=2, mlp_dim=8, **shape))


def pytorch(batch_first: bool) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(D, 2, 8, batch_first=batch_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=batch_first)


@pytest.fixture
def padded() -> tuple[Tensor, Tensor]:
    """Real vectors of norm 1 to 5, padding of norm a million, and the mask of the real ones."""
    norms_BL = torch.tensor([[1.0, 2.0, 3.0], [4.0, HUGE, HUGE], [2.0, 5.0, HUGE]])
    return vectors(norms_BL), norms_BL < HUGE


def assert_padding_left_out(found: InputNorm) -> None:
    assert found.vectors == 6
    assert float(found) == found.max == pytest.approx(5.0, rel=1e-5)
    assert found.mean == pytest.approx(17 / 6, rel=1e-5)


@pytest.mark.parametrize("spread", [0.01, 1.0, 3.0])
def test_max_p99_and_mean_agree_with_a_direct_computation(spread: float) -> None:
    torch.manual_seed(0)
    norms = torch.exp(spread * torch.randn(20, 7, 11))
    found = measure([vectors(part) for part in norms])
    ordered = norms.flatten().sort().values
    assert found.max == pytest.approx(float(ordered[-1]), rel=1e-5)
    assert found.p99 == pytest.approx(float(ordered[math.ceil(0.99 * len(ordered)) - 1]), rel=5e-3)
    assert found.mean == pytest.approx(float(ordered.double().mean()), rel=1e-5)
    assert (found.vectors, found.batches) == (20 * 7 * 11, 20)
    assert "1,540 vectors in 20 batches" in str(found)


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (x,), lambda x: [x, None], lambda x: {"x": x}])
def test_a_batch_is_a_tensor_a_tuple_a_list_or_a_mapping(wrap: object) -> None:
    found = measure([wrap(vectors(torch.tensor([[1.0, 2.0]]))), wrap(vectors(torch.tensor([[3.0]])))])
    assert (found.max, found.vectors, found.batches) == (pytest.approx(3.0, rel=1e-5), 3, 2)


def test_forward_replaces_the_call_of_the_model() -> None:
    batch = {"anything": vectors(torch.tensor([[1.0]])), "label": 3}
    found = measure([batch], forward=lambda model, batch: model(2 * batch["anything"]))
    assert found.max == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize("number", [torch.bool, torch.int64, torch.float32])
def test_padding_never_counts_whether_the_mask_is_a_key_an_index_or_a_function(padded, number: torch.dtype) -> None:
    x, keep = padded
    real = keep.to(number)
    assert_padding_left_out(measure([{"x": x, "real": real}], keep="real"))
    assert_padding_left_out(measure([(x, real)], keep=1))
    assert_padding_left_out(measure([{"x": x, "real": real}], keep=lambda batch: batch["real"]))
    assert measure([x]).max == pytest.approx(HUGE, rel=1e-5)


def test_padding_never_counts_by_the_mask_of_our_own_stack(padded) -> None:
    assert_padding_left_out(measure([padded], MaskedThrough(ours(), "keep_BL")))


@pytest.mark.parametrize("mask_type", [torch.bool, torch.float32])
@pytest.mark.parametrize("batch_first", [True, False])
def test_padding_never_counts_by_the_mask_of_pytorchs_encoder(
    padded, batch_first: bool, mask_type: torch.dtype
) -> None:
    x, keep = padded
    mask = torch.zeros(keep.shape).masked_fill(~keep, -math.inf) if mask_type.is_floating_point else ~keep
    model = MaskedThrough(pytorch(batch_first), "src_key_padding_mask")
    batch = (x if batch_first else x.transpose(0, 1), mask)
    assert_padding_left_out(measure([batch], model))
    assert_padding_left_out(measure_input_norm(model, model.stack.layers, [batch], progress=False))


@pytest.mark.parametrize("fails", [False, True])
def test_pytorchs_fused_path_is_off_inside_and_as_it_was_afterwards(monkeypatch, fails: bool) -> None:
    seen = []

    class Looking(Opaque):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(torch.backends.mha.get_fastpath_enabled())
            return super().forward(x) if not fails else x.no_such_method()

    for enabled in (True, False):
        monkeypatch.setattr(torch.backends.mha, "_is_fastpath_enabled", enabled)
        with pytest.raises(AttributeError) if fails else nullcontext():
            measure([torch.ones(1, 2, D)], Through(Looking()))
        assert torch.backends.mha.get_fastpath_enabled() is enabled
    assert seen == [False, False]


def test_padding_never_counts_by_the_attention_mask_of_a_mapping(padded) -> None:
    x, keep = padded
    assert_padding_left_out(measure([{"x": x, "attention_mask": keep.long()}]))


def test_a_given_mask_wins_over_the_stacks_own_and_over_the_attention_mask(padded) -> None:
    x, keep = padded
    everything = torch.ones_like(keep)
    assert_padding_left_out(measure([{"x": x, "real": keep, "attention_mask": everything}], keep="real"))
    assert_padding_left_out(measure([(x, everything)], MaskedThrough(ours(), "keep_BL"), keep=lambda _: keep))


def test_a_nan_in_padding_does_not_count(padded) -> None:
    x, keep = padded
    x[~keep] = math.nan
    assert_padding_left_out(measure([(x, keep)], keep=1))


@pytest.mark.parametrize("fails", [False, True])
def test_each_modules_own_mode_comes_back_and_the_hook_goes(fails: bool) -> None:
    model = Through(nn.Sequential(nn.Dropout(0.5), nn.Linear(D, D)))
    model.train()
    model.stack[1].eval()
    before = [module.training for module in model.modules()]
    x = torch.full((1, 2, D), math.nan if fails else 1.0)
    if fails:
        with pytest.raises(InputNormError):
            measure([x], model)
    else:
        measure([x], model)
    assert [module.training for module in model.modules()] == before == [True, True, True, False]
    assert not model.stack._forward_pre_hooks


def test_an_error_of_the_model_itself_also_restores_modes_and_removes_the_hook() -> None:
    model = Through(nn.Linear(D, D)).train()
    with pytest.raises(RuntimeError, match="shapes"):
        measure([torch.ones(1, 2, D + 1)], model)
    assert model.training
    assert model.stack.training
    assert not model.stack._forward_pre_hooks


def test_dropout_is_off_and_no_gradients_are_recorded() -> None:
    class Below(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project, self.dropout, self.stack = nn.Linear(D, D), nn.Dropout(0.9), Opaque()

        def forward(self, x: Tensor) -> Tensor:
            self.seen = self.dropout(self.project(x))
            return self.stack(self.seen)

    model, x = Below().train(), torch.randn(3, 5, D)
    found = measure([x], model)
    assert not model.seen.requires_grad
    assert found.max == pytest.approx(model.project(x).norm(dim=-1).max().item(), rel=1e-5)


def test_every_call_of_the_stack_counts() -> None:
    class Twice(Through):
        def forward(self, x: Tensor) -> Tensor:
            return self.stack(x) + self.stack(10 * x)

    found = measure([vectors(torch.tensor([[1.0, 2.0]]))], Twice(Opaque()))
    assert (found.max, found.vectors, found.batches) == (pytest.approx(20.0, rel=1e-5), 4, 1)


@pytest.mark.parametrize("container", [list, nn.ModuleList])
def test_of_a_list_of_layers_the_first_ones_input_counts(container: type) -> None:
    model = nn.Sequential(Opaque(), Opaque())
    model[0].scale.data.fill_(100.0)
    found = measure_input_norm(model, container(model), [vectors(torch.tensor([[1.0, 2.0]]))], progress=False)
    assert (found.max, found.vectors) == (pytest.approx(2.0, rel=1e-5), 2)


def test_memory_does_not_grow_with_the_number_of_batches() -> None:
    alive = []

    def loader():
        for _ in range(40):
            alive.append(sum(item.numel() for item in gc.get_objects() if type(item) is Tensor))
            yield torch.ones(2, 3, D)

    gc.collect()
    gc.freeze()  # what other tests left behind is not counted, which takes seconds for the millions of it
    try:
        measure(loader())
    finally:
        gc.unfreeze()
    assert alive[2] > 0
    assert alive[-1] <= alive[2]


def test_half_precision_inputs_do_not_overflow() -> None:
    model = Through(Opaque()).half()
    found = measure([torch.full((1, 1, D), 60_000.0, dtype=torch.float16)], model)
    assert found.max == pytest.approx(120_000, rel=1e-3)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_and_infinity_stop_at_their_batch(bad: float) -> None:
    batches = [torch.ones(1, 2, D) for _ in range(4)]
    batches[2][0, 1, 0] = bad
    with pytest.raises(InputNormError, match=r"batch 2 puts NaN or infinity into the stack: look at"):
        measure(batches)


@pytest.mark.parametrize(
    ("batches", "keep", "message"),
    [
        (iter(()), None, "give the training data, not an exhausted iterator"),
        ([(torch.ones(1, 2, D), torch.ones(2, 3))], 1, r"\(2, 3\).*must be \(1, 2\): pass keep="),
        ([torch.ones(1, 2, D)], lambda _: [[True, True]], r"the mask \(from keep\) must be a tensor, got list"),
        ([(torch.ones(1, 2, D), torch.zeros(1, 2))], 1, "True or 1 must mean a real vector"),
        ([(torch.ones(1, 2, D), torch.full((1, 2), -1e9))], 1, "must hold True or 1 for real vectors"),
        ([torch.zeros(1, 2, D)], None, "the layers below it are not initialised"),
        ([torch.ones(1, 2, dtype=torch.int64)], None, r"Opaque.forward must be a float tensor of vectors \[..., D\]"),
        ([torch.ones(3)], None, r"Opaque.forward must be a float tensor of vectors \[..., D\]"),
    ],
)
def test_data_that_cannot_be_measured_is_an_error(batches: object, keep: object, message: str) -> None:
    with pytest.raises(InputNormError, match=message):
        measure(batches, keep=keep)


def test_a_stack_that_is_never_called_is_an_error() -> None:
    with pytest.raises(InputNormError, match=r"did not call the stack \(Opaque\) for batch 0: pass the layers"):
        measure_input_norm(Through(Opaque()), Opaque(), [torch.ones(1, 2, D)], progress=False)


@pytest.mark.parametrize(
    ("batch", "keep", "kind"),
    [
        ({"x": torch.ones(1, 2, D)}, "real", "mapping with keys x"),
        ((torch.ones(1, 2, D),), 1, "sequence of 1"),
        ((torch.ones(1, 2, D),), "real", "sequence of 1"),
    ],
)
def test_a_keep_that_is_not_in_the_batch_is_an_error(batch: object, keep: object, kind: str) -> None:
    with pytest.raises(InputNormError, match=f"keep={keep!r} is not in the batch, which is a {kind}"):
        measure([batch], keep=keep)


@pytest.mark.parametrize("progress", [False, True])
def test_a_generator_without_a_length_will_do(progress: bool) -> None:
    model = Through(Opaque())
    batches = (vectors(torch.tensor([[float(norm)]])) for norm in (1, 2, 3))
    found = measure_input_norm(model, model.stack, batches, progress=progress)
    assert (found.max, found.batches) == (pytest.approx(3.0, rel=1e-5), 3)


def test_a_stack_called_by_keyword_only_is_measured_whatever_the_order(padded) -> None:
    class ByKeyword(Through):
        def forward(self, x: Tensor, keep: Tensor) -> Tensor:
            return self.stack(relation_BLL=torch.zeros(3, 3, 3).long(), keep_BL=keep, x_BLD=x)

    assert_padding_left_out(measure([padded], ByKeyword(ours(relations=2))))


def test_a_progress_bar_is_shown_only_on_request(monkeypatch, capsys) -> None:
    for name, value in (("TTY_COMPATIBLE", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rich.get_console(), "is_interactive", True)
    model, batches = Through(Opaque()), [torch.ones(1, 2, D)] * 3
    measure_input_norm(model, model.stack, batches, progress=False)
    silent = capsys.readouterr()
    assert silent.out + silent.err == ""
    measure_input_norm(model, model.stack, batches, progress=True)
    shown = capsys.readouterr()
    assert "input norm" in shown.out + shown.err
    assert "3/3" in shown.out + shown.err


def test_a_loader_whose_length_is_unknown_gets_a_bar_without_an_end() -> None:
    class Endless(IterableDataset):
        def __iter__(self) -> Iterator[Tensor]:
            yield from vectors(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))

    model = Through(Opaque())
    assert measure_input_norm(model, model.stack, DataLoader(Endless(), batch_size=2)).vectors == 4


def test_other_numbers_can_stand_in_for_mu() -> None:
    measured = InputNorm(max=8.0, p99=6.0, mean=4.0, vectors=9, batches=2, padding_left_out=True)
    chosen = {choice.value: choice.of(measured) for choice in MuChoice}
    found = {name: float(norm) for name, norm in chosen.items()}
    assert found == {"max": 8.0, "p99": 6.0, "mean": 4.0, "10 max": 80.0, "0.1 max": 0.8}
    assert chosen["max"] == measured
    assert all((norm.vectors, norm.padding_left_out) == (9, True) for norm in chosen.values())
