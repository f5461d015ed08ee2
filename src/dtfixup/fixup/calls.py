"""Call a model on batches: arguments, devices, evaluation mode, ranks, a progress bar."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from dtfixup.errors import InputNormError

Batch = Any
"""A tensor, a tuple or list of a model's arguments, or a mapping of them by name."""


def call_arguments(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call of `module` by parameter name, in the order of its signature."""
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    return dict(bound.arguments)


def stack_input(module: nn.Module, arguments: dict[str, Any]) -> Tensor:
    """The vectors x that enter the stack: the first argument of its forward."""
    x = next(iter(arguments.values()), None)
    if isinstance(x, tuple) and x:
        x = x[0]
    if not (isinstance(x, Tensor) and x.is_floating_point() and x.ndim >= 2):
        raise InputNormError(
            f"the first argument of {type(module).__name__}.forward must be a float tensor of vectors [..., D], "
            f"got {tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__}"
        )
    return x


def run_model(model: nn.Module, batch: Batch, forward: Callable[[nn.Module, Batch], object] | None) -> object:
    """Call the model on a batch: a tensor as it is, a tuple by position, a mapping by name."""
    if forward is not None:
        return forward(model, batch)
    args, kwargs = _as_arguments(batch)
    try:
        return model(*args, **kwargs)
    except TypeError as error:
        _require_fit(model, batch, args, kwargs, error)
        raise


def _as_arguments(batch: Batch) -> tuple[Sequence[Any], Mapping[str, Any]]:
    if isinstance(batch, Mapping):
        return (), batch
    return (batch if isinstance(batch, tuple | list) else (batch,)), {}


def _require_fit(
    model: nn.Module, batch: Batch, args: Sequence[Any], kwargs: Mapping[str, Any], error: TypeError
) -> None:
    """Say what batches may be, if this one cannot be the arguments of the model."""
    signature = inspect.signature(model.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as misfit:
        call = "**batch" if kwargs else "*batch"
        raise InputNormError(
            f"a batch is a {describe_batch(batch)} and is passed as model({call}), but "
            f"{type(model).__name__}.forward takes {signature}: {misfit}. Give batches of the model's inputs alone, "
            "or say how to call it, such as forward=lambda model, batch: model(batch[0]) for (x, y)"
        ) from error


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch with its tensors on the device; other values stay as they are."""
    return map_tensors(batch, lambda tensor: tensor.to(device, non_blocking=True))


def map_tensors(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    """The batch with each of its tensors changed; a mapping comes back as a dict, a sequence as a tuple."""
    if isinstance(batch, Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {key: map_tensors(value, change) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        return tuple(map_tensors(value, change) for value in batch)
    return batch


def device_of(model: nn.Module) -> torch.device:
    """Where the model lives: the device of its first parameter or buffer."""
    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device
    return torch.device("cpu")


@contextmanager
def evaluation_mode(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Evaluation mode inside; afterwards each module has its own mode again."""
    modes = [(module, module.training) for module in modules]
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def without_fused_layers() -> Iterator[None]:
    """Inside, PyTorch's encoder layers do not fuse: fused, they pass nested tensors, which have no norms."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def distributed() -> bool:
    """Whether this process is one of several ranks."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def broadcast_(parameters: Iterable[Tensor]) -> None:
    """Every rank starts from the weights of rank 0, whatever its own random state was."""
    if distributed():
        for parameter in parameters:
            torch.distributed.broadcast(parameter.detach(), src=0)


def tracked(items: Iterable[Any], label: str, show: bool) -> Iterator[Any]:
    """The same items, with a progress bar if `show`."""
    if not show:
        yield from items
        return
    try:
        total = len(items) if isinstance(items, Sized) else None
    except TypeError:  # a DataLoader over an iterable dataset has a len() that raises
        total = None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as bar:
        yield from bar.track(items, total=total, description=label)


def describe_batch(batch: Batch) -> str:
    """Kind and size of a batch, for messages."""
    if isinstance(batch, Mapping):
        return f"mapping with keys {', '.join(map(str, batch))}"
    if isinstance(batch, Sequence):
        return f"sequence of {len(batch)}"
    return type(batch).__name__
