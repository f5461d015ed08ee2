"""Ends a run that skips too many updates."""

import math
from collections import deque
from collections.abc import Iterable

from dtfixup.training.config import TrainingConfig

WINDOW = 1000
"""Number of recent updates among which skipped ones are counted."""

StepRow = tuple[float, float, bool]
"""Loss, gradient norm, and whether the update was skipped."""


class Health:
    """Counts skipped updates."""

    def __init__(self, config: TrainingConfig) -> None:
        self._config = config
        self._recent: deque[bool] = deque(maxlen=WINDOW)
        self._in_a_row = 0

    def problem(self, rows: Iterable[StepRow], first_step: int) -> str | None:
        """Why the run should end after these updates, or None.

        >>> Health(TrainingConfig(skipped_in_a_row=2)).problem([(1, 1, False), (9, 99, True), (9, 99, True)], 7)
        '2 updates in a row were skipped, up to step 9; the last had loss 9 and gradient norm 99'
        """
        for step, (loss, norm, skipped) in enumerate(rows, first_step):
            bad = skipped or not math.isfinite(loss)
            self._recent.append(bad)
            self._in_a_row = self._in_a_row + 1 if bad else 0
            last = f"up to step {step:,}; the last had loss {loss:.4g} and gradient norm {norm:.4g}"
            if self._in_a_row >= self._config.skipped_in_a_row:
                return f"{self._in_a_row} updates in a row were skipped, {last}"
            if sum(self._recent) > self._config.skipped_share * WINDOW:
                return f"{sum(self._recent)} of the last {len(self._recent):,} updates were skipped, {last}"
        return None
