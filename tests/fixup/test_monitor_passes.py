"""The passes that the monitor can follow: captured in CUDA graphs, recomputed, recurrent, reshaped, compiled.

Legend: B batch, L length, D width.
"""

import copy
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from dtfixup.errors import ConfigError
from dtfixup.fixup import Monitor, dt_fixup_, watch
from dtfixup.fixup import monitor as module
from dtfixup.transformer import TransformerStack
from tests.fixup.watching import MU, D, N, ours, train_step, vectors, watched

aten = torch.ops.aten
READS = {aten._local_scalar_dense, aten.item, aten.is_nonzero, aten.equal, aten.nonzero, aten.masked_select}
FROM_HOST = {aten.lift_fresh}  # a Python number or list that becomes a tensor
VIEWS = {aten.detach, aten.view, aten._unsafe_view, aten.slice, aten.select, aten.unsqueeze, aten.t, aten.transpose}


class Operations(TorchDispatchMode):
    """Keeps the operations that run inside, and refuses those that a CUDA graph cannot hold."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        assert function.overloadpacket not in READS | FROM_HOST, f"{function} waits for the device or feeds it"
        result = function(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, result)) if isinstance(leaf, Tensor)]
        assert len({tensor.device.type for tensor in tensors}) <= 1, f"{function} goes from one device to another"
        self.calls.append((function, args, kwargs or {}, result))
        return result

    def counts(self) -> Counter[Any]:
        return Counter(function.overloadpacket for function, *_ in self.calls if function.overloadpacket not in VIEWS)


class CpuGraph(Operations):
    """A CUDA graph in miniature: the operations again, on the memory of the first run, and no Python of theirs."""

    @torch.no_grad()
    def replay(self) -> None:
        for function, args, kwargs, result in self.calls:
            for old, new in zip(tree_leaves(result), tree_leaves(function(*args, **kwargs)), strict=True):
                if isinstance(old, Tensor):
                    old.copy_(new)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switches on what tells that a CUDA graph is being captured."""
    state = {"on": False}
    monkeypatch.setattr(module, "_capturing", lambda: state["on"])
    return lambda on: state.update(on=on)


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """Where PyTorch wants the passes before a capture."""
    if device.type != "cuda":
        yield
        return
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        yield
    main.wait_stream(side)


class Step:
    """Forward, backward, record, clip, update on memory that stays where it is: what one graph holds."""

    def __init__(self, stack: nn.Module, monitor: Monitor, length: int, device: str) -> None:
        self.stack, self.monitor = stack, monitor
        self.x_BLD = torch.zeros(2, length, D, device=device)
        self.keep_BL = torch.ones(2, length, dtype=torch.bool, device=device)

    def feed(self, x_BLD: Tensor, keep_BL: Tensor) -> None:
        self.x_BLD.copy_(x_BLD)
        self.keep_BL.copy_(keep_BL)

    def run(self) -> None:
        y_BLD = self.stack(self.x_BLD, self.keep_BL) * self.keep_BL[..., None]
        y_BLD.square().mean().backward()
        self.monitor.record()
        nn.utils.clip_grad_norm_(self.stack.parameters(), 0.1)
        with torch.no_grad():
            for parameter in self.stack.parameters():
                parameter.sub_(0.1 * parameter.grad)
        self.stack.zero_grad()

    def warm_up(self) -> None:
        self.feed(vectors(1e4, self.x_BLD.shape[1]), torch.ones_like(self.keep_BL))
        before = copy.deepcopy(self.stack.state_dict())
        with self.monitor.warm_up(), side_stream(self.x_BLD.device):
            self.run()
            self.run()
        self.stack.load_state_dict(before)

    def capture_cpu(self) -> Callable[[], None]:
        """The step in a graph, after it ran once."""
        with CpuGraph() as graph:
            self.run()
        return graph.replay

    def capture_cuda(self, pool: Any) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self.run()
        graph.replay()
        return graph.replay


def batches(count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Two lengths in turn, with padding that is loud."""
    for place in range(count):
        length = 4 + place % 2
        keep_BL = torch.ones(2, length, dtype=torch.bool)
        keep_BL[1, 2:] = False
        x_BLD = vectors((1 + place / 10) * MU, length)
        yield torch.where(keep_BL[..., None], x_BLD, 1e6), keep_BL


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
def test_replayed_graphs_of_two_shapes_record_what_eager_steps_do(device: str) -> None:
    plain, alone, expected = watched()
    stack, monitor, recorder = watched(ours().to(device))
    stack.load_state_dict(plain.state_dict())
    eager = {length: Step(plain, alone, length, "cpu") for length in (4, 5)}
    steps = {length: Step(stack, monitor, length, device) for length in (4, 5)}
    pool = torch.cuda.graph_pool_handle() if device == "cuda" else None
    replays: dict[int, Callable[[], None]] = {}
    with monitor, alone:
        for x_BLD, keep_BL in batches(14):
            length = x_BLD.shape[1]
            eager[length].feed(x_BLD, keep_BL)
            eager[length].run()
            alone.advance()
            step = steps[length]
            if length not in replays:
                step.warm_up()
                step.feed(x_BLD, keep_BL)
                replays[length] = step.capture_cpu() if device == "cpu" else step.capture_cuda(pool)
            else:
                step.feed(x_BLD, keep_BL)
                replays[length]()
            monitor.advance()
    assert recorder.inputs() == pytest.approx([1 + place / 10 for place in range(14)])
    assert recorder.scalars == pytest.approx(expected.scalars, rel=1e-4)


def test_two_replays_of_record_write_into_two_slots() -> None:
    stack, monitor, recorder = watched(every=2)
    with monitor.warm_up():
        train_step(stack)
        monitor.record()
    train_step(stack)
    with CpuGraph() as graph:
        monitor.record()
    train_step(stack, 3 * MU)
    graph.replay()
    monitor.advance()
    monitor.advance()
    assert recorder.inputs() == pytest.approx([1.0, 3.0])


def test_a_graph_of_passes_and_one_of_record_take_the_maximum_over_the_passes() -> None:
    stack, monitor, recorder = watched(every=2)
    with monitor.warm_up():
        train_step(stack)
        monitor.record()
    x_BLD = vectors()
    with CpuGraph() as passes:
        stack(x_BLD).square().mean().backward()
    with CpuGraph() as end:
        monitor.record()
    monitor.advance()
    for ratio in (3.0, 1 / 3):
        x_BLD.mul_(ratio)
        passes.replay()
    end.replay()
    monitor.advance()
    assert recorder.inputs() == pytest.approx([1.0, 3.0])


@pytest.mark.parametrize("mask", [None, torch.ones(2, 4)], ids=["no mask", "mask"])
def test_nothing_is_read_from_or_sent_to_the_device(mask: Tensor | None) -> None:
    stack, monitor, recorder = watched(before_dropout=(project := nn.Linear(D, D)))
    monitor.keep = mask
    for _ in range(9):
        with Operations() as operations:
            stack(project(vectors())).square().mean().backward()
            stack(project(vectors())).square().mean().backward()
            monitor.record()
        monitor.advance()
    assert operations.counts()[aten.index_copy_] == 1
    assert len(recorder.inputs()) == 8


def test_no_value_decides_what_is_done() -> None:
    """On the meta device there are no values at all."""
    stack = ours()
    report = dt_fixup_(stack, MU)
    stack = stack.to("meta")
    with torch.device("meta"):
        monitor = watch(stack, report).to("meta")
        for _ in range(2):
            stack(torch.empty(2, 4, D), torch.ones(2, 4, dtype=torch.bool)).mean().backward()
            monitor.record()
    gradients = [parameter.grad for parameter in stack.parameters()]
    assert all(gradient is not None and gradient.is_meta for gradient in gradients)


def test_hooks_cost_one_kernel_per_layer_and_five_per_pass() -> None:
    stack, monitor, _ = watched()
    x_BLD, keep_BL = vectors(), torch.ones(2, 4, dtype=torch.bool)
    counted = []
    for _ in range(2):
        with Operations() as operations:
            stack(x_BLD, keep_BL)
        counted.append(operations.counts())
        monitor.close()
    more = counted[0] - counted[1]
    once = [aten.stack, aten.bitwise_not, aten.masked_fill_, aten.amax, aten.maximum]
    assert more == {aten.linalg_vector_norm: N + 1, **dict.fromkeys(once, 1)}


def test_activations_are_not_kept() -> None:
    project = nn.Linear(D, D)
    stack, *_ = watched(before_dropout=project)
    kept: list[StorageWeakRef] = []
    for part in (project, *stack.layers):
        part.register_forward_hook(lambda part, args, y: kept.append(StorageWeakRef(y.untyped_storage())))
    stack(project(vectors()))
    assert len(kept) == 1 + N
    assert all(storage.expired() for storage in kept)


def test_passes_of_a_warm_up_are_forgotten() -> None:
    stack, monitor, recorder = watched(every=2)
    train_step(stack, 2 * MU)
    with monitor.warm_up():
        for _ in range(3):
            train_step(stack, 100 * MU)
            monitor.step()
        train_step(stack, 100 * MU)
    train_step(stack)
    monitor.step()
    with monitor.warm_up():
        train_step(stack, 100 * MU)
        monitor.record()
    train_step(stack, 3 * MU)
    monitor.step()
    assert recorder.inputs() == pytest.approx([2.0, 3.0])


def test_a_warm_up_that_breaks_off_is_forgotten_too() -> None:
    stack, monitor, recorder = watched(every=1)
    handle = stack.layers[1].register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError), monitor.warm_up():
        stack(vectors(100 * MU))
    handle.remove()
    train_step(stack)
    monitor.step()
    assert recorder.inputs() == pytest.approx([1.0])


@pytest.mark.parametrize("records", [0, 2])
def test_halves_that_are_out_of_step_are_an_error(records: int) -> None:
    stack, monitor, _ = watched(every=2)
    for step in range(2):
        train_step(stack)
        for _ in range(records):
            monitor.record()
        if step == 0:
            monitor.advance()
    with pytest.raises(ConfigError, match=rf"record\(\) ran {2 * records} times on the device in 2 steps.*warm_up"):
        monitor.advance()


def test_an_error_in_the_middle_of_a_step_is_not_hidden(caplog: pytest.LogCaptureFixture) -> None:
    stack, monitor, recorder = watched()

    def fail_between_the_halves() -> None:
        with monitor:
            train_step(stack)
            monitor.step()
            train_step(stack, 2 * MU)
            monitor.record()
            raise ZeroDivisionError

    with caplog.at_level(logging.WARNING, "dtfixup"), pytest.raises(ZeroDivisionError):
        fail_between_the_halves()
    assert recorder.inputs() == pytest.approx([1.0])
    assert "record() ran 2 times on the device in 1 steps" in caplog.text


def test_memory_of_the_monitor_must_not_belong_to_a_graph(capture: Callable[[bool], None]) -> None:
    stack, monitor, _ = watched()
    capture(True)
    with pytest.raises(ConfigError, match=r"call monitor.to\(device\) before, or make a pass"):
        stack(vectors())
    monitor.to("cpu")
    stack(vectors())


def test_a_graph_is_not_captured_inside_a_warm_up(capture: Callable[[bool], None]) -> None:
    stack, monitor, _ = watched()
    with monitor.warm_up():
        train_step(stack)
        monitor.record()
        capture(True)
        train_step(stack)
        with pytest.raises(ConfigError, match=r"captured inside warm_up\(\)"):
            monitor.record()


@pytest.mark.parametrize("broken_in_capture", [True, False])
def test_norms_of_a_pass_that_broke_off_do_not_get_into_a_graph_or_out_of_it(
    broken_in_capture: bool, capture: Callable[[bool], None]
) -> None:
    stack, monitor, recorder = watched(every=1)
    monitor.to("cpu")
    handle = stack.layers[1].register_forward_pre_hook(lambda *_: 1 / 0)
    capture(broken_in_capture)
    with pytest.raises(ZeroDivisionError):
        stack(vectors(100 * MU))
    handle.remove()
    capture(not broken_in_capture)
    train_step(stack)
    monitor.step()
    assert recorder.inputs() == pytest.approx([1.0])


# Unusual passes: recomputed, recurrent, reshaped, compiled.


class Recomputing(TransformerStack):
    """Layers that run without gradients first and again in the backward pass, the last one first."""

    def forward(self, x_BLD: Tensor, keep_BL: Tensor | None = None, relation_BLL: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x_BLD = checkpoint(layer, x_BLD, keep_BL, use_reentrant=True)
        return x_BLD


def test_layers_that_run_in_the_backward_pass_count_in_every_accumulated_pass() -> None:
    stack, again = ours(), ours(Recomputing)
    (_, monitor, expected), (_, other, found) = watched(stack, every=1), watched(again, every=1)
    with torch.no_grad():
        stack.layers[1].mlp.down.weight.mul_(1_000)
    again.load_state_dict(stack.state_dict())
    for norm, length in ((2 * MU, 2), (3 * MU, 4)):
        x_BLD = vectors(norm)[:, :length].requires_grad_()
        for model in (stack, again):
            model(x_BLD, torch.ones(2, length, dtype=torch.bool)).square().mean().backward()
    monitor.step()
    other.step()
    assert found.scalars == pytest.approx(expected.scalars, rel=1e-5)
    assert found.scalars["growth", 0] > 2


class Recurrent(nn.Module):
    """One layer, called again and again on its own output."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = ours().layers[0]

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.layer(x)
        return x


def test_a_layer_that_is_called_again_in_one_pass_counts_each_time() -> None:
    stack = Recurrent()
    _, monitor, found = watched(stack, every=1)
    stack.layer.mlp.down.weight.data.mul_(100)
    x_BLD, norms = vectors(), []
    with torch.no_grad():
        y_BLD = x_BLD
        for _ in range(3):
            y_BLD = stack.layer(y_BLD)
            norms.append(y_BLD.norm(dim=-1).max().item())
    for x in (x_BLD, x_BLD / 2):
        stack(x).sum().backward()
    monitor.step()
    assert norms[2] > 1.1 * norms[0]
    assert found.scalars["growth", 0] == pytest.approx(max(norms) / MU, rel=1e-5)


def test_vectors_before_dropout_may_have_another_shape_where_there_is_no_mask() -> None:
    stack, project = ours(), nn.Identity()
    _, monitor, found = watched(stack, every=1, before_dropout=project)
    x_BLD = vectors(2 * MU)
    stack(project(x_BLD.flatten(0, 1)).view_as(x_BLD) / 4).sum().backward()
    monitor.step()
    assert found.scalars["input_norm_over_mu", 0] == pytest.approx(2.0)
    assert found.scalars["growth", 0] == pytest.approx(0.25, rel=0.1)


def test_a_nan_of_an_earlier_pass_stays() -> None:
    stack = ours()
    _, monitor, found = watched(stack, every=1)
    for norm in (MU, math.nan, MU):
        stack(vectors(norm)).sum().backward()
    monitor.step()
    assert math.isnan(found.scalars["input_norm_over_mu", 0])
    assert math.isnan(found.scalars["growth", 0])


def test_a_compiled_stack_is_watched_alike_and_stays_in_one_graph() -> None:
    stack, other = ours(), ours()
    (_, monitor, expected), (_, compiled_monitor, found) = watched(stack, every=1), watched(other, every=1)
    other.load_state_dict(stack.state_dict())
    compiled = torch.compile(other, backend="eager", fullgraph=True)
    for norm in (MU, 2 * MU):
        x_BLD, keep_BL = vectors(norm), torch.ones(2, 4, dtype=torch.bool)
        stack(x_BLD, keep_BL).square().mean().backward()
        monitor.step()
        compiled(x_BLD, keep_BL).square().mean().backward()
        compiled_monitor.step()
    assert found.inputs() == pytest.approx([1.0, 2.0])
    assert found.scalars == pytest.approx(expected.scalars, rel=1e-5)
