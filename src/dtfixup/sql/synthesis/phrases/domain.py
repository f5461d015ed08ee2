"""What there is to ask about in a database: its things, and how they are related.

In: a described database and the file that holds its rows. Out: `Domain`. A relation is a way over foreign keys from
one thing to another, up to three keys long, that is the only one of its length.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from dtfixup.sql.database.schema import Schema, quoted
from dtfixup.sql.language.words import name_lemmas
from dtfixup.sql.linking.inputs import DatabaseInputs
from dtfixup.sql.synthesis.phrases.lexicon import Deed, lexicon
from dtfixup.sql.synthesis.phrases.things import Attribute, Thing, read_thing

Step: TypeAlias = tuple[int, int]
"""A column, and the column of the next table that is equal to it."""


@dataclass(frozen=True)
class Relation:
    """How rows of `child` go with rows of `parent`; `steps` lead from child to parent."""

    child: Thing
    parent: Thing
    steps: tuple[Step, ...]
    has_one_parent: bool
    """Whether a child has one parent only: every step follows a foreign key to what it points at."""
    deed: Deed | None
    """What parents do with children."""
    reverse: Deed | None = None
    """What children do with parents."""
    is_same: bool = False
    """Whether a child is its parent: a gymnast is a person."""

    @property
    def back(self) -> tuple[Step, ...]:
        """The steps from parent to child."""
        return tuple((target, source) for source, target in reversed(self.steps))


@dataclass(frozen=True)
class Superior:
    """A column that names the row of the same table above a row."""

    thing: Thing
    column: int
    key: int
    called: str


@dataclass(frozen=True)
class Domain:
    """The things of a database."""

    database: DatabaseInputs
    things: tuple[Thing, ...]
    superiors: tuple[Superior, ...]
    file: Path

    def name_pairs(self, thing: Thing) -> tuple[tuple[str, str], ...]:
        """The first and last names of the rows of a thing that has both, as they belong together."""
        known = self._name_pairs.get(thing.table)
        if known is None:
            first, last = (quoted(self.schema.columns[title.column].name) for title in thing.titles)
            table = quoted(self.schema.tables[thing.table].name)
            with closing(_connect(self.file)) as connection:
                rows = connection.execute(f"SELECT DISTINCT {first}, {last} FROM {table} LIMIT 500").fetchall()
            known = tuple((one, two) for one, two in rows if isinstance(one, str) and isinstance(two, str))
            self._name_pairs[thing.table] = known
        return known

    @cached_property
    def _name_pairs(self) -> dict[int, tuple[tuple[str, str], ...]]:
        return {}

    @property
    def schema(self) -> Schema:
        return self.database.schema

    @cached_property
    def relations(self) -> tuple[Relation, ...]:
        return tuple(relation for relation in self._all_relations if not relation.is_same)

    @cached_property
    def identities(self) -> tuple[Relation, ...]:
        """Relations of things without names to the people that they are."""
        return tuple(relation for relation in self._all_relations if relation.is_same and relation.parent.titles)

    @cached_property
    def _all_relations(self) -> tuple[Relation, ...]:
        return tuple(_relations(self.schema, self.things))

    @cached_property
    def children(self) -> tuple[Relation, ...]:
        """Relations over one foreign key, child to parent."""
        return tuple(relation for relation in self.relations if relation.has_one_parent and len(relation.steps) == 1)


def read_domain(database: DatabaseInputs, file: str | Path) -> Domain:
    """The things of a database, and how they are related."""
    stored = _stored_types(database.schema, file)
    things = [read_thing(table, database, stored) for table in range(len(database.schema.tables))]
    known = tuple(thing for thing in things if thing is not None)
    known = tuple(thing for thing in known if sum(thing.noun == other.noun for other in known) == 1)
    known = tuple(thing for thing in known if not _stands_for_another(thing, known, database.schema))
    return Domain(database, known, tuple(_superiors(database, known)), Path(file))


def _stands_for_another(thing: Thing, known: Sequence[Thing], schema: Schema) -> bool:
    """Whether rows are people that another table names by the same noun: those of a mailing are customers."""
    pointed = {
        schema.columns[target].table
        for source, target in schema.foreign_pairs
        if schema.columns[source].table == thing.table
    }
    is_nameless = thing.is_person and not thing.titles
    return is_nameless and any(other.table in pointed and other.noun.head == thing.noun.head for other in known)


def _connect(file: str | Path) -> sqlite3.Connection:
    """A connection that reads only, and whatever bytes a text has."""
    connection = sqlite3.connect(f"{Path(file).absolute().as_uri()}?mode=ro", uri=True)
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    return connection


def _stored_types(schema: Schema, file: str | Path) -> dict[int, frozenset[str]]:
    """SQLite's types of the values of each column; what is declared a number may hold texts."""
    found: dict[int, frozenset[str]] = {}
    with closing(_connect(file)) as connection:
        for index, column in enumerate(schema.columns):
            if schema.is_star(index):
                continue
            name, table = quoted(column.name), quoted(schema.tables[column.table].name)
            try:
                rows = connection.execute(f"SELECT DISTINCT typeof({name}) FROM {table}").fetchall()
            except sqlite3.Error:  # tables.json may list what the file does not have
                continue
            found[index] = frozenset(kind for (kind,) in rows)
    return found


_LONGEST = 3


def _relations(schema: Schema, things: tuple[Thing, ...]) -> Iterator[Relation]:
    known = {thing.table: thing for thing in things}
    single = {(key.columns[0], key.referred[0]) for key in schema.foreign_keys if len(key.columns) == 1}
    edges: dict[int, list[tuple[int, Step, bool]]] = {}
    for source, target in sorted(single):
        tables = schema.columns[source].table, schema.columns[target].table
        if tables[0] != tables[1]:
            edges.setdefault(tables[0], []).append((tables[1], (source, target), True))
            edges.setdefault(tables[1], []).append((tables[0], (target, source), False))
    for child in things:
        ways: dict[int, list[tuple[tuple[Step, ...], tuple[bool, ...]]]] = {}
        for reached, steps, ups in _ways(child.table, edges, (child.table,), (), ()):
            ways.setdefault(reached, []).append((steps, ups))
        for reached, found in ways.items():
            shortest = min(len(steps) for steps, _ in found)
            short = [way for way in found if len(way[0]) == shortest]
            if reached in known and len(short) == 1:
                relation = _relation(schema, known, child, known[reached], *short[0])
                if relation is not None:
                    yield relation


def _ways(
    table: int,
    edges: dict[int, list[tuple[int, Step, bool]]],
    passed: tuple[int, ...],
    steps: tuple[Step, ...],
    ups: tuple[bool, ...],
) -> Iterator[tuple[int, tuple[Step, ...], tuple[bool, ...]]]:
    """Every way over at most `_LONGEST` keys that meets no table twice."""
    if steps:
        yield table, steps, ups
    if len(steps) < _LONGEST:
        for following, step, is_up in edges.get(table, ()):
            if following not in passed:
                yield from _ways(following, edges, (*passed, following), (*steps, step), (*ups, is_up))


def _relation(
    schema: Schema,
    known: Mapping[int, Thing],
    child: Thing,
    parent: Thing,
    steps: tuple[Step, ...],
    ups: tuple[bool, ...],
) -> Relation | None:
    """A relation that can be said: by its deed, or of a child with one parent, or of both ends of a bridge."""
    deed = lexicon().deeds.get((child.noun.head, parent.noun.head))
    reverse = lexicon().deeds.get((parent.noun.head, child.noun.head))
    if all(ups) and len(steps) < 3:
        is_key = schema.primary_keys[child.table] == (steps[0][0],)
        is_same = is_key or (parent.noun.head == "person" and child.is_person and not child.titles)
        if is_same and (len(steps) > 1 or parent.noun.head != "person" or child.titles):
            return None
        if len(steps) > 1:
            deed = reverse = None
        return Relation(child, parent, steps, True, deed, reverse, is_same)
    falls_then_rises = list(ups) == sorted(ups) and not all(ups) and any(ups)
    if not falls_then_rises:
        return None
    between = [schema.columns[target].table for _, target in steps[:-1]]
    has_name = any(table in known and known[table].titles for table in between)
    is_bridge = len(steps) == 2 and not has_name and _is_plain_bridge(between[0], schema)
    deed, reverse = (done if done is None or _passes(done, between, schema) else None for done in (deed, reverse))
    is_said = is_bridge or deed is not None or reverse is not None
    return Relation(child, parent, steps, False, deed, reverse) if is_said else None


def _passes(deed: Deed, between: Sequence[int], schema: Schema) -> bool:
    """Whether the tables on the way tell of the deed, where it needs that: what is bought is ordered."""
    words = {word for table in between for word in name_lemmas(schema.tables[table].natural)}
    return deed.did not in lexicon().passing or not words.isdisjoint(lexicon().passing[deed.did])


def _is_plain_bridge(table: int, schema: Schema) -> bool:
    """Whether a table ties two others together, and has little else."""
    pointing = {source for source, _ in schema.foreign_pairs if schema.columns[source].table == table}
    own = [column for column in schema.columns_of[table][1:] if column not in pointing]
    return len(pointing) == 2 and len(own) <= 3


def _superiors(database: DatabaseInputs, things: tuple[Thing, ...]) -> Iterator[Superior]:
    """Columns called manager or parent whose values are keys of the same table."""
    schema, content = database.schema, database.content
    for thing in things:
        key = schema.primary_keys[thing.table]
        if len(key) != 1 or not thing.titles or content is None:
            continue
        known = set(content.columns[key[0]].values)
        for column in schema.columns_of[thing.table][1:]:
            called = [word for word in name_lemmas(schema.columns[column].natural) if word in lexicon().superiors]
            held = content.columns[column].values
            if called and column != key[0] and held and sum(value in known for value in held) >= 0.5 * len(held):
                yield Superior(thing, column, key[0], lexicon().superiors[called[0]])


def attribute_of(thing: Thing, column: int) -> Attribute | None:
    """The attribute that is a column."""
    return next((attribute for attribute in thing.attributes if attribute.column == column), None)
