"""Check a user's question/SQL pairs against a database, and split them.

In: the rows of a file (`pair_files.py`) and the database's schema. Out: `Pairs`: usable pairs with the tree of their
query, unusable ones with line and reason; and the split into training and held-out pairs. Pairs with the same query are
on the same side of the split, so that no held-out query is learnt in other words.
"""

import difflib
import hashlib
import json
import reprlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import sqlglot
from sqlglot import exp

from dtfixup.errors import DataError, RefusedError, SchemaError, SqlError
from dtfixup.sql.ask.answers import has_any_link
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.dialects.plain import plain_query
from dtfixup.sql.finetune.pair_files import GivenPair
from dtfixup.sql.finetune.quoting import quote_as_typed
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.tree import Node, literals
from dtfixup.sql.grammar.writer import SqlWriter
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_question
from dtfixup.sql.preparation.prepare import value_index

LEAST_PAIRS = 20
"""With fewer pairs, no improvement can be measured."""
LEAST_HELD_OUT = 4
_CLOSE_NAMES = 0.6
_MOST_LISTED = 5


class Fault(StrEnum):
    """Why a pair cannot be used."""

    MALFORMED = "malformed row"
    EMPTY = "no question or no query"
    QUESTION = "question that cannot be read"
    REFUSED = "not one query that only reads"
    UNKNOWN_TABLE = "table that does not exist"
    UNSAYABLE = "query outside the grammar"
    MISSING_VALUE = "value that is not in the question"
    REPEATED = "repeats an earlier pair"
    CONTRADICTING = "repeats a question with another query"


@dataclass(frozen=True, slots=True)
class UsablePair:
    """A pair to learn from or to measure on."""

    line: int
    question: str
    sql: str
    """The query as the user wrote it."""
    query: str
    """The query in SQLite's dialect, as the grammar writes it."""
    tree: Node


@dataclass(frozen=True, slots=True)
class UnusablePair:
    """A pair that is left out, and why."""

    line: int
    fault: Fault
    reason: str


@dataclass(frozen=True)
class Pairs:
    """A file of pairs, checked against a database."""

    usable: tuple[UsablePair, ...]
    unusable: tuple[UnusablePair, ...]
    unlinked: tuple[UsablePair, ...] = ()
    """Usable pairs whose question names nothing in the database. `dtfixup ask` answers them with no_link, so a held-out
    one counts as wrong."""

    @property
    def counts(self) -> dict[Fault, int]:
        """Number of pairs by fault."""
        counted = Counter(pair.fault for pair in self.unusable)
        return {fault: counted[fault] for fault in Fault if counted[fault]}

    @property
    def data_hash(self) -> str:
        rows = [[pair.question, pair.query] for pair in self.usable]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


@dataclass(frozen=True)
class SplitPairs:
    """Pairs to learn from, and pairs to measure on."""

    train: tuple[UsablePair, ...]
    held_out: tuple[UsablePair, ...]


def check_pairs(
    given: Sequence[GivenPair], schema: Schema, dialect: Dialect, *, require_readable: Callable[[str], object]
) -> Pairs:
    """Separate usable pairs from unusable ones.

    Args:
        given: the rows of a file.
        schema: of the database.
        dialect: of the queries.
        require_readable: raises a `DataError` for a question that the model cannot read.
    """
    checker = _Checker(schema, dialect, require_readable)
    usable: list[UsablePair] = []
    unusable: list[UnusablePair] = []
    first_of: dict[str, UsablePair] = {}
    for row in given:
        pair = checker.check(row)
        if isinstance(pair, UsablePair):
            first = first_of.setdefault(" ".join(pair.question.lower().split()), pair)
            if first is not pair:
                pair = _repetition(pair, first)
        if isinstance(pair, UsablePair):
            usable.append(pair)
        else:
            unusable.append(pair)
    return Pairs(tuple(usable), tuple(unusable))


def _repetition(pair: UsablePair, first: UsablePair) -> UnusablePair:
    if first.query == pair.query:
        return UnusablePair(pair.line, Fault.REPEATED, f"line {first.line} has the same question and query")
    reason = f"line {first.line} has the same question with another query: keep the one you mean"
    return UnusablePair(pair.line, Fault.CONTRADICTING, reason)


def link_pairs(pairs: Pairs, database: DatabaseInputs) -> Pairs:
    """Leave out pairs whose query has a value that is not in the question, and list questions that name nothing.

    An answer takes its values from the question's candidates. A query with another value would teach the model to
    compare the right column with a wrong value.
    """
    usable: list[UsablePair] = []
    unlinked: list[UsablePair] = []
    unusable = list(pairs.unusable)
    for pair in pairs.usable:
        asked = describe_question(pair.question, database)
        missing = [literal.text for literal in literals(pair.tree) if value_index(literal, asked.candidates) < 0]
        if missing:
            values = _some([reprlib.repr(text) for text in dict.fromkeys(missing)])
            reason = f"the question does not contain {values}: add it, or rename the column by --names"
            unusable.append(UnusablePair(pair.line, Fault.MISSING_VALUE, reason))
            continue
        usable.append(pair)
        if not has_any_link(asked.words, asked.links, database.schema):
            unlinked.append(pair)
    unusable.sort(key=lambda pair: pair.line)
    return Pairs(tuple(usable), tuple(unusable), tuple(unlinked))


class _Checker:
    def __init__(self, schema: Schema, dialect: Dialect, require_readable: Callable[[str], object]) -> None:
        self._schema, self._dialect, self._require_readable = schema, dialect, require_readable
        self._reader, self._writer = SqlReader(schema, dialect.value), SqlWriter(schema)
        self._reader_again = SqlReader(schema)

    def check(self, row: GivenPair) -> UsablePair | UnusablePair:
        question, sql = row.question.strip(), row.sql.strip()

        def fault(kind: Fault, reason: str) -> UnusablePair:
            return UnusablePair(row.line, kind, reason)

        if row.problem is not None:
            return fault(Fault.MALFORMED, row.problem)
        if not question or not sql:
            return fault(Fault.EMPTY, f"its {'sql' if question else 'question'} is empty")
        if not _is_text(sql):
            return fault(Fault.MALFORMED, "its sql has half a surrogate pair")
        try:
            self._require_readable(question)
        except DataError as error:
            return fault(Fault.QUESTION, str(error))
        try:
            plain = plain_query(sql, self._dialect)
            if (missing := self._missing_table(plain)) is not None:
                return fault(Fault.UNKNOWN_TABLE, missing)
            query = self._writer.write(self._reader.read(plain))
            return UsablePair(row.line, question, sql, query, self._reader_again.read(query))
        except RefusedError as error:
            return fault(Fault.REFUSED, str(error).removeprefix("refused: "))
        except (SqlError, SchemaError) as error:
            reason = str(error).removesuffix(f": {sql}").removesuffix(f": {plain}")
            return fault(Fault.UNSAYABLE, quote_as_typed(reason, sql, self._dialect))

    def _missing_table(self, sql: str) -> str | None:
        """The error for the first table that is not in the database."""
        tree = sqlglot.parse_one(sql, read=self._dialect.value)
        own = {alias.alias_or_name.lower() for alias in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            if table.name.lower() in own or self._schema.find_table(table.name) is not None:
                continue
            names = [table.name for table in self._schema.tables]
            lower = {name.lower(): name for name in names}
            close = difflib.get_close_matches(table.name.lower(), lower, n=1, cutoff=_CLOSE_NAMES)
            advice = f"did you mean {lower[close[0]]}?" if close else f"the tables are {_some(names)}"
            return f"there is no table {table.name!r}: {advice}"
        return None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def split_pairs(pairs: Pairs, share: float, seed: int) -> SplitPairs:
    """Hold out a share of the usable pairs, by their queries.

    The order of the queries depends only on the seed and their text, so most held-out pairs stay held out when pairs
    are added to the file.
    """
    if not 0 < share < 1:
        raise DataError(f"the share to hold out must be between 0 and 1, such as 0.2; got {share:g}")
    count = len(pairs.usable)
    if count < LEAST_PAIRS:
        raise DataError(
            f"{count} pairs can be used, and at least {LEAST_PAIRS} are needed: add pairs{_or_correct(pairs.unusable)}"
        )
    sizes = Counter(pair.query for pair in pairs.usable)
    wanted = min(max(LEAST_HELD_OUT, round(share * count)), count // 2)
    order = sorted(sizes, key=lambda query: hashlib.sha256(f"{seed} {query}".encode()).digest())
    held: set[str] = set()
    taken = 0
    for most in (min(wanted * 3 // 2, count // 2), count // 2):  # prefer to learn a query that many pairs have
        for query in order:
            if query not in held and taken < wanted and taken + sizes[query] <= most:
                held.add(query)
                taken += sizes[query]
        if taken >= LEAST_HELD_OUT:
            break
    train = tuple(pair for pair in pairs.usable if pair.query not in held)
    held_out = tuple(pair for pair in pairs.usable if pair.query in held)
    if len(held_out) < LEAST_HELD_OUT:
        raise DataError(
            f"the {count} pairs have {len(sizes)} different queries, too few to learn from some and measure on others: "
            "add pairs with other queries"
        )
    return SplitPairs(train, held_out)


def _or_correct(unusable: Sequence[UnusablePair]) -> str:
    if not unusable:
        return ""
    listed = "; ".join(f"line {pair.line}: {pair.reason}" for pair in unusable[:_MOST_LISTED])
    more = len(unusable) - _MOST_LISTED
    return f", or correct the others ({listed}{f'; and {more} more' if more > 0 else ''})"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
