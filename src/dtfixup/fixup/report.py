"""What an initialisation did: a summary by role (`print`), every tensor (`table`), and a form for files (`to_json`)."""

import math
from collections.abc import Iterable, Sequence
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
        """A line for each role: how many tensors, their joint norm before and after, and the factor."""
        rows = []
        for role in Role:
            if members := [tensor for tensor in self.tensors if tensor.role is role]:
                before, after = (
                    math.hypot(*(getattr(tensor, name) for tensor in members)) for name in ("norm_before", "norm_after")
                )
                factors = sorted({tensor.factor for tensor in members})
                factor = " to ".join(f"{value:.6g}" for value in {factors[0]: 0, factors[-1]: 0})
                rows.append((role.value, str(len(members)), f"{before:.4f}", factor, f"{after:.4f}"))
        removed = f"layer norms removed: {len(self.norms_removed)}; every tensor: report.table()"
        return f"{self._rendered(('role',), ('tensors', 'norm before', 'factor', 'norm after'), rows)}\n{removed}"

    def table(self) -> str:
        """A line for each tensor, and the names of the layer norms that were removed."""
        rows = [
            (
                tensor.name,
                tensor.role.value,
                " x ".join(map(str, tensor.shape)) or "scalar",
                f"{tensor.norm_before:.4f}",
                f"{tensor.factor:.6g}",
                f"{tensor.norm_after:.4f}",
            )
            for tensor in self.tensors
        ]
        table = self._rendered(("tensor", "role", "shape"), ("norm before", "factor", "norm after"), rows)
        return f"{table}\nlayer norms removed: {', '.join(self.norms_removed) or 'none'}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def _rendered(self, texts: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
        kinds = f"{self.relation_layers} relation-aware, {self.layers - self.relation_layers} vanilla"
        mu = "" if self.input_norm is None else f", input norm mu = {self.input_norm:.6g}"
        table = Table()
        for heading in texts:
            table.add_column(heading, no_wrap=True)
        for heading in numbers:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        return f"{self.strategy}: {self.layers} layers ({kinds}){mu}\n{as_text(table)}"


def as_text(table: Table) -> str:
    """A table as plain lines of at most 200 characters."""
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
