"""Xavier for the free parameters of a model: those that are neither loaded nor in the new stack."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from dtfixup.fixup.calls import broadcast_
from dtfixup.fixup.layers import Stack, bias_parameters, modules_of
from dtfixup.fixup.no_norm import NORMS

_ALL_NORMS = (*NORMS, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)


def initialise_free_(
    model: nn.Module,
    *,
    stack: Stack,
    loaded: Iterable[nn.Module],
    generator: torch.Generator | None = None,
) -> list[str]:
    """Xavier on the free parameters outside the stack; returns their names.

    Call it before `measure_input_norm`: a projection below the stack decides the input norm.
    Parameters of the `loaded` modules and of the stack stay as they are, and so do norms and vectors other than
    biases.
    """
    held = [*loaded, *(module for _, module in modules_of(stack))]
    spared = {parameter for module in held for parameter in module.parameters()}
    spared |= {
        parameter for module in model.modules() if isinstance(module, _ALL_NORMS) for parameter in module.parameters()
    }
    fused = {parameter: count for module in model.modules() for parameter, count in _fused(module)}
    biases = bias_parameters(model.modules())
    done: dict[str, nn.Parameter] = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter in spared:
                continue
            if parameter in biases:
                parameter.zero_()
            elif parameter.ndim >= 2:
                for matrix in parameter.chunk(fused.get(parameter, 1)):
                    nn.init.xavier_uniform_(matrix, generator=generator)
            else:
                continue
            done[name] = parameter
        for module in model.modules():
            if isinstance(module, nn.Embedding) and module.padding_idx is not None and module.weight not in spared:
                module.weight[module.padding_idx].zero_()
    broadcast_(done.values())
    return list(done)


def _fused(module: nn.Module) -> Iterator[tuple[Tensor, int]]:
    """Parameters that hold several matrices on top of each other, and how many."""
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        gates = 4 if isinstance(module, nn.LSTM | nn.LSTMCell) else 3 if isinstance(module, nn.GRU | nn.GRUCell) else 1
        for parameter in module.parameters():
            if parameter.ndim == 2 and len(parameter) == gates * module.hidden_size:
                yield parameter, gates
    elif isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
        yield module.in_proj_weight, 3
