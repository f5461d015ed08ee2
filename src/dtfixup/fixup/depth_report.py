"""The result of a depth check: numbers, slopes, a table, a picture and JSON."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from dtfixup.errors import DepthCheckError, needs_extra
from dtfixup.files import finite_or_none, write_atomically
from dtfixup.fixup.report import as_text

MEASURES = {
    "grad_norm": "‖∂f/∂θ‖, weights",
    "grad_norm_biases": "‖∂f/∂θ‖, biases",
    "update": "‖Δf‖/η, weights",
    "update_with_biases": "‖Δf‖/η, weights and biases",
    "layer_update": "‖ΔG‖·L/η per branch",
}

_EXPLODES = 2.0  # a line with a larger slope would flatten all others


@dataclass(frozen=True)
class DepthRow:
    """One optimiser step at one depth. `layer_updates` is ||dG_l|| L / eta for each branch, from below."""

    stack: str
    strategy: str
    optimizer: str
    depth: int
    grad_norm: float
    grad_norm_biases: float
    update: float
    update_with_biases: float
    layer_updates: tuple[float, ...]

    @property
    def layer_update(self) -> float:
        """Root mean square of `layer_updates`."""
        if not self.layer_updates:
            return math.nan
        return math.hypot(*self.layer_updates) / math.sqrt(len(self.layer_updates))


@dataclass(frozen=True)
class DepthReport:
    """Rows of a depth check. Reports of several checks can be added."""

    rows: tuple[DepthRow, ...]

    def __add__(self, other: "DepthReport") -> "DepthReport":
        return DepthReport(self.rows + other.rows)

    def groups(self) -> dict[tuple[str, str, str], list[DepthRow]]:
        """Rows by (stack, strategy, optimizer), each by depth."""
        groups: dict[tuple[str, str, str], list[DepthRow]] = {}
        for row in sorted(self.rows, key=lambda row: row.depth):
            groups.setdefault((row.stack, row.strategy, row.optimizer), []).append(row)
        return groups

    def slope(self, stack: str, strategy: str, optimizer: str, measure: str) -> float | None:
        """Log-log slope of a measure against depth; None unless all values are positive and finite."""
        rows = self.groups()[stack, strategy, optimizer]
        return log_log_slope((row.depth, float(getattr(row, measure))) for row in rows)

    def to_json(self) -> dict[str, Any]:
        rows = [
            {
                "stack": row.stack,
                "strategy": row.strategy,
                "optimizer": row.optimizer,
                "depth": row.depth,
                **{measure: finite_or_none(getattr(row, measure)) for measure in MEASURES},
                "layer_updates": [finite_or_none(value) for value in row.layer_updates],
            }
            for row in self.rows
        ]
        slopes = [
            {
                "stack": stack,
                "strategy": strategy,
                "optimizer": optimizer,
                **{measure: self.slope(stack, strategy, optimizer, measure) for measure in MEASURES},
            }
            for stack, strategy, optimizer in self.groups()
        ]
        return {"rows": rows, "slopes": slopes}

    def __str__(self) -> str:
        table = Table(title="log-log slope against depth (0: independent of depth)", title_justify="left")
        for heading in ("stack", "strategy", "optimiser", "depths"):
            table.add_column(heading)
        for heading in MEASURES.values():
            table.add_column(heading, justify="right")
        for (stack, strategy, optimizer), rows in self.groups().items():
            slopes = (self.slope(stack, strategy, optimizer, measure) for measure in MEASURES)
            texts = ("-" if slope is None else signed(slope, 3) for slope in slopes)
            table.add_row(stack, strategy, optimizer, f"{rows[0].depth}-{rows[-1].depth}", *texts)
        return as_text(table)

    def plot(self, path: str | Path) -> Path:
        """Draw every measure against depth, both axes logarithmic, one row of panels per kind of stack."""
        with needs_extra("plot", "pictures"):
            from matplotlib.figure import Figure

        if not self.rows:
            raise DepthCheckError("there is nothing to plot: the report has no rows")
        panels = (
            ("sgd", "grad_norm"),
            ("sgd", "grad_norm_biases"),
            ("sgd", "update"),
            ("adam", "update"),
        )
        kinds = sorted({row.stack for row in self.rows}, reverse=True)
        figure = Figure(figsize=(4.2 * len(panels), 3.7 * len(kinds)), layout="constrained")
        axes = figure.subplots(len(kinds), len(panels), squeeze=False)
        for line, kind in enumerate(kinds):
            for column, (optimizer, measure) in enumerate(panels):
                axis = axes[line][column]
                name = "" if measure.startswith("grad") else f"{optimizer.upper() if optimizer == 'sgd' else 'Adam'}: "
                axis.set_title(f"{kind}: {name}{MEASURES[measure]}", fontsize=10)
                self._draw(axis, kind, optimizer, measure)
        kind = Path(path).suffix[1:] or "png"
        return write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=110, format=kind))

    def _draw(self, axis: Any, kind: str, optimizer: str, measure: str) -> None:
        tame: list[float] = []
        for (stack, strategy, optimised_by), rows in self.groups().items():
            if (stack, optimised_by) != (kind, optimizer):
                continue
            points = [(row.depth, getattr(row, measure)) for row in rows if _drawable(getattr(row, measure))]
            if not points:
                continue
            slope = self.slope(stack, strategy, optimised_by, measure)
            label = strategy if slope is None else f"{strategy} ({signed(slope, 2)})"
            width = 2.4 if strategy == "dt-fixup" else 1.2
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=width, label=label)
            if slope is not None and slope < _EXPLODES:
                tame += [value for _, value in points]
        depths = sorted({row.depth for row in self.rows})
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(depths, [str(depth) for depth in depths])
        axis.set_xlabel("layers N")
        axis.grid(alpha=0.3)
        if tame:  # a line that explodes leaves the panel at its top
            axis.set_ylim(min(tame) / 10, max(tame) * 1000)
        if axis.lines:
            axis.legend(fontsize=7, title="strategy (slope)", title_fontsize=7, loc="upper right")


def log_log_slope(points: Iterable[tuple[float, float]]) -> float | None:
    """Least-squares slope of log y against log x.

    >>> round(log_log_slope([(2, 8.0), (4, 16.0), (8, 32.0)]), 6)
    1.0
    """
    held = list(points)
    if len({x for x, _ in held}) < 2 or not all(_drawable(y) for _, y in held):
        return None
    xs, ys = [math.log(x) for x, _ in held], [math.log(y) for _, y in held]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - mean_x) ** 2 for x in xs)


def signed(value: float, digits: int) -> str:
    """A number with its sign, without the sign of a rounded zero.

    >>> signed(0.5, 2), signed(-0.001, 2)
    ('+0.50', '+0.00')
    """
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def _drawable(value: float) -> bool:
    return math.isfinite(value) and value > 0
