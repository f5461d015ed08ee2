"""SQL → tree → actions → tree → SQL: text fixtures, the bundled dataset and Spider; the rows stay the same too."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dtfixup.errors import SqlError
from dtfixup.sql.database.dataset import Dataset, Example, open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import read_tables_json
from dtfixup.sql.evaluation.evaluate import judge
from dtfixup.sql.grammar.joins import Joiner
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import sql_grammar
from dtfixup.sql.grammar.transitions import ApplyRule, Masks, Step, column_kinds, first_illegal, steps_of, tree_of
from dtfixup.sql.grammar.tree import Node
from dtfixup.sql.grammar.writer import SqlWriter

_FIXTURES = Path(__file__).parents[1] / "fixtures"
_SCHEMAS = read_tables_json(_FIXTURES / "tables.json")
_READERS = {database: SqlReader(schema) for database, schema in _SCHEMAS.items()}


@dataclass(frozen=True)
class Case:
    """One entry of a text fixture: a query over a database, and the SQL or message that it gives."""

    database: str
    sql: str
    expected: str


def _cases(name: str, mark: str) -> list[Any]:
    """Entries of a fixture: `@ database`, then lines of SQL, each followed by a line that begins with `mark`."""
    database, sql, cases = "", "", []
    for number, line in enumerate((_FIXTURES / name).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("@ "):
            database = line.removeprefix("@ ")
        elif line.startswith(mark):
            assert sql, f"{name} line {number}: {mark} without a query"
            case = Case(database, sql, line.removeprefix(mark).strip())
            cases.append(pytest.param(case, id=f"line {number - 1}"))
            sql = ""
        elif line and not line.startswith("#"):
            assert not sql, f"{name} line {number}: the query before this one has no {mark}"
            sql = line
    return cases


_ROUND_TRIPS = _cases("round_trip.txt", "=")


@pytest.fixture(scope="module")
def databases() -> Iterator[Mapping[str, sqlite3.Connection]]:
    opened = {database: sqlite3.connect(":memory:") for database in _SCHEMAS}
    for database, connection in opened.items():
        connection.executescript((_FIXTURES / f"{database}.sql").read_text(encoding="utf-8"))
    yield opened
    for connection in opened.values():
        connection.close()


def _through_actions(case: Case) -> str:
    steps = steps_of(_READERS[case.database].read(case.sql))
    return SqlWriter(_SCHEMAS[case.database]).write(tree_of(step.action for step in steps))


@pytest.mark.parametrize("case", _ROUND_TRIPS)
def test_a_query_comes_back(case: Case, databases: Mapping[str, sqlite3.Connection]) -> None:
    written = _through_actions(case)
    assert written == (case.expected or case.sql)
    wanted = databases[case.database].execute(case.sql).fetchall()
    found = databases[case.database].execute(written).fetchall()
    assert wanted, "an empty answer shows nothing"
    if "ORDER BY" in case.sql.rpartition(")")[2]:
        assert found == wanted
    assert Counter(found) == Counter(wanted)


@pytest.mark.parametrize("case", _ROUND_TRIPS)
def test_what_came_back_comes_back_unchanged(case: Case) -> None:
    written = case.expected or case.sql
    assert _through_actions(Case(case.database, written, "")) == written


def test_the_fixtures_use_every_rule() -> None:
    used = set()
    for parameter in _ROUND_TRIPS:
        case: Case = parameter.values[0]
        steps = steps_of(_READERS[case.database].read(case.sql))
        used |= {step.action.rule for step in steps if isinstance(step.action, ApplyRule)}
    grammar = sql_grammar()
    assert {grammar.rules[rule] for rule in used} == set(grammar.rules)


@pytest.mark.parametrize("case", _cases("refused.txt", "!"))
def test_what_the_grammar_cannot_say_is_refused_by_name(case: Case) -> None:
    with pytest.raises(SqlError) as caught:
        steps_of(_READERS[case.database].read(case.sql))
    assert case.expected in str(caught.value).removesuffix(f": {case.sql}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM crew ORDER BY boss NULLS LAST, age",
        "SELECT name AS age FROM crew ORDER BY age",
        "SELECT age * -1 AS age FROM crew ORDER BY age",
        "SELECT name FROM crew GROUP BY name HAVING avg(age) > 4e1",
        "SELECT name FROM crew GROUP BY name HAVING avg(age) > 040",
        "SELECT name FROM crew GROUP BY name HAVING avg(age) > 40.",
        "SELECT sky FROM weather GROUP BY sky HAVING max(wind) > 3e1",
        "SELECT company_id FROM company GROUP BY company_id HAVING max(founded) > 1930",
        "SELECT ship.name FROM ship JOIN company ON FALSE",
        "SELECT * FROM ship JOIN company USING (company_id)",
        "SELECT length + (length / 3 + 0.1) FROM ship",
        "SELECT * FROM ship AS a WHERE a.length > 100 UNION SELECT * FROM ship AS b WHERE b.flag = 'Malta'",
        "SELECT * FROM ship WHERE length > 90 UNION SELECT * FROM ship WHERE flag = 'Malta' ORDER BY name DESC",
    ],
)
def test_a_query_is_refused_or_keeps_its_meaning(sql: str, databases: Mapping[str, sqlite3.Connection]) -> None:
    try:
        written = _through_actions(Case("harbour", sql, ""))
    except SqlError:
        return
    assert databases["harbour"].execute(written).fetchall() == databases["harbour"].execute(sql).fetchall()


@dataclass(frozen=True)
class Gold:
    """An example, its tree and its actions; both are None where its query is refused."""

    example: Example
    tree: Node | None
    steps: tuple[Step, ...]


class Golds:
    """The gold queries of a dataset, read once and written as the official script needs them: names unquoted."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._joiners = {database: Joiner(schema) for database, schema in dataset.schemas.items()}

    def read(self, split: str) -> list[Gold]:
        readers = {database: SqlReader(joiner.schema, joiner=joiner) for database, joiner in self._joiners.items()}
        golds = []
        for example in self.dataset.split(split):
            try:
                tree = readers[example.database].read(example.query)
            except SqlError:
                golds.append(Gold(example, None, ()))
            else:
                golds.append(Gold(example, tree, steps_of(tree)))
        return golds

    def written(self, gold: Gold, *, quote_names: bool = True) -> str:
        joiner = self._joiners[gold.example.database]
        tree = tree_of(step.action for step in gold.steps)
        assert tree == gold.tree
        return SqlWriter(joiner.schema, joiner, quote_names=quote_names).write(tree)

    def is_exact(self, gold: Gold) -> bool:
        if gold.tree is None:
            return False
        schema = self.dataset.schemas[gold.example.database]
        return judge(gold.example.query, self.written(gold, quote_names=False), schema).exact

    def check_rows(self, golds: list[Gold]) -> int:
        """Execute what was read and what was written; the number of answers that are not empty."""
        filled = 0
        for database in sorted({gold.example.database for gold in golds}):
            file = f"file:{self.dataset.database_file(database)}?mode=ro"
            with closing(sqlite3.connect(file, uri=True)) as connection:
                connection.text_factory = bytes  # some stored text is not UTF-8
                for gold in golds:
                    if gold.example.database == database:
                        wanted = Counter(connection.execute(gold.example.query))
                        assert Counter(connection.execute(self.written(gold))) == wanted, gold.example.query
                        filled += bool(wanted)
        return filled


def _check_prefixes(golds: list[Gold], dataset: Dataset) -> None:
    """Every action is legal where it is taken, and what it opens can be finished in time."""
    masks = {database: Masks(column_kinds(schema)) for database, schema in dataset.schemas.items()}
    for gold in golds:
        assert first_illegal(gold.steps, masks[gold.example.database]) is None, gold.example.query


@pytest.mark.parametrize("split", ["train", "dev"])
def test_the_bundled_dataset_comes_back(
    split: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DTFIXUP_CACHE", str(tmp_path_factory.getbasetemp() / "sample"))
    golds = Golds(open_dataset(sample_folder()))
    found = golds.read(split)
    assert [gold.example.query for gold in found if gold.tree is None] == []
    assert golds.check_rows(found) >= 0.9 * len(found)
    _check_prefixes(found, golds.dataset)


@pytest.fixture(scope="module")
def spider(spider_folder: Path) -> Golds:
    return Golds(open_dataset(spider_folder))


def test_all_of_spider_dev_comes_back(spider: Golds) -> None:
    golds = spider.read("dev")
    assert len(golds) == 1034
    assert [gold.example.query for gold in golds if not spider.is_exact(gold)] == []
    assert spider.check_rows(golds) == 923, "the README of the data says how many return rows"
    _check_prefixes(golds, spider.dataset)


def test_nearly_all_of_spider_train_comes_back(spider: Golds) -> None:
    golds = spider.read("train")
    assert len(golds) == 7000
    assert sum(map(spider.is_exact, golds)) >= 0.995 * len(golds)
    _check_prefixes([gold for gold in golds if gold.tree], spider.dataset)
