"""SQL under construction: tables that are joined step by step, and the text that comes of it.

In: columns by index. Out: SQL that `SqlReader` reads. Names are quoted and every table has an alias, whatever it needs:
`SqlWriter` writes the query again as Spider writes its queries.
"""

from collections.abc import Sequence

from dtfixup.sql.database.schema import Schema, quoted
from dtfixup.sql.language.quantities import plain_number
from dtfixup.sql.synthesis.phrases.domain import Step


class Query:
    """One SELECT; tables are known by their place in the FROM clause, from 0."""

    def __init__(self, schema: Schema, table: int) -> None:
        self.schema = schema
        self.tables = [table]
        self._from = [f"{quoted(schema.tables[table].name)} AS t0"]

    def join(self, step: Step, at: int = 0) -> int:
        """Join the table that a step leads to; its place."""
        source, target = step
        place = len(self.tables)
        table = self.schema.columns[target].table
        self.tables.append(table)
        name = quoted(self.schema.tables[table].name)
        self._from.append(f"JOIN {name} AS t{place} ON {self.column(source, at)} = {self.column(target, place)}")
        return place

    def walk(self, steps: Sequence[Step], at: int = 0) -> int:
        """Join all tables along a way; the place of the last."""
        for step in steps:
            at = self.join(step, at)
        return at

    def column(self, column: int, at: int = 0) -> str:
        if self.schema.is_star(column):
            return "*"
        return f"t{at}.{quoted(self.schema.columns[column].name)}"

    def sql(
        self,
        shown: Sequence[str],
        where: str | None = None,
        *,
        group: Sequence[str] = (),
        having: str | None = None,
        order: Sequence[str] = (),
        limit: int | None = None,
        is_distinct: bool = False,
    ) -> str:
        """The query as text."""
        parts = [f"SELECT {'DISTINCT ' if is_distinct else ''}{', '.join(shown)} FROM {' '.join(self._from)}"]
        parts += [f"WHERE {where}"] if where else []
        parts += [f"GROUP BY {', '.join(group)}"] if group else []
        parts += [f"HAVING {having}"] if having else []
        parts += [f"ORDER BY {', '.join(order)}"] if order else []
        parts += [f"LIMIT {limit}"] if limit is not None else []
        return " ".join(parts)


def literal(text: str) -> str:
    """A value as SQL writes it: numbers bare, texts quoted.

    >>> literal("12"), literal("O'Hara")
    ('12', "'O''Hara'")
    """
    return text if plain_number(text) == text else quoted_text(text)


def quoted_text(text: str) -> str:
    """A text in quotes, figures too."""
    return "'" + text.replace("'", "''") + "'"
