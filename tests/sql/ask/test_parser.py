"""The parser as a library: the same queries as `sql predict`, the parts of an answer, and errors of bad input."""

import json
import math
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from dtfixup.cli.main import main
from dtfixup.errors import CheckpointError, ConfigError, DataError, DtFixupError
from dtfixup.sql.ask import parser as parser_module
from dtfixup.sql.ask.answers import SURE_ABOVE, Verdict
from dtfixup.sql.ask.opened import open_database
from dtfixup.sql.ask.parser import MOST_CHARACTERS, SHIPPED, TextToSql, default_model
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.reflection import reflect
from dtfixup.sql.database.schema import write_tables_json
from dtfixup.sql.execution.guarded import open_guarded
from dtfixup.sql.grammar.writer import SqlWriter
from tests.sql.asked import save_run, tiny_parser, tiny_run
from tests.sql.tiny_model import tiny_model

QUESTION = "How many piers are in Vienna?"


@pytest.fixture(scope="module")
def reflected(sample: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some questions over every bundled database, with reflected schemas."""
    folder = tmp_path_factory.mktemp("reflected")
    (folder / "database").symlink_to(sample.folder / "database")
    write_tables_json([reflect(sample.database_file(name)) for name in sorted(sample.schemas)], folder / "tables.json")
    examples = [*sample.split("train"), *sample.split("dev")][::9]
    rows = [{"db_id": item.database, "question": item.question, "query": item.query} for item in examples]
    (folder / "dev.json").write_text(json.dumps(rows))
    return folder


def test_one_question_gives_what_predict_gives_for_a_dataset(reflected: Path, tmp_path: Path) -> None:
    queries, beams = tmp_path / "queries.sql", tmp_path / "beams.jsonl"
    options = ["--model", str(tiny_run()), "--data", str(reflected), "--out", str(queries), "--beams", str(beams)]
    main(["sql", "predict", *options])
    predicted = queries.read_text().splitlines()
    scores = [json.loads(line)["beam"] for line in beams.read_text().splitlines()]
    dataset = open_dataset(reflected)
    databases = {name: open_database(dataset.database_file(name)) for name in dataset.schemas}
    quoted = 0
    for example, query, beam in zip(dataset.split("dev"), predicted, scores, strict=True):
        answer = tiny_parser().ask(example.question, databases[example.database])
        best = answer.alternatives[0]
        assert SqlWriter(answer.schema, quote_names=False).write(best.tree) == query
        assert best.sql.replace('"', "") == query.replace('"', "")
        quoted += '"' in best.sql
        assert best.score == pytest.approx(beam[0][1], abs=1e-3)
        assert len(answer.alternatives) == len(beam)
    assert len({example.database for example in dataset.split("dev")}) == 6
    assert quoted < len(predicted)


def test_an_answer_holds_the_query_its_alternatives_links_and_tree(ferry: Path) -> None:
    answer = tiny_parser().ask(f"  {QUESTION}\n", ferry, beam=4)
    assert answer.question == QUESTION
    assert answer.sql == answer.alternatives[0].sql
    assert 1 < len(answer.alternatives) <= 4
    shares = [each.probability for each in answer.alternatives]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    first, second = answer.alternatives[:2]
    assert first.probability / second.probability == pytest.approx(math.exp(first.score - second.score))
    assert {answer.schema.qualified(link.column) for link in answer.links.values} >= {"pier.city"}
    assert 0 < answer.timing.search < answer.timing.total
    content = json.loads(json.dumps(answer.to_json()))
    assert content["sql"] == answer.sql
    assert content["alternatives"][0]["tree"][0] == answer.alternatives[0].tree.rule
    assert any(link["value"] == "Vienna" for link in content["links"]["values"])
    assert content["seconds"]["total"] > 0


ODD = """
CREATE TABLE "order" ("select" TEXT, "two words" TEXT, "it's ""q"" x" INTEGER, "größe" REAL, "名前" TEXT);
INSERT INTO "order" VALUES ('x', 'blue sky', 1, 2.5, '東京'), (NULL, 'it''s; --', 2, NULL, 'NULL');
CREATE TABLE "a.b" ("order" INTEGER, "group" TEXT);
"""


def require_running(question: str, file: Path) -> None:
    answer = tiny_parser().ask(question, file)
    assert answer.alternatives
    with open_guarded(file) as connection:  # raises for a query that does not run
        for query in answer.alternatives:
            connection.run(query.sql)


def test_every_query_of_a_beam_runs(sample: Dataset) -> None:
    examples = [*sample.split("train"), *sample.split("dev")]
    for name in sorted(sample.schemas):
        question = next(example.question for example in examples if example.database == name)
        require_running(question, sample.database_file(name))


@pytest.mark.parametrize(
    "question", ["Which order has the two words blue sky?", "What is the größe of 東京?", "Group?"]
)
def test_odd_names_are_quoted(question: str, tmp_path: Path) -> None:
    file = tmp_path / "odd names.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(ODD)
    require_running(question, file)


def test_the_model_says_when_it_is_sure(ferry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parser = tiny_parser()
    assert parser.sure_above == SURE_ABOVE
    monkeypatch.setattr("dtfixup.sql.ask.parser.doubts", lambda *_: iter(()))
    best = parser.ask(QUESTION, ferry).alternatives[0].probability
    for threshold, verdict in ((best, Verdict.SURE), (best + 1e-6, Verdict.UNSURE)):
        monkeypatch.setattr(parser, "sure_above", threshold)
        assert parser.ask(QUESTION, ferry).verdict is verdict
    assert parser.ask(QUESTION, ferry, beam=1).verdict is Verdict.SURE
    monkeypatch.setattr("dtfixup.sql.ask.parser.doubts", lambda *_: iter(["a reason"]))
    answer = parser.ask(QUESTION, ferry, beam=1)
    assert (answer.verdict, answer.doubts) == (Verdict.UNSURE, ("a reason",))
    assert answer.to_json()["doubts"] == ["a reason"]


def test_a_query_that_no_column_is_made_for_gives_way(ferry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parser = tiny_parser()
    first, second, *_ = parser.ask(QUESTION, ferry).alternatives
    monkeypatch.setattr("dtfixup.sql.ask.parser.absurdities", lambda tree, *_: iter(["absurd"] * (tree == first.tree)))
    answer = parser.ask(QUESTION, ferry)
    assert answer.alternatives[0].sql == second.sql
    assert sum(each.probability for each in answer.alternatives) == pytest.approx(1)
    monkeypatch.setattr("dtfixup.sql.ask.parser.absurdities", lambda *_: iter(["absurd"]))
    answer = parser.ask(QUESTION, ferry)
    assert (answer.sql, answer.verdict) == (first.sql, Verdict.UNSURE), "rather than nothing, but not as sure"


def test_the_threshold_comes_from_the_models_file(tmp_path: Path) -> None:
    encoder = tiny_parser().trained.encoder
    assert TextToSql.load(save_run(tmp_path, tiny_model(), encoder, sure_above=0.73)).sure_above == 0.73
    with pytest.raises(CheckpointError, match="sure_above = 'high'; expected a number from 0 to 1"):
        TextToSql.load(save_run(tmp_path, tiny_model(), encoder, sure_above="high"))


def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    trained = tiny_parser().trained
    changed = {**trained.content["fingerprint"], "tokenizer": "0" * 64}
    with pytest.raises(CheckpointError, match="was trained with another tokenizer than"):
        TextToSql.load(save_run(tmp_path, tiny_model(), trained.encoder, fingerprint=changed))


def test_the_shipped_model_is_the_one_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_module, "files", lambda package: tmp_path)
    for use in (default_model, TextToSql.load):
        with pytest.raises(CheckpointError, match=rf"sql/shipped/{SHIPPED} is missing.*train.*--model runs/first"):
            use()
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / SHIPPED).write_bytes((tiny_run() / "last.safetensors").read_bytes())
    assert default_model() == tmp_path / "shipped" / SHIPPED
    assert TextToSql.load().trained.encoder == tiny_parser().trained.encoder


@pytest.mark.parametrize("question", ["Quo vadis?", "???", "!"])
def test_a_question_without_a_link_has_guesses_and_no_query(question: str, ferry: Path) -> None:
    answer = tiny_parser().ask(question, ferry)
    assert (answer.verdict, answer.sql) == (Verdict.NO_LINK, None)
    assert answer.alternatives
    assert (answer.to_json()["verdict"], answer.to_json()["sql"]) == ("no_link", None)


@pytest.mark.parametrize("question", ["How many high schoolers are there?", "What do mechanics do?", "Any patients?"])
def test_a_name_cut_short_or_spelt_in_one_is_a_link(question: str, tmp_path: Path) -> None:
    path = tmp_path / "names.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE Highschooler (k); CREATE TABLE Mechanic (k); CREATE TABLE pat (k)")
    assert tiny_parser().ask(question, path).verdict is not Verdict.NO_LINK
    assert tiny_parser().ask("Is it raining?", path).verdict is Verdict.NO_LINK


def test_several_threads_may_ask(ferry: Path) -> None:
    database = open_database(ferry)
    expected = tiny_parser().ask(QUESTION, database).sql
    found: list[str | None] = []
    threads = [
        threading.Thread(target=lambda: found.append(tiny_parser().ask(QUESTION, database).sql)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 3


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("", "the question is empty: ask something"),
        (" \n\t", "the question is empty: ask something"),
        ("x" * 10_000_000, "10,000,000 characters; the limit is 2,000: ask it in fewer words"),
        ("pier \ud800", "half a surrogate pair at character 5"),
        ("pier " + "qzx " * (MOST_CHARACTERS // 4 - 2), r"\d+ subwords; the limit is 256: ask it in fewer"),
    ],
    ids=["empty", "blank", "10 MB", "surrogate", "many subwords"],
)
def test_questions_that_cannot_be_read(question: str, message: str, ferry: Path) -> None:
    with pytest.raises(DataError, match=message):
        tiny_parser().ask(question, ferry)


def test_a_beam_of_nothing_is_refused(ferry: Path) -> None:
    with pytest.raises(ConfigError, match="at least one query, got 0"):
        tiny_parser().ask(QUESTION, ferry, beam=0)


def test_errors_are_all_of_the_package(ferry: Path) -> None:
    """Whatever a question says, an answer or an error of ours comes back."""
    for question in ("pier\0name", "pier " * 100, "'; DROP TABLE pier; --", "pier \u202e city", "🚢" * 500):
        try:
            answer = tiny_parser().ask(question, ferry, beam=1)
        except DtFixupError:
            continue
        assert answer.sql is None or answer.sql.startswith("SELECT")
