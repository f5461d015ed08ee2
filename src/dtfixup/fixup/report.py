"""What an initialisation did, tensor by tensor, for people (`print`) and for files (`to_json`)."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from dtfixup.fixup.layers import Role


@dataclass(frozen=True)
class TensorReport:
    """One logical matrix or vector: its Frobenius norm after Xavier, the factor, and the norm now."""

    name: str
    role: Role
    shape: tuple[int, ...]
    norm_before: float
    factor: float
    norm_after: float

    @property
    def measured_factor(self) -> float:
        """norm_after / norm_before; NaN for a tensor of zeros."""
        return self.norm_after / self.norm_before if self.norm_before else math.nan


@dataclass(frozen=True)
class FixupReport:
    """What was done to a stack. `input_norm` is mu, where the strategy uses one."""

    strategy: str
    layers: int
    relation_layers: int
    input_norm: float | None
    tensors: tuple[TensorReport, ...]
    norms_removed: tuple[str, ...]
    padding_left_out: bool = False

    def __str__(self) -> str:
        kinds = f"{self.relation_layers} relation-aware, {self.layers - self.relation_layers} vanilla"
        mu = "" if self.input_norm is None else f", input norm mu = {self.input_norm:.6g}"
        table = Table(title=f"{self.strategy}: {self.layers} layers ({kinds}){mu}", title_justify="left")
        for heading in ("tensor", "role", "shape"):
            table.add_column(heading, no_wrap=True)
        for heading in ("norm before", "factor", "norm after"):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in self.tensors:
            shape = " x ".join(map(str, row.shape)) or "scalar"
            numbers = (f"{row.norm_before:.4f}", f"{row.factor:.6g}", f"{row.norm_after:.4f}")
            table.add_row(row.name, row.role.value, shape, *numbers)
        removed = ", ".join(self.norms_removed) or "none"
        console = Console(width=200, color_system=None)
        with console.capture() as capture:
            console.print(table)
        lines = (line.rstrip() for line in capture.get().splitlines())
        return "\n".join((*lines, f"layer norms removed: {removed}"))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
