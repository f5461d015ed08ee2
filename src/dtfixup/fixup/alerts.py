"""Judge after each step whether the theorem's assumptions about a stack still hold.

In: the norms of each step, in order, as plain numbers. Out: alerts that name the assumption that broke,
scalars for TensorBoard, and a summary for result files.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Protocol

_log = logging.getLogger("dtfixup")


class Assumption(StrEnum):
    """What must stay true for the initialisation to keep its promise."""

    INPUT_NORM = "input norm"
    GROWTH = "growth through depth"
    GRADIENT = "gradient norm"


@dataclass(frozen=True)
class Alert:
    """An assumption that broke, and when. `value` is the ratio that `limit` bounds."""

    step: int
    assumption: Assumption
    value: float
    limit: float
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class _Excursion:
    """A period above a limit: its latest step, and the ratio of its last alert."""

    step: int
    alerted: float

    def is_doubled_by(self, ratio: float) -> bool:
        return ratio > 2 * self.alerted or (math.isnan(ratio) and not math.isnan(self.alerted))


class ScalarWriter(Protocol):
    """The part of TensorBoard's `SummaryWriter` that is used."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object: ...


class Judge:
    """Compares each step with the limits and with earlier steps.

    Args:
        mu: the input norm that the factors were computed from.
        limits: the largest ratio that each assumption allows.
        every: number of steps that are judged together; twice as many below a limit end an excursion.
        writer: a TensorBoard `SummaryWriter`, or anything with its `add_scalar`.
        callback: called with each alert; alerts are also logged as warnings and kept in `alerts`.
    """

    def __init__(
        self,
        mu: float,
        limits: Mapping[Assumption, float],
        every: int,
        writer: ScalarWriter | None = None,
        callback: Callable[[Alert], object] | None = None,
    ) -> None:
        self.alerts: list[Alert] = []
        self._mu, self._limits, self._every = mu, limits, every
        self._writer, self._callback = writer, callback
        self._gradients: deque[float] = deque(maxlen=max(every, 100))
        self._excursions: dict[Assumption, _Excursion] = {}
        self._highest = {"input_norm_over_mu": 0.0, "growth": 0.0, "gradient_norm": 0.0}
        self._steps, self._steps_not_finite = 0, 0

    def judge(self, step: int, entering: float, after: Sequence[float], gradient: float) -> None:
        """Judge one step by its largest input norm, its largest norm after each layer, and its gradient norm."""
        broken = [layer for layer, norm in enumerate(after) if math.isnan(norm)]
        layer = broken[0] if broken else max(range(len(after)), key=after.__getitem__)
        growth = after[layer] / entering if entering else 0.0
        usual = median(self._gradients) if len(self._gradients) >= 10 else None
        ratios = {Assumption.INPUT_NORM: entering / self._mu, Assumption.GROWTH: growth}
        if usual:
            ratios[Assumption.GRADIENT] = gradient / usual
        elif not math.isfinite(gradient):
            ratios[Assumption.GRADIENT] = gradient
        texts = {
            Assumption.INPUT_NORM: f"input norm {entering / self._mu:.1f} × μ at step {step:,}",
            Assumption.GROWTH: f"residual stream grew {growth:.1f} × up to layer {layer + 1} at step {step:,}",
            Assumption.GRADIENT: f"gradient norm {gradient:.3g} at step {step:,}, usually {usual or 0:.3g}",
        }
        for assumption, ratio in ratios.items():
            self._compare(step, assumption, ratio, texts[assumption])
        if math.isfinite(gradient):
            self._gradients.append(gradient)
        self._keep(step, {"input_norm_over_mu": entering / self._mu, "growth": growth, "gradient_norm": gradient})

    def summary(self) -> dict[str, float]:
        """mu, the highest finite value of each scalar, and counts of alerts, steps and steps with NaN or infinity.

        All values are finite, as JSON requires.

        >>> judge = Judge(mu=2.0, limits={assumption: 9.0 for assumption in Assumption}, every=50)
        >>> judge.judge(step=0, entering=3.0, after=[3.0, 6.0], gradient=0.25)
        >>> judge.judge(step=1, entering=2.0, after=[2.0, 2.0], gradient=float("nan"))
        >>> for name, value in judge.summary().items():
        ...     print(name, value)
        mu 2.0
        highest_input_norm_over_mu 1.5
        highest_growth 2.0
        highest_gradient_norm 0.25
        alerts 1.0
        steps_watched 2.0
        steps_not_finite 1.0
        """
        return {
            "mu": self._mu,
            **{f"highest_{name}": value for name, value in self._highest.items()},
            "alerts": float(len(self.alerts)),
            "steps_watched": float(self._steps),
            "steps_not_finite": float(self._steps_not_finite),
        }

    def _compare(self, step: int, assumption: Assumption, ratio: float, text: str) -> None:
        """Alert when a limit is passed, when the ratio has doubled, and when it is passed after a quiet period."""
        limit = self._limits[assumption]
        if ratio <= limit:
            return
        last = self._excursions.get(assumption)
        if last is not None and step - last.step <= 2 * self._every and not last.is_doubled_by(ratio):
            self._excursions[assumption] = _Excursion(step, last.alerted)
            return
        self._excursions[assumption] = _Excursion(step, ratio)
        alert = Alert(step, assumption, ratio, limit, text)
        self.alerts.append(alert)
        _log.warning("%s", alert)
        if self._callback is not None:
            self._callback(alert)

    def _keep(self, step: int, scalars: dict[str, float]) -> None:
        self._steps += 1
        self._steps_not_finite += not all(map(math.isfinite, scalars.values()))
        for name, value in scalars.items():
            if math.isfinite(value):
                self._highest[name] = max(self._highest[name], value)
            if self._writer is not None:
                self._writer.add_scalar(f"dtfixup/{name}", value, step)
