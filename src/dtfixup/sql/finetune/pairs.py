"""A user's question/SQL pairs over a live database: which can be learnt from, and why not the others.

In: the rows of a file (`pair_files.py`) and the database as it was read. Out: `Pairs`: usable ones with their query in
the grammar's terms, the others with line and reason; and a share of them to be held out. Two pairs that ask for the
same query are on the same side, so that no held-out query was learnt with other words.
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
from dtfixup.sql.ask.answers import is_linked
from dtfixup.sql.database.location import Dialect
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.dialects.plain import plain_query
from dtfixup.sql.finetune.pair_files import GivenPair
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.tree import Node, literals
from dtfixup.sql.grammar.writer import SqlWriter
from dtfixup.sql.linking.inputs import DatabaseInputs, describe_question
from dtfixup.sql.preparation.prepare import value_index

LEAST_PAIRS = 20
"""Fewer teach nothing that could be measured."""
LEAST_HELD_OUT = 4
_CLOSE_NAMES = 0.6
_LISTED = 5


class Fault(StrEnum):
    """Why a pair cannot be used."""

    MALFORMED = "malformed row"
    EMPTY = "no question or no query"
    QUESTION = "question that cannot be read"
    REFUSED = "not one query that only reads"
    UNKNOWN_TABLE = "table that does not exist"
    UNSAYABLE = "query that the grammar cannot say"
    UNSAID_VALUE = "value that the question does not say"
    REPEATED = "repeats an earlier pair"
    CONTRADICTING = "repeats a question with another query"


@dataclass(frozen=True, slots=True)
class UsablePair:
    """A pair to learn from or to be measured on."""

    line: int
    question: str
    sql: str
    """As the user wrote it."""
    query: str
    """The same in SQLite's dialect, as the grammar says it."""
    tree: Node


@dataclass(frozen=True, slots=True)
class UnusablePair:
    """A pair that is left out."""

    line: int
    fault: Fault
    reason: str


@dataclass(frozen=True)
class Pairs:
    """A file of pairs, checked against a database."""

    usable: tuple[UsablePair, ...]
    unusable: tuple[UnusablePair, ...]
    unlinked: tuple[UsablePair, ...] = ()
    """Usable ones whose question names nothing in the database, so that `sql ask` answers it with no_link: they teach
    others of their kind, and are wrong where they are held out."""

    @property
    def counts(self) -> dict[Fault, int]:
        """How many pairs have each fault, without faults that none has."""
        counted = Counter(pair.fault for pair in self.unusable)
        return {fault: counted[fault] for fault in Fault if counted[fault]}

    @property
    def data_hash(self) -> str:
        rows = [[pair.question, pair.query] for pair in self.usable]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


@dataclass(frozen=True)
class SplitPairs:
    """Pairs to learn from, and pairs to be measured on."""

    train: tuple[UsablePair, ...]
    held_out: tuple[UsablePair, ...]


def check_pairs(
    given: Sequence[GivenPair], schema: Schema, dialect: Dialect, *, problem_with: Callable[[str], str | None]
) -> Pairs:
    """Sort out what can be used.

    Args:
        given: the rows of a file.
        schema: of the database that the queries are about.
        dialect: that they are written in.
        problem_with: why the model cannot read a question, or None.
    """
    checker = _Checker(schema, dialect)
    usable: list[UsablePair] = []
    unusable: list[UnusablePair] = []
    asked: dict[str, UsablePair] = {}
    for row in given:
        found = checker.check(row, problem_with)
        if isinstance(found, UsablePair):
            words = " ".join(found.question.lower().split())
            first = asked.setdefault(words, found)
            if first is not found:
                found = _repetition(found, first)
        if isinstance(found, UsablePair):
            usable.append(found)
        else:
            unusable.append(found)
    return Pairs(tuple(usable), tuple(unusable))


def _repetition(pair: UsablePair, first: UsablePair) -> UnusablePair:
    if first.query == pair.query:
        return UnusablePair(pair.line, Fault.REPEATED, f"line {first.line} has the same question and query")
    reason = f"line {first.line} asks the same question and has another query: keep the one that is meant"
    return UnusablePair(pair.line, Fault.CONTRADICTING, reason)


def link_pairs(pairs: Pairs, database: DatabaseInputs) -> Pairs:
    """The pairs without those whose query has a value that no answer could have; and which questions name nothing.

    An answer takes its values from the question's candidates. To learn the rest of a query whose value is not among
    them would teach to compare the right column with a wrong value, and to be sure of it.
    """
    usable: list[UsablePair] = []
    unlinked: list[UsablePair] = []
    unusable = list(pairs.unusable)
    for pair in pairs.usable:
        asked = describe_question(pair.question, database)
        unsaid = [literal.text for literal in literals(pair.tree) if value_index(literal, asked.candidates) < 0]
        if unsaid:
            told = _some([reprlib.repr(text) for text in dict.fromkeys(unsaid)])
            reason = f"the question does not say {told}: say it, or give the column the question's word by --names"
            unusable.append(UnusablePair(pair.line, Fault.UNSAID_VALUE, reason))
            continue
        usable.append(pair)
        if not is_linked(asked.words, asked.links, database.schema):
            unlinked.append(pair)
    unusable.sort(key=lambda pair: pair.line)
    return Pairs(tuple(usable), tuple(unusable), tuple(unlinked))


class _Checker:
    def __init__(self, schema: Schema, dialect: Dialect) -> None:
        self._schema, self._dialect = schema, dialect
        self._reader, self._writer = SqlReader(schema, dialect.value), SqlWriter(schema)
        self._reader_again = SqlReader(schema)

    def check(self, row: GivenPair, problem_with: Callable[[str], str | None]) -> UsablePair | UnusablePair:
        question, sql = row.question.strip(), row.sql.strip()

        def fault(kind: Fault, reason: str) -> UnusablePair:
            return UnusablePair(row.line, kind, reason)

        if row.problem is not None:
            return fault(Fault.MALFORMED, row.problem)
        if not question or not sql:
            return fault(Fault.EMPTY, f"its {'sql' if question else 'question'} is empty")
        if not _is_text(sql):
            return fault(Fault.MALFORMED, "its sql is not text: it has half a surrogate pair")
        if (problem := problem_with(question)) is not None:
            return fault(Fault.QUESTION, problem)
        try:
            plain = plain_query(sql, self._dialect)
            if (missing := self._missing_table(plain)) is not None:
                return fault(Fault.UNKNOWN_TABLE, missing)
            query = self._writer.write(self._reader.read(plain))
            return UsablePair(row.line, question, sql, query, self._reader_again.read(query))
        except RefusedError as error:
            return fault(Fault.REFUSED, str(error).removeprefix("refused: "))
        except (SqlError, SchemaError) as error:
            return fault(Fault.UNSAYABLE, str(error).removesuffix(f": {sql}").removesuffix(f": {plain}"))

    def _missing_table(self, sql: str) -> str | None:
        """A sentence about the first table that the database does not have."""
        tree = sqlglot.parse_one(sql, read=self._dialect.value)
        own = {alias.alias_or_name.lower() for alias in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            if table.name.lower() in own or self._schema.find_table(table.name) is not None:
                continue
            names = [table.name for table in self._schema.tables]
            lower = {name.lower(): name for name in names}
            close = difflib.get_close_matches(table.name.lower(), lower, n=1, cutoff=_CLOSE_NAMES)
            advice = f"did you mean {lower[close[0]]}?" if close else f"there are {_some(names)}"
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

    A query's place in the order follows from the seed and its text alone: where pairs are added to a file later, most
    of those that were held out are so again.
    """
    if not 0 < share < 1:
        raise DataError(f"the share to hold out lies between 0 and 1, such as 0.2; got {share:g}")
    count = len(pairs.usable)
    if count < LEAST_PAIRS:
        raise DataError(
            f"{count} pairs can be used, and at least {LEAST_PAIRS} are needed: write more{_or_mend(pairs.unusable)}"
        )
    sizes = Counter(pair.query for pair in pairs.usable)
    wanted = min(max(LEAST_HELD_OUT, round(share * count)), count // 2)
    order = sorted(sizes, key=lambda query: hashlib.sha256(f"{seed} {query}".encode()).digest())
    held: set[str] = set()
    taken = 0
    for most in (min(wanted * 3 // 2, count // 2), count // 2):  # a query that many pairs ask for is rather learnt
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
            f"the {count} pairs have {len(sizes)} different queries, which cannot be shared out between learning and "
            "measuring: add pairs with other queries"
        )
    return SplitPairs(train, held_out)


def _or_mend(unusable: Sequence[UnusablePair]) -> str:
    if not unusable:
        return ""
    told = "; ".join(f"line {pair.line}: {pair.reason}" for pair in unusable[:_LISTED])
    more = len(unusable) - _LISTED
    return f", or mend those that cannot ({told}{f'; and {more} more' if more > 0 else ''})"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
