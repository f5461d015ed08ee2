"""The prepared dataset: complete, the same to the byte, resumable, and refused where it is damaged."""

import json
import shutil
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

from dtfixup.encoders import load_tokenizer
from dtfixup.errors import DataError, EncoderError
from dtfixup.sql.database.content import open_content
from dtfixup.sql.database.dataset import Dataset, open_dataset
from dtfixup.sql.database.sample import sample_folder
from dtfixup.sql.database.schema import Schema
from dtfixup.sql.grammar.reader import SqlReader
from dtfixup.sql.grammar.rules import VALUE_KINDS, Choice, ValueKind, sql_grammar
from dtfixup.sql.grammar.transitions import Action, ApplyRule, SelectColumn, SelectValue, tree_of
from dtfixup.sql.grammar.tree import Child, Literal, Node, literals
from dtfixup.sql.linking.inputs import describe_database, describe_question
from dtfixup.sql.model.prepared import ARRAYS, INDEX, TABLES, Prepared, open_prepared
from dtfixup.sql.preparation import prepare as module
from dtfixup.sql.preparation.assembly import Part
from dtfixup.sql.preparation.prepare import make_part, prepare


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return open_dataset(sample_folder())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("prepared")
    report = prepare(sample_folder(), folder, workers=1, show_progress=False)
    assert not report.was_there
    assert report.examples == {"train": 160, "dev": 80}
    assert report.unreadable == ()
    return open_prepared(folder)


def bytes_of(folder: Path) -> tuple[bytes, bytes]:
    return (folder / ARRAYS).read_bytes(), (folder / INDEX).read_bytes()


def copy_of(dataset: Dataset, folder: Path, databases: tuple[str, ...], per_split: int = 3) -> Path:
    """A dataset of a few examples over some of the databases."""
    folder.mkdir(parents=True)
    rows = json.loads((dataset.folder / "tables.json").read_text())
    (folder / "tables.json").write_text(json.dumps([row for row in rows if row["db_id"] in databases]))
    for split in ("train", "dev"):
        kept = [
            {"db_id": example.database, "question": example.question, "query": example.query}
            for example in [*dataset.split("train"), *dataset.split("dev")]
            if example.database in databases
        ]
        (folder / f"{split}.json").write_text(json.dumps(kept[:per_split] if split == "train" else kept[-per_split:]))
    for database in databases:
        target = folder / "database" / database / f"{database}.sqlite"
        target.parent.mkdir(parents=True)
        shutil.copy(dataset.database_file(database), target)
    return folder


@pytest.fixture
def small(dataset: Dataset, tmp_path: Path) -> Path:
    return copy_of(dataset, tmp_path / "small", ("clinic", "river_ferry", "public_library"))


def test_every_example_is_what_was_made_for_it(dataset: Dataset, prepared: Prepared) -> None:
    tokenizer = load_tokenizer("minilm")
    for split in ("train", "dev"):
        for row, example in zip(prepared.split(split), dataset.split(split), strict=True):
            database = int(prepared.arrays["example.database"][row])
            assert prepared.databases[database] == example.database
            assert prepared.text("question", "questions", row) == example.question
            assert prepared.text("query", "queries", row) == example.query
            schema = dataset.schemas[example.database]
            inputs = describe_database(schema, open_content(schema, dataset.database_file(example.database)))
            question = describe_question(example.question, inputs)
            assert prepared.arrays["example.words"][row] == len(question.words)
            assert (prepared.row("link", "links", row) == question.codes.reshape(-1)).all()
            assert (prepared.row("relation", "relations", database) == inputs.relations.reshape(-1)).all()
            assert tuple(prepared.row("column.kind", "columns", database)) == inputs.kinds
            ids = [tokenizer.pieces([word.text])[0] for word in question.words]
            assert list(prepared.row("token.id", "tokens", row)) == [piece for pieces in ids for piece in pieces]
            owners = [position for position, pieces in enumerate(ids) for _ in pieces]
            assert list(prepared.row("token.word", "tokens", row)) == owners
            first, last = prepared.arrays["values.start"][row : row + 2]
            texts = [prepared.text("value_text", "value_texts", value) for value in range(first, last)]
            assert texts == [candidate.text for candidate in question.candidates]
            stored, gold = tree_of(actions_of(prepared, row, texts)), SqlReader(schema).read(example.query)
            assert without_literals(stored) == without_literals(gold)
            for found, wanted in zip(literals(stored), literals(gold), strict=True):
                assert found.text in (wanted.text, "?") or float(found.text) == float(wanted.text)


def actions_of(prepared: Prepared, row: int, texts: list[str]) -> list[Action]:
    actions: list[Action] = []
    kinds = prepared.row("value.kind", "values", row)
    for choice, index in zip(
        prepared.row("step.choice", "steps", row), prepared.row("step.index", "steps", row), strict=True
    ):
        match Choice(choice):
            case Choice.RULE:
                actions.append(ApplyRule(int(index)))
            case Choice.COLUMN:
                actions.append(SelectColumn(int(index)))
            case Choice.VALUE:
                text, kind = (texts[index], VALUE_KINDS[kinds[index]]) if index >= 0 else ("?", ValueKind.NUMBER)
                actions.append(SelectValue(Literal(text, kind)))
    return actions


def without_literals(child: Child) -> Child:
    if isinstance(child, Node):
        return Node(child.rule, tuple(map(without_literals, child.children)))
    return None if isinstance(child, Literal) else child


def test_a_step_names_its_state_parent_and_field(dataset: Dataset, prepared: Prepared) -> None:
    grammar = sql_grammar()
    for row in range(len(prepared.arrays["example.database"])):
        states, parents, children, fields, indices, choices = (
            prepared.row(f"step.{name}", "steps", row)
            for name in ("state", "parent", "child", "field", "index", "choice")
        )
        assert states[0] == grammar.start
        assert parents[0] == -1
        for step in range(1, len(states)):
            parent = parents[step]
            assert parent < step
            assert choices[parent] == Choice.RULE
            assert grammar.children_SRC[states[parent], indices[parent], children[step]] == states[step]
        assert (fields == grammar.field_S[states]).all()
        assert (choices == grammar.choice_S[states]).all()


def test_items_are_columns_then_tables(dataset: Dataset, prepared: Prepared) -> None:
    tokenizer = load_tokenizer("minilm")
    for database, name in enumerate(prepared.databases):
        schema = dataset.schemas[name]
        first, last = prepared.arrays["items.start"][database : database + 2]
        assert last - first == len(schema.columns) + len(schema.tables)
        table = schema.tables[0].natural.split()
        star = [piece for word in ("*", *table) for piece in tokenizer.pieces([word])[0]]
        assert list(prepared.row("item_token.id", "item_tokens", first)) == star
        assert list(prepared.row("column.table", "columns", database)) == [column.table for column in schema.columns]


def test_every_start_array_spans_its_rows(prepared: Prepared) -> None:
    spans = {
        "columns": "column.kind",
        "item_tokens": "item_token.id",
        "relations": "relation",
        "tokens": "token.id",
        "links": "link",
        "steps": "step.state",
        "values": "value.kind",
        "value_tokens": "value_token.id",
        "questions": "question",
        "queries": "query",
        "value_texts": "value_text",
    }
    for name, flat in spans.items():
        begins = prepared.arrays[f"{name}.start"]
        assert begins[0] == 0
        assert begins[-1] == len(prepared.arrays[flat])
        assert all(left <= right for left, right in pairwise(begins))


def test_the_same_inputs_give_the_same_bytes_whatever_the_workers(small: Path, tmp_path: Path) -> None:
    for name, workers in (("one", 1), ("two", 2)):
        prepare(small, tmp_path / name, workers=workers, show_progress=False)
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [ARRAYS, INDEX, TABLES]


def test_a_second_run_does_nothing(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(small, tmp_path / "out", workers=1, show_progress=False)
    before = bytes_of(tmp_path / "out")
    monkeypatch.setattr(module, "make_part", lambda *_: pytest.fail("work was done again"))
    report = prepare(small, tmp_path / "out", workers=1, show_progress=False)
    assert report.was_there
    assert bytes_of(tmp_path / "out") == before


@pytest.mark.parametrize("change", ["question", "rows", "arrays", "index"])
def test_changed_data_or_a_damaged_result_is_prepared_again(small: Path, tmp_path: Path, change: str) -> None:
    out = tmp_path / "out"
    prepare(small, out, workers=1, show_progress=False)
    before = bytes_of(out)
    if change == "question":
        rows = json.loads((small / "dev.json").read_text())
        rows[0]["question"] += " Please."
        (small / "dev.json").write_text(json.dumps(rows))
    elif change == "rows":
        with sqlite3.connect(small / "database" / "clinic" / "clinic.sqlite") as connection:
            table = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchone()[0]
            connection.execute(f'DELETE FROM "{table}" WHERE rowid = (SELECT max(rowid) FROM "{table}")')
    elif change == "arrays":
        (out / ARRAYS).write_bytes((out / ARRAYS).read_bytes()[:-1])
    else:
        (out / INDEX).write_text("{")
    report = prepare(small, out, workers=1, show_progress=False)
    assert not report.was_there
    assert (bytes_of(out) == before) == (change in {"arrays", "index"})


def test_a_stopped_run_goes_on_where_it_stopped(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    prepare(small, whole, workers=1, show_progress=False)
    made: list[str] = []

    def stop_after_one(schema: Schema, *rest: Any) -> Part:
        if made:
            raise KeyboardInterrupt
        made.append(schema.database)
        return make_part(schema, *rest)

    monkeypatch.setattr(module, "make_part", stop_after_one)
    with pytest.raises(KeyboardInterrupt):
        prepare(small, stopped, workers=1, show_progress=False)
    assert not (stopped / INDEX).exists()

    def go_on(schema: Schema, *rest: Any) -> Part:
        assert schema.database not in made
        return make_part(schema, *rest)

    monkeypatch.setattr(module, "make_part", go_on)
    prepare(small, stopped, workers=1, show_progress=False)
    assert bytes_of(stopped) == bytes_of(whole)


def test_a_query_outside_the_grammar_is_kept_and_listed(small: Path, tmp_path: Path) -> None:
    rows = json.loads((small / "train.json").read_text())
    rows[1]["query"] = "SELECT * FROM nowhere"
    (small / "train.json").write_text(json.dumps(rows))
    report = prepare(small, tmp_path / "out", workers=1, show_progress=False)
    (listed,) = report.unreadable
    assert (listed["split"], listed["index"], listed["query"]) == ("train", 1, "SELECT * FROM nowhere")
    assert "no table 'nowhere'" in listed["reason"]
    prepared = open_prepared(tmp_path / "out")
    assert len(prepared.row("step.state", "steps", 1)) == 0
    assert report.examples["train"] == len(rows)


def test_a_missing_database_is_named(small: Path, tmp_path: Path) -> None:
    shutil.rmtree(small / "database" / "clinic")
    with pytest.raises(DataError, match=r"clinic\.sqlite does not exist"):
        prepare(small, tmp_path / "out", workers=1, show_progress=False)
    assert not (tmp_path / "out" / INDEX).exists()


def test_an_error_in_a_worker_arrives_as_it_is(small: Path, tmp_path: Path) -> None:
    (small / "database" / "clinic" / "clinic.sqlite").write_bytes(b"no database at all")
    with pytest.raises(Exception, match="clinic") as caught:
        prepare(small, tmp_path / "out", workers=2, show_progress=False)
    assert not isinstance(caught.value, KeyError)


def test_what_is_not_there_or_too_old_is_refused(tmp_path: Path, prepared: Prepared) -> None:
    with pytest.raises(DataError, match="holds no prepared dataset"):
        open_prepared(tmp_path)
    shutil.copytree(prepared.folder, tmp_path / "old")
    index = json.loads((tmp_path / "old" / INDEX).read_text()) | {"format": 0}
    (tmp_path / "old" / INDEX).write_text(json.dumps(index))
    with pytest.raises(DataError, match="has format 0"):
        open_prepared(tmp_path / "old")
    with pytest.raises(DataError, match="no split 'test'"):
        prepared.split("test")


def test_arrays_are_mapped_and_read_by_safetensors_too(prepared: Prepared) -> None:
    loaded = load_file(prepared.folder / ARRAYS)
    assert loaded.keys() == prepared.arrays.keys()
    assert str(prepared.folder / ARRAYS) in Path("/proc/self/maps").read_text()
    for name, array in prepared.arrays.items():
        assert not array.flags.writeable
        assert array.dtype == loaded[name].dtype
        assert (array == loaded[name]).all()


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory, dataset: Dataset) -> Path:
    """A RoBERTa of two layers with a byte-level BPE trained on the questions."""
    folder = tmp_path_factory.mktemp("roberta")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([example.question for example in dataset.split("train")], trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
    ).save_pretrained(folder)
    config = RobertaConfig(
        vocab_size=600,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=66,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
    )
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def test_a_roberta_style_encoder(small: Path, roberta: Path, tmp_path: Path) -> None:
    prepare(small, tmp_path / "out", encoder=str(roberta), workers=1, show_progress=False)
    prepared = open_prepared(tmp_path / "out")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(roberta)
    index = prepared.index["encoder"]
    assert (index["cls"], index["sep"], index["pad"]) == (0, 2, 1)
    for row in range(len(prepared.arrays["example.database"])):
        question = prepared.text("question", "questions", row)
        ids = list(prepared.row("token.id", "tokens", row))
        # a word after a space keeps the space, as inside a sentence; one after a mark does not
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == f" {question.strip()}"


def test_a_folder_that_is_no_encoder_is_refused(small: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"no config\.json"):
        prepare(small, tmp_path / "out", encoder=str(small), show_progress=False)


def test_uncovered_literals_are_counted_and_marked(small: Path, tmp_path: Path) -> None:
    rows = json.loads((small / "train.json").read_text())
    database = rows[0]["db_id"]
    schema = open_dataset(small).schemas[database]
    table, column = schema.tables[0].name, schema.columns[1].name
    rows[0] |= {"question": "Nothing to see here", "query": f"SELECT {column} FROM {table} WHERE {column} = 'zyxwv'"}
    (small / "train.json").write_text(json.dumps(rows))
    report = prepare(small, tmp_path / "out", workers=1, show_progress=False)
    prepared = open_prepared(tmp_path / "out")
    assert report.uncovered["train"] >= 1
    choices, indices = prepared.row("step.choice", "steps", 0), prepared.row("step.index", "steps", 0)
    assert list(indices[choices == Choice.VALUE]) == [-1]
