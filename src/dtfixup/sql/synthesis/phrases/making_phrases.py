"""Questions out of the phrase book over the databases of a split, in parallel.

In: a dataset. Out: `Phrased` examples and what was rejected, by reason. A draft is kept where the grammar can say its
query, the database runs it and gives rows, and every literal is among the question's candidates. Every example depends
on the seed and its database alone, so that the same come out whatever the number of workers.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dtfixup.errors import GuardError, SqlError
from dtfixup.processes import map_supervised
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import Dataset, Example
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.execution.guarded import GuardedConnection, open_guarded
from dtfixup.sql.grammar.joins import Joiner
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.transitions import Masks, first_illegal, steps_of
from dtfixup.sql.grammar.tree import literals
from dtfixup.sql.grammar.writer import SqlWriter
from dtfixup.sql.language.words import split_words
from dtfixup.sql.linking.candidates import covers
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database, describe_question
from dtfixup.sql.synthesis.phrases.constructs import WAYS
from dtfixup.sql.synthesis.phrases.domain import Domain, read_domain
from dtfixup.sql.synthesis.phrases.scene import Draft, Scene
from dtfixup.sql.synthesis.templates.examples import draw, plain_question, share_of, write_made

_SPARE = 1.8
"""How many more examples each database makes than its part, since some have too little to ask about."""
_PER_ATTRIBUTE = 22
"""Examples of a database for each column that can be named, at most: what changes soon are the values alone."""
_ATTEMPTS = 8
"""Drafts that a way of asking has until another is drawn."""
_MISSES = 6
"""How often a way is drawn in a row without success before a database has no more for it."""
_SHARE = 1.7
"""How much more often than its weight says a way may be taken, where a database has no place for others."""
_SAME_QUERY = 2
"""Questions that one query may have."""
_LOWER = 0.04
"""The part of the questions that have no capitals at all."""
_MOST_WORDS = 40
_DEADLINE = 1.0


@dataclass(frozen=True, slots=True)
class Phrased:
    """An example out of the phrase book, and the construct that it is for."""

    example: Example
    construct: str


@dataclass(frozen=True)
class Phrases:
    """What was made, and how many drafts were given up, by reason."""

    examples: tuple[Phrased, ...]
    rejected: Counter[str]

    def constructs(self) -> Counter[str]:
        return Counter(phrased.construct for phrased in self.examples)


@dataclass(frozen=True, slots=True)
class _Order:
    """What a worker is to make over one database."""

    schema: Schema
    file: Path
    known: frozenset[str]
    count: int
    seed: int


def make_phrases(
    dataset: Dataset,
    split: str = "train",
    *,
    count: int,
    seed: int,
    workers: int | None = None,
    show_progress: bool = True,
) -> Phrases:
    """Make `count` examples over the databases of a split; no question comes twice, and none is one of the split."""
    asked: dict[str, set[str]] = {}
    for example in dataset.split(split):
        asked.setdefault(example.database, set()).add(plain_question(example.question))
    share = share_of(count, len(asked), _SPARE)
    orders = {
        name: _Order(dataset.schemas[name], dataset.database_file(name), frozenset(asked[name]), share, seed)
        for name in sorted(asked)
    }
    made = map_supervised(_make, orders, "phrasing questions", workers=workers, show_progress=show_progress)
    found = [phrased for part in made for phrased in part.examples]
    refusal = f"the phrase book makes only {len(found)} examples of split {split!r}"
    drawn = draw(found, count, random.Random(f"{seed} phrases"), refusal)
    return Phrases(tuple(drawn), sum((part.rejected for part in made), Counter()))


def write_phrases(path: str | Path, phrases: Iterable[Phrased]) -> Path:
    """Write examples in the form of a split, each with its construct."""
    return write_made(path, ((phrased.example, {"construct": phrased.construct}) for phrased in phrases))


def _make(order: _Order) -> Phrases:
    """Up to `count` examples over one database."""
    database = describe_database(order.schema, open_content(order.schema, order.file))
    domain = read_domain(database, order.file)
    with open_guarded(order.file, deadline=_DEADLINE, max_rows=5, filter_text=False) as connection:
        return _Maker(domain, connection, order).make()


class _Maker:
    """Drafts over one database, and the checks that they must pass."""

    def __init__(self, domain: Domain, connection: GuardedConnection, order: _Order) -> None:
        self.chance = random.Random(f"{order.seed} {order.schema.database} phrases")
        self.scene = Scene(domain, self.chance)
        self.database: DatabaseInputs = domain.database
        joiner = Joiner(order.schema)
        self.reader, self.writer = SqlReader(order.schema, joiner=joiner), SqlWriter(order.schema, joiner)
        self.masks = Masks(self.database.kinds)
        self.connection, self.order = connection, order
        self.known = set(order.known)
        self.uses: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()

    def make(self) -> Phrases:
        named = sum(len(thing.attributes) for thing in self.scene.things)
        count = min(self.order.count, _PER_ATTRIBUTE * named)
        total = sum(weight for weight, _ in WAYS.values())
        left = {name: _SHARE * count * weight / total + 1 for name, (weight, _) in WAYS.items()}
        found: list[Phrased] = []
        misses: Counter[str] = Counter()
        while self.scene.things and left and len(found) < count:
            name = self.chance.choices(list(left), [WAYS[able][0] for able in left])[0]
            phrased = self.attempt(WAYS[name][1])
            misses[name] = 0 if phrased is not None else misses[name] + 1
            if phrased is not None:
                found.append(phrased)
                left[name] -= 1
            if left[name] < 1 or misses[name] == _MISSES:
                del left[name]
        return Phrases(tuple(found), self.rejected)

    def attempt(self, ask: Callable[[Scene], Draft | None]) -> Phrased | None:
        """An example by one way of asking, within a few drafts."""
        for _ in range(_ATTEMPTS):
            draft = ask(self.scene)
            reason, phrased = ("nothing to ask", None) if draft is None else self.check(draft)
            if phrased is not None:
                return phrased
            self.rejected[reason] += 1
        return None

    def check(self, draft: Draft) -> tuple[str, Phrased | None]:
        """The example of a draft, or why there is none."""
        question = draft.question.lower() if self.chance.random() < _LOWER else draft.question
        plain = plain_question(question)
        if plain in self.known:
            return "asked before", None
        if len(split_words(question)) > _MOST_WORDS:
            return "too long", None
        try:
            tree = self.reader.read(
                self.writer.write(self.reader.read(draft.sql))
            )  # figures in text columns are quoted
            query = self.writer.write(tree)
            if self.reader.read(query) != tree:
                return "reads otherwise when written", None
            if first_illegal(steps_of(tree), self.masks) is not None:
                return "outside the grammar", None
        except SqlError:
            return "outside the grammar", None
        if self.uses[query] >= _SAME_QUERY:
            return "query asked before", None
        if (reason := self.fails(query, draft)) is not None:
            return reason, None
        described = describe_question(question, self.database)
        for literal in literals(tree):
            if not any(covers(candidate, literal.text) for candidate in described.candidates):
                return "literal not found", None
        self.known.add(plain)
        self.uses[query] += 1
        return "", Phrased(Example(self.order.schema.database, question, query), draft.construct)

    def fails(self, query: str, draft: Draft) -> str | None:
        """Why what a query gives is no answer."""
        try:
            rows = self.connection.run(query).rows
        except GuardError:
            return "does not run"
        is_empty = not rows or all(value in (None, 0) for row in rows for value in row)
        is_absence = draft.may_be_empty or (draft.construct == "blank" and "IS NULL" in query)
        return "no rows" if is_empty and not is_absence else None
