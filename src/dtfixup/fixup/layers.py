"""Describe layers: which weights are value, output, MLP and relation-value weights.

In: any module. Out: its transformer layers, each with a `LayerWeights`. A layer either implements
`fixup_weights()` or its class is registered here with an adapter; names of parameters mean nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from dtfixup.errors import UnsupportedLayerError
from dtfixup.lazy_layers import register_layers_of


class Role(StrEnum):
    """What a parameter does in its layer."""

    VALUE = "value"
    OUTPUT = "output"
    MLP = "mlp"
    RELATION_VALUE = "relation value"
    UNSCALED = "unscaled"  # q, k, r^k and every other matrix: Xavier and no factor
    BIAS = "bias"
    KEPT = "kept"  # a vector other than a bias, such as a gate: left as it is


@dataclass(frozen=True)
class FusedRows:
    """One of the matrices in a fused parameter: its rows from start to stop."""

    parameter: Tensor
    start: int
    stop: int


Weight = Tensor | FusedRows


@dataclass(frozen=True)
class LayerWeights:
    """The weights of one transformer layer by role; a layer with `relation_value` is relation-aware.

    `unscaled` is needed only for the slices of a fused parameter that are not scaled; whole matrices
    that are not named anywhere are unscaled anyway. `norms` names normalisation modules that are
    neither `nn.LayerNorm` nor `nn.RMSNorm`. `branches` are the modules whose outputs are added to
    the residual stream (attention, then MLP); diagnostics use them.
    """

    value: Sequence[Weight]
    output: Sequence[Weight]
    mlp: Sequence[Weight]
    relation_value: Sequence[Weight] = ()
    unscaled: Sequence[Weight] = ()
    norms: Sequence[nn.Module] = ()
    branches: Sequence[nn.Module] = ()

    @property
    def relation_aware(self) -> bool:
        return bool(self.relation_value)

    def by_role(self) -> Iterator[tuple[Role, Weight]]:
        groups = (
            (Role.VALUE, self.value),
            (Role.OUTPUT, self.output),
            (Role.MLP, self.mlp),
            (Role.RELATION_VALUE, self.relation_value),
            (Role.UNSCALED, self.unscaled),
        )
        for role, weights in groups:
            for weight in weights:
                yield role, weight


@runtime_checkable
class FixupLayer(Protocol):
    """The one method a layer of your own needs."""

    def fixup_weights(self) -> LayerWeights: ...


Adapter = Callable[[nn.Module], LayerWeights]
_adapters: dict[type[nn.Module], Adapter] = {}


def register_layer(kind: type[nn.Module], adapter: Adapter) -> None:
    """Register an adapter for a layer class to which you cannot add a `fixup_weights` method."""
    _adapters[kind] = adapter


def describe_layer(module: nn.Module) -> LayerWeights | None:
    """The module's weights by role, or None if it is not a known layer."""
    if isinstance(module, FixupLayer):
        return module.fixup_weights()
    kinds = type(module).__mro__
    register_layers_of(kind.__module__.partition(".")[0] for kind in kinds)
    for kind in kinds:
        if kind in _adapters:
            return _adapters[kind](module)
    return None


Stack = nn.Module | Sequence[nn.Module]


def layers_of(stack: Stack) -> list[tuple[str, nn.Module, LayerWeights]]:
    """The transformer layers of a stack in order, each with its path and its weights by role.

    A stack is a layer, a list or `nn.ModuleList` of layers, or a module that holds layers anywhere.
    """
    described: list[tuple[str, nn.Module, LayerWeights]] = []
    if isinstance(stack, nn.Module) and not isinstance(stack, nn.ModuleList | nn.Sequential):
        parts = [("", stack)]
    else:
        parts = [(str(index), item) for index, item in enumerate(stack)]
    for path, part in parts:
        before = len(described)
        _collect(part, path, described)
        layers = [layer for _, layer, _ in described[before:]]
        if not layers:
            raise UnsupportedLayerError(_how_to_describe(part))
        stray = _stray_matrices(part, layers)
        if stray:
            raise UnsupportedLayerError(
                f"{type(part).__name__} holds weights outside its transformer layers: {', '.join(stray)}. "
                "Pass only the new layers, as a list or nn.ModuleList, so that it is clear what is scaled."
            )
    if not described:
        raise UnsupportedLayerError("the stack is an empty list: pass the list of new layers")
    return described


def first_module(stack: Stack) -> nn.Module:
    """The module whose input is the stack's input: the stack itself, or its first layer if it is a plain list."""
    return _called_modules(stack)[0]


def last_module(stack: Stack) -> nn.Module:
    """The module whose output is the stack's output."""
    return _called_modules(stack)[-1]


def _called_modules(stack: Stack) -> list[nn.Module]:
    if isinstance(stack, nn.Module) and not isinstance(stack, nn.ModuleList):
        return [stack]
    if not (layers := list(stack)):
        raise UnsupportedLayerError("the stack is an empty list: pass the list of new layers")
    return layers


def modules_of(stack: Stack) -> Iterator[tuple[str, nn.Module]]:
    """Every module in the stack with its path."""
    if isinstance(stack, nn.Module):
        yield from stack.named_modules()
    else:
        for index, item in enumerate(stack):
            yield from item.named_modules(prefix=str(index))


def parameters_of(stack: Stack) -> list[nn.Parameter]:
    """Every parameter of the stack once, in order."""
    return list({p: None for _, module in modules_of(stack) for p in module.parameters(recurse=False)})


def bias_parameters(modules: Iterable[nn.Module]) -> set[Tensor]:
    """The parameters that are added rather than multiplied, by the kind of module that owns them."""
    biases: set[Tensor | None] = set()
    for module in modules:
        if isinstance(module, nn.Linear | nn.LayerNorm | nn.Bilinear | nn.modules.conv._ConvNd):
            biases.add(module.bias)
        elif isinstance(module, nn.MultiheadAttention):
            biases.update((module.in_proj_bias, module.bias_k, module.bias_v))
        elif isinstance(module, nn.RNNBase | nn.RNNCellBase):
            biases.update(parameter for parameter in module.parameters() if parameter.ndim == 1)
    return {bias for bias in biases if bias is not None}


def padding_keep(stack: Stack, arguments: dict[str, object]) -> Tensor | None:
    """The mask of real vectors (True) that a known stack is called with, or None if it has none."""
    keep = arguments.get("keep_BL")
    if isinstance(keep, Tensor):
        return keep
    padding = arguments.get("src_key_padding_mask")
    module = first_module(stack)
    if isinstance(padding, Tensor) and isinstance(module, nn.TransformerEncoder | nn.TransformerEncoderLayer):
        keep = ~padding if padding.dtype == torch.bool else padding == 0
        layer = module.layers[0] if isinstance(module, nn.TransformerEncoder) else module
        assert isinstance(layer, nn.TransformerEncoderLayer)
        return keep if layer.self_attn.batch_first or keep.ndim < 2 else keep.T
    return None


def _collect(module: nn.Module, path: str, described: list[tuple[str, nn.Module, LayerWeights]]) -> None:
    weights = describe_layer(module)
    if weights is not None:
        described.append((path, module, weights))
        return
    # named_children() leaves out repeated modules, but a layer that is listed twice is applied twice
    children = enumerate(module) if isinstance(module, nn.ModuleList | nn.Sequential) else module.named_children()
    for name, child in children:
        _collect(child, f"{path}.{name}" if path else str(name), described)


def _stray_matrices(stack: nn.Module, layers: list[nn.Module]) -> list[str]:
    inside = {id(parameter) for layer in layers for parameter in layer.parameters()}
    return [name for name, p in stack.named_parameters() if p.ndim >= 2 and id(p) not in inside]


def _how_to_describe(module: object) -> str:
    name = type(module).__name__
    return f"""{name} does not say which of its weights are value, output and MLP weights.
Add this method to the layer class (the names on the right are yours):

    from dtfixup import LayerWeights, FusedRows

    def fixup_weights(self) -> LayerWeights:
        return LayerWeights(
            value=[self.attention.value.weight],  # of a fused [q; k; v]: FusedRows(self.qkv.weight, 2 * d, 3 * d)
            output=[self.attention.output.weight],
            mlp=[self.mlp.up.weight, self.mlp.down.weight],
            relation_value=[],  # the r^v tables, if the layer is relation-aware
            unscaled=[],  # the other FusedRows of a fused weight
            norms=[],  # norms that are neither nn.LayerNorm nor nn.RMSNorm
        )

or, for a class that is not yours, register_layer({name}, function_from_layer_to_LayerWeights)."""


def _attention_rows(attention: nn.MultiheadAttention) -> tuple[list[Weight], list[Weight]]:
    """(value, unscaled) weights of PyTorch's attention, fused or not."""
    width = attention.embed_dim
    if attention._qkv_same_embed_dim:
        fused = attention.in_proj_weight
        query, key, value = (FusedRows(fused, start, start + width) for start in (0, width, 2 * width))
        return [value], [query, key]
    return [attention.v_proj_weight], [attention.q_proj_weight, attention.k_proj_weight]


def _describe_torch_layer(layer: nn.Module) -> LayerWeights:
    attention = layer.get_submodule("self_attn")
    if not (isinstance(layer, nn.TransformerEncoderLayer) and isinstance(attention, nn.MultiheadAttention)):
        raise UnsupportedLayerError(_how_to_describe(layer))
    value, unscaled = _attention_rows(attention)
    return LayerWeights(
        value=value,
        output=[layer.self_attn.out_proj.weight],
        mlp=[layer.linear1.weight, layer.linear2.weight],
        unscaled=unscaled,
        branches=[layer.self_attn, layer.linear2],
    )


register_layer(nn.TransformerEncoderLayer, _describe_torch_layer)
