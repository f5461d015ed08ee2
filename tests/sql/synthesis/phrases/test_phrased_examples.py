"""The phrase book: question and query say the same, fit the database, and every construct has its turn."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dtfixup.cli.main import main
from dtfixup.errors import ConfigError, DataError
from dtfixup.sql.database.dataset import Dataset, Example, open_dataset
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.transitions import steps_of, tree_of
from dtfixup.sql.grammar.tree import literals
from dtfixup.sql.grammar.writer import SqlWriter
from dtfixup.sql.linking.candidates import covers
from dtfixup.sql.linking.inputs import describe_question
from dtfixup.sql.model.prepared import open_prepared
from dtfixup.sql.preparation.prepare import prepare
from dtfixup.sql.synthesis.phrases import PhrasingResult, make_phrases
from tests.sql.described import described
from tests.sql.shop import SCHEMA, make_shop


@pytest.fixture(scope="module")
def made(dataset: Dataset) -> PhrasingResult:
    return make_phrases(dataset, count=400, seed=3, workers=1, show_progress=False)


def test_every_query_is_of_the_grammar_and_gives_rows(made: PhrasingResult, dataset: Dataset) -> None:
    reader, writer = SqlReader(SCHEMA), SqlWriter(SCHEMA)
    empty = []
    with closing(sqlite3.connect(dataset.database_file("shop"))) as connection:
        for phrased in made.examples:
            query = phrased.example.query
            tree = reader.read(query)
            assert tree_of(step.action for step in steps_of(tree)) == tree
            assert writer.write(tree) == query
            if not connection.execute(query).fetchall():
                empty.append(phrased.construct)
    assert set(empty) <= {"blank", "no children", "self join"}, "only where nothing is the answer"


def test_every_literal_is_a_candidate(made: PhrasingResult, dataset: Dataset) -> None:
    inputs = described(dataset, "shop")
    reader = SqlReader(SCHEMA)
    for phrased in made.examples:
        candidates = describe_question(phrased.example.question, inputs).candidates
        for literal in literals(reader.read(phrased.example.query)):
            assert any(covers(candidate, literal.text) for candidate in candidates), phrased


SAID = [
    (r"\b(no fewer than|not? less than|and up)\b", r">="),
    (r"\b(at most|no more than|not more than|or fewer)\b", r"<="),
    (r"(?<!not )(?<!no )heavier than \d", r"weight >"),
    (r"(?<!not )lighter than \d", r"weight <"),
    (r"(?<!to )the heaviest\b", r"weight DESC|max\(weight\)"),
    (r"(?<!to )the lightest\b", r"weight ASC|min\(weight\)"),
    (r"\bborn (before|earlier)", r"date_of_birth <"),
    (r"\b(different|distinct|unique)\b", r"DISTINCT"),
    (r"\bon average\b", r"avg\("),
    (r"\b(altogether|in all|amount to)\b", r"sum\("),
    (r"\bfrom Z to A\b", r"DESC"),
    (r"\bwithout (a|an|any) (manager|end date)\b", r"IS NULL"),
    (r"\bnever placed\b", r"NOT IN"),
    (r"\bplaced the most\b", r"count\(\*\) DESC LIMIT"),
    (r"\bplaced the fewest\b", r"count\(\*\) ASC LIMIT"),
    (r"(starts|begins|starting|beginning) with (the letter )?['\"]?\w\b", r"LIKE '\w+%'"),
    (r"not (start|begin) with", r"NOT LIKE '\w+%'"),
    (r"\binactive\b|not active", r"active = 'N'"),
    (r"\bnot yet|still running|not ended yet", r"IS NULL"),
]


@pytest.fixture(scope="module")
def many(dataset: Dataset) -> list[Example]:
    return [
        phrased.example
        for seed in range(1, 6)
        for phrased in make_phrases(dataset, count=450, seed=seed, workers=1, show_progress=False).examples
    ]


@pytest.mark.parametrize(("words", "sql"), SAID)
def test_words_mean_what_the_query_does(words: str, sql: str, many: list[Example]) -> None:
    found = [example for example in many if re.search(words, example.question)]
    assert found, words
    wrong = [example for example in found if not re.search(sql, example.query)]
    assert not wrong, wrong[:3]


def test_constructs_have_their_turn(made: PhrasingResult) -> None:
    found = made.constructs()
    for construct in ("compare", "time", "flag", "blank", "computed", "self join", "join 1", "union", "sorted", "top"):
        assert found[construct] > 0, construct
    assert max(found.values()) < 0.2 * len(made.examples)


def test_nothing_twice_and_nothing_real(made: PhrasingResult, dataset: Dataset) -> None:
    questions = [re.sub(r"\W+", " ", phrased.example.question.lower()).strip() for phrased in made.examples]
    assert len(set(questions)) == len(questions)
    assert "how many customers are there" not in questions
    assert made.rejected["nothing to ask"] > 0


def test_the_seed_alone_decides(dataset: Dataset, made: PhrasingResult, tmp_path: Path) -> None:
    again = make_phrases(dataset, count=400, seed=3, workers=1, show_progress=False)
    assert again == made
    other = make_phrases(dataset, count=400, seed=4, workers=1, show_progress=False)
    assert {phrased.example for phrased in other.examples} != {phrased.example for phrased in made.examples}


def two_shops(folder: Path) -> Dataset:
    """The shop twice, under two names, so that workers share the work."""
    make_shop(folder)
    rows = json.loads((folder / "tables.json").read_text())
    second = folder / "database" / "store"
    second.mkdir()
    (second / "store.sqlite").write_bytes((folder / "database" / "shop" / "shop.sqlite").read_bytes())
    (folder / "tables.json").write_text(json.dumps([*rows, rows[0] | {"db_id": "store"}]))
    asked = json.loads((folder / "train.json").read_text())
    (folder / "train.json").write_text(json.dumps([*asked, asked[0] | {"db_id": "store"}]))
    return open_dataset(folder)


def test_the_same_whatever_the_number_of_workers(tmp_path: Path) -> None:
    dataset = two_shops(tmp_path)
    one, two = (make_phrases(dataset, count=60, seed=3, workers=workers, show_progress=False) for workers in (1, 2))
    assert one == two
    assert {phrased.example.database for phrased in one.examples} == {"shop", "store"}


def test_what_cannot_be_made_is_refused(dataset: Dataset) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        make_phrases(dataset, count=0, seed=1, workers=1)
    with pytest.raises(DataError, match=r"makes only \d+ examples"):
        make_phrases(dataset, count=100_000, seed=1, workers=1, show_progress=False)


def test_phrases_are_prepared_as_made_up_examples(dataset: Dataset, tmp_path: Path) -> None:
    report = prepare(dataset.folder, tmp_path, splits=["train"], phrases=30, workers=1, show_progress=False)
    assert report.examples == {"train": 1, "synthetic": 30}
    assert report.uncovered["synthetic"] == 0
    assert not report.unreadable
    prepared = open_prepared(tmp_path)
    made_up = list(prepared.split("synthetic"))
    assert list(prepared.arrays["example.source"][made_up]) == list(prepared.arrays["example.database"][made_up])
    again = prepare(dataset.folder, tmp_path, splits=["train"], phrases=30, workers=1, show_progress=False)
    assert again.was_there
    more = prepare(dataset.folder, tmp_path, splits=["train"], phrases=31, workers=1, show_progress=False)
    assert not more.was_there
    with pytest.raises(ConfigError, match="come from the split train"):
        prepare(dataset.folder, tmp_path, splits=["dev"], phrases=30, workers=1)


def test_they_can_be_looked_at(dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "more.json"
    main(["sql", "synthesise", "--data", str(dataset.folder), "--out", str(out), "--count", "20", "--phrase-book"])
    rows = json.loads(out.read_text())
    assert len(rows) == 20
    assert set(rows[0]) == {"db_id", "question", "query", "construct"}
    shown = " ".join(capsys.readouterr().out.split())
    assert "rejected:" in shown
    assert "20 examples" in shown
