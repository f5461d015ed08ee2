"""Questions from the phrase book over the databases of a split, made in parallel.

In: a dataset. Out: `PhrasedExample`s, and the number of rejected drafts by reason. A draft is kept if the grammar
covers its query, the query runs and gives rows, and every literal is among the question's candidates. Each example
depends on the seed and its database alone, so the number of workers does not matter.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
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
from dtfixup.sql.grammar.tree import Node, literals
from dtfixup.sql.grammar.writer import SqlWriter
from dtfixup.sql.language.words import split_words
from dtfixup.sql.linking.candidates import covers
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_database, describe_question
from dtfixup.sql.synthesis.phrases.child_questions import (
    ask_children,
    ask_identity,
    ask_one_parent,
    ask_self_reference,
    ask_with_parent,
)
from dtfixup.sql.synthesis.phrases.computed_questions import (
    ask_computed,
    ask_group_aggregate,
    ask_group_count,
    ask_group_sets,
    ask_having,
    ask_most_common,
)
from dtfixup.sql.synthesis.phrases.domain import Domain, read_domain
from dtfixup.sql.synthesis.phrases.order_questions import ask_distinct, ask_sorted, ask_superlative, ask_top
from dtfixup.sql.synthesis.phrases.parent_questions import (
    ask_child_sets,
    ask_distinct_parents,
    ask_parent_of_extreme,
    ask_parents_by_count,
    ask_parents_by_total,
    ask_per_parent,
    ask_sorted_parents,
    ask_with_children,
    ask_without_children,
)
from dtfixup.sql.synthesis.phrases.row_questions import (
    ask_aggregate,
    ask_all,
    ask_count,
    ask_except,
    ask_lookup,
    ask_restricted,
    ask_same,
    ask_several_aggregates,
    ask_some,
)
from dtfixup.sql.synthesis.phrases.scene import Draft, NoDraftError, Scene
from dtfixup.sql.synthesis.templates.examples import draw, plain_question, share_of, write_made

_RESTRICTED = {
    "compare": 9.0,
    "range": 3,
    "time": 6,
    "value": 5,
    "other values": 3,
    "pattern": 4,
    "blank": 4,
    "flag": 10,
    "two columns": 7,
    "average": 2.5,
    "either": 2,
}
"""Weights of questions about one kind of restriction."""
QUESTION_KINDS: Mapping[str, tuple[float, Callable[[Scene], Draft]]] = {
    **{kind: (weight, partial(ask_restricted, kind=kind)) for kind, weight in _RESTRICTED.items()},
    "all": (1, ask_all),
    "count": (1, ask_count),
    "aggregate": (5, ask_aggregate),
    "several aggregates": (2, ask_several_aggregates),
    "lookup": (5, ask_lookup),
    "same as": (1, ask_same),
    "except one": (0.7, ask_except),
    "some": (0.8, ask_some),
    "superlative": (6, ask_superlative),
    "top": (4, ask_top),
    "sorted": (5, ask_sorted),
    "distinct": (4, ask_distinct),
    "group count": (3, ask_group_count),
    "group aggregate": (4, ask_group_aggregate),
    "having": (2.5, ask_having),
    "most common": (2, ask_most_common),
    "computed": (12, ask_computed),
    "children": (6, ask_children),
    "one parent": (7, ask_one_parent),
    "with parent": (3, ask_with_parent),
    "identity": (4, ask_identity),
    "per parent": (4, ask_per_parent),
    "parents by count": (5, ask_parents_by_count),
    "parents by total": (1.5, ask_parents_by_total),
    "sorted parents": (1, ask_sorted_parents),
    "distinct parents": (1, ask_distinct_parents),
    "parent of extreme": (2, ask_parent_of_extreme),
    "without children": (3, ask_without_children),
    "with children": (4, ask_with_children),
    "self reference": (10, ask_self_reference),
    "child sets": (5, ask_child_sets),
    "group sets": (2, ask_group_sets),
}
"""Every kind of question with its weight; high weights go to what Spider's own questions seldom ask."""

_SPARE = 1.8
"""How many times its share each database makes, since some have too little to ask about."""
_PER_ATTRIBUTE = 22
"""The most examples of a database per named column; more would differ in their values only."""
_ATTEMPTS = 8
"""Drafts of one kind before another kind is drawn."""
_MISSES = 6
"""Failures in a row after which a kind is given up for a database."""
_LARGEST_SHARE = 1.7
"""How many times its weighted share a kind may reach where a database does not suit others."""
_SAME_QUERY = 2
"""The most questions with the same query."""
_LOWER_CASE = 0.04
"""The share of questions without any capitals."""
_MOST_WORDS = 40
_DEADLINE = 1.0


@dataclass(frozen=True, slots=True)
class PhrasedExample:
    """An example from the phrase book and the construct that it covers."""

    example: Example
    construct: str


@dataclass(frozen=True)
class PhrasingResult:
    """The examples, and the number of rejected drafts by reason."""

    examples: tuple[PhrasedExample, ...]
    rejected: Counter[str]

    def constructs(self) -> Counter[str]:
        """The number of examples by construct."""
        return Counter(phrased.construct for phrased in self.examples)


@dataclass(frozen=True, slots=True)
class _Task:
    """What a worker makes over one database."""

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
) -> PhrasingResult:
    """Make `count` examples over the databases of a split; no question repeats another or one of the split."""
    asked: dict[str, set[str]] = {}
    for example in dataset.split(split):
        asked.setdefault(example.database, set()).add(plain_question(example.question))
    share = share_of(count, len(asked), _SPARE)
    tasks = {
        name: _Task(dataset.schemas[name], dataset.database_file(name), frozenset(asked[name]), share, seed)
        for name in sorted(asked)
    }
    made = map_supervised(_make, tasks, "phrasing questions", workers=workers, show_progress=show_progress)
    examples = [phrased for part in made for phrased in part.examples]
    refusal = f"the phrase book makes only {len(examples)} examples of split {split!r}"
    drawn = draw(examples, count, random.Random(f"{seed} phrases"), refusal)
    return PhrasingResult(tuple(drawn), sum((part.rejected for part in made), Counter()))


def write_phrases(path: str | Path, phrases: Iterable[PhrasedExample]) -> Path:
    """Write examples as a split, each with its construct."""
    return write_made(path, ((phrased.example, {"construct": phrased.construct}) for phrased in phrases))


def _make(task: _Task) -> PhrasingResult:
    """Examples over one database, up to the task's count."""
    database = describe_database(task.schema, open_content(task.schema, task.file))
    domain = read_domain(database, task.file)
    with open_guarded(task.file, deadline=_DEADLINE, max_rows=5, filter_text=False) as connection:
        return _Maker(domain, connection, task).make()


class _Maker:
    """Drafts questions over one database and keeps those that pass all checks."""

    def __init__(self, domain: Domain, connection: GuardedConnection, task: _Task) -> None:
        self.rng = random.Random(f"{task.seed} {task.schema.database} phrases")
        self.scene = Scene(domain, self.rng)
        self.database: DatabaseInputs = domain.database
        joiner = Joiner(task.schema)
        self.reader, self.writer = SqlReader(task.schema, joiner=joiner), SqlWriter(task.schema, joiner)
        self.masks = Masks(self.database.kinds)
        self.connection, self.task = connection, task
        self.known = set(task.known)
        self.uses: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()

    def make(self) -> PhrasingResult:
        named = sum(len(entity.attributes) for entity in self.scene.entities)
        count = min(self.task.count, _PER_ATTRIBUTE * named)
        total = sum(weight for weight, _ in QUESTION_KINDS.values())
        left = {kind: _LARGEST_SHARE * count * weight / total + 1 for kind, (weight, _) in QUESTION_KINDS.items()}
        examples: list[PhrasedExample] = []
        misses: Counter[str] = Counter()
        while self.scene.entities and left and len(examples) < count:
            kind = self.rng.choices(list(left), [QUESTION_KINDS[able][0] for able in left])[0]
            phrased = self._attempt(QUESTION_KINDS[kind][1])
            if phrased is not None:
                examples.append(phrased)
                left[kind] -= 1
                misses[kind] = 0
            else:
                misses[kind] += 1
            if left[kind] < 1 or misses[kind] == _MISSES:
                del left[kind]
        return PhrasingResult(tuple(examples), self.rejected)

    def _attempt(self, ask: Callable[[Scene], Draft]) -> PhrasedExample | None:
        """An example of one kind, if one of a few drafts passes."""
        for _ in range(_ATTEMPTS):
            try:
                return self._check(ask(self.scene))
            except NoDraftError as reason:
                self.rejected[str(reason) or "nothing to ask"] += 1
        return None

    def _check(self, draft: Draft) -> PhrasedExample:
        """The example of a draft; `NoDraftError` with the reason where it is rejected."""
        question = draft.question.lower() if self.rng.random() < _LOWER_CASE else draft.question
        plain = plain_question(question)
        if plain in self.known:
            raise NoDraftError("asked before")
        if len(split_words(question)) > _MOST_WORDS:
            raise NoDraftError("too long")
        tree, query = self._normalised(draft.sql)
        if self.uses[query] >= _SAME_QUERY:
            raise NoDraftError("query asked before")
        self._check_rows(query, draft)
        described = describe_question(question, self.database)
        for literal in literals(tree):
            if not any(covers(candidate, literal.text) for candidate in described.candidates):
                raise NoDraftError("literal not found")
        self.known.add(plain)
        self.uses[query] += 1
        return PhrasedExample(Example(self.task.schema.database, question, query), draft.construct)

    def _normalised(self, sql: str) -> tuple[Node, str]:
        """The tree of a query and its text in Spider's style."""
        try:
            # Written once before it is read for good, because writing quotes the numbers in text columns.
            tree = self.reader.read(self.writer.write(self.reader.read(sql)))
            query = self.writer.write(tree)
            is_stable = self.reader.read(query) == tree
            is_legal = first_illegal(steps_of(tree), self.masks) is None
        except SqlError:
            raise NoDraftError("outside the grammar") from None
        if not is_stable:
            raise NoDraftError("reads otherwise when written")
        if not is_legal:
            raise NoDraftError("outside the grammar")
        return tree, query

    def _check_rows(self, query: str, draft: Draft) -> None:
        try:
            rows = self.connection.run(query).rows
        except GuardError:
            raise NoDraftError("does not run") from None
        is_empty = not rows or all(value in (None, 0) for row in rows for value in row)
        may_be_empty = draft.may_be_empty or (draft.construct == "blank" and "IS NULL" in query)
        if is_empty and not may_be_empty:
            raise NoDraftError("no rows")
