"""Foreign keys that nobody declared, found by names.

In: the schema of a live database. Out: the same with more foreign keys. Many databases declare none, and without them
tables are joined by nothing. A column is taken for a key where its name says so: `animal_id` points at the key `id` or
`animal_id` of the table `animals`, `home_team_id` at that of `team`, and a column that is called as another table's key
points at that key. Types agree, and what is declared is left as it is.
"""

from dataclasses import replace

from dtfixup.sql.database.schema import ForeignKey, Schema
from dtfixup.sql.language.words import name_lemmas

_ID = "id"


def with_implied_keys(schema: Schema) -> Schema:
    """The schema with the foreign keys that names imply; the same one where there are none."""
    keys = [_key(schema, table) for table in range(len(schema.tables))]
    declared = {source for source, _ in schema.foreign_pairs}
    found = []
    for index, column in enumerate(schema.columns):
        if schema.is_star(index) or index in declared or index == keys[column.table]:
            continue
        target = _target(schema, index, keys)
        if target is not None:
            found.append(ForeignKey((index,), (target,)))
    return replace(schema, foreign_keys=(*schema.foreign_keys, *found)) if found else schema


def _key(schema: Schema, table: int) -> int | None:
    """The only column of a table's key; its first column where none is declared and that is called as keys are."""
    if declared := schema.primary_keys[table]:
        return declared[0] if len(declared) == 1 else None
    columns = schema.columns_of[table][1:]
    if schema.tables[table].is_view or not columns or not _is_own_id(schema, columns[0]):
        return None
    return columns[0]


def _is_own_id(schema: Schema, column: int) -> bool:
    """Whether a column is called `id`, or `id` after its table."""
    words, table = _words(schema, column), name_lemmas(schema.tables[schema.columns[column].table].natural)
    return words in ((_ID,), (*table, _ID))


def _target(schema: Schema, column: int, keys: list[int | None]) -> int | None:
    """The key that a column's name points at: of the table with the longest fitting name, if that is one alone."""
    own, words = schema.columns[column], _words(schema, column)
    fitting: list[tuple[int, int]] = []
    for table, key in enumerate(keys):
        if key is None or table == own.table or schema.columns[key].type is not own.type:
            continue
        name = name_lemmas(schema.tables[table].natural)
        if words[-1:] == (_ID,) and name and words[:-1][-len(name) :] == name and _is_own_id(schema, key):
            fitting.append((len(name), key))
        elif own.name.lower() == schema.columns[key].name.lower() != _ID:
            fitting.append((len(words), key))
    best = max((length for length, _ in fitting), default=0)
    found = [key for length, key in fitting if length == best]
    return found[0] if len(found) == 1 else None


def _words(schema: Schema, column: int) -> tuple[str, ...]:
    return name_lemmas(schema.columns[column].natural)
