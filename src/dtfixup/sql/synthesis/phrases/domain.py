"""The entities of a database and their relationships.

In: a described database and the file that holds its rows. Out: a `Domain`. A relationship is a path of up to three
foreign keys between two entities, if it is the only one of its length.
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
from dtfixup.sql.synthesis.phrases.entities import Entity, read_entity
from dtfixup.sql.synthesis.phrases.lexicon import Verb, lexicon

Step: TypeAlias = tuple[int, int]
"""A join: a column, and the equal column of the next table."""


@dataclass(frozen=True)
class Relationship:
    """How rows of `child` are joined with rows of `parent`; `steps` lead from child to parent."""

    child: Entity
    parent: Entity
    steps: tuple[Step, ...]
    has_one_parent: bool
    """Whether a child has one parent: every step goes from a foreign key to the key it refers to."""
    verb: Verb | None
    """What parents do with children."""
    reverse_verb: Verb | None = None
    """What children do with parents."""
    is_same: bool = False
    """Whether a child is its parent: a gymnast is a person."""

    @property
    def back(self) -> tuple[Step, ...]:
        """The steps from parent to child."""
        return tuple((target, source) for source, target in reversed(self.steps))


@dataclass(frozen=True)
class SelfReference:
    """A column that refers to a superior row of the same table, such as a manager."""

    entity: Entity
    column: int
    key: int
    role: str


@dataclass(frozen=True)
class Domain:
    """The entities of a database and how they are related."""

    database: DatabaseInputs
    entities: tuple[Entity, ...]
    self_references: tuple[SelfReference, ...]
    file: Path

    @cached_property
    def name_pairs(self) -> Mapping[int, Sequence[tuple[str, str]]]:
        """The stored pairs of first and last name of each table that has both."""
        pairs: dict[int, list[tuple[str, str]]] = {}
        with closing(_connect(self.file)) as connection:
            for entity in self.entities:
                if len(entity.titles) == 2:
                    first, last = (quoted(self.schema.columns[title.column].name) for title in entity.titles)
                    table = quoted(self.schema.tables[entity.table].name)
                    rows = connection.execute(f"SELECT DISTINCT {first}, {last} FROM {table} LIMIT 500")
                    pairs[entity.table] = [
                        (one, two) for one, two in rows if isinstance(one, str) and isinstance(two, str)
                    ]
        return pairs

    @property
    def schema(self) -> Schema:
        return self.database.schema

    @cached_property
    def relationships(self) -> tuple[Relationship, ...]:
        return tuple(relation for relation in self._all_relationships if not relation.is_same)

    @cached_property
    def identities(self) -> tuple[Relationship, ...]:
        """Relationships of entities without names to the people that they are."""
        return tuple(relation for relation in self._all_relationships if relation.is_same and relation.parent.titles)

    @cached_property
    def _all_relationships(self) -> tuple[Relationship, ...]:
        return tuple(_relationships(self.schema, self.entities))

    @cached_property
    def children(self) -> tuple[Relationship, ...]:
        """Relationships over one foreign key."""
        return tuple(
            relation for relation in self.relationships if relation.has_one_parent and len(relation.steps) == 1
        )


def read_domain(database: DatabaseInputs, file: str | Path) -> Domain:
    """The entities of a database with unambiguous nouns, and how they are related."""
    stored = _stored_types(database.schema, file)
    read = [read_entity(table, database, stored) for table in range(len(database.schema.tables))]
    named = [entity for entity in read if entity is not None]
    unique = [entity for entity in named if sum(entity.noun == other.noun for other in named) == 1]
    entities = tuple(entity for entity in unique if not _stands_for_another(entity, unique, database.schema))
    return Domain(database, entities, tuple(_self_references(database, entities)), Path(file))


def _stands_for_another(entity: Entity, entities: Sequence[Entity], schema: Schema) -> bool:
    """Whether rows are people whom a table they refer to names by the same noun, such as the customers of a mailing."""
    pointed = {
        schema.columns[target].table
        for source, target in schema.foreign_pairs
        if schema.columns[source].table == entity.table
    }
    is_nameless = entity.is_person and not entity.titles
    return is_nameless and any(other.table in pointed and other.noun.head == entity.noun.head for other in entities)


def _connect(file: str | Path) -> sqlite3.Connection:
    """A read-only connection that replaces invalid bytes in texts."""
    connection = sqlite3.connect(f"{Path(file).absolute().as_uri()}?mode=ro", uri=True)
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    return connection


def _stored_types(schema: Schema, file: str | Path) -> dict[int, frozenset[str]]:
    """SQLite's types of the values in each column; a column declared as a number may hold texts."""
    stored: dict[int, frozenset[str]] = {}
    with closing(_connect(file)) as connection:
        for index, column in enumerate(schema.columns):
            if schema.is_star(index):
                continue
            name, table = quoted(column.name), quoted(schema.tables[column.table].name)
            try:
                rows = connection.execute(f"SELECT DISTINCT typeof({name}) FROM {table}").fetchall()
            except sqlite3.Error:  # tables.json may list what the file does not have
                continue
            stored[index] = frozenset(kind for (kind,) in rows)
    return stored


_LONGEST = 3


@dataclass(frozen=True, slots=True)
class _Edge:
    """A foreign key, in either direction."""

    table: int
    """The table that it leads to."""
    step: Step
    is_up: bool
    """Whether it leads to the key referred to."""


def _relationships(schema: Schema, entities: tuple[Entity, ...]) -> Iterator[Relationship]:
    known = {entity.table: entity for entity in entities}
    single = {(key.columns[0], key.referred[0]) for key in schema.foreign_keys if len(key.columns) == 1}
    edges: dict[int, list[_Edge]] = {}
    for source, target in sorted(single):
        tables = schema.columns[source].table, schema.columns[target].table
        if tables[0] != tables[1]:
            edges.setdefault(tables[0], []).append(_Edge(tables[1], (source, target), True))
            edges.setdefault(tables[1], []).append(_Edge(tables[0], (target, source), False))
    for child in entities:
        paths: dict[int, list[tuple[_Edge, ...]]] = {}
        for path in _paths(child.table, edges):
            paths.setdefault(path[-1].table, []).append(path)
        for reached, leading in paths.items():
            fewest = min(map(len, leading))
            shortest = [path for path in leading if len(path) == fewest]
            if reached in known and len(shortest) == 1:
                relation = _relationship(schema, known, child, known[reached], shortest[0])
                if relation is not None:
                    yield relation


def _paths(
    start: int, edges: Mapping[int, Sequence[_Edge]], path: tuple[_Edge, ...] = ()
) -> Iterator[tuple[_Edge, ...]]:
    """Every path of up to `_LONGEST` keys that meets no table twice."""
    if path:
        yield path
    passed = [start, *(edge.table for edge in path)]
    if len(path) < _LONGEST:
        for edge in edges.get(passed[-1], ()):
            if edge.table not in passed:
                yield from _paths(start, edges, (*path, edge))


def _relationship(
    schema: Schema, known: Mapping[int, Entity], child: Entity, parent: Entity, path: tuple[_Edge, ...]
) -> Relationship | None:
    """A relationship that has words: a child has one parent, a verb fits, or a bridge links the two."""
    steps, ups = tuple(edge.step for edge in path), [edge.is_up for edge in path]
    verb = lexicon().verbs.get((child.noun.head, parent.noun.head))
    reverse_verb = lexicon().verbs.get((parent.noun.head, child.noun.head))
    if all(ups) and len(steps) < 3:
        is_key = schema.primary_keys[child.table] == (steps[0][0],)
        is_same = is_key or (parent.noun.head == "person" and child.is_person and not child.titles)
        if is_same and (len(steps) > 1 or parent.noun.head != "person" or child.titles):
            return None
        if len(steps) > 1:
            verb = reverse_verb = None
        return Relationship(child, parent, steps, True, verb, reverse_verb, is_same)
    goes_down_then_up = ups == sorted(ups) and not all(ups) and any(ups)
    if not goes_down_then_up:
        return None
    between = [schema.columns[target].table for _, target in steps[:-1]]
    has_name = any(table in known and known[table].titles for table in between)
    is_bridge = len(steps) == 2 and not has_name and _is_plain_bridge(between[0], schema)
    words = {word for table in between for word in name_lemmas(schema.tables[table].natural)}
    verb, reverse_verb = (_if_fits(verb, words), _if_fits(reverse_verb, words))
    has_words = is_bridge or verb is not None or reverse_verb is not None
    return Relationship(child, parent, steps, False, verb, reverse_verb) if has_words else None


def _if_fits(verb: Verb | None, words: set[str]) -> Verb | None:
    """The verb, unless it needs a word that no table on the path has: customers buy products through orders."""
    needed = lexicon().bridge_words.get(verb.past) if verb is not None else None
    return None if needed is not None and words.isdisjoint(needed) else verb


def _is_plain_bridge(table: int, schema: Schema) -> bool:
    """Whether a table links two others and has little else."""
    pointing = {source for source, _ in schema.foreign_pairs if schema.columns[source].table == table}
    own = [column for column in schema.columns_of[table][1:] if column not in pointing]
    return len(pointing) == 2 and len(own) <= 3


def _self_references(database: DatabaseInputs, entities: tuple[Entity, ...]) -> Iterator[SelfReference]:
    """Columns with names such as manager or parent whose values are mostly keys of the same table."""
    schema, content = database.schema, database.content
    for entity in entities:
        key = schema.primary_keys[entity.table]
        if len(key) != 1 or not entity.titles or content is None:
            continue
        known = set(content.columns[key[0]].values)
        for column in schema.columns_of[entity.table][1:]:
            roles = [word for word in name_lemmas(schema.columns[column].natural) if word in lexicon().superiors]
            values = content.columns[column].values
            if roles and column != key[0] and values and sum(value in known for value in values) >= 0.5 * len(values):
                yield SelfReference(entity, column, key[0], lexicon().superiors[roles[0]])
