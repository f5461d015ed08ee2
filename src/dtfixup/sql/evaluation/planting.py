"""Plant rows that a query looks for among random ones.

In: the columns of a variant, and a `Witness`. Out: the same columns, changed so that some rows satisfy the witness.
Keys keep their values, so rows are first chosen by their keys, then joined, and only then changed. If a query joins a
foreign key to another column than the schema does, the join of the query counts.
"""

import random
import re
from collections.abc import Mapping
from typing import Any

from dtfixup.sql.database.schema import Schema
from dtfixup.sql.evaluation.witnesses import CellCondition, GroupSize, Witness, WitnessCell

_EDGES = 0.2
"""The share of values just outside what a condition allows."""
_DIGITS = re.compile(r"\d+")


def nearby_value(value: Any, rng: random.Random, direction: int = 0) -> Any:
    """A value of the same type just above another (direction 1), just below (-1), or either (0)."""
    step = direction or rng.choice((-1, 1))
    if isinstance(value, int):
        return value + step * rng.randint(1, 3)
    if isinstance(value, float):
        return value + step * rng.choice((0.5, 1, abs(value) / 10))
    if isinstance(value, str) and (match := _DIGITS.search(value)):
        digits = match.group()
        moved = max(int(digits) + step, 0)
        return f"{value[: match.start()]}{moved:0{len(digits)}}{value[match.end() :]}"
    if isinstance(value, str):
        return f"{value}{rng.choice('abcs')}" if step > 0 or len(value) < 2 else value[:-1]
    return value


class Planter:
    """Changes the cells of one variant: `cells[column][row]`. Values of `keys` are never changed."""

    def __init__(
        self, schema: Schema, witness: Witness, cells: Mapping[int, list[Any]], keys: frozenset[int], rng: random.Random
    ) -> None:
        self._schema = schema
        self._witness = witness
        self._cells = cells
        self._keys = keys
        self._rng = rng
        self._parents = {own: referred for own, referred in schema.foreign_pairs if own in cells and referred in cells}
        self._rows: dict[tuple[int, int], int] = {}
        self._fixed: set[WitnessCell] = set()

    def plant(self) -> set[tuple[int, int]]:
        """Change one row for each slot so that together they satisfy the witness; returns their (table, row) pairs."""
        self._fixed = set()
        self._rows = {}
        for part, table in self._witness.slots:
            own = self._schema.columns_of[table]
            if own[-1] in self._cells:
                self._rows[part, table] = self._rng.randrange(len(self._cells[own[-1]]))
        conditions = [condition for condition in self._witness.conditions if self._slot(condition.cell) in self._rows]
        free = [condition for condition in conditions if self._is_free(condition.cell.column)]
        for condition in conditions:
            if condition not in free:
                self._choose_row(condition)
        for left, right in self._witness.pairs:
            if self._slot(left) in self._rows and self._slot(right) in self._rows:
                self._equalise(left, right)
        for condition in free:
            # Most values satisfy `!=` as they are.
            if condition.operator != "!=" or self._rng.random() < _EDGES:
                self._set(condition.cell, self._satisfying_value(condition))
        planted = {(table, row) for (_, table), row in self._rows.items()}
        for group in self._witness.groups:
            planted |= self._repeat(group)
        return planted

    def _slot(self, cell: WitnessCell) -> tuple[int, int]:
        return cell.part, self._schema.columns[cell.column].table

    def _get(self, cell: WitnessCell) -> Any:
        return self._cells[cell.column][self._rows[self._slot(cell)]]

    def _set(self, cell: WitnessCell, value: Any) -> None:
        self._cells[cell.column][self._rows[self._slot(cell)]] = value

    def _is_free(self, column: int) -> bool:
        return column not in self._keys and column not in self._parents

    def _choose_row(self, condition: CellCondition) -> None:
        """Choose a row that satisfies a condition on a key; a foreign key takes the value if its parent has it."""
        cell = condition.cell
        value = self._satisfying_value(condition)
        if cell.column in self._keys:
            self._take_row(cell, value)
        elif value in self._cells[self._parents[cell.column]]:
            self._set(cell, value)
            self._fixed.add(cell)

    def _take_row(self, cell: WitnessCell, value: Any) -> None:
        values = self._cells[cell.column]
        if value in values:
            self._rows[self._slot(cell)] = values.index(value)

    def _equalise(self, left: WitnessCell, right: WitnessCell) -> None:
        """Make two cells equal: a key keeps its value, and a foreign key takes that of its parent."""
        child, parent = left, right
        if self._parents.get(left.column) != right.column and (
            self._parents.get(right.column) == left.column or left.column in self._keys
        ):
            child, parent = right, left
        if child.column in self._keys or child in self._fixed:
            self._take_row(parent, self._get(child))
        else:
            self._set(child, self._get(parent))
            self._fixed.add(child)

    def _satisfying_value(self, condition: CellCondition) -> Any:
        """A value that satisfies a condition, or now and then one that just fails it."""
        low = condition.literals[0]
        if condition.operator == "between":
            return self._rng.choice([*condition.literals, nearby_value(low, self._rng, 1)])
        if condition.operator in (">", "<") and self._rng.random() > _EDGES:
            return nearby_value(low, self._rng, 1 if condition.operator == ">" else -1)
        if condition.operator == "like" and isinstance(low, str):
            filling = self._rng.choice(("", "a", "the "))
            return low.replace("%", filling).replace("_", "a")
        return low

    def _repeat(self, group: GroupSize) -> set[tuple[int, int]]:
        """Give enough rows the value of the group, in its column or in one joined to it."""
        cell = group.cell
        if cell.column in self._keys:
            joined = [other for pair in self._witness.pairs if cell in pair for other in pair if other != cell]
            cell = next((other for other in joined if other.column not in self._keys), cell)
        table = self._schema.columns[cell.column].table
        values = self._cells.get(cell.column, [])
        if cell.column in self._keys or self._slot(cell) not in self._rows or len(values) < group.size:
            return set()
        # The rows of a group must pass the conditions too.
        slot = self._slot(cell)
        others = {condition.cell for condition in self._witness.conditions if self._slot(condition.cell) == slot}
        shared = [cell, *(other for other in others if self._is_free(other.column))]
        rows = self._rng.sample(range(len(values)), group.size)
        for own in shared:
            value = self._get(own)
            for row in rows:
                self._cells[own.column][row] = value
        return {(table, row) for row in rows}
