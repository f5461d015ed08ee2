"""Undeclared foreign keys, implied by names.

In: the schema of a live database. Out: the same with more foreign keys. Many databases declare none, and without them
nothing connects their tables. `animal_id` refers to the key `id` or `animal_id` of the table `animals`, `home_team_id`
to that of `team`, and a column with the name of another table's key refers to that key. The types must agree, and
declared keys stay as they are.
"""

from dataclasses import replace

from dtfixup.sql.database.schema import ForeignKey, Schema
from dtfixup.sql.language.words import name_lemmas

_ID = "id"


def with_implied_keys(schema: Schema) -> Schema:
    """The schema with the foreign keys that names imply; the same one where there are none."""
    keys = [_key(schema, table) for table in range(len(schema.tables))]
    declared = {source for source, _ in schema.foreign_pairs}
    implied = []
    for index, column in enumerate(schema.columns):
        if schema.is_star(index) or index in declared or index == keys[column.table]:
            continue
        target = _target(schema, index, keys)
        if target is not None:
            implied.append(ForeignKey((index,), (target,)))
    return replace(schema, foreign_keys=(*schema.foreign_keys, *implied)) if implied else schema


def _key(schema: Schema, table: int) -> int | None:
    """The only column of a table's key; if no key is declared, the first column if it is named like one."""
    if declared := schema.primary_keys[table]:
        return declared[0] if len(declared) == 1 else None
    columns = schema.columns_of[table][1:]
    if schema.tables[table].is_view or not columns or not _is_own_id(schema, columns[0]):
        return None
    return columns[0]


def _is_own_id(schema: Schema, column: int) -> bool:
    """Whether a column is named `id`, or its table's name and `id`."""
    words, table = _words(schema, column), name_lemmas(schema.tables[schema.columns[column].table].natural)
    return words in ((_ID,), (*table, _ID))


def _target(schema: Schema, column: int, keys: list[int | None]) -> int | None:
    """The key that a column's name refers to: that of the table with the longest fitting name, unless two tie."""
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
    keys_of_best = [key for length, key in fitting if length == best]
    return keys_of_best[0] if len(keys_of_best) == 1 else None


def _words(schema: Schema, column: int) -> tuple[str, ...]:
    return name_lemmas(schema.columns[column].natural)
