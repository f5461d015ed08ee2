"""A split of a dataset → new examples over the same databases, in parallel.

In: a split of a dataset. Out: `Synthetic` examples: `templates/making.py` and `implied_columns.py` take the database
out of a question and its query, `templates/filling.py` puts another one in. Every example depends on the data, the
seed and its database alone, so that the same come out whatever the number of workers.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dtfixup.errors import DataError
from dtfixup.processes import map_supervised
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import Dataset, Example
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.language.words import name_lemmas, split_words
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database
from dtfixup.sql.linking.name_links import Item, MatchKind, link_names
from dtfixup.sql.synthesis.templates.columns import bare_lemmas
from dtfixup.sql.synthesis.templates.filling import Filler
from dtfixup.sql.synthesis.templates.implied_columns import evoked, make_implying_template
from dtfixup.sql.synthesis.templates.made_examples import draw, plain_question, share_of, write_made
from dtfixup.sql.synthesis.templates.making import make_template
from dtfixup.sql.synthesis.templates.template import Template

_SPARE = 1.6
"""How many more examples each database makes than its part, since some have too little to ask about."""
_ATTEMPTS = 12
"""Templates of one shape that are tried over a database, so that shapes that seldom fit are not drowned."""
_PATIENCE = 100
"""Shapes that are drawn in a row without success before a database has no more to give."""

_REPEATS = 12
"""How often a database fills one template at most: what changes soon are the values alone."""
_IMPLYING = 0.35
"""The part of the examples that imply a column, where a database has places for so many."""
_JOINED = 2.2
"""How much more often shapes with several tables are drawn, since most databases have few places for them."""
_NESTED = 1.4
"""The same for shapes with several queries."""
_GROUPED = 1.3
"""The same for shapes with groups, which few questions ask for that imply a column."""


@dataclass(frozen=True, slots=True)
class Synthetic:
    """An example that nobody wrote; `source` is the index in the split of the one that gave its template."""

    example: Example
    source: int


@dataclass(frozen=True, slots=True)
class _Database:
    """A database and what the split has of it."""

    schema: Schema
    file: Path
    examples: tuple[tuple[int, Example], ...]

    def open(self) -> DatabaseInputs:
        return describe_database(self.schema, open_content(self.schema, self.file))


@dataclass(frozen=True, slots=True)
class _Read:
    """The templates that a database's questions give, and the tables that they call by their names."""

    templates: tuple[Template, ...]
    implying: tuple[Template, ...]
    said_tables: frozenset[int]
    column_names: frozenset[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Order:
    """What a worker is to make over one database."""

    database: _Database
    said_tables: frozenset[int]
    count: int
    seed: int


def synthesise(
    dataset: Dataset,
    split: str = "train",
    *,
    count: int,
    seed: int,
    workers: int | None = None,
    show_progress: bool = True,
) -> list[Synthetic]:
    """Make `count` examples over the databases of a split.

    Question and query fit each other and the database, no question comes twice, and none is one of the split.
    """
    databases = _databases(dataset, split)
    share = share_of(count, len(databases), _SPARE)
    read = map_supervised(_read, databases, "reading questions", workers=workers, show_progress=show_progress)
    templates = [template for part in read for template in part.templates]
    things = frozenset(
        lemmas[-1]
        for database in databases.values()
        for table in database.schema.tables
        if (lemmas := name_lemmas(table.natural))
    )
    templates += evoked([part.implying for part in read], [part.column_names for part in read], things)
    if not templates:
        raise DataError(f"no question of split {split!r} can be asked over another database")
    orders = {
        name: _Order(database, part.said_tables, share, seed)
        for (name, database), part in zip(databases.items(), read, strict=True)
    }
    fill = partial(_fill, templates)
    made = map_supervised(fill, orders, "making questions", workers=workers, show_progress=show_progress)
    found = [synthetic for part in made for synthetic in part]
    refusal = f"only {len(found)} examples can be made of split {split!r}"
    return draw(found, count, random.Random(f"{seed} order"), refusal)


def write_examples(path: str | Path, examples: Iterable[Synthetic]) -> Path:
    """Write examples in the form of a split, each with the index of its source."""
    return write_made(path, ((synthetic.example, {"source": synthetic.source}) for synthetic in examples))


def _databases(dataset: Dataset, split: str) -> dict[str, _Database]:
    """The databases of a split in order of name."""
    examples: dict[str, list[tuple[int, Example]]] = {}
    for index, example in enumerate(dataset.split(split)):
        examples.setdefault(example.database, []).append((index, example))
    return {
        name: _Database(dataset.schemas[name], dataset.database_file(name), tuple(examples[name]))
        for name in sorted(examples)
    }


def _read(database: _Database) -> _Read:
    inputs = database.open()
    reader = SqlReader(database.schema)
    templates: list[Template] = []
    implying: list[Template] = []
    said: set[int] = set()
    for index, example in database.examples:
        links = link_names(split_words(example.question), database.schema)
        said.update(link.index for link in links if link.item is Item.TABLE and link.kind is MatchKind.EXACT)
        for make, made in ((make_template, templates), (make_implying_template, implying)):
            template = make(example, index, inputs, reader)
            if isinstance(template, Template):
                made.append(template)
    names = (bare_lemmas(column, database.schema) for column in range(len(database.schema.columns)))
    return _Read(tuple(templates), tuple(implying), frozenset(said), frozenset(names))


def _fill(templates: Sequence[Template], order: _Order) -> list[Synthetic]:
    """Up to `count` examples over one database, a part of which imply a column."""
    filler = Filler(order.database.open(), order.said_tables)
    known = {plain_question(example.question) for _, example in order.database.examples}
    found: list[Synthetic] = []
    for is_implying, count in ((True, round(_IMPLYING * order.count)), (False, order.count)):
        able = [template for template in templates if template.is_implying is is_implying]
        chance = random.Random(f"{order.seed} {order.database.schema.database} {is_implying}")
        found += _fill_some(able, count - len(found), filler, known, chance)
    return found


def _fill_some(
    templates: Sequence[Template], count: int, filler: Filler, known: set[str], chance: random.Random
) -> list[Synthetic]:
    """Up to `count` examples whose questions are not `known`, by shapes of queries that are drawn by `_weight`."""
    by_shape: dict[str, list[Template]] = {}
    for template in templates:
        if filler.can_fill(template):
            by_shape.setdefault(template.skeleton, []).append(template)
    shapes = sorted(by_shape)
    weights = [_weight(by_shape[shape]) for shape in shapes]
    found: list[Synthetic] = []
    uses: Counter[int] = Counter()
    fruitless = 0
    while shapes and len(found) < count and fruitless < _PATIENCE:
        shape = chance.choices(shapes, weights)[0]
        fruitless += 1
        for _ in range(_ATTEMPTS):
            template = chance.choice(by_shape[shape])
            example = filler.fill(template, chance) if uses[template.source] < _REPEATS else None
            if example is not None and plain_question(example.question) not in known:
                known.add(plain_question(example.question))
                found.append(Synthetic(example, template.source))
                uses[template.source] += 1
                fruitless = 0
                break
    return found


def _weight(templates: Sequence[Template]) -> float:
    """The root of how often a shape comes, and more for what most databases have few places for."""
    joined = _JOINED if len(templates[0].named_tables) > 1 else 1.0
    nested = _NESTED if len(templates[0].joins) > 1 else 1.0
    grouped = _GROUPED if "Grouped" in templates[0].skeleton else 1.0
    return float(len(templates) ** 0.5) * joined * nested * grouped
