"""Usable pairs, the faults of the others, and the split into training and held-out pairs."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfixup.errors import DataError
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.dialect import Dialect
from dtfixup.sql.database.names import Names
from dtfixup.sql.database.reflection import reflect
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.finetune.pair_files import GivenPair
from dtfixup.sql.finetune.pairs import (
    LEAST_HELD_OUT,
    LEAST_PAIRS,
    Fault,
    Pairs,
    UsablePair,
    check_pairs,
    link_pairs,
    split_pairs,
)
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.tree import Node
from tests.sql.reflected import run_script


@pytest.fixture(scope="module")
def ferry() -> Schema:
    return open_dataset(sample_folder()).schemas["river_ferry"]


def require_short(question: str) -> None:
    if len(question) > 300:
        raise DataError("it is too long")


def checked(schema: Schema, *rows: tuple[str, str], dialect: Dialect = Dialect.SQLITE) -> Pairs:
    given = [GivenPair(line, *row) for line, row in enumerate(rows, start=2)]
    return check_pairs(given, schema, dialect, require_readable=require_short)


def test_a_usable_pair_keeps_what_was_written_and_says_it_in_the_grammar(ferry: Schema) -> None:
    sql = "select p.name from pier as p where p.\"city\" ilike '%vien%' order by p.name desc nulls last limit 3;"
    [pair] = checked(ferry, (" Which piers? ", sql), dialect=Dialect.POSTGRESQL).usable
    assert (pair.line, pair.question, pair.sql) == (2, "Which piers?", sql)
    assert pair.query == "SELECT name FROM pier WHERE city LIKE '%vien%' ORDER BY name DESC LIMIT 3"
    assert pair.tree == SqlReader(ferry).read(pair.query)


def test_every_bundled_query_can_be_used(ferry: Schema) -> None:
    dataset = open_dataset(sample_folder())
    for name, schema in dataset.schemas.items():
        examples = [each for split in ("train", "dev") for each in dataset.split(split) if each.database == name]
        pairs = checked(schema, *((each.question, each.query) for each in examples))
        assert len(pairs.usable) == len(examples) == 40
        assert pairs.unusable == ()


@pytest.mark.parametrize(
    ("question", "sql", "fault", "reason"),
    [
        (" ", "SELECT name FROM pier", Fault.EMPTY, "its question is empty"),
        ("Which?", "\n", Fault.EMPTY, "its sql is empty"),
        ("Which?", "SELECT name FROM pier WHERE city = '\ud800'", Fault.MALFORMED, "its sql has half a surrogate pair"),
        ("Which? " * 50, "SELECT name FROM pier", Fault.QUESTION, "it is too long"),
        ("Which?", "SELECT name FROM WHERE", Fault.REFUSED, "the statement cannot be read: "),
        ("Which?", "DELETE FROM pier", Fault.REFUSED, "DELETE is not a query"),
        ("Which?", "SELECT 1; DROP TABLE pier", Fault.REFUSED, "expected one statement, got 2"),
        ("Which?", "SELECT name FROM Peers", Fault.UNKNOWN_TABLE, "there is no table 'Peers': did you mean pier?"),
        ("Which?", "SELECT 1 FROM pier WHERE a IN (SELECT b FROM zzz)", Fault.UNKNOWN_TABLE, "there is no table 'zzz'"),
        ("Which?", "SELECT nam FROM pier", Fault.UNSAYABLE, "there is no column 'nam' in this query's tables"),
        ("Which?", "SELECT upper(name) FROM pier", Fault.UNSAYABLE, "upper(name) is not in the grammar here"),
        ("Which?", "WITH p AS (SELECT * FROM pier) SELECT name FROM p", Fault.UNSAYABLE, "WITH is not in the grammar"),
    ],
)
def test_what_is_wrong_with_a_pair(question: str, sql: str, fault: Fault, reason: str, ferry: Schema) -> None:
    pairs = checked(ferry, (question, sql))
    [left_out] = pairs.unusable
    assert pairs.usable == ()
    assert (left_out.line, left_out.fault) == (2, fault)
    assert left_out.reason.startswith(reason)
    assert sql not in left_out.reason, "the line says which query it is"
    assert pairs.counts == {fault: 1}


def test_a_malformed_row_is_listed(ferry: Schema) -> None:
    row = GivenPair(7, "", "", "sql is missing")
    [left_out] = check_pairs([row], ferry, Dialect.SQLITE, require_readable=require_short).unusable
    assert (left_out.line, left_out.fault, left_out.reason) == (7, Fault.MALFORMED, "sql is missing")


def test_repeated_questions(ferry: Schema) -> None:
    pairs = checked(
        ferry,
        ("Which piers?", "SELECT name FROM pier"),
        ("which  piers?", "SELECT T1.name FROM pier AS T1"),
        ("Which piers?", "SELECT city FROM pier"),
        ("What are the piers?", "SELECT name FROM pier"),
    )
    assert [pair.line for pair in pairs.usable] == [2, 5], "the same query in other words is welcome"
    assert [(pair.line, pair.fault) for pair in pairs.unusable] == [(3, Fault.REPEATED), (4, Fault.CONTRADICTING)]
    assert all("line 2" in pair.reason for pair in pairs.unusable)


def test_a_pair_that_is_repeated_on_its_line(ferry: Schema) -> None:
    rows = [GivenPair(1, "Which piers?", "SELECT name FROM pier")] * 2
    pairs = check_pairs(rows, ferry, Dialect.SQLITE, require_readable=require_short)
    assert (len(pairs.usable), pairs.counts) == (1, {Fault.REPEATED: 1})


CHURN = [
    ("Which customers are churners?", "SELECT name FROM customer WHERE status = 'C'"),
    ("List the churners", "SELECT name FROM customer WHERE status = 'C'"),
    ("Which customers have status C?", "SELECT name FROM customer WHERE status = 'C'"),
    ("Which customers left?", "SELECT nam FROM customer"),
    ("Show three customers", "SELECT name FROM customer LIMIT 3"),
    ("Show the best customers", "SELECT name FROM customer WHERE spent > 7 AND name <> 'X' AND spent <> 7"),
    ("List everything", "SELECT * FROM customer"),
]


@pytest.fixture(scope="module")
def customers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("shop") / "shop.sqlite"
    rows = ", ".join(f"('Name{place}', '{'ACP'[place % 3]}', {place})" for place in range(30))
    table = "CREATE TABLE customer (name TEXT, status TEXT, spent REAL)"
    run_script(f"sqlite:///{file}", [table, f"INSERT INTO customer VALUES {rows}"])
    return file


def test_pairs_with_a_value_that_no_answer_can_have_are_left_out(customers: Path) -> None:
    """'C' is said nowhere: to learn from such a pair would be to learn another value."""
    reading = OpenedDatabase(customers).read()
    pairs = link_pairs(checked(reading.schema, *CHURN), reading.inputs)
    assert [pair.line for pair in pairs.usable] == [4, 6, 8]
    assert [(pair.line, pair.fault) for pair in pairs.unusable] == [
        (2, Fault.MISSING_VALUE),
        (3, Fault.MISSING_VALUE),
        (5, Fault.UNSAYABLE),
        (7, Fault.MISSING_VALUE),
    ]
    assert pairs.counts[Fault.MISSING_VALUE] == 3
    assert pairs.unusable[0].reason.startswith("the question does not contain 'C': add it, or")
    assert pairs.unusable[3].reason.startswith("the question does not contain '7', 'X': ")
    assert [pair.line for pair in pairs.unlinked] == [8], "it is learnt from, but `sql ask` will not answer it"


def test_natural_names_bring_a_value_within_reach(customers: Path) -> None:
    """What the reason advises: a column with few values that the question names offers them all."""
    names = Names(names={"customer.status": "churner status"})
    reading = OpenedDatabase(customers, names=names).read()
    pairs = link_pairs(checked(reading.schema, *CHURN), reading.inputs)
    assert [pair.line for pair in pairs.usable] == [2, 3, 4, 6, 8]


def test_names_that_need_quotes(tmp_path: Path) -> None:
    file = tmp_path / "odd.sqlite"
    run_script(f"sqlite:///{file}", ['CREATE TABLE "Order Lines" ("Net Price" REAL, "group" TEXT)'])
    pairs = checked(reflect(file), ("What?", 'SELECT "Net Price" FROM "Order Lines" WHERE "group" = \'a\''))
    assert pairs.usable[0].query == 'SELECT "Net Price" FROM "Order Lines" WHERE "group" = \'a\''


def pairs_of(queries: list[int]) -> Pairs:
    made = [UsablePair(line, f"{line}?", str(query), str(query), Node("x", ())) for line, query in enumerate(queries)]
    return Pairs(tuple(made), ())


@given(
    st.lists(st.integers(0, 60), min_size=LEAST_PAIRS, max_size=150).filter(lambda found: len(set(found)) > 12),
    st.floats(0.05, 0.5),
    st.integers(0, 99),
)
def test_no_query_is_on_both_sides(queries: list[int], share: float, seed: int) -> None:
    pairs = pairs_of(queries)
    split = split_pairs(pairs, share, seed)
    assert not {pair.query for pair in split.train} & {pair.query for pair in split.held_out}
    assert sorted([*split.train, *split.held_out], key=lambda pair: pair.line) == list(pairs.usable)
    assert len(split.held_out) >= LEAST_HELD_OUT
    assert len(split.train) >= len(split.held_out)
    assert split_pairs(pairs, share, seed) == split


def test_the_seed_and_the_share_decide() -> None:
    pairs = pairs_of(list(range(100)))
    assert len(split_pairs(pairs, 0.2, 1).held_out) == 20
    assert len(split_pairs(pairs, 0.3, 1).held_out) == 30
    assert split_pairs(pairs, 0.2, 1).held_out != split_pairs(pairs, 0.2, 2).held_out


def test_pairs_that_are_added_leave_most_of_the_others_where_they_were() -> None:
    before = {pair.query for pair in split_pairs(pairs_of(list(range(100))), 0.2, 1).held_out}
    after = {pair.query for pair in split_pairs(pairs_of(list(range(110))), 0.2, 1).held_out}
    assert len(before & after) >= 17


def test_too_few_pairs_are_told_of_with_what_to_mend(ferry: Schema) -> None:
    good = [(f"Piers in {place}?", f"SELECT name FROM pier WHERE city = '{place}'") for place in range(LEAST_PAIRS - 1)]
    pairs = checked(ferry, *good, *[("Which?", f"SELECT x{place} FROM pier") for place in range(7)])
    with pytest.raises(DataError) as caught:
        split_pairs(pairs, 0.2, 1)
    message = str(caught.value)
    assert message.startswith(f"{LEAST_PAIRS - 1} pairs can be used, and at least {LEAST_PAIRS} are needed: add pairs")
    assert f"line {len(good) + 2}: there is no column 'x0'" in message
    assert "and 2 more" in message
    with pytest.raises(DataError, match=r"are needed: add pairs$"):
        split_pairs(pairs_of([1, 2]), 0.2, 1)


def test_one_query_in_many_words_cannot_be_measured() -> None:
    with pytest.raises(DataError, match="the 30 pairs have 1 different queries"):
        split_pairs(pairs_of([1] * 30), 0.2, 1)


def test_a_query_that_many_ask_for_is_learnt_if_it_can_be() -> None:
    mixed = split_pairs(pairs_of([1] * 40 + list(range(2, 72))), 0.2, 1)
    assert all(pair.query != "1" for pair in mixed.held_out)
    coarse = split_pairs(pairs_of([1] * 30 + [2] * 30 + [3] * 30), 0.2, 1)
    assert len({pair.query for pair in coarse.held_out}) == 1


def test_a_share_that_leaves_nothing() -> None:
    with pytest.raises(DataError, match="must be between 0 and 1"):
        split_pairs(pairs_of(list(range(30))), 1.0, 1)


def test_the_hash_is_of_what_is_learnt(ferry: Schema) -> None:
    one = checked(ferry, ("Which?", "SELECT name FROM pier"))
    same = checked(ferry, ("Which?", "select T1.name from pier as T1"), ("", ""))
    other = checked(ferry, ("Which one?", "SELECT name FROM pier"))
    assert one.data_hash == same.data_hash != other.data_hash
