"""DT-Fixup in place: Xavier, no layer norms, the paper's factors (section 3.3).

In: the new layers and their input norm. Out: the same layers, re-initialised, and a `FixupReport`.
Everything outside the given stack stays as it is, bit for bit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from dtfixup.errors import (
    AlreadyAppliedError,
    ConfigError,
    LoadedWeightsError,
    StrategyError,
    UnsupportedLayerError,
)
from dtfixup.fixup.calls import broadcast_
from dtfixup.fixup.input_norm import InputNorm
from dtfixup.fixup.layers import (
    FusedRows,
    LayerWeights,
    Role,
    Stack,
    Weight,
    bias_parameters,
    layers_of,
    modules_of,
)
from dtfixup.fixup.no_norm import NORMS, norms_of, remove_norms_
from dtfixup.fixup.report import FixupReport, TensorReport
from dtfixup.fixup.residual import Residual
from dtfixup.fixup.scaling import relation_factor, vanilla_factor
from dtfixup.fixup.stream_limit import set_limits_

_SCALED = frozenset({Role.VALUE, Role.OUTPUT, Role.MLP, Role.RELATION_VALUE})
_MARK = "dtfixup_initialised_by"


def dt_fixup_(
    stack: Stack,
    input_norm: InputNorm | float,
    *,
    reinitialise: bool = False,
    generator: torch.Generator | None = None,
) -> FixupReport:
    """Initialise the new layers by DT-Fixup, in place.

    Args:
        stack: our `TransformerStack`, `nn.TransformerEncoder`, encoder layers of BERT or RoBERTa
            models of Hugging Face, a list of such layers, or any module whose layers implement
            `fixup_weights()`.
        input_norm: mu, from `measure_input_norm`, or a number.
        reinitialise: overwrite layers that hold loaded or trained weights.
        generator: the random stream of the new weights; PyTorch's global one by default.

    Under `torch.distributed` every rank ends with the weights of rank 0.
    """
    mu = float(input_norm)
    relation_factor(1, mu)  # refuses an unusable mu before anything is touched

    def factor(layers: int, weights: LayerWeights) -> float:
        return relation_factor(layers, mu) if weights.relation_aware else vanilla_factor(layers, mu)

    return initialise_stack_(
        stack,
        factor,
        strategy="dt-fixup",
        input_norm=mu,
        padding_left_out=isinstance(input_norm, InputNorm) and input_norm.padding_left_out,
        remove_norms=True,
        reinitialise=reinitialise,
        generator=generator,
        then=partial(set_limits_, stack, mu),
    )


def initialise_stack_(
    stack: Stack,
    factor: Callable[[int, LayerWeights], float],
    *,
    strategy: str,
    input_norm: float | None = None,
    padding_left_out: bool = False,
    remove_norms: bool = False,
    reinitialise: bool = False,
    generator: torch.Generator | None = None,
    then: Callable[[], object] | None = None,
) -> FixupReport:
    """Xavier per logical matrix, biases zero, value, output, MLP and relation-value weights times a factor.

    `then` runs after the weights are set; the stack counts as initialised after it.
    """
    layers = layers_of(stack)
    _refuse_second_call(layers)
    if remove_norms:
        _refuse_other_residuals(stack, strategy)
    if not reinitialise:
        _refuse_loaded(stack, layers)
    biases = bias_parameters(module for _, module in modules_of(stack))
    norms = norms_of(stack, layers)
    plan = [  # any fault in a layer is an error before anything changes
        (part, factor(len(layers), weights) if part.role in _SCALED else 1.0)
        for path, layer, weights in layers
        for part in _logical_matrices(path, layer, weights, biases, norms if remove_norms else set())
    ]
    _require_ready([part for part, _ in plan], generator)
    removed = remove_norms_(stack, norms) if remove_norms else []
    rows: list[TensorReport] = []
    done: set[tuple[int, int, int]] = set()
    with torch.no_grad():
        for part, value in plan:
            if part.key not in done:  # a weight shared by several layers is scaled once
                done.add(part.key)
                rows.append(_initialise_(part, value, generator))
    if then is not None:
        then()
    for _, layer, _ in layers:
        setattr(layer, _MARK, strategy)
    broadcast_(parameter for _, layer, _ in layers for parameter in layer.parameters())
    return FixupReport(
        strategy=strategy,
        layers=len(layers),
        relation_layers=sum(weights.relation_aware for _, _, weights in layers),
        input_norm=input_norm,
        tensors=tuple(rows),
        norms_removed=tuple(removed),
        padding_left_out=padding_left_out,
    )


@dataclass(frozen=True)
class _Part:
    """One logical matrix or vector of a layer, as a view into its parameter."""

    name: str
    role: Role
    parameter: Tensor
    start: int
    stop: int

    @property
    def tensor(self) -> Tensor:
        return self.parameter.detach()[self.start : self.stop] if self.parameter.ndim else self.parameter.detach()

    @property
    def key(self) -> tuple[int, int, int]:
        return id(self.parameter), self.start, self.stop


def _logical_matrices(
    path: str, layer: nn.Module, weights: LayerWeights, biases: set[Tensor], norms: set[nn.Module]
) -> Iterator[_Part]:
    """Every parameter of the layer once, named weights by slice; without those of norms that will be removed."""
    removed = {parameter for norm in norms for parameter in norm.parameters()}
    names: dict[Tensor, str] = {p: f"{path}.{name}" if path else name for name, p in layer.named_parameters()}
    parts = [_part(names, role, weight) for role, weight in weights.by_role()]
    for parameter in {part.parameter for part in parts}:
        _require_all_rows([part for part in parts if part.parameter is parameter])
    yield from parts
    covered = {part.parameter for part in parts}
    for parameter, name in names.items():
        if parameter in covered or parameter in removed:
            continue
        vector = Role.BIAS if parameter in biases else Role.KEPT
        role = vector if parameter.ndim < 2 else Role.UNSCALED
        yield _Part(name, role, parameter, 0, len(parameter) if parameter.ndim else 0)


def _part(names: dict[Tensor, str], role: Role, weight: Weight) -> _Part:
    parameter = weight.parameter if isinstance(weight, FusedRows) else weight
    name = names.get(parameter, "(shared)")
    if isinstance(weight, FusedRows):
        return _Part(f"{name}[{weight.start}:{weight.stop}]", role, parameter, weight.start, weight.stop)
    return _Part(name, role, parameter, 0, len(parameter))


def _require_all_rows(parts: list[_Part]) -> None:
    """Refuse slices of a fused parameter that leave a gap or overlap."""
    slices = sorted((part.start, part.stop) for part in parts)
    starts, stops = [0, *(stop for _, stop in slices)], [*(start for start, _ in slices), len(parts[0].parameter)]
    if starts != stops or any(stop <= start for start, stop in slices):
        name = parts[0].name.partition("[")[0]
        given = ", ".join(f"{part.start}:{part.stop}" for part in parts)
        raise UnsupportedLayerError(
            f"the slices of {name} ({given}) do not cover its {len(parts[0].parameter)} rows once each: name every "
            "slice once, those that are not scaled in unscaled="
        )


def _require_ready(parts: list[_Part], generator: torch.Generator | None) -> None:
    for part in parts:
        if part.role in _SCALED and part.parameter.ndim != 2:
            raise UnsupportedLayerError(
                f"{part.name} is named as a {part.role.value} weight, but has {part.parameter.ndim} dimensions: Xavier "
                "needs matrices [out, in]; make each head's matrix its own parameter, or reshape"
            )
        if part.parameter.is_meta:
            raise ConfigError(f"{part.name} is on the meta device and has no values: first model.to_empty(device=...)")
        if generator is not None and not same_device(generator.device, part.parameter.device):
            raise ConfigError(
                f"the generator is on {generator.device}, but {part.name} on {part.parameter.device}: "
                "make the generator on the device of the weights, or initialise before moving the model"
            )


def same_device(one: torch.device, other: torch.device) -> bool:
    """Whether two names mean one device: "cuda" alone is the current GPU.

    >>> same_device(torch.device("cpu"), torch.device("cpu", 0))
    True
    """
    return one.type == other.type and _device_index(one) == _device_index(other)


def _device_index(device: torch.device) -> int:
    if str(device) in ("cuda", "xpu"):  # without a number; other kinds have one device
        return int(torch.get_device_module(device).current_device())
    return device.index or 0


def _initialise_(part: _Part, factor: float, generator: torch.Generator | None) -> TensorReport:
    tensor = part.tensor
    if part.role is Role.BIAS:
        tensor.zero_()
    elif part.role is not Role.KEPT:
        nn.init.xavier_uniform_(tensor, generator=generator)
    before = _norm(tensor)
    if part.role in _SCALED:
        tensor.mul_(factor)
    return TensorReport(part.name, part.role, tuple(tensor.shape), before, factor, _norm(tensor))


def _norm(tensor: Tensor) -> float:
    precise = tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)
    return float(torch.linalg.vector_norm(precise))


def _refuse_second_call(layers: list[tuple[str, nn.Module, LayerWeights]]) -> None:
    for path, layer, _ in layers:
        before = getattr(layer, _MARK, None)
        if before is not None:
            raise AlreadyAppliedError(
                f"layer {path or type(layer).__name__} was initialised by {before} before. A second call would "
                "overwrite its weights; to start again, build a new model."
            )


def _refuse_other_residuals(stack: Stack, strategy: str) -> None:
    for _, module in modules_of(stack):
        if isinstance(module, Residual) and not module.plain:
            raise StrategyError(
                f"this stack was built for {module.strategy_name}, whose skip connections are not plain additions: "
                f"build it for {strategy}"
            )


def _refuse_loaded(stack: Stack, layers: list[tuple[str, nn.Module, LayerWeights]]) -> None:
    """Refuse a stack with a norm that is not at its initial value, or with Hugging Face's mark of loaded weights."""
    loaded = [name for name, module in modules_of(stack) if isinstance(module, NORMS) and not _at_initial_value(module)]
    loaded += [
        f"{path}.{name}" if path else name
        for path, layer, _ in layers
        for name, parameter in layer.named_parameters()
        if getattr(parameter, "_is_hf_initialized", False)
    ]
    if loaded:
        raise LoadedWeightsError(
            f"the stack holds loaded or trained weights ({loaded[0]} and {len(loaded) - 1} more). DT-Fixup is for new "
            "layers and would overwrite them: pass only the new ones, or reinitialise=True to lose these weights."
        )


def _at_initial_value(norm: nn.Module) -> bool:
    weight, bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
    if any(tensor is not None and tensor.is_meta for tensor in (weight, bias)):
        return True
    fresh_weight = weight is None or bool((weight == 1).all())
    return fresh_weight and (bias is None or bool((bias == 0).all()))
