"""Schemas of boats, whose columns are all texts."""

from collections.abc import Mapping, Sequence

from dtfixup.sql.database.schema import ColumnType, Schema, Table, assemble


def boat_schema(tables: Mapping[str, Sequence[str]], *foreign_keys: tuple[str, str]) -> Schema:
    """A schema of tables with their columns, the key first; foreign keys are pairs of `table.column`."""
    names = list(tables)

    def end(text: str) -> tuple[int, list[str]]:
        table, column = text.split(".")
        return names.index(table), [column]

    return assemble(
        "boats",
        [Table(name, name.lower()) for name in tables],
        [[(name, name, ColumnType.TEXT) for name in columns] for columns in tables.values()],
        [[columns[0]] for columns in tables.values()],
        [(end(child), end(parent)) for child, parent in foreign_keys],
    )
