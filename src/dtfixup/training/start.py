"""The first weights of a task: free parameters, then the new layers by their strategy.

In: a model with a loaded encoder, batches of the training data. Out: weights in place, and the strategy's report.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import nn

from dtfixup.fixup import FixupReport, Strategy, initialise_free_, measure_input_norm

BatchT = TypeVar("BatchT")
_PROFILED = 8  # batches that strategies which profile the layers look at
_SHOWN = 8  # more batches than this take long enough for a progress bar


def initialise_new_layers(
    model: nn.Module,
    stack: nn.Module,
    encoder: nn.Module,
    strategy: Strategy,
    batches: Sequence[BatchT],
    encode: Callable[[nn.Module, BatchT], object],
    generator: torch.Generator,
) -> FixupReport:
    """Xavier outside the stack, mu over all batches where the strategy asks for it, then the strategy.

    Args:
        model: all that is trained.
        stack: the new layers in it.
        encoder: what was loaded, and stays.
        strategy: how the stack is made trainable.
        batches: the training data.
        encode: runs the model on a batch as far as the stack.
        generator: on the model's device.
    """
    initialise_free_(model, stack=stack, loaded=[encoder], generator=generator)
    input_norm = None
    if strategy.needs_input_norm:
        input_norm = measure_input_norm(model, stack, batches, forward=encode, progress=len(batches) > _SHOWN)
    return strategy.initialise_(
        stack,
        input_norm=input_norm,
        profile=lambda: [encode(model, batch) for batch in batches[:_PROFILED]],
        generator=generator,
    )
