"""A split of a dataset → new examples over the same databases, in parallel.

In: a split of a dataset. Out: `Synthetic` examples: `template_making.py` and `implied_columns.py` take the database out
of a question and its query, `template_filling.py` puts another one in. Every example depends on the data, the seed and
its database alone, so that the same come out whatever the number of workers.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from rich.progress import track

from dtfixup.errors import ConfigError, DataError
from dtfixup.files import write_json
from dtfixup.sql.content import open_content
from dtfixup.sql.dataset import Dataset, Example
from dtfixup.sql.inputs import DatabaseInputs, describe_database
from dtfixup.sql.name_links import Item, MatchKind, link_names
from dtfixup.sql.schema import Schema
from dtfixup.sql.sql_reader import SqlReader
from dtfixup.sql.synthesis.columns import bare_lemmas
from dtfixup.sql.synthesis.implied_columns import evoked, make_implying_template
from dtfixup.sql.synthesis.template_filling import Filler
from dtfixup.sql.synthesis.template_making import make_template
from dtfixup.sql.synthesis.templates import Template
from dtfixup.sql.words import name_lemmas, split_words

_SPARE = 1.6
"""How many more examples each database makes than its share: some have too little to ask about."""
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
    if count < 1:
        raise ConfigError(f"count must be at least 1, got {count}")
    databases = _databases(dataset, split)
    workers = workers or os.cpu_count() or 1
    read = _each(_read, databases, (), workers, "reading questions", show_progress)
    templates = [template for part in read for template in part.templates]
    things = frozenset(
        lemmas[-1]
        for database in databases
        for table in database.schema.tables
        if (lemmas := name_lemmas(table.natural))
    )
    templates += evoked([part.implying for part in read], [part.column_names for part in read], things)
    if not templates:
        raise DataError(f"no question of split {split!r} can be asked over another database")
    share = round(_SPARE * count / len(databases)) + 1
    orders = [_Order(database, part.said_tables, share, seed) for database, part in zip(databases, read, strict=True)]
    made = _each(_fill, orders, templates, workers, "making questions", show_progress)
    found = [synthetic for part in made for synthetic in part]
    if len(found) < count:
        raise DataError(f"only {len(found)} examples can be made of split {split!r}; ask for no more than that")
    random.Random(f"{seed} order").shuffle(found)
    return found[:count]


def write_examples(path: str | Path, examples: Sequence[Synthetic]) -> Path:
    """Write examples in the form of a split, which `Dataset.split` reads, each with the index of its source."""
    rows = [
        {
            "db_id": synthetic.example.database,
            "question": synthetic.example.question,
            "query": synthetic.example.query,
            "source": synthetic.source,
        }
        for synthetic in examples
    ]
    return write_json(path, rows)


def _databases(dataset: Dataset, split: str) -> list[_Database]:
    """The databases of a split in order of name."""
    examples: dict[str, list[tuple[int, Example]]] = {}
    for index, example in enumerate(dataset.split(split)):
        examples.setdefault(example.database, []).append((index, example))
    return [
        _Database(dataset.schemas[name], dataset.database_file(name), tuple(examples[name]))
        for name in sorted(examples)
    ]


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


def _fill(order: _Order) -> list[Synthetic]:
    """Up to `count` examples over one database, a part of which imply a column."""
    filler = Filler(order.database.open(), order.said_tables)
    known = {_plain(example.question) for _, example in order.database.examples}
    found: list[Synthetic] = []
    for is_implying, count in ((True, round(_IMPLYING * order.count)), (False, order.count)):
        templates = [template for template in _templates if template.is_implying is is_implying]
        chance = random.Random(f"{order.seed} {order.database.schema.database} {is_implying}")
        found += _fill_some(templates, count - len(found), filler, known, chance)
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
            if example is not None and _plain(example.question) not in known:
                known.add(_plain(example.question))
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


def _plain(question: str) -> str:
    """A question by its words alone."""
    return " ".join(word.text.lower() for word in split_words(question) if not word.is_mark)


# One task per database, in this process or in workers; the templates go to each worker once.

_templates: Sequence[Template] = ()

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def _set_templates(templates: Sequence[Template]) -> None:
    global _templates
    _templates = templates


def _each(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    templates: Sequence[Template],
    workers: int,
    description: str,
    show_progress: bool,
) -> list[_Result]:
    """The results in the order of the tasks."""

    def shown(results: Iterator[_Result]) -> list[_Result]:
        bar = track(results, description, total=len(tasks), disable=not show_progress, transient=True)
        return list(bar)

    if workers == 1 or len(tasks) == 1:
        _set_templates(templates)
        return shown(map(function, tasks))
    try:
        with ProcessPoolExecutor(min(workers, len(tasks)), get_context("spawn"), _set_templates, (templates,)) as pool:
            return shown(pool.map(function, tasks))
    except BrokenProcessPool:
        raise DataError("a worker process was killed, perhaps for want of memory: try fewer workers") from None
