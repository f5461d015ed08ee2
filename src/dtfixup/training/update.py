"""One optimiser update, all on the device: norm, skip, clip, Adam, moving average.

In: parameters with gradients. Out: updated parameters. Nothing here reads a number from the device, so a CUDA graph can
hold it. The learning rate is a tensor that is written between steps. Fused Adam does the skipping (`found_inf` of 1
leaves everything unchanged) and the clipping (it divides the gradients by `grad_scale`).

An update is skipped if its gradient norm is not finite, or more than `spike` times the usual norm: without layer norms,
one such update can undo thousands of good steps (see `watch`). The usual norm is a moving average over the updates that
were not skipped. It counts as at least `clip`: late in a run most gradients are nearly zero, and a single hard example
must not be skipped.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dtfixup.errors import ConfigError


@dataclass(frozen=True)
class UpdateConfig:
    """One update; the defaults are the paper's for text-to-SQL."""

    learning_rate: float = 4e-4
    """Learning rate of the new layers; parameter groups multiply it by their factor."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decay rates."""
    epsilon: float = 1e-8
    """Adam's epsilon."""
    weight_decay: float = 0.0
    """Decoupled weight decay, as in AdamW."""
    clip: float = 5.0
    """Largest gradient norm."""
    spike: float = 20.0
    """Skip an update whose gradient norm is this many times the usual norm (at least the clip)."""
    average: float = 0.0
    """Decay of the moving average of the weights; 0 keeps no average."""

    def __post_init__(self) -> None:
        if not (self.learning_rate > 0 and self.clip > 0 and self.epsilon > 0 and self.spike > 1):
            raise ConfigError("the learning rate, clip and epsilon must be above 0, spike above 1")
        if not (all(0 <= beta < 1 for beta in self.betas) and self.weight_decay >= 0):
            raise ConfigError("betas lie between 0 and 1, and weight decay is not negative")
        if not 0 <= self.average < 1:
            raise ConfigError(f"average is a decay below 1, such as 0.999; got {self.average}")


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a learning rate: `factor` times the run's."""

    name: str
    parameters: tuple[nn.Parameter, ...]
    factor: float = 1.0


class Updater:
    """Adam over groups of parameters, with clipping, skipping and averaging."""

    def __init__(self, groups: Sequence[ParameterGroup], config: UpdateConfig) -> None:
        self.groups = [group for group in groups if group.parameters]
        if not self.groups:
            raise ConfigError("there is no parameter to train")
        self.config = config
        self.parameters: list[Tensor] = [parameter for group in self.groups for parameter in group.parameters]
        device = self.parameters[0].device
        self.rates = [torch.zeros((), device=device) for _ in self.groups]
        rated = zip(self.groups, self.rates, strict=True)
        self.optimizer = torch.optim.AdamW(
            [{"params": list(group.parameters), "lr": rate} for group, rate in rated],
            betas=config.betas,
            eps=config.epsilon,
            weight_decay=config.weight_decay,
            fused=True,
            capturable=device.type == "cuda",
        )
        self.norm, self.usual, self.skip = (torch.zeros((), device=device) for _ in range(3))
        self.averages = [parameter.detach().clone() for parameter in self.parameters] if config.average else []
        self._make_state()

    def _make_state(self) -> None:
        """Create Adam's moments by a skipped step: a CUDA graph must find them in place."""
        for parameter in self.parameters:
            parameter.grad = torch.zeros_like(parameter)
        self._adam(torch.ones_like(self.norm), torch.ones_like(self.norm))
        for parameter in self.parameters:
            parameter.grad = None

    def set_rate(self, factor: float) -> None:
        """Set the schedule's factor for the next update."""
        for group, rate in zip(self.groups, self.rates, strict=True):
            rate.fill_(self.config.learning_rate * group.factor * factor)

    @torch.no_grad()
    def apply_(self) -> None:
        """Update the parameters from their gradients, or skip."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norm = nn.utils.get_total_norm(gradients).float()
        started = self.usual > 0
        skip = ~torch.isfinite(norm) | (started & (norm > self.config.spike * self.usual.clamp_min(self.config.clip)))
        self._adam((norm / self.config.clip).clamp_min(1.0), skip.float())
        taken = torch.where(started, self.usual.lerp(norm, 0.01), norm)
        self.usual.copy_(torch.where(skip, self.usual, taken))
        self.norm.copy_(norm)
        self.skip.copy_(skip.float())
        if self.averages:
            torch._foreach_lerp_(self.averages, self.parameters, 1 - self.config.average)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Put the moving average, if there is one, in place of the weights; restore the weights afterwards."""
        held = [parameter.detach().clone() for parameter in self.parameters] if self.averages else []
        self._put(self.averages)
        try:
            yield
        finally:
            self._put(held)

    def take_average_(self) -> None:
        """Replace the weights by their moving average, if there is one."""
        self._put(self.averages)

    @torch.no_grad()
    def _put(self, weights: list[Tensor]) -> None:
        if weights:
            torch._foreach_copy_(self.parameters, weights)

    def _adam(self, divisor: Tensor, skip: Tensor) -> None:
        self.optimizer.grad_scale = divisor  # type: ignore[attr-defined]
        self.optimizer.found_inf = skip  # type: ignore[attr-defined]
        self.optimizer.step()


def parameter_groups(model: nn.Module, factors: Iterable[tuple[str, nn.Module, float]]) -> list[ParameterGroup]:
    """The trainable parameters of every named module with its factor, and all others with factor 1."""
    groups: list[ParameterGroup] = []
    taken: set[nn.Parameter] = set()
    for name, module, factor in factors:
        own = tuple(parameter for parameter in module.parameters() if parameter.requires_grad)
        taken.update(own)
        groups.append(ParameterGroup(name, own, factor))
    rest = tuple(p for p in model.parameters() if p.requires_grad and p not in taken)
    return [*groups, ParameterGroup("new", rest)]
