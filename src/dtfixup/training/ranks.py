"""The ranks of a run: processes that train one model together, one per device.

In: a launched Fabric. Out: the rows of a batch for every rank, sums over ranks, and one decision whether to stop. With
one rank every method is free.

Before ranks exchange anything, they exchange flags on the host (`agree`). A rank that failed says so there, and all
ranks end with its message instead of waiting for it. The flags go through gloo, so no GPU waits for them.
"""

import atexit
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from lightning_fabric import Fabric
from torch import Tensor, distributed, nn

from dtfixup.errors import ConfigError, TrainingError

AnyT = TypeVar("AnyT")
_TIMEOUT = timedelta(days=1)  # an evaluation can be long; the closed socket of a dead rank is noticed at once


def launch(accelerator: str = "auto") -> Fabric:
    """Join the ranks that `torchrun` started; without it, be the only one. `fabric.device` is this rank's device."""
    ranks = int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 1
    devices = int(os.environ["LOCAL_WORLD_SIZE"]) if ranks > 1 else 1
    strategy = "ddp" if ranks > 1 else "auto"
    fabric = Fabric(accelerator=accelerator, devices=devices, num_nodes=ranks // devices, strategy=strategy)
    fabric.launch()
    if fabric.world_size > 1:
        atexit.register(_leave)
    return fabric


def _leave() -> None:
    """End gloo's threads; a process that exits before they do aborts."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


@dataclass(frozen=True)
class Request:
    """What a rank wants to do after an update. All ranks do what any rank wants."""

    stop: bool = False
    save: bool = False


_NO_REQUEST = Request()


class Ranks:
    """This rank and its view of the others."""

    def __init__(self, fabric: Fabric) -> None:
        self.rank, self.world, self.device = fabric.global_rank, fabric.world_size, fabric.device
        self._host = distributed.new_group(backend="gloo", timeout=_TIMEOUT) if self.world > 1 else None
        self._in_step = False  # True after the first `agree`; before it, ranks may wait for each other elsewhere

    @property
    def first(self) -> bool:
        """Whether this rank evaluates, logs and saves."""
        return self.rank == 0

    def rows(self, examples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """This rank's rows of a batch: every `world`-th, so that all ranks have equally many rows and empty rows."""
        missing = -len(examples) % self.world
        padded = np.pad(examples, (0, missing), constant_values=-1)
        return padded[self.rank :: self.world]

    def require_on_device(self, model: nn.Module) -> None:
        """Refuse a task that is not on this rank's device."""
        for name, parameter in model.named_parameters():
            if parameter.device != self.device:
                raise ConfigError(
                    f"{name} is on {parameter.device}, but this rank trains on {self.device}: create the task after "
                    "launch(), on fabric.device"
                )

    def share_weights(self, model: nn.Module) -> None:
        """Copy the weights of rank 0 to every rank."""
        if self.world > 1:
            for tensor in [*model.parameters(), *model.buffers()]:
                distributed.broadcast(tensor.detach(), src=0)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over the ranks; device work only."""
        if self.world > 1:
            flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
            distributed.all_reduce(flat)
            parts = flat.split([tensor.numel() for tensor in tensors])
            views = [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]
            torch._foreach_copy_(list(tensors), views)

    def agree(self, request: Request = _NO_REQUEST) -> Request:
        """The requests of all ranks together; raises the error of a rank that failed."""
        failed, stop, save = self._exchange(False, request.stop, request.save)
        self._in_step = not failed
        if failed:
            raise TrainingError("; ".join(text for text in self._gather("") if text))
        return Request(stop, save)

    def fail(self, error: BaseException) -> None:
        """Tell the other ranks, at their next `agree`, why this rank ends."""
        if self._in_step:
            self._in_step = False
            with suppress(TrainingError):  # the others have ended already
                self._exchange(True, False, False)
                self._gather(f"rank {self.rank} failed: {str(error) or type(error).__name__}")

    def gather(self, value: AnyT) -> list[AnyT]:
        """The values of all ranks, in order, on every rank."""
        self.agree()
        return self._gather(value)

    def from_first(self, value: AnyT) -> AnyT:
        """The value of rank 0, on every rank."""
        return self.gather(value)[0]

    def _exchange(self, *flags: bool) -> list[bool]:
        if self._host is None:
            return list(flags)
        sent = torch.tensor(flags, dtype=torch.int32)
        try:
            distributed.all_reduce(sent, distributed.ReduceOp.MAX, self._host)
        except RuntimeError as error:
            self._in_step = False
            raise TrainingError("another rank ended without an error message: see its output above") from error
        return [bool(flag) for flag in sent.tolist()]

    def _gather(self, value: AnyT) -> list[AnyT]:
        if self._host is None:
            return [value]
        values: list[Any] = [None] * self.world
        distributed.all_gather_object(values, value, self._host)
        return values
