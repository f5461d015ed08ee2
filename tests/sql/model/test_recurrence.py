"""The fast recurrence against the plain one in double precision, in value and every gradient.

It runs on a GPU, or in Triton's interpreter. Legend: as in `recurrence.py`.
"""

from copy import deepcopy
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from dtfixup.sql.grammar.rules import sql_grammar
from dtfixup.sql.model import decoder as decoder_module
from dtfixup.sql.model.decoder import Decoder, DecoderConfig, Memory
from dtfixup.transformer.relation_attention import has_triton
from tests.interpreter import DEVICE, GPU, needs_interpreter, run_interpreted, runs_kernels


@needs_interpreter
def test_without_a_gpu_tritons_interpreter_runs_these_tests() -> None:
    run_interpreted(__file__)


@dataclass(frozen=True)
class Case:
    """Sizes and kind of a derivation."""

    batch: int = 3
    steps: int = 7
    keys: int = 10
    lstm: int = 16
    dim: int = 16
    heads: int = 2
    parents: str = "any"
    dropped: bool = True

    def decoder(self) -> Decoder:
        torch.manual_seed(0)
        config = DecoderConfig(action_dim=8, node_dim=4, lstm_dim=self.lstm, heads=self.heads)
        return Decoder(config, self.dim, sql_grammar()).to(DEVICE)

    def inputs(self) -> tuple[list[Tensor], Tensor, Tensor, Tensor | None]:
        """Known gates, keys and values; parents; what is kept, nothing in the last row; factors of dropout."""
        random = torch.Generator().manual_seed(1)

        def normal(*size: int) -> Tensor:
            return torch.randn(*size, generator=random).to(DEVICE)

        width = self.dim // self.heads
        floats = [
            normal(self.batch, self.steps, 4 * self.lstm),
            normal(self.batch, self.heads, self.keys, width),
            normal(self.batch, self.heads, self.keys, width),
        ]
        keep_BN = torch.rand(self.batch, self.keys, generator=random) > 0.3
        keep_BN[-1] = False
        drop_BSD = torch.rand(self.batch, self.steps, self.dim, generator=random).to(DEVICE) if self.dropped else None
        return floats, self.parent_BS(random).to(DEVICE), keep_BN.to(DEVICE), drop_BSD

    def parent_BS(self, random: torch.Generator) -> Tensor:
        step_S = torch.arange(self.steps)
        if self.parents == "root":
            return torch.full((self.batch, self.steps), -1)
        if self.parents == "previous":
            return (step_S - 1).expand(self.batch, -1).contiguous()
        if self.parents == "first":
            return (step_S > 0).long().sub(1).expand(self.batch, -1).contiguous()
        return (torch.rand(self.batch, self.steps, generator=random) * (step_S + 1)).long() - 1


CASES = {
    "any parents": Case(),
    "no dropout": Case(dropped=False),
    "one step": Case(steps=1),
    "one row, one key": Case(batch=2, keys=1, heads=1),
    "all from the root": Case(parents="root"),
    "each from the one before": Case(parents="previous", steps=12),
    "all from the first": Case(parents="first"),
    "keys that are a power of two": Case(keys=16),
    "a wide LSTM in two blocks": Case(batch=2, steps=4, lstm=512, dim=32, heads=4),
    "many steps": Case(batch=2, steps=40),
}


def memory_of(key_BHNZ: Tensor, value_BHNZ: Tensor, keep_BN: Tensor) -> Memory:
    """A memory of what the recurrence reads, the rest empty."""
    return Memory(key_BHNZ, value_BHNZ, keep_BN, *[torch.empty(0)] * (len(Memory._fields) - 3))


def weights(decoder: Decoder) -> list[Tensor]:
    linears = (decoder.query, decoder.output)
    return [decoder.recurrent.weight, *(tensor for linear in linears for tensor in (linear.weight, linear.bias))]


NAMES = ("known", "key", "value", "recurrent", "query", "query bias", "output", "output bias")


def with_gradients(features_BSF: Tensor, tensors: list[Tensor]) -> dict[str, Tensor]:
    """The features, and the gradients of an arbitrary scalar of all rows but the last, which only fills the batch."""
    direction = torch.linspace(-30, 30, features_BSF.numel(), dtype=torch.float64, device=DEVICE).sin()
    weighted_BSF = features_BSF * direction.view_as(features_BSF)
    gradients = torch.autograd.grad(weighted_BSF[:-1].sum(), tensors)
    return {"features": features_BSF.detach(), **dict(zip(NAMES, gradients, strict=True))}


def exact(case: Case) -> dict[str, Tensor]:
    """The plain form, in double precision."""
    floats, parent_BS, keep_BN, drop_BSD = case.inputs()
    decoder = deepcopy(case.decoder()).double()
    known, key, value = (tensor.double().requires_grad_() for tensor in floats)
    drop_BSD = None if drop_BSD is None else drop_BSD.double()
    features_BSF = decoder.run_plain(known, parent_BS, memory_of(key, value, keep_BN), drop_BSD)
    return with_gradients(features_BSF, [known, key, value, *weights(decoder)])


def fast(case: Case) -> dict[str, Tensor]:
    from dtfixup.sql.model.recurrence import Recurrence

    floats, parent_BS, keep_BN, drop_BSD = case.inputs()
    tensors = [*(tensor.requires_grad_() for tensor in floats), *weights(case.decoder())]
    return with_gradients(Recurrence.apply(*tensors, parent_BS, keep_BN, drop_BSD), tensors)


@runs_kernels
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_equals_the_plain_recurrence(case: Case) -> None:
    found, wanted = fast(case), exact(case)
    for name, tensor in wanted.items():
        scale = float(tensor.abs().max())
        assert scale > 0 or case.steps == 1 or case.keys == 1, f"{name} shows nothing"
        torch.testing.assert_close(found[name].double(), tensor, rtol=0, atol=2e-5 * max(scale, 1e-3), msg=name)


@runs_kernels
def test_rows_do_not_touch_each_other() -> None:
    from dtfixup.sql.model.recurrence import Recurrence

    case = Case()
    floats, parent_BS, keep_BN, drop_BSD = case.inputs()
    shared = weights(case.decoder())
    whole_BSF = Recurrence.apply(*floats, *shared, parent_BS, keep_BN, drop_BSD)
    assert drop_BSD is not None
    one = [tensor[1:2].contiguous() for tensor in floats]
    alone_BSF = Recurrence.apply(
        *one, *shared, parent_BS[1:2].contiguous(), keep_BN[1:2].contiguous(), drop_BSD[1:2].contiguous()
    )
    torch.testing.assert_close(alone_BSF[0], whole_BSF[1])


@pytest.mark.skipif(not (GPU and has_triton()), reason="needs a GPU and triton")
def test_a_decoder_on_a_gpu_takes_the_fast_way() -> None:
    case = Case()
    floats, parent_BS, keep_BN, drop_BSD = case.inputs()
    decoder = case.decoder()
    known_BSG, memory = floats[0], memory_of(floats[1], floats[2], keep_BN)
    fast_BSF = decoder.run(known_BSG, parent_BS, memory, drop_BSD)
    assert type(fast_BSF.grad_fn).__name__ == "RecurrenceBackward"
    plain_BSF = decoder.run(known_BSG, parent_BS, memory, drop_BSD, plain=True)
    assert type(plain_BSF.grad_fn).__name__ != "RecurrenceBackward"
    torch.testing.assert_close(fast_BSF, plain_BSF, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("lstm", "dim", "heads"), [(12, 16, 2), (16, 24, 2), (16, 48, 3)])
def test_sizes_that_no_kernel_holds_take_the_plain_way(
    lstm: int, dim: int, heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Case(lstm=16, dim=32, heads=2).decoder().fits_kernels
    case = Case(lstm=lstm, dim=dim, heads=heads)
    decoder = case.decoder()
    assert not decoder.fits_kernels
    monkeypatch.setattr(decoder_module, "has_triton", lambda: True)
    floats, parent_BS, keep_BN, drop_BSD = case.inputs()
    memory = memory_of(floats[1], floats[2], keep_BN)
    found_BSF = decoder.run(floats[0], parent_BS, memory, drop_BSD)
    torch.testing.assert_close(found_BSF, decoder.run_plain(floats[0], parent_BS, memory, drop_BSD))
