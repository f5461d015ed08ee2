"""The parser as a library: the same queries as `sql predict`, what an answer holds, and what bad input is told."""

import json
import math
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch

from dtfixup.cli.main import main
from dtfixup.errors import CheckpointError, ConfigError, DataError, DtFixupError, SchemaError
from dtfixup.sql.ask import opened as opened_module
from dtfixup.sql.ask.answers import SURE_ABOVE, Verdict
from dtfixup.sql.ask.parser import MOST_CHARACTERS, TextToSql, open_database
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.reflection import reflect
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import write_tables_json
from dtfixup.sql.execution.guarded import open_guarded
from dtfixup.sql.grammar.writer import SqlWriter
from tests.sql.asked import run_of_other_size, save_run, tiny_parser, tiny_run
from tests.sql.tiny_model import tiny_model

QUESTION = "How many piers are in Vienna?"


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return open_dataset(sample_folder())


@pytest.fixture
def ferry(dataset: Dataset, tmp_path: Path) -> Path:
    """A database of the test's own."""
    return Path(shutil.copy(dataset.database_file("river_ferry"), tmp_path / "river_ferry.sqlite"))


def made(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


@pytest.fixture(scope="module")
def reflected(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some questions over every bundled database, with schemas as the databases themselves tell them."""
    folder = tmp_path_factory.mktemp("reflected")
    (folder / "database").symlink_to(dataset.folder / "database")
    schemas = [reflect(dataset.database_file(name)) for name in sorted(dataset.schemas)]
    write_tables_json(schemas, folder / "tables.json")
    examples = [*dataset.split("train"), *dataset.split("dev")][::9]
    rows = [{"db_id": each.database, "question": each.question, "query": each.query} for each in examples]
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


def test_every_query_of_a_beam_runs(dataset: Dataset) -> None:
    examples = [*dataset.split("train"), *dataset.split("dev")]
    for name in sorted(dataset.schemas):
        file = dataset.database_file(name)
        question = next(each.question for each in examples if each.database == name)
        answer = tiny_parser().ask(question, file)
        assert answer.alternatives
        with open_guarded(file) as connection:  # raises for a query that does not run
            for each in answer.alternatives:
                connection.run(each.sql)


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
    encoder = str(tiny_run().parent / "encoder")
    calibrated = save_run(tmp_path, tiny_model(), encoder, sure_above=0.73)
    assert TextToSql.load(calibrated).sure_above == 0.73
    wrong = save_run(tmp_path, tiny_model(), encoder, sure_above="high")
    with pytest.raises(CheckpointError, match="sure_above = 'high'; expected a number from 0 to 1"):
        TextToSql.load(wrong)


@pytest.mark.parametrize("question", ["Quo vadis?", "???", "!"])
def test_a_question_without_a_link_has_guesses_and_no_query(question: str, ferry: Path) -> None:
    answer = tiny_parser().ask(question, ferry)
    assert (answer.verdict, answer.sql) == (Verdict.NO_LINK, None)
    assert bool(answer.alternatives) == bool(answer.words)
    assert (answer.to_json()["verdict"], answer.to_json()["sql"]) == ("no_link", None)


@pytest.mark.parametrize("question", ["How many high schoolers are there?", "What do mechanics do?", "Any patients?"])
def test_a_name_cut_short_or_spelt_in_one_is_a_link(question: str, tmp_path: Path) -> None:
    path = tmp_path / "names.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE Highschooler (k); CREATE TABLE Mechanic (k); CREATE TABLE pat (k)")
    assert tiny_parser().ask(question, path).verdict is not Verdict.NO_LINK
    assert tiny_parser().ask("Is it raining?", path).verdict is Verdict.NO_LINK


def test_a_warm_question_reads_nothing_again(ferry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = open_database(ferry)
    first = tiny_parser().ask(QUESTION, database)
    for name in ("inspect_database", "open_content", "describe_database"):
        monkeypatch.setattr(opened_module, name, lambda *_, **__: pytest.fail("the database was read again"))
    again = tiny_parser().ask(QUESTION, database)
    assert [each.sql for each in again.alternatives] == [each.sql for each in first.alternatives]


def test_a_changed_file_is_read_again_and_a_server_on_demand(ferry: Path) -> None:
    database = open_database(ferry)
    assert database.read().schema.find_table("lighthouse") is None
    made(ferry, "CREATE TABLE lighthouse (name TEXT)")
    assert database.read().schema.find_table("lighthouse") is not None
    before = database.read()
    assert database.read() is before
    database.refresh()
    assert database.read() is not before


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


def test_a_schema_may_be_given(dataset: Dataset) -> None:
    schema = dataset.schemas["clinic"]
    database = open_database(dataset.database_file("clinic"), schema=schema)
    assert database.read().schema is schema
    answer = tiny_parser().ask("How many patients are there?", database)
    assert answer.schema is schema


ODD = """
CREATE TABLE "order" ("select" TEXT, "two words" TEXT, "it's ""q"" x" INTEGER, "größe" REAL, "名前" TEXT);
INSERT INTO "order" VALUES ('x', 'blue sky', 1, 2.5, '東京'), (NULL, 'it''s; --', 2, NULL, 'NULL');
CREATE TABLE "a.b" ("order" INTEGER, "group" TEXT);
"""


def test_odd_names_are_quoted(tmp_path: Path) -> None:
    file = made(tmp_path / "odd names.sqlite", ODD)
    database = open_database(file)
    for question in ("Which order has the two words blue sky?", "What is the größe of 東京?", "Count the group."):
        answer = tiny_parser().ask(question, database)
        assert answer.alternatives
        with open_guarded(file) as connection:  # raises for a query that does not run
            for each in answer.alternatives:
                connection.run(each.sql)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("", "the question is empty: ask something"),
        (" \n\t", "the question is empty: ask something"),
        ("x" * 10_000_000, "10,000,000 characters, and 2,000 are read: ask it in fewer words"),
        ("pier \ud800", "half a surrogate pair at character 5"),
        ("pier " + "qzx " * (MOST_CHARACTERS // 4 - 2), r"\d+ subwords, and the model reads 256: ask it in fewer"),
    ],
    ids=["empty", "blank", "10 MB", "surrogate", "many subwords"],
)
def test_questions_that_cannot_be_read(question: str, message: str, ferry: Path) -> None:
    with pytest.raises(DataError, match=message):
        tiny_parser().ask(question, ferry)


def test_a_beam_of_nothing_is_refused(ferry: Path) -> None:
    with pytest.raises(ConfigError, match="at least one query, got 0"):
        tiny_parser().ask(QUESTION, ferry, beam=0)


def wide(path: Path, columns: int) -> Path:
    names = ", ".join(f"c{place} INTEGER" for place in range(columns))
    return made(path, f"CREATE TABLE pier ({names}); CREATE TABLE boat (name TEXT)")


def test_a_wide_schema_is_read(tmp_path: Path) -> None:
    answer = tiny_parser().ask("How many boats are there?", wide(tmp_path / "wide.sqlite", 1990), beam=1)
    assert len(answer.schema.columns) == 1993
    assert answer.sql is not None


def test_a_schema_that_is_too_wide_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_module, "MOST_COLUMNS", 20)
    with pytest.raises(SchemaError, match=r"has 35 columns and tables, and at most 20 .* fewer tables"):
        tiny_parser().ask("How many boats are there?", wide(tmp_path / "wide.sqlite", 30))


@pytest.fixture
def locked(ferry: Path) -> Iterator[Path]:
    with closing(sqlite3.connect(ferry, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield ferry


def test_a_locked_file_says_so(locked: Path) -> None:
    with pytest.raises(SchemaError, match="is locked; another program is writing to it: wait"):
        tiny_parser().ask(QUESTION, locked)


def test_files_that_are_no_database_say_so(ferry: Path, tmp_path: Path) -> None:
    corrupt, text, empty = tmp_path / "corrupt.sqlite", tmp_path / "notes.txt", made(tmp_path / "empty.sqlite", "")
    content = bytearray(ferry.read_bytes())
    content[100:400] = b"\xff" * 300
    corrupt.write_bytes(content)
    text.write_text("name,age\nRex,3\n" * 100)
    empty.write_bytes(b"")
    for path, message in (
        (tmp_path / "none.sqlite", r"none\.sqlite does not exist; expected a SQLite file, postgresql:"),
        (tmp_path, "is not a file; expected a SQLite file"),
        (corrupt, "malformed; it is damaged: use a copy that is whole"),
        (text, "file is not a database; it is encrypted, damaged or of another kind: expected"),
        (empty, "has no tables or views that can be read; create some"),
    ):
        with pytest.raises(SchemaError, match=message):
            tiny_parser().ask(QUESTION, path)


def test_a_file_that_goes_away_says_so(ferry: Path) -> None:
    database = open_database(ferry)
    tiny_parser().ask(QUESTION, database)
    ferry.unlink()
    with pytest.raises(SchemaError, match=r"cannot be read any more .* put it back, or name another"):
        tiny_parser().ask(QUESTION, database)


@pytest.mark.parametrize("url", ["postgresql://reader@127.0.0.1:1/shop", "mysql://reader@127.0.0.1:1/shop"])
def test_a_server_that_cannot_be_reached_says_so(url: str) -> None:
    with pytest.raises(SchemaError, match=r"127\.0\.0\.1:1/shop cannot be reached: .* check that the server runs"):
        tiny_parser().ask(QUESTION, url)


def test_models_that_cannot_be_used_say_so(tmp_path: Path) -> None:
    truncated = tmp_path / "truncated.safetensors"
    truncated.write_bytes((tiny_run() / "last.safetensors").read_bytes()[:5000])
    (folder := tmp_path / "unfinished").mkdir()
    for path, message in (
        (tmp_path / "none", "none does not exist"),
        (truncated, "cannot be read, it is truncated or damaged"),
        (folder, "has no last.safetensors, so its run has not finished"),
        (run_of_other_size(tmp_path), "the sizes were set otherwise"),
    ):
        with pytest.raises(CheckpointError, match=message):
            TextToSql.load(path)


def test_errors_are_all_of_the_package(ferry: Path) -> None:
    """Whatever a question says, an answer or an error of ours comes back."""
    for question in ("pier\0name", "pier " * 100, "'; DROP TABLE pier; --", "pier \u202e city", "🚢" * 500):
        try:
            answer = tiny_parser().ask(question, ferry, beam=1)
        except DtFixupError:
            continue
        assert answer.sql is None or answer.sql.startswith("SELECT")


def test_weights_move_to_the_device_asked_for() -> None:
    assert TextToSql.load(tiny_run(), device=torch.device("cpu")).device.type == "cpu"
