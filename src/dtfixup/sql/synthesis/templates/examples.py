"""New examples over the databases of a split, in parallel.

In: a split of a dataset. Out: `Synthetic` examples: `maker.py` and `implied_columns.py` take the database out of a
question and its query, `filler.py` puts another one in. Every example depends on the data, the seed and its database
alone, so the number of workers does not matter. The phrase book draws and writes its examples with the same functions.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from dtfixup.errors import ConfigError, DataError
from dtfixup.files import write_json
from dtfixup.processes import map_supervised
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import Dataset, Example
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.language.words import name_lemmas, split_words
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database
from dtfixup.sql.linking.name_links import Item, MatchKind, link_names
from dtfixup.sql.synthesis.templates.columns import bare_lemmas
from dtfixup.sql.synthesis.templates.filler import Filler
from dtfixup.sql.synthesis.templates.implied_columns import ImplyingMaker, select_evoking
from dtfixup.sql.synthesis.templates.maker import TemplateMaker, make_template
from dtfixup.sql.synthesis.templates.template import Template
from dtfixup.sql.synthesis.templates.wording import UnusableError

_SPARE = 1.6
"""Each database makes this many times its share of the examples, since some have too little to ask about."""
_ATTEMPTS = 12
"""Templates of one shape that are tried over a database, so that shapes that rarely fit still get examples."""
_PATIENCE = 100
"""Shapes drawn in a row without success before a database has no more to give."""
_REPEATS = 12
"""Examples that a database makes of one template at most, since soon only the values change."""
_IMPLYING = 0.35
"""The share of examples that imply a column, if a database has places for so many."""
_JOINED = 2.2
"""The weight of shapes with several tables, which most databases have few places for."""
_NESTED = 1.4
"""The weight of shapes with several queries."""
_GROUPED = 1.3
"""The weight of shapes with groups, which few questions that imply a column ask for."""

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Synthetic:
    """A made-up example; `source` is the index in the split of the example that gave its template."""

    example: Example
    source: int


@dataclass(frozen=True, slots=True)
class _Database:
    """A database and its examples in the split."""

    schema: Schema
    file: Path
    examples: tuple[tuple[int, Example], ...]

    def open(self) -> DatabaseInputs:
        return describe_database(self.schema, open_content(self.schema, self.file))


@dataclass(frozen=True, slots=True)
class _Templates:
    """The templates that a database's questions give, and the tables that the questions call by their names."""

    naming: tuple[Template, ...]
    implying: tuple[Template, ...]
    nameable_tables: frozenset[int]
    column_names: frozenset[tuple[str, ...]]


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

    Question and query fit each other and the database. No question comes twice, and none is a question of the split.
    """
    databases = _databases(dataset, split)
    share = share_of(count, len(databases), _SPARE)
    read = map_supervised(_read_templates, databases, "reading questions", workers=workers, show_progress=show_progress)
    templates = [template for part in read for template in part.naming]
    things = frozenset(
        lemmas[-1]
        for database in databases.values()
        for table in database.schema.tables
        if (lemmas := name_lemmas(table.natural))
    )
    templates += select_evoking([part.implying for part in read], [part.column_names for part in read], things)
    if not templates:
        raise DataError(f"no question of split {split!r} can be asked over another database")
    tasks = {
        name: (database, part.nameable_tables) for (name, database), part in zip(databases.items(), read, strict=True)
    }
    fill = partial(_fill, templates, share, seed)
    parts = map_supervised(fill, tasks, "making questions", workers=workers, show_progress=show_progress)
    made = [synthetic for part in parts for synthetic in part]
    refusal = f"only {len(made)} examples can be made of split {split!r}"
    return draw(made, count, random.Random(f"{seed} order"), refusal)


def write_examples(path: str | Path, examples: Iterable[Synthetic]) -> Path:
    """Write examples in the layout of a split, each with the index of its source."""
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


def _read_templates(database: _Database) -> _Templates:
    inputs = database.open()
    reader = SqlReader(database.schema)
    tables: set[int] = set()
    for _, example in database.examples:
        links = link_names(split_words(example.question), database.schema)
        tables.update(link.index for link in links if link.item is Item.TABLE and link.kind is MatchKind.EXACT)

    def make(maker: type[TemplateMaker]) -> tuple[Template, ...]:
        templates = []
        for index, example in database.examples:
            try:
                templates.append(make_template(example, index, inputs, reader, maker))
            except UnusableError:
                continue
        return tuple(templates)

    names = (bare_lemmas(column, database.schema) for column in range(len(database.schema.columns)))
    return _Templates(make(TemplateMaker), make(ImplyingMaker), frozenset(tables), frozenset(names))


def _fill(
    templates: Sequence[Template], count: int, seed: int, task: tuple[_Database, frozenset[int]]
) -> list[Synthetic]:
    """Up to `count` examples over one database, some of which imply a column."""
    database, nameable_tables = task
    filler = Filler(database.open(), nameable_tables)
    asked = {plain_question(example.question) for _, example in database.examples}
    made: list[Synthetic] = []
    for is_implying, most in ((True, round(_IMPLYING * count)), (False, count)):
        usable = [template for template in templates if bool(template.implied_names) is is_implying]
        chance = random.Random(f"{seed} {database.schema.database} {is_implying}")
        made += _fill_some(usable, most - len(made), filler, asked, chance)
    return made


def _fill_some(
    templates: Sequence[Template], count: int, filler: Filler, asked: set[str], chance: random.Random
) -> list[Synthetic]:
    """Up to `count` examples whose questions are not `asked` yet; shapes of queries are drawn by `_weight`."""
    by_shape: dict[str, list[Template]] = {}
    for template in templates:
        if filler.can_fill(template):
            by_shape.setdefault(template.skeleton, []).append(template)
    shapes = sorted(by_shape)
    weights = [_weight(by_shape[shape]) for shape in shapes]
    made: list[Synthetic] = []
    uses: Counter[int] = Counter()
    fruitless = 0
    while shapes and len(made) < count and fruitless < _PATIENCE:
        shape = chance.choices(shapes, weights)[0]
        fruitless += 1
        for _ in range(_ATTEMPTS):
            template = chance.choice(by_shape[shape])
            example = filler.fill(template, chance) if uses[template.source] < _REPEATS else None
            if example is not None and (question := plain_question(example.question)) not in asked:
                asked.add(question)
                made.append(Synthetic(example, template.source))
                uses[template.source] += 1
                fruitless = 0
                break
    return made


def _weight(templates: Sequence[Template]) -> float:
    """The weight of a shape: the root of the number of its templates, and more for shapes that rarely fit."""
    joined = _JOINED if len(templates[0].named_tables) > 1 else 1.0
    nested = _NESTED if len(templates[0].joins) > 1 else 1.0
    grouped = _GROUPED if "Grouped" in templates[0].skeleton else 1.0
    return float(len(templates) ** 0.5) * joined * nested * grouped


# Shared with the phrase book.


def plain_question(question: str) -> str:
    """A question by its words alone.

    >>> plain_question("How many dogs, all in all?")
    'how many dogs all in all'
    """
    return " ".join(word.text.lower() for word in split_words(question) if not word.is_mark)


def share_of(count: int, databases: int, spare: float) -> int:
    """The number of examples that each database makes: `spare` times its share, and one."""
    if count < 1:
        raise ConfigError(f"count must be at least 1, got {count}")
    return round(spare * count / max(databases, 1)) + 1


def draw(made: list[Made], count: int, chance: random.Random, refusal: str) -> list[Made]:
    """Return `count` examples in random order; the error for too few begins with `refusal`."""
    if len(made) < count:
        raise DataError(f"{refusal}; ask for no more than that")
    chance.shuffle(made)
    return made[:count]


def write_made(path: str | Path, made: Iterable[tuple[Example, Mapping[str, object]]]) -> Path:
    """Write examples in the layout of a split, which `Dataset.split` reads, each with more keys of its own."""
    rows = [
        {"db_id": example.database, "question": example.question, "query": example.query, **more}
        for example, more in made
    ]
    return write_json(path, rows)
