"""The processes that train one model together, one per device: launched by Fabric, in step by agreement.

In: a launched Fabric. Out: each rank's rows of a batch, sums over ranks, and one answer to whether to stop. Alone,
every method is free.

Whenever ranks meet, they first exchange a word on the host (`agree`): a rank that failed says so there, and all end
with its message instead of waiting for it. The words go through gloo, so no GPU waits for them.
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
_PATIENCE = timedelta(days=1)  # an evaluation can be long; a rank that dies is noticed at once, by its closed socket


def launch(devices: int | None = None, *, accelerator: str = "auto", nodes: int = 1) -> Fabric:
    """Start the ranks, or take one's place among those that `torchrun` started; `fabric.device` is this rank's.

    Without `torchrun`, more than one device runs the same command line once more for each of the others.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    devices = devices or 1
    strategy = "ddp" if devices * nodes > 1 else "auto"
    fabric = Fabric(accelerator=accelerator, devices=devices, num_nodes=nodes, strategy=strategy)
    fabric.launch()
    if fabric.world_size > 1:
        atexit.register(_leave)
    return fabric


def _leave() -> None:
    """Gloo's threads must end before the process does, or it aborts at its exit."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


@dataclass(frozen=True)
class Wish:
    """What a rank would do after this update; all do what any wishes."""

    stop: bool = False
    save: bool = False


_NO_WISH = Wish()


class Ranks:
    """This process among the others."""

    def __init__(self, fabric: Fabric) -> None:
        self.rank, self.world, self.device = fabric.global_rank, fabric.world_size, fabric.device
        self._host = distributed.new_group(backend="gloo", timeout=_PATIENCE) if self.world > 1 else None
        self._talking = False  # from the first agreement on; before it, ranks may wait for each other elsewhere

    @property
    def first(self) -> bool:
        """Whether this rank is the one that evaluates, logs and saves."""
        return self.rank == 0

    def rows(self, examples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """This rank's rows of a batch: every `world`-th, so that all have as many and share the filling."""
        missing = -len(examples) % self.world
        padded = np.pad(examples, (0, missing), constant_values=-1)
        return padded[self.rank :: self.world]

    def require_on_device(self, model: nn.Module) -> None:
        """The task was made on this rank's device."""
        for name, parameter in model.named_parameters():
            if parameter.device != self.device:
                raise ConfigError(
                    f"{name} is on {parameter.device}, but this rank trains on {self.device}: make the task after "
                    "launch(), on fabric.device"
                )

    def share_weights(self, model: nn.Module) -> None:
        """Every rank gets the weights of rank 0."""
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

    def agree(self, wish: Wish = _NO_WISH) -> Wish:
        """What any rank wishes; the error of another rank, where one failed."""
        failed, stop, save = self._exchange(False, wish.stop, wish.save)
        self._talking = not failed
        if failed:
            raise TrainingError("; ".join(text for text in self._gather("") if text))
        return Wish(stop, save)

    def fail(self, error: BaseException) -> None:
        """Tell the others, who come to `agree` sooner or later, why this rank ends."""
        if self._talking:
            self._talking = False
            with suppress(TrainingError):  # they are gone already
                self._exchange(True, False, False)
                self._gather(f"rank {self.rank} failed: {str(error) or type(error).__name__}")

    def gather(self, value: AnyT) -> list[AnyT]:
        """The values of all ranks, in order, on every rank."""
        self.agree()
        return self._gather(value)

    def tell(self, value: AnyT) -> AnyT:
        """The value of rank 0, on every rank."""
        return self.gather(value)[0]

    def _exchange(self, *flags: bool) -> list[bool]:
        if self._host is None:
            return list(flags)
        word = torch.tensor(flags, dtype=torch.int32)
        try:
            distributed.all_reduce(word, distributed.ReduceOp.MAX, self._host)
        except RuntimeError as error:
            self._talking = False
            raise TrainingError("another rank ended without a word: see its output above") from error
        return [bool(flag) for flag in word.tolist()]

    def _gather(self, value: AnyT) -> list[AnyT]:
        if self._host is None:
            return [value]
        found: list[Any] = [None] * self.world
        distributed.all_gather_object(found, value, self._host)
        return found
