"""Relations between the items of an input, question words, columns and tables, as in RAT-SQL.

In: a schema. Out: the `Relation` ids among its columns and tables. The matrix of an input, over
[words | columns | tables], has two more parts: a question's links (`Links.codes`) and the distances of its words. The
model's batches put the parts together. Axes: C columns (with each table's `*`), T tables.
"""

from enum import IntEnum, auto

import numpy as np
from numpy.typing import NDArray

from dtfixup.sql.database.schema import Schema

Codes = NDArray[np.uint8]

DISTANCE = 2
"""Word distances are clipped at this many words."""


class Match(IntEnum):
    """How a question word matches a column or table; a later one replaces an earlier, but an exact name a value."""

    NONE = 0
    PARTIAL = 1
    EXACT = 2
    VALUE = 3
    """The word is (part of) a value of the column. Departs: the paper counts it as exact."""


class Relation(IntEnum):
    """The relation of the second item to the first; X_Y reads 'from an X to a Y'."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:
        return count

    WORD_TWO_OR_MORE_BEFORE = auto()
    WORD_BEFORE = auto()
    WORD_SAME = auto()
    WORD_AFTER = auto()
    WORD_TWO_OR_MORE_AFTER = auto()

    WORD_COLUMN_NONE = auto()
    WORD_COLUMN_PARTIAL = auto()
    WORD_COLUMN_EXACT = auto()
    WORD_COLUMN_VALUE = auto()
    COLUMN_WORD_NONE = auto()
    COLUMN_WORD_PARTIAL = auto()
    COLUMN_WORD_EXACT = auto()
    COLUMN_WORD_VALUE = auto()

    WORD_TABLE_NONE = auto()
    WORD_TABLE_PARTIAL = auto()
    WORD_TABLE_EXACT = auto()
    TABLE_WORD_NONE = auto()
    TABLE_WORD_PARTIAL = auto()
    TABLE_WORD_EXACT = auto()

    WORD_STAR_NONE = auto()
    """A table's `*` has no name: words match it as they match its table."""
    WORD_STAR_PARTIAL = auto()
    WORD_STAR_EXACT = auto()
    STAR_WORD_NONE = auto()
    STAR_WORD_PARTIAL = auto()
    STAR_WORD_EXACT = auto()

    COLUMN_COLUMN_NONE = auto()
    COLUMN_COLUMN_SAME = auto()
    COLUMN_COLUMN_SAME_TABLE = auto()
    COLUMN_COLUMN_FOREIGN_FORWARD = auto()
    """The first is a foreign key to the second."""
    COLUMN_COLUMN_FOREIGN_BACKWARD = auto()

    COLUMN_TABLE_NONE = auto()
    COLUMN_TABLE_PRIMARY = auto()
    """The column is the table's key, or part of it."""
    COLUMN_TABLE_BELONGS = auto()
    COLUMN_TABLE_FOREIGN = auto()
    """The column refers to the table."""
    TABLE_COLUMN_NONE = auto()
    TABLE_COLUMN_PRIMARY = auto()
    TABLE_COLUMN_BELONGS = auto()
    TABLE_COLUMN_FOREIGN = auto()

    TABLE_TABLE_NONE = auto()
    TABLE_TABLE_SAME = auto()
    TABLE_TABLE_FOREIGN_FORWARD = auto()
    TABLE_TABLE_FOREIGN_BACKWARD = auto()
    TABLE_TABLE_FOREIGN_BOTH = auto()

    STAR_STAR_NONE = auto()
    STAR_STAR_SAME = auto()
    STAR_STAR_FOREIGN_FORWARD = auto()
    """The first's table refers to the second's."""
    STAR_STAR_FOREIGN_BACKWARD = auto()
    STAR_STAR_FOREIGN_BOTH = auto()
    STAR_COLUMN_NONE = auto()
    STAR_COLUMN_SAME_TABLE = auto()
    COLUMN_STAR_NONE = auto()
    COLUMN_STAR_SAME_TABLE = auto()
    STAR_TABLE_NONE = auto()
    STAR_TABLE_OWN = auto()
    TABLE_STAR_NONE = auto()
    TABLE_STAR_OWN = auto()


def schema_relations(schema: Schema) -> Codes:
    """[C + T, C + T]: relations of a schema's columns and tables among themselves."""
    table_C = np.array([column.table for column in schema.columns])
    star_C = np.zeros(len(schema.columns), bool)
    star_C[list(schema.stars)] = True
    tables = len(schema.tables)
    refers_TT = np.zeros((tables, tables), bool)
    refers_CC = np.zeros((len(table_C), len(table_C)), bool)
    for column, referred in schema.foreign_pairs:
        refers_CC[column, referred] = True
        refers_TT[table_C[column], table_C[referred]] = True

    between_TT = np.full((tables, tables), Relation.TABLE_TABLE_NONE, np.uint8)
    between_TT[refers_TT] = Relation.TABLE_TABLE_FOREIGN_FORWARD
    between_TT[refers_TT.T] = Relation.TABLE_TABLE_FOREIGN_BACKWARD
    between_TT[refers_TT & refers_TT.T] = Relation.TABLE_TABLE_FOREIGN_BOTH
    np.fill_diagonal(between_TT, Relation.TABLE_TABLE_SAME)

    among_CC = _among_columns(table_C, star_C, refers_CC, between_TT)
    to_CT = _columns_to_tables(schema, table_C, star_C, refers_CC)
    return np.block([[among_CC, to_CT], [_seen_from_tables(to_CT, star_C), between_TT]])


def _among_columns(
    table_C: NDArray[np.int_], star_C: NDArray[np.bool_], refers_CC: NDArray[np.bool_], between_TT: Codes
) -> Codes:
    same_table_CC = table_C[:, None] == table_C
    among_CC = np.where(same_table_CC, Relation.COLUMN_COLUMN_SAME_TABLE, Relation.COLUMN_COLUMN_NONE).astype(np.uint8)
    among_CC[refers_CC] = Relation.COLUMN_COLUMN_FOREIGN_FORWARD
    among_CC[refers_CC.T] = Relation.COLUMN_COLUMN_FOREIGN_BACKWARD
    np.fill_diagonal(among_CC, Relation.COLUMN_COLUMN_SAME)
    to_star = star_C[None, :] & ~star_C[:, None]
    from_star = star_C[:, None] & ~star_C[None, :]
    among_CC[to_star] = np.where(same_table_CC, Relation.COLUMN_STAR_SAME_TABLE, Relation.COLUMN_STAR_NONE)[to_star]
    among_CC[from_star] = np.where(same_table_CC, Relation.STAR_COLUMN_SAME_TABLE, Relation.STAR_COLUMN_NONE)[from_star]
    stars = star_C.nonzero()[0]
    among_CC[np.ix_(stars, stars)] = between_TT + (Relation.STAR_STAR_NONE - Relation.TABLE_TABLE_NONE)
    return among_CC


def _columns_to_tables(
    schema: Schema, table_C: NDArray[np.int_], star_C: NDArray[np.bool_], refers_CC: NDArray[np.bool_]
) -> Codes:
    belongs_CT = table_C[:, None] == np.arange(len(schema.tables))
    foreign_CT = np.zeros_like(belongs_CT)
    column, referred = refers_CC.nonzero()
    foreign_CT[column, table_C[referred]] = True
    primary_CT = np.zeros_like(belongs_CT)
    for table, key in enumerate(schema.primary_keys):
        primary_CT[list(key), table] = True
    to_CT = np.full(belongs_CT.shape, Relation.COLUMN_TABLE_NONE, np.uint8)
    to_CT[foreign_CT] = Relation.COLUMN_TABLE_FOREIGN
    to_CT[belongs_CT] = Relation.COLUMN_TABLE_BELONGS
    to_CT[primary_CT] = Relation.COLUMN_TABLE_PRIMARY
    to_CT[star_C] = np.where(belongs_CT[star_C], Relation.STAR_TABLE_OWN, Relation.STAR_TABLE_NONE)
    return to_CT


def _seen_from_tables(to_CT: Codes, star_C: NDArray[np.bool_]) -> Codes:
    """[T, C]: the same relations from a table to a column."""
    shift = np.where(
        star_C,
        Relation.TABLE_STAR_NONE - Relation.STAR_TABLE_NONE,
        Relation.TABLE_COLUMN_NONE - Relation.COLUMN_TABLE_NONE,
    )
    return (to_CT.T + shift).astype(np.uint8)
