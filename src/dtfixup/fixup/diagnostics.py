"""What the theorems promise, measured on a real model: update size and gradient norm against depth.

In: a function that builds the model at a given depth, and batches. Out: a `DepthReport` with, for
each depth, strategy and optimiser, the size of one step. Theorem 3.1: ||df_G/dtheta_G|| = Theta(1), so
one SGD step moves f_G by Theta(eta). Theorem 3.2: it moves each branch G_l by Theta(eta / L).

The gradient is that of <f_G, u>, u a fixed random direction of norm 1 over the real vectors, so that
dL/df_G has norm 1 whatever the depth. Weights and biases are stepped and reported
separately: the theorems are about weights only.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dtfixup.errors import DepthCheckError
from dtfixup.fixup.calls import (
    Batch,
    call_arguments,
    device_of,
    map_tensors,
    run_model,
    stack_input,
    to_device,
    tracked,
    without_fused_layers,
)
from dtfixup.fixup.depth_report import DepthReport, DepthRow
from dtfixup.fixup.input_norm import Keep, keep_mask, measure_input_norm
from dtfixup.fixup.layers import (
    Stack,
    bias_parameters,
    first_module,
    last_module,
    layers_of,
    modules_of,
    parameters_of,
)
from dtfixup.fixup.strategies import Strategy, strategy_named

Optimizer = Callable[[list[nn.Parameter], float], torch.optim.Optimizer]

_SIZES = ("grad_norm", "grad_norm_biases", "update", "update_with_biases")

OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": lambda parameters, rate: torch.optim.SGD(parameters, lr=rate),
    "adam": lambda parameters, rate: torch.optim.Adam(parameters, lr=rate, eps=1e-30),
}


def depth_check(
    build_model: Callable[..., nn.Module],
    batches: Iterable[Batch],
    depths: Sequence[int] = (2, 4, 8, 16, 32, 64),
    *,
    strategies: Sequence[Strategy | str] = ("dt-fixup", "t-fixup", "unscaled"),
    stack: str | Callable[[nn.Module], Stack] = "new_layers",
    keep: Keep = None,
    forward: Callable[[nn.Module, Batch], object] | None = None,
    learning_rate: float = 1e-6,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    progress: bool = True,
) -> DepthReport:
    """One optimiser step on real batches at each depth, for each strategy.

    Args:
        build_model: `build_model(depth)` gives a model with so many new layers; with a parameter
            named `strategy` it is called as `build_model(depth, strategy=name)`, which strategies
            with a structure of their own (standard, pre-ln, rezero, admin, deepnorm) need.
        batches: a few real batches, as for `measure_input_norm`.
        depths: numbers of layers.
        strategies: names or strategies.
        stack: where the new layers are: an attribute path, or a function of the model.
        keep: which vectors are real, as for `measure_input_norm`.
        forward: replaces the call of the model.
        learning_rate: eta; small, because the theorems are about the limit.
        dtype: precision of the measurement; in float64, rounding does not hide a step of 1e-6.
        seed: of the initial weights and of the direction u.
        progress: show a progress bar.
    """
    held = list(batches)
    if not held:
        raise DepthCheckError("there are no batches: give a few real ones")
    if not depths or min(depths) < 1:
        raise DepthCheckError(f"depths must be numbers of layers, at least 1: got {list(depths)}")
    chosen = [strategy_named(item) if isinstance(item, str) else item for item in strategies]
    takes_strategy = "strategy" in inspect.signature(build_model).parameters
    rows: list[DepthRow] = []
    plan = [(strategy, depth) for strategy in chosen for depth in depths]
    for strategy, depth in tracked(plan, "depth check", progress):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = build_model(depth, strategy=strategy.name) if takes_strategy else build_model(depth)
            model = model.to(dtype).eval()
            probe = _Probe(model, _find_stack(model, stack), held, keep, forward, dtype, seed)
            if probe.layers != depth:
                raise DepthCheckError(f"build_model({depth}) gave a stack of {probe.layers} layers")
            probe.initialise_(strategy)
            rows += probe.rows(strategy.name, learning_rate)
    return DepthReport(tuple(rows))


def _find_stack(model: nn.Module, stack: str | Callable[[nn.Module], Stack]) -> Stack:
    if callable(stack):
        return stack(model)
    try:
        return model.get_submodule(stack)
    except AttributeError as error:
        raise DepthCheckError(
            f"{type(model).__name__} has no part {stack!r}: say where the new layers are with "
            'stack="path.to.layers" or stack=lambda model: ...'
        ) from error


@dataclass
class _Trace:
    """One forward pass: f_G, the mask of its real vectors, and the output of every branch."""

    output: Tensor
    keep: Tensor | None
    branches: list[Tensor]


class _Probe:
    """A model at one depth, and the measurements on it."""

    def __init__(
        self,
        model: nn.Module,
        stack: Stack,
        batches: Sequence[Batch],
        keep: Keep,
        forward: Callable[[nn.Module, Batch], object] | None,
        dtype: torch.dtype,
        seed: int,
    ) -> None:
        self.model, self.stack, self.keep, self.forward, self.seed = model, stack, keep, forward, seed
        device = device_of(model)
        self.batches = [
            map_tensors(to_device(batch, device), lambda x: x.to(dtype) if x.is_floating_point() else x)
            for batch in batches
        ]
        described = layers_of(stack)
        self.layers = len(described)
        self.kind = "relation" if any(weights.relation_aware for _, _, weights in described) else "vanilla"
        self.branches = [branch for _, _, weights in described for branch in weights.branches]

    def initialise_(self, strategy: Strategy) -> None:
        mu = None
        if strategy.needs_input_norm:
            mu = measure_input_norm(
                self.model, self.stack, self.batches, keep=self.keep, forward=self.forward, progress=False
            )
        strategy.initialise_(
            self.stack,
            input_norm=mu,
            profile=lambda: [run_model(self.model, batch, self.forward) for batch in self.batches],
        )
        members = parameters_of(self.stack)
        biases = bias_parameters(module for _, module in modules_of(self.stack))
        self.biases = [parameter for parameter in members if parameter in biases]
        self.weights = [parameter for parameter in members if parameter not in biases]
        self.model.requires_grad_(False)
        for parameter in members:
            parameter.requires_grad_(True)

    def rows(self, strategy: str, rate: float) -> list[DepthRow]:
        per_batch = [self._measure(batch, rate) for batch in self.batches]
        return [
            DepthRow(
                stack=self.kind,
                strategy=strategy,
                optimizer=optimizer,
                depth=self.layers,
                layer_updates=tuple(map(_rms, zip(*(batch[optimizer]["layers"] for batch in per_batch), strict=True))),
                **{name: _rms(batch[optimizer][name] for batch in per_batch) for name in _SIZES},
            )
            for optimizer in OPTIMIZERS
        ]

    def _measure(self, batch: Batch, rate: float) -> dict[str, dict[str, Any]]:
        self.model.zero_grad(set_to_none=True)
        before = self._trace(batch)
        (before.output * self._direction(before)).sum().backward()
        norms = {"grad_norm": _grad_norm(self.weights), "grad_norm_biases": _grad_norm(self.biases)}
        by_optimizer: dict[str, dict[str, Any]] = {}
        for name, make in OPTIMIZERS.items():
            after = self._step(batch, self.weights, make, rate)
            everything = self._step(batch, self.weights + self.biases, make, rate) if self.biases else after
            scale = len(self.branches) / rate  # L / eta
            by_optimizer[name] = {
                **norms,
                "update": _distance(before, after) / rate,
                "update_with_biases": _distance(before, everything) / rate,
                "layers": [
                    scale * float(torch.linalg.vector_norm(_real(new - old, before.keep)))
                    for old, new in zip(before.branches, after.branches, strict=True)
                ],
            }
        return by_optimizer

    def _step(self, batch: Batch, parameters: list[nn.Parameter], make: Optimizer, rate: float) -> _Trace:
        """The forward pass after one step from the current weights, which are restored afterwards."""
        saved = [parameter.detach().clone() for parameter in parameters]
        make(parameters, rate).step()
        with torch.no_grad():
            after = self._trace(batch)
            for parameter, value in zip(parameters, saved, strict=True):
                parameter.copy_(value)
        return after

    def _trace(self, batch: Batch) -> _Trace:
        seen: dict[str, Any] = {"branches": [], "output": None, "keep": None}

        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            arguments = call_arguments(module, args, kwargs)
            seen["keep"] = keep_mask(self.stack, arguments, self.keep, batch, stack_input(module, arguments))

        def leave(module: nn.Module, args: object, output: Any) -> None:
            seen["output"] = _first(output)

        def branch(module: nn.Module, args: object, output: Any) -> None:
            seen["branches"].append(_first(output).detach())

        with ExitStack() as hooks:
            hooks.callback(first_module(self.stack).register_forward_pre_hook(enter, with_kwargs=True).remove)
            hooks.callback(last_module(self.stack).register_forward_hook(leave).remove)
            for module in self.branches:
                hooks.callback(module.register_forward_hook(branch).remove)
            hooks.enter_context(without_fused_layers())
            run_model(self.model, batch, self.forward)
        if seen["output"] is None:
            raise DepthCheckError("the model did not call the stack: pass the layers that the model calls")
        return _Trace(seen["output"], seen["keep"], seen["branches"])

    def _direction(self, trace: _Trace) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        direction = torch.randn(trace.output.shape, generator=generator, dtype=torch.float64)
        direction = _real(direction.to(trace.output), trace.keep)
        return direction / torch.linalg.vector_norm(direction)


def _first(output: Any) -> Tensor:
    tensor = output[0] if isinstance(output, tuple) else output
    if not isinstance(tensor, Tensor):
        raise DepthCheckError(
            f"a layer returned {type(output).__name__}: expected a tensor or a tuple that starts with one"
        )
    return tensor


def _real(x: Tensor, keep: Tensor | None) -> Tensor:
    return x if keep is None else x * keep.to(x)[..., None]


def _distance(before: _Trace, after: _Trace) -> float:
    return float(torch.linalg.vector_norm(_real((after.output - before.output).detach(), before.keep)))


def _grad_norm(parameters: list[nn.Parameter]) -> float:
    return math.hypot(*(float(torch.linalg.vector_norm(p.grad)) for p in parameters if p.grad is not None))


def _rms(values: Iterable[float]) -> float:
    held = list(values)
    return math.hypot(*held) / math.sqrt(len(held))
